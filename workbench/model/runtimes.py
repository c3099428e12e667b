"""The drivers that the model needs by what they can do: one process, ranks, blocks that move."""

from __future__ import annotations

from miniapps import drivers
from miniapps.drivers.descriptor import Driver


def usual() -> list[Driver]:
    """The drivers that studies compare: those that run programs and follow no schedule."""
    return [driver for driver in drivers.found().values() if driver.studied and not driver.replays]


def alone() -> str:
    """The driver with one PE, whose messages do not travel."""
    return next(driver.name for driver in usual() if driver.one_pe)


def ranks() -> str:
    """The driver with a block per PE."""
    return next(driver.name for driver in usual() if not (driver.one_pe or driver.balancers))


def movable() -> str:
    """The driver whose blocks can move."""
    return next(driver.name for driver in usual() if driver.balancers)
