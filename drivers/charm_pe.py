"""The PEs of the charm driver: what a PE keeps for its blocks, and what comes to it for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np
from charm4py import Chare, charm

from drivers.balancers import Sync
from drivers.charm_mail import Mail, Target, local_chares
from drivers.job import Job, Store, Watcher
from drivers.outcome import Part
from drivers.timing import PELog
from miniapps.block import MessageError, Place

FAILED = 3  # exit status


class PE(Chare):
    """What belongs to a PE and not to a block: compiled kernels, the log, the watcher, the mail."""

    def __init__(self, job: Job, watcher: Watcher) -> None:
        self.job, self.watcher = job, watcher
        self.jit_s = job.compile()
        self.log = PELog(charm.myPe())
        self.syncs: dict[int, Sync] = {}
        self.mail = Mail(self)
        self.numbers = job.layout.numbers
        self.arrays: dict[str, Any] = {}  # proxies, by kind
        self.here: dict[str, dict[Any, Any]] = {}
        self.places: dict[Place, int] = {}  # where blocks are, if there are several kinds
        self.heard: list[np.ndarray] = []  # tables that came since the last balancing

    @contextmanager
    def guard(self) -> Iterator[None]:
        """End the whole run, with a word to the watcher, where the code inside raises."""
        try:
            yield
        except Exception as error:
            self.watcher.fail(error)
            fail(FAILED)

    # Whom to find where --------------------------------------------------------------------------

    def introduce(self, arrays: dict[str, Any]) -> None:
        """Take note of the arrays of chares."""
        self.arrays, self.here = arrays, local_chares(arrays)

    def settle(self) -> None:
        """All blocks have been made, each on the PE that the layout says."""
        if self.job.several_kinds:
            self.places = {place: self.job.layout.home(*place) for place in self.numbers}
            self.mail.relearn()

    def learn(self, pes: np.ndarray) -> None:
        """Learn on which PE the blocks of a kind are after a balancing.

        ``pes`` (blocks,): 1 + PE, by number; 0 for blocks of other kinds. Once all kinds are known,
        no block is on its way any more, and those that are here go on.
        """
        with self.guard():
            self.heard.append(pes)
            if len(self.heard) < len(self.arrays):
                return
            where, self.heard = np.sum(self.heard, axis=0) - 1, []
            self.places = dict(zip(self.numbers, where.tolist(), strict=True))
            self.mail.relearn()
            for chare in self.chares():
                chare.wake_up()

    def chares(self) -> Iterator[Any]:
        """The chares on this PE, of all kinds."""
        return chain.from_iterable(family.values() for family in self.here.values())

    def find(self, place: Place) -> Any | None:
        """A block's chare, if it is on this PE."""
        return self.here[place[0]].get((self.numbers[place],))

    def proxy(self, place: Place) -> Any:
        """By what a chare is called from anywhere."""
        return self.arrays[place[0]][self.numbers[place]]

    # What comes from other PEs, where there are several kinds of blocks ---------------------------

    def fan_out(
        self, step: int, phase: str, sender: Place, targets: list[Target], *arrays: np.ndarray
    ) -> None:
        """Hand messages that travelled together to the blocks here."""
        with self.guard():
            for place, edge, number in targets:
                chare = self.found(place)
                if chare.put(step, phase, edge, sender, arrays[number]):
                    chare.wake_up()

    def take_sum(self, step: int, phase: str, place: Place, edges: Any, total: np.ndarray) -> None:
        """Hand a block the sum of what the blocks of another PE have for it."""
        with self.guard():
            self.found(place).put_sum(step, phase, edges, total)

    def found(self, place: Place) -> Any:
        """The chare of a block that must be here."""
        chare = self.find(place)
        if chare is None:
            raise MessageError(f"a message for block {place} came to PE {charm.myPe()}")
        return chare

    # Measuring -----------------------------------------------------------------------------------

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

    def part(self) -> tuple[Part, dict[int, Sync]]:
        """Everything that was measured on this PE."""
        self.watcher.finish(charm.myPe())
        blocks = [chare.block for chare in self.chares()]
        return Part.of(blocks, self.log, self.jit_s), self.syncs

    def store(self, store: Store, made: bool) -> bool:
        """Write the blocks of this PE, which may have none; returns whether the store is made."""
        for chare in self.chares():
            pieces = chare.block.state()
            if not made and pieces:
                store.create(pieces)
                made = True
            store.write(pieces)
        return made


def fail(status: int) -> None:
    """End this PE at once; charmrun and the runtime then end the others."""
    os._exit(status)
