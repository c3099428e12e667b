"""The PEs of the charm driver: which blocks start where, and what a PE keeps for its blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from charm4py import ArrayMap, Chare, charm

from drivers.balancers import Sync
from drivers.job import Job, Store, Watcher
from drivers.outcome import Part
from drivers.timing import PELog
from miniapps.decomposition import Layout

FAILED = 3  # exit status


class BlockMap(ArrayMap):
    """Puts each block on the PE whose MPI block it is a part of."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def procNum(self, index: tuple[int, ...]) -> int:  # noqa: N802 - the runtime's name
        """The PE of a block."""
        return self.layout.pe(index)


class PE(Chare):
    """What belongs to a PE and not to a block: compiled kernels, the log, the watcher."""

    def __init__(self, job: Job, watcher: Watcher) -> None:
        self.watcher = watcher
        self.jit_s = job.compile()
        self.log = PELog(charm.myPe())
        self.syncs: dict[int, Sync] = {}

    @contextmanager
    def guard(self) -> Iterator[None]:
        """End the whole run, with a word to the watcher, where the code inside raises."""
        try:
            yield
        except Exception as error:
            self.watcher.fail(error)
            fail(FAILED)

    def start_log(self) -> None:
        """Forget warm-up; time runs from now."""
        self.log.start()
        self.syncs = {}

    def note_sync(self, step: int) -> None:
        """Note that a block of this PE waits for the balancing before ``step``."""
        self.syncs.setdefault(step, Sync()).begun_s = perf_counter()

    def note_resume(self, step: int, moved: bool) -> None:
        """Note that a block goes on here after that balancing, and whether it came here by it."""
        sync = self.syncs.setdefault(step, Sync())
        sync.ended_s = min(sync.ended_s, perf_counter())
        sync.moved += moved

    def part(self, array: Any) -> tuple[Part, dict[int, Sync]]:
        """Everything that was measured on this PE."""
        self.watcher.finish(charm.myPe())
        blocks = [chare.block for chare in charm.arrays[array.aid].values()]
        return Part.of(blocks, self.log, self.jit_s), self.syncs

    def store(self, array: Any, store: Store, made: bool) -> bool:
        """Write the blocks of this PE, which may have none; returns whether the store is made."""
        for chare in charm.arrays[array.aid].values():
            pieces = chare.block.state()
            if not made:
                store.create(pieces)
            store.write(pieces)
            made = True
        return made


def fail(status: int) -> None:
    """End this PE at once; charmrun and the runtime then end the others."""
    os._exit(status)
