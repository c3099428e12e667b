"""Clocks that only known work moves, in every process of a launch that calls `install` first.

`UNIT` seconds are short, because the launching process sees by its own clock how long a launch
took. Each PE has a clock of its own, and waiting takes no time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from miniapps.devices import backend, system
from miniapps.drivers import audits, engine, job, machine, timing
from miniapps.drivers.job import Job
from miniapps.drivers.timing import PELog
from miniapps.grid_audit import GridAudit
from miniapps.grid_block import GridBlock

UNIT = 2.0**-14
EPOCH_S = 1e9  # since the epoch, when a clock shows 0
IMPORTED = 19.0  # this and the following in units
COMPILING, BUILDING = 7.0, {(0, 0): 32.0, (1, 0): 40.0}
SWEEP = {(0, 0): 2.0, (1, 0): 3.0}  # of a block, per step
PACK, UNPACK = 0.25, 0.125  # of a block, per round
AUDIT = {(0, 0): (0.125, 0.25), (1, 0): (0.5, 0.75)}  # of a block, at the ends of a round
SNAPSHOT = {0: 13.0, 1: 17.0}  # of a PE
BALANCING = {0: 5.0, 1: 6.0}  # of a PE, from its block's wait until it continues


class Clock:
    """Seconds since the program's start, which only work moves.

    ``unit``: seconds of a unit of work; ``put``: how a module's attribute is set.
    """

    now = 1000.0
    compiles = False

    def __init__(self, unit: float, put: Callable[[Any, str, Any], None] = setattr) -> None:
        self.unit, self.put = unit, put

    def __call__(self) -> float:
        return self.now

    def since_epoch(self) -> float:
        """The time of day."""
        return EPOCH_S + self.now

    def install(self) -> None:
        """Replace the clocks of this process."""
        for module in (audits, engine, job, machine, timing, backend):
            self.put(module, "perf_counter", self)
        for mark in ("mark", "begin"):
            self.put(backend.Clock, mark, staticmethod(self))
        self.put(timing, "time", self.since_epoch)
        self.put(machine, "second_clock", self)
        self.put(system, "age_s", lambda: self.unit * IMPORTED)

    def takes(self, owner: Any, name: str, units: Callable[..., float]) -> None:
        """Let each call of a function move the clock, by its arguments and its result."""
        right = getattr(owner, name)

        def longer(*arguments: Any, **options: Any) -> Any:
            result = right(*arguments, **options)
            self.now += self.unit * units(*arguments, result)
            return result

        self.put(owner, name, longer)


CLOCK = Clock(UNIT)


def install() -> None:
    """Replace the clocks of this process, and let work move them."""
    CLOCK.install()
    right_compile = Job.compile

    def compile_kernels(job: Job[Any]) -> float:
        CLOCK.compiles = True  # only then does loading kernels take time
        try:
            return right_compile(job)
        finally:
            CLOCK.compiles = False

    Job.compile = compile_kernels  # type: ignore[method-assign]
    CLOCK.takes(job.kernels, "load", lambda *_: COMPILING * CLOCK.compiles)
    CLOCK.takes(Job, "build", lambda job, index, _: BUILDING[index])
    CLOCK.takes(Job, "keep", lambda job, pe, *_: SNAPSHOT[pe])
    CLOCK.takes(GridBlock, "faces", lambda *_: PACK)
    CLOCK.takes(GridBlock, "fill_ghosts", lambda *_: UNPACK)
    CLOCK.takes(GridBlock, "sweep_rest", lambda block, *_: SWEEP[block.index])
    CLOCK.takes(GridAudit, "begin", lambda audit, block, *_: AUDIT[block.index][0])
    CLOCK.takes(GridAudit, "end", lambda audit, block, *_: AUDIT[block.index][1])
    CLOCK.takes(PELog, "begin_wait", lambda log, *_: BALANCING[log.pe])
