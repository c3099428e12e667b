"""What each rank sends in one iteration of a benchmark, and what it must receive.

This is the meaning of each benchmark, which no runtime can change: the check compares every
received byte with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from miniapps.communication.catalogue import WORD

ROOT = 0
EVERYONE = -1  # the receiver of a message that all ranks get
ACK = -1  # the slot of the short answer to a window of messages
ACK_BYTES = 4


class Block(NamedTuple):
    """One message, or one part of a collective's buffer.

    It comes from ``sources``, whose numbers are added if there are several, and goes to rank
    ``to``. ``slot``: which of the messages between the same two ranks it is.
    """

    sources: tuple[int, ...]
    to: int
    size: int
    slot: int = 0


@dataclass(frozen=True)
class Movement:
    """The blocks that one rank sends, and those that it receives, in the order of its buffers.

    ``adds_to``: what the memory for the received blocks must hold before, if they are added to it.
    """

    sends: tuple[Block, ...] = ()
    receives: tuple[Block, ...] = ()
    adds_to: tuple[Block, ...] = ()


class Place(NamedTuple):
    """A rank, the number of ranks, the size of a message in bytes, messages per window.

    ``first``: the slot of the first of these messages, which are a part of a window if it is not 0.
    """

    rank: int
    ranks: int
    size: int
    window: int = 1
    first: int = 0


def partner(rank: int, ranks: int) -> int:
    """The other rank of a pair: rank r of the first half has r + ranks/2."""
    half = ranks // 2
    return rank + half if rank < half else rank - half


def leads(rank: int, ranks: int) -> bool:
    """Whether a rank is the first of its pair, which sends first and measures."""
    return rank < ranks // 2


def neighbors(rank: int, ranks: int) -> list[int]:
    """The ranks beside this one on a ring, each once, in ascending order."""
    return sorted({(rank - 1) % ranks, (rank + 1) % ranks})


def shares(size: int, ranks: int) -> list[int]:
    """The bytes of each rank's part of a reduced and scattered message; whole words."""
    words = size // WORD
    return [WORD * ((r + 1) * words // ranks - r * words // ranks) for r in range(ranks)]


def _window(at: Place, source: int, to: int) -> tuple[Block, ...]:
    slots = range(at.first, at.first + at.window)
    return tuple(Block((source,), to, at.size, slot) for slot in slots)


def _stream(at: Place) -> Movement:
    other = partner(at.rank, at.ranks)
    if leads(at.rank, at.ranks):
        ack = Block((other,), at.rank, ACK_BYTES, ACK)
        return Movement(_window(at, at.rank, other), (ack,))
    ack = Block((at.rank,), other, ACK_BYTES, ACK)
    return Movement((ack,), _window(at, other, at.rank))


def _both_ways(at: Place) -> Movement:
    other = partner(at.rank, at.ranks)
    return Movement(_window(at, at.rank, other), _window(at, other, at.rank))


def _one_way(at: Place, source: int) -> Movement:
    """One of the ranks 0 and 1 gives, the other one gets."""
    blocks = _window(at, source, 1 - source)
    return Movement(blocks) if at.rank == source else Movement((), blocks)


def _accumulate(at: Place) -> Movement:
    """Rank 0 adds to rank 1's memory."""
    if at.rank == 0:
        return Movement((Block((0,), 1, at.size),))
    return Movement((), (Block((0, 1), 1, at.size),), (Block((1,), 1, at.size),))


def _allgather(at: Place, others: Sequence[int]) -> Movement:
    got = tuple(Block((r,), EVERYONE, at.size) for r in others)
    return Movement((Block((at.rank,), EVERYONE, at.size),), got)


def _alltoall(at: Place, others: Sequence[int]) -> Movement:
    sent = tuple(Block((at.rank,), r, at.size) for r in others)
    return Movement(sent, tuple(Block((r,), at.rank, at.size) for r in others))


def _bcast(at: Place) -> Movement:
    block = (Block((ROOT,), EVERYONE, at.size),)
    return Movement(block) if at.rank == ROOT else Movement((), block)


def _gather(at: Place) -> Movement:
    got = tuple(Block((r,), ROOT, at.size) for r in range(at.ranks))
    return Movement((got[at.rank],), got if at.rank == ROOT else ())


def _scatter(at: Place) -> Movement:
    sent = tuple(Block((ROOT,), r, at.size) for r in range(at.ranks))
    return Movement(sent if at.rank == ROOT else (), (sent[at.rank],))


def _reduce(at: Place) -> Movement:
    total = Block(tuple(range(at.ranks)), ROOT, at.size)
    return Movement((Block((at.rank,), ROOT, at.size),), (total,) if at.rank == ROOT else ())


def _allreduce(at: Place) -> Movement:
    total = Block(tuple(range(at.ranks)), EVERYONE, at.size)
    return Movement((Block((at.rank,), EVERYONE, at.size),), (total,))


def _reduce_scatter(at: Place) -> Movement:
    parts = shares(at.size, at.ranks)
    total = Block(tuple(range(at.ranks)), at.rank, parts[at.rank])
    return Movement(tuple(Block((at.rank,), r, n) for r, n in enumerate(parts)), (total,))


MOVEMENTS: Mapping[str, Callable[[Place], Movement]] = {
    "ping_pong": _both_ways,
    "stream": _stream,
    "both_ways": _both_ways,
    "put_latency": lambda at: _one_way(at, 0),
    "put_bw": lambda at: _one_way(at, 0),
    "acc_latency": _accumulate,
    "get_latency": lambda at: _one_way(at, 1),
    "get_bw": lambda at: _one_way(at, 1),
    "barrier": lambda at: Movement(),
    "allgather": lambda at: _allgather(at, range(at.ranks)),
    "allgatherv": lambda at: _allgather(at, range(at.ranks)),
    "allreduce": _allreduce,
    "alltoall": lambda at: _alltoall(at, range(at.ranks)),
    "alltoallv": lambda at: _alltoall(at, range(at.ranks)),
    "bcast": _bcast,
    "gather": _gather,
    "gatherv": _gather,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "scatter": _scatter,
    "scatterv": _scatter,
    "neighbor_allgather": lambda at: _allgather(at, neighbors(at.rank, at.ranks)),
    "neighbor_allgatherv": lambda at: _allgather(at, neighbors(at.rank, at.ranks)),
    "neighbor_alltoall": lambda at: _alltoall(at, neighbors(at.rank, at.ranks)),
    "neighbor_alltoallv": lambda at: _alltoall(at, neighbors(at.rank, at.ranks)),
}
