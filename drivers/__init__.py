"""Drivers move messages between blocks and know no app: serial, mpi, charm.

Each offers ``run(job, report)``: advance the job's blocks and call ``report(outcome)`` once, on the
root, with the `Outcome`. mpi4py and charm4py are imported by their own driver only, when it runs.
"""

from __future__ import annotations

import importlib
from types import ModuleType

NAMES = ("serial", "mpi", "charm")


def load(name: str) -> ModuleType:
    """Import a driver; for mpi this initialises MPI."""
    return importlib.import_module(f"drivers.{name}")
