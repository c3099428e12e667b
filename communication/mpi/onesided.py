"""Puts, gets and accumulates by mpi4py: rank 0 accesses rank 1's memory, which takes no part.

The window stays locked for shared access, and every access ends by a flush, the default of OMB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from mpi4py import MPI

from miniapps.communication.actions import RECEIVE, SEND, Action, Call, Window
from miniapps.communication.buffers import Data
from miniapps.communication.catalogue import Benchmark
from miniapps.communication.movement import Block

ORIGIN, TARGET = 0, 1
NUMBERS = MPI.UINT32_T  # what accumulates add


def put(ranks: Any, benchmark: Benchmark, data: Data) -> list[Action]:
    """Rank 0 writes the messages of a window into rank 1's memory."""
    window = _exposed_receives(ranks, data)
    puts = [
        partial(window.Put, [part, MPI.BYTE], TARGET, offset)
        for part, offset in zip(data.sends, _offsets(data, data.movement.sends), strict=True)
    ]
    return _flushed(window, puts, benchmark, SEND)


def get(ranks: Any, benchmark: Benchmark, data: Data) -> list[Action]:
    """Rank 0 reads the messages of a window from rank 1's memory."""
    window, memory = _exposed(ranks, data, data.movement.sends, data.sending)
    if memory:
        data.sending, data.sends = memory
    gets = [
        partial(window.Get, [part, MPI.BYTE], TARGET, offset)
        for part, offset in zip(data.receives, _offsets(data, data.movement.receives), strict=True)
    ]
    return _flushed(window, gets, benchmark, RECEIVE)


def accumulate(ranks: Any, benchmark: Benchmark, data: Data) -> list[Action]:
    """Rank 0 adds numbers to those in rank 1's memory."""
    window = _exposed_receives(ranks, data)
    adds = [partial(window.Accumulate, [part, NUMBERS], TARGET, 0, MPI.SUM) for part in data.sends]
    return _flushed(window, adds, benchmark, SEND)


def _exposed_receives(ranks: Any, data: Data) -> Any:
    """A window on rank 1's memory for what it receives."""
    window, memory = _exposed(ranks, data, data.movement.receives, data.receiving)
    if memory:
        data.receiving, data.receives = memory
    return window


def _exposed(
    ranks: Any, data: Data, blocks: tuple[Block, ...], own: Any
) -> tuple[Any, tuple[Any, list[Any]] | None]:
    """A window on rank 1's memory for some blocks; memory that replaces its ``own``, if any.

    MPI allocates memory on the host, as OMB does by default; that on a GPU is exposed as it is.
    """
    target = ranks.rank == TARGET
    if data.on_device:
        window = MPI.Win.Create(own if target else None, 1, comm=ranks.comm)
    else:
        offsets = _offsets(data, blocks) if target else [0]
        size = blocks[0].size if target else 0
        window = MPI.Win.Allocate(offsets[-1] + size, 1, comm=ranks.comm)
    window.Lock_all()

    def free() -> None:
        window.Unlock_all()
        window.Free()

    data.closing.callback(free)
    if data.on_device or not target:
        return window, None
    whole = np.frombuffer(cast(Any, window.tomemory()), np.uint8)
    return window, (whole, [whole[offset : offset + size] for offset in offsets])


def _offsets(data: Data, blocks: tuple[Block, ...]) -> list[int]:
    """Where in rank 1's memory the messages of a window are."""
    step = 0 if data.one_for_all else 1
    return [step * number * block.size for number, block in enumerate(blocks)]


def _flushed(
    window: Any, accesses: Sequence[Callable[[], Any]], benchmark: Benchmark, moves: str
) -> list[Action]:
    """Rank 0's accesses, and then the flush that waits until all have ended; rank 1 only waits."""
    if not accesses:
        return []
    flush = partial(window.Flush, TARGET)
    if benchmark.windowed:
        return [Window(accesses, lambda _: flush(), moves=moves)]
    (access,) = accesses
    if moves == SEND:
        return [Call(access, SEND), Call(flush)]
    return [Call(access), Call(flush, RECEIVE)]
