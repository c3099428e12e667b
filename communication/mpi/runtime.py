"""Starts MPI at the thread level that is asked for, and ends it."""

from __future__ import annotations

from collections.abc import Callable

from communication.buffers import DEVICE
from communication.session import World
from communication.settings import Settings
from drivers.descriptor import Options
from drivers.job import RunError
from drivers.mpi.gpu_aware import gpu_aware


def run(settings: Settings, own: Options, session: Callable[[World], int]) -> int:
    """Call ``session`` on this rank; returns its status. Imports MPI, and so starts it."""
    import mpi4py

    if settings.thread_level is not None:
        mpi4py.rc.thread_level = settings.thread_level
    from communication.mpi.world import Ranks

    ranks = Ranks(settings)
    if settings.buffer in DEVICE:
        takes, why = gpu_aware(ranks.comm)
        if not takes:
            raise RunError(f"--buffer {settings.buffer}: {why}")
    return session(ranks)


def fail(status: int) -> None:
    """End all ranks."""
    from drivers.mpi.driver import fail

    fail(status)
