"""Drivers move messages between blocks and know no app: serial, mpi, charm.

Each offers ``run(job, report, watcher)``: advance the job's blocks, call ``report(outcome)`` once,
on the root, and return the exit status; and ``fail(status)``: end every PE of the run. mpi4py and
charm4py are imported by their own driver only, when it runs.
"""

from __future__ import annotations

import importlib
from types import ModuleType

NAMES = ("serial", "mpi", "charm")


def load(name: str) -> ModuleType:
    """Import a driver; for mpi this initialises MPI."""
    file = "drivers.serial" if name == "serial" else f"drivers.{name}.driver"
    return importlib.import_module(file)
