"""The sim driver: all blocks in one process, on virtual PEs, and events in any order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from miniapps.drivers.descriptor import Asked, Driver, Options
from miniapps.drivers.orders import NAMED, USUAL
from miniapps.drivers.schedule import read_schedule
from miniapps.parameters import parameter, require

ORDERS = tuple(NAMED)


@dataclass(frozen=True)
class SimOptions(Options):
    """Options of this driver alone."""

    seed: int = parameter("--sim-seed", 0, int, "seed of the order of events and of migrations")
    order: str = parameter(
        "--sim-order",
        "random",
        str,
        f"the order of events: {', '.join(ORDERS)}; or {USUAL}, the only one for 10^5 blocks",
        choices=(*ORDERS, USUAL),
        metavar="NAME",
    )
    pes: int = parameter("--sim-pes", 2, int, "virtual PEs between which blocks migrate")
    schedule: Path | None = parameter(
        "--schedule", None, Path, "a schedule to follow instead; `miniapps adversary` writes one"
    )

    def check(self, asked: Asked) -> None:
        """Raise InputError if there is no virtual PE, or the file is not a schedule."""
        require(self.pes >= 1, "--sim-pes", self.pes, "must be 1 or more")
        if self.schedule is not None:
            read_schedule(self.schedule, "--schedule")


DRIVER = Driver(
    name="sim",
    summary="all blocks in this process, events in any order, blocks that migrate",
    file="miniapps.drivers.sim.driver",
    without="no check of blocks against other orders of messages",
    example="--driver sim --pe-grid 2x2 --sim-seed 7",
    options=SimOptions,
    one_process=True,
    one_pe=True,
    replays=True,
    waits_alone=True,
)
