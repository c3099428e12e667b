"""Drivers move messages between blocks and know no app.

A driver is a module here that exports a `descriptor.Driver` as ``DRIVER``; nothing is registered.
The file it names offers ``run(job, report, watcher)``: advance the job's blocks, call
``report(outcome)`` once, on the root, and return the exit status; and ``fail(status)``: end every
PE of the run. mpi4py and charm4py are imported by that file only, when it runs.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

from drivers.descriptor import Driver, Launcher
from miniapps.parameters import require

if TYPE_CHECKING:
    from drivers.job import Job, Watcher
    from drivers.outcome import Report


@cache
def found() -> Mapping[str, Driver]:
    """All drivers by name, those that can do most last."""
    modules = [importlib.import_module(f"drivers.{m.name}") for m in pkgutil.iter_modules(__path__)]
    drivers = [module.DRIVER for module in modules if hasattr(module, "DRIVER")]
    drivers.sort(key=_order)
    return MappingProxyType({driver.name: driver for driver in drivers})


def _order(driver: Driver) -> tuple[bool, bool, bool, str]:
    return not driver.one_pe, not driver.one_process, driver.over_decomposition, driver.name


def usable() -> list[Driver]:
    """The drivers that can be used with this Python."""
    return [driver for driver in found().values() if driver.unavailable() is None]


def left_out() -> list[str]:
    """A line for each driver that cannot be used: why, and how to get it."""
    reasons = {name: driver.unavailable() for name, driver in found().items()}
    return [f"left out: {name}: {reason}" for name, reason in reasons.items() if reason]


def names() -> list[str]:
    """The names of all drivers."""
    return list(found())


def get(name: str, option: str = "--driver") -> Driver:
    """The driver of a name. Raises InputError, of ``option``, where there is none."""
    require(name in found(), option, name, f"one of {', '.join(found())}")
    return found()[name]


def of_record(name: str) -> Driver:
    """The driver that a record names; a plain one where this program does not have it."""
    return found().get(name) or Driver(name, "unknown here", file="", without="")


def load(name: str) -> ModuleType:
    """Import the file in which a driver runs; for mpi this initialises MPI."""
    return importlib.import_module(get(name).file)


def run_all(name: str, runs: Iterable[tuple[Job, Report]], watcher: Watcher) -> int:
    """Run jobs one after the other in the processes of one launch; returns the highest status.

    A driver whose runtime starts once in a process has a ``run_all`` of its own.
    """
    module = load(name)
    if hasattr(module, "run_all"):
        return int(module.run_all(runs, watcher))
    return max(module.run(job, report, watcher) for job, report in runs)


def launchers() -> dict[str, Launcher]:
    """The launchers around this process, by the drivers whose runs they start."""
    around = {name: driver.around() for name, driver in found().items()}
    return {name: launcher for name, launcher in around.items() if launcher is not None}


def rank() -> int:
    """The rank that a launcher gave this process, 0 outside one."""
    return max((launcher.rank for launcher in launchers().values()), default=0)
