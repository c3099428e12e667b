"""Drivers move messages between blocks and do not depend on any app.

A driver is a module in this package that exports a `descriptor.Driver` as ``DRIVER``; nothing is
registered. The module that ``DRIVER.file`` names defines ``run(job, report, watcher)``, which
advances the job's blocks, calls ``report(outcome)`` once, on the root, and returns the exit status,
or `run_all`; and ``fail(status)``, which ends every PE of the run. A driver whose ranks a user's
own launcher may start defines ``all_refuse(refuses)``, which each rank calls first. That of a
driver that ``replays`` schedules also defines ``simulated(blocks, order, pes)``, an engine that
follows an order. Only that module imports mpi4py or charm4py.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

from miniapps.devices.cpu import host_memory
from miniapps.drivers.ancestors import PMIX_LAUNCHERS, under
from miniapps.drivers.descriptor import Driver, Launcher
from miniapps.parameters import require

if TYPE_CHECKING:
    from miniapps.drivers.job import Job, Watcher
    from miniapps.drivers.outcome import Report

# Programs that start MPI ranks: names of processes, of which Linux keeps 15 characters.
LAUNCHERS = ("hydra_pmi_proxy", "mpiexec", "mpirun", "orterun", *PMIX_LAUNCHERS)


@cache
def found() -> Mapping[str, Driver]:
    """All drivers by name, ordered by capability, the simplest first."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    drivers = [module.DRIVER for module in modules if hasattr(module, "DRIVER")]
    drivers.sort(key=lambda d: (not d.one_pe, not d.one_process, d.over_decomposition, d.name))
    return MappingProxyType({driver.name: driver for driver in drivers})


def usable() -> list[Driver]:
    """The drivers that this Python can use."""
    return [driver for driver in found().values() if driver.unavailable() is None]


def left_out() -> list[str]:
    """A line for each driver that cannot be used: the reason, and how to install it."""
    reasons = {name: driver.unavailable() for name, driver in found().items()}
    return [f"left out: {name}: {reason}" for name, reason in reasons.items() if reason]


def names() -> list[str]:
    """The names of all drivers."""
    return list(found())


def get(name: str, option: str = "--driver") -> Driver:
    """The driver with this name. Raises InputError for ``option`` if there is none."""
    require(name in found(), option, name, f"one of {', '.join(found())}")
    return found()[name]


def of_record(name: str) -> Driver:
    """The driver that a record names; a placeholder if this program does not have it."""
    return found().get(name) or Driver(name, "unknown here", file="", without="")


def load(name: str) -> ModuleType:
    """Import the module that runs a driver's jobs; for mpi this initialises MPI."""
    return importlib.import_module(get(name).file)


def run_all(name: str, runs: Iterable[tuple[Job, Report]], watcher: Watcher) -> int:
    """Run jobs one after the other in the processes of one launch; returns the highest status.

    A driver whose runtime can start only once per process defines ``run_all(runs, watcher)``.
    """
    module = load(name)
    host_memory.keep_freed()
    if hasattr(module, "run_all"):
        return int(module.run_all(runs, watcher))
    return max(module.run(job, report, watcher) for job, report in runs)


def launchers() -> dict[str, Launcher]:
    """The launchers that started this process, by the name of their driver."""
    around = {name: driver.around() for name, driver in found().items()}
    return {name: launcher for name, launcher in around.items() if launcher is not None}


def of_several_ranks() -> Launcher | None:
    """The launcher that started this process as one of several ranks; None if none has."""
    return next((one for one in launchers().values() if one.size != 1), None)


def rank_zero_speaks() -> bool:
    """Whether another process, rank 0, reports what all ranks meet.

    Not if no launcher is among the ancestors: its variables may be left over in the environment.
    """
    return rank() > 0 and under(LAUNCHERS)


def waited_for() -> ModuleType | None:
    """The module of the driver whose other ranks go on where this one refuses its input, if any.

    Then this one has to end them, for they wait for it. To be called by each rank that refuses.
    Where a launcher does not tell how many ranks there are, MPI may not be able to start.
    """
    around = [name for name, launcher in launchers().items() if launcher.size not in (None, 1)]
    usable = [name for name in around if under(LAUNCHERS) and get(name).unavailable() is None]
    modules = [module for module in map(load, usable) if hasattr(module, "all_refuse")]
    return next((module for module in modules if not module.all_refuse(True)), None)


def rank() -> int:
    """The rank that a launcher gave this process, 0 outside one."""
    return max((launcher.rank for launcher in launchers().values()), default=0)
