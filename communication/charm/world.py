"""All PEs, seen from one of them, and the actions of each benchmark on them."""

from __future__ import annotations

from typing import Any

from charm4py import Reducer, charm

from miniapps.communication import pairs
from miniapps.communication.actions import Action, Function
from miniapps.communication.buffers import Data
from miniapps.communication.catalogue import PAIRS, Benchmark
from miniapps.communication.charm import RUNTIME, collectives
from miniapps.communication.charm.chare import PE
from miniapps.communication.charm.lines import LINES
from miniapps.communication.movement import ROOT, leads, partner
from miniapps.communication.progress import Progress
from miniapps.communication.settings import Settings

REPEAT_S = 0.5  # between two calls of a function that is called again and again


class Ranks:
    """The PEs as ranks. Every call that waits must be made by a coroutine."""

    local_rank = 0  # which chooses a GPU; none is used

    def __init__(self, pe: PE, settings: Settings) -> None:
        self.pe, self.rank, self.ranks = pe, charm.myPe(), charm.numPes()
        self.method, self.pickled = settings.method, settings.pickle is not None
        self.versions = {"charm": "netlrts"}

    def barrier(self) -> None:
        """Wait for all PEs: an empty reduction whose end is broadcast."""
        self.pe.allreduce().get()

    def gather(self, value: Any) -> list[Any] | None:
        """The values of all PEs on PE 0, None elsewhere."""
        values: list[Any] = self.pe.allreduce(value, Reducer.gather).get()
        return values if self.rank == ROOT else None

    def share(self, value: Any) -> Any:
        """PE 0's value."""
        return self.pe.allreduce(value, Reducer.gather).get()[ROOT]

    def repeat(self, function: Function) -> bool:
        """Call a function from time to time: the runtime lets no other thread of a PE run."""
        function()
        charm.scheduleCallableAfter(self.repeat, REPEAT_S, [function])
        return True

    def line(self, method: str) -> pairs.Line:
        """The line to the other PE of the pair."""
        if method not in self.pe.lines:
            self.pe.lines[method] = LINES[method](self.pe, partner(self.rank, self.ranks))
        line: pairs.Line = self.pe.lines[method]
        return pairs.Listed(line) if self.pickled else line

    def actions(self, benchmark: Benchmark, data: Data) -> list[Action]:
        """What this PE does in one iteration."""
        method = RUNTIME.method_of(benchmark.name, self.method)
        assert method is not None
        if benchmark.ranks != PAIRS:
            return collectives.make(self.pe, method, benchmark, data, self.pickled)
        make = pairs.MAKERS[benchmark.movement]
        return make(self.line(method), leads(self.rank, self.ranks), data)

    def anatomy(self, settings: Settings, progress: Progress) -> dict[str, Any]:
        """Whole calls and their parts; see `communication.charm.anatomy`."""
        from miniapps.communication.charm.anatomy import CharmAnatomy

        return CharmAnatomy(self, settings, progress).measured()
