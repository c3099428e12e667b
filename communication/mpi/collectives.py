"""Collectives by mpi4py: blocking, non-blocking, persistent, and those of neighbours on a ring.

The four forms of a collective take the same arguments, so a function for each collective returns
its arguments, and the form chooses the method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from mpi4py import MPI

from miniapps.communication.actions import Action, Call, Split, moves_of
from miniapps.communication.buffers import Data
from miniapps.communication.catalogue import OVERLAP, Benchmark
from miniapps.communication.movement import ROOT, Block

NEIGHBOR, PERSISTENT = "neighbor_", "_persistent"
NUMBERS = MPI.UINT32_T  # what reductions add
Arguments = tuple[Any, ...]


def make(ranks: Any, benchmark: Benchmark, data: Data) -> list[Action]:
    """The action of a collective."""
    name = benchmark.movement
    comm = ranks.ring if name.startswith(NEIGHBOR) else ranks.comm
    if ranks.pickled:
        return [_pickled(ranks, name, data)]
    arguments = ARGUMENTS[name](ranks.rank == ROOT, data)
    moves = moves_of(data)
    if benchmark.measures == OVERLAP:
        return [Split(partial(getattr(comm, f"I{name}"), *arguments), MPI.Request.Wait, moves)]
    method = name.capitalize()
    if not benchmark.name.endswith(PERSISTENT):
        return [Call(partial(getattr(comm, method), *arguments), moves)]
    request = getattr(comm, f"{method}_init")(*arguments)
    data.closing.callback(request.Free)
    return [Split(request.Start, lambda _: request.Wait(), moves)]


def _bytes(buffer: Any) -> list[Any]:
    """A message of bytes."""
    return [buffer, MPI.BYTE]


def _parts(buffer: Any, blocks: Sequence[Block]) -> list[Any]:
    """A message of parts whose lengths and offsets are given."""
    counts = [block.size for block in blocks]
    return [buffer, (counts, list(accumulate([0, *counts[:-1]]))), MPI.BYTE]


def _exchange(root: bool, data: Data) -> Arguments:
    return _bytes(data.sending), _bytes(data.receiving)


def _gatherv(root: bool, data: Data) -> Arguments:
    parts = _parts(data.receiving, data.movement.receives) if data.receives else None
    return _bytes(data.sending), parts


def _exchangev(root: bool, data: Data) -> Arguments:
    moved = data.movement
    return _parts(data.sending, moved.sends), _parts(data.receiving, moved.receives)


def _gather(root: bool, data: Data) -> Arguments:
    return _bytes(data.sending), _bytes(data.receiving) if root else None, ROOT


def _scatter(root: bool, data: Data) -> Arguments:
    return _bytes(data.sending) if root else None, _bytes(data.receiving), ROOT


def _scatterv(root: bool, data: Data) -> Arguments:
    parts = _parts(data.sending, data.movement.sends) if root else None
    return parts, _bytes(data.receiving), ROOT


def _reduce(root: bool, data: Data) -> Arguments:
    total = [data.receiving, NUMBERS] if root else None
    return [data.sending, NUMBERS], total, MPI.SUM, ROOT


def _allreduce(root: bool, data: Data) -> Arguments:
    return [data.sending, NUMBERS], [data.receiving, NUMBERS], MPI.SUM


def _reduce_scatter(root: bool, data: Data) -> Arguments:
    counts = [block.size // NUMBERS.Get_size() for block in data.movement.sends]
    return [data.sending, NUMBERS], [data.receiving, NUMBERS], counts, MPI.SUM


ARGUMENTS: Mapping[str, Callable[[bool, Data], Arguments]] = {
    "allgather": _exchange,
    "allgatherv": _gatherv,
    "allreduce": _allreduce,
    "alltoall": _exchange,
    "alltoallv": _exchangev,
    "barrier": lambda root, data: (),
    "bcast": lambda root, data: (_bytes(data.sending if root else data.receiving), ROOT),
    "gather": _gather,
    "gatherv": lambda root, data: (*_gatherv(root, data), ROOT),
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "scatter": _scatter,
    "scatterv": _scatterv,
    "neighbor_allgather": _exchange,
    "neighbor_allgatherv": _gatherv,
    "neighbor_alltoall": _exchange,
    "neighbor_alltoallv": _exchangev,
}


def _pickled(ranks: Any, name: str, data: Data) -> Call:
    """The action of a collective of pickled objects."""
    comm = ranks.ring if name.startswith(NEIGHBOR) else ranks.objects
    root, sends = ranks.rank == ROOT, data.sends
    one = sends[0] if sends else None
    arguments: Mapping[str, Arguments] = {
        "alltoall": (sends,),
        "neighbor_alltoall": (sends,),
        "bcast": (one, ROOT),
        "gather": (one, ROOT),
        "scatter": (sends if root else None, ROOT),
        "reduce": (one, MPI.SUM, ROOT),
        "allreduce": (one, MPI.SUM),
    }
    run = partial(getattr(comm, name), *arguments.get(name, (one,)))
    return Call(run, moves_of(data), gives=bool(data.receives))
