"""A rank that runs students' programs for mpi4py, one case after the other."""

from __future__ import annotations

import os
from collections.abc import Sequence

# MPICH: a rank that waits sleeps between polls, and uses a tenth of a core, not all of it. There
# may be more ranks than cores, and a program that hangs is ended only after seconds. A message
# takes 0.1 ms, not 0.02 ms.
os.environ.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")
from mpi4py import MPI  # noqa: E402

from miniapps import lessons
from miniapps.drivers.job import Watcher
from miniapps.drivers.waits import COMPUTES, Wait
from miniapps.lessons.lesson import Traffic, load_function
from miniapps.lessons.log import LOG
from miniapps.lessons.mpi.watched import Watched, WatchedPrequest, WatchedRequest
from miniapps.lessons.work import Report, Work


def take_part(works: Sequence[Work], watcher: Watcher, report: Report) -> None:
    """Run all programs of a launch as one of its ranks. Raises what a program raises."""
    world, at = MPI.COMM_WORLD, [0]
    MPI.COMM_WORLD, MPI.Request = Watched(world), WatchedRequest  # type: ignore[misc]
    MPI.Prequest = WatchedPrequest  # type: ignore[misc]

    def waits() -> list[Wait]:
        does = f"waits in {LOG.doing}, messages sent: {LOG.sent.total()}" if LOG.doing else COMPUTES
        return [Wait(("process", (world.rank,)), at[0], does, [])]

    watcher.attend(world.rank, waits)
    if world.size != works[0].pes:
        raise RuntimeError(f"{world.size} processes instead of {works[0].pes}")
    given = [work.take(world.rank) for work in works]
    world.Barrier()  # no program runs before every process has taken what it is given
    for at[0], work in enumerate(works):
        watcher.heartbeat(world.rank, at[0])
        function = load_function(work.program, lessons.load(work.lesson).function[work.runtime])
        LOG.forget()  # what it sent when it was imported is no part of its answer
        returned = function(Watched(world.Dup()), *given[at[0]])
        computed = tuple((*what, world.rank) for what in sorted(LOG.computed))
        swept = (LOG.swept, LOG.overlapped)
        traffic = Traffic(dict(LOG.sent), None, swept, LOG.handed, computed, open=LOG.under_way)
        answers = world.gather(work.keep(world.rank, returned, traffic))
        if answers is not None:
            report(at[0], answers)
    watcher.finish(world.rank)
