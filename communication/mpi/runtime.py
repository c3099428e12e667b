"""Starts MPI at the thread level that is asked for, and ends it."""

from __future__ import annotations

from collections.abc import Callable

from miniapps.communication.buffers import DEVICE
from miniapps.communication.session import World
from miniapps.communication.settings import Settings
from miniapps.drivers.descriptor import Options
from miniapps.drivers.job import RunError
from miniapps.drivers.mpi.gpu_aware import gpu_aware


def run(settings: Settings, own: Options, session: Callable[[World], int]) -> int:
    """Call ``session`` on this rank; returns its status. Imports MPI, and so starts it."""
    import mpi4py

    if settings.thread_level is not None:
        mpi4py.rc.thread_level = settings.thread_level
    from miniapps.communication.mpi.world import Ranks

    ranks = Ranks(settings)
    if settings.buffer in DEVICE:
        takes, why = gpu_aware(ranks.comm)
        if not takes:
            raise RunError(f"--buffer {settings.buffer}: {why}")
    return session(ranks)


def fail(status: int) -> None:
    """End all ranks."""
    from miniapps.drivers.mpi.driver import fail

    fail(status)
