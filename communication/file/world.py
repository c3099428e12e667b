"""The ranks that share a folder, and the actions of each benchmark on them."""

from __future__ import annotations

from typing import Any

from miniapps.communication import pairs
from miniapps.communication.actions import Action, Function
from miniapps.communication.buffers import Data, as_bytes
from miniapps.communication.catalogue import PAIRS, Benchmark
from miniapps.communication.file import RUNTIME, collectives
from miniapps.communication.movement import leads, partner
from miniapps.communication.settings import Settings
from miniapps.drivers.file.group import Group


class Arrays:
    """Messages of bytes to and from another rank: each is a file."""

    def __init__(self, group: Group, other: int) -> None:
        self.group, self.other = group, other

    def send(self, message: Any, /) -> None:
        """Write a file."""
        self.group.put(as_bytes(message), self.other)

    def recv(self) -> Any:
        """Wait for a file; returns a copy of its array, as the next one takes its place."""
        return self.group.get(self.other).copy()


class Objects(Arrays):
    """The same with pickled objects."""

    def send(self, message: Any, /) -> None:
        """Write a file."""
        self.group.send(message, self.other)

    def recv(self) -> Any:
        """Wait for a file; returns the object in it."""
        return self.group.recv(source=self.other)


class Ranks:
    """All ranks, seen from one of them."""

    local_rank = 0  # which chooses a GPU; none is used

    def __init__(self, group: Group, settings: Settings) -> None:
        self.group, self.rank, self.ranks = group, group.rank, group.size
        self.method, self.pickled = settings.method, settings.pickle is not None
        self.barrier, self.gather, self.share = group.Barrier, group.gather, group.bcast
        folder = group.folder
        self.versions = {} if folder is None else {"file": f"files in {folder.path.parent}"}

    def repeat(self, function: Function) -> bool:
        """Threads run while a rank waits for a file."""
        return False

    def actions(self, benchmark: Benchmark, data: Data) -> list[Action]:
        """What this rank does in one iteration."""
        if benchmark.ranks != PAIRS:
            method = RUNTIME.method_of(benchmark.name, self.method)
            return [collectives.make(self.group, method, benchmark, data)]
        line = (Objects if self.pickled else Arrays)(self.group, partner(self.rank, self.ranks))
        make = pairs.MAKERS[benchmark.movement]
        return make(line, leads(self.rank, self.ranks), data)
