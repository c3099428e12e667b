"""The ranks of COMM_WORLD, and the actions of each benchmark on them.

Importing this module starts MPI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpi4py import MPI
from mpi4py.util import pkl5

from miniapps.communication.actions import Action, Function
from miniapps.communication.buffers import Data
from miniapps.communication.catalogue import Benchmark
from miniapps.communication.movement import neighbors
from miniapps.communication.mpi import collectives, onesided, pt2pt
from miniapps.communication.progress import Progress
from miniapps.communication.settings import OUT_OF_BAND, Settings

LEVELS: Mapping[int, str] = {
    MPI.THREAD_SINGLE: "single",
    MPI.THREAD_FUNNELED: "funneled",
    MPI.THREAD_SERIALIZED: "serialized",
    MPI.THREAD_MULTIPLE: "multiple",
}
Maker = Callable[[Any, Benchmark, Data], list[Action]]
MAKERS: Mapping[str, Maker] = {
    "ping_pong": pt2pt.ping_pong,
    "stream": pt2pt.stream,
    "both_ways": pt2pt.both_ways,
    "put_latency": onesided.put,
    "put_bw": onesided.put,
    "get_latency": onesided.get,
    "get_bw": onesided.get,
    "acc_latency": onesided.accumulate,
}


class Ranks:
    """All ranks, seen from one of them."""

    def __init__(self, settings: Settings) -> None:
        comm = MPI.COMM_WORLD.Dup()
        self.comm, self.rank, self.ranks = comm, comm.rank, comm.size
        self.local_rank = comm.Split_type(MPI.COMM_TYPE_SHARED).rank
        self.barrier, self.gather, self.share = comm.Barrier, comm.gather, comm.bcast
        self.pickled = settings.pickle is not None
        self.objects = pkl5.Intracomm(comm) if settings.pickle == OUT_OF_BAND else comm
        beside = neighbors(comm.rank, comm.size)
        self.ring = comm.Create_dist_graph_adjacent(beside, beside)
        self.versions = {
            "mpi": MPI.Get_library_version().splitlines()[0].strip("\0 "),
            "mpi_thread_level": LEVELS[MPI.Query_thread()],
        }

    def repeat(self, function: Function) -> bool:
        """Threads run while a call of MPI waits."""
        return False

    def actions(self, benchmark: Benchmark, data: Data) -> list[Action]:
        """What this rank does in one iteration."""
        make = MAKERS.get(benchmark.movement, collectives.make)
        return make(self, benchmark, data)

    def anatomy(self, settings: Settings, progress: Progress) -> dict[str, Any]:
        """Whole calls and their parts; see `communication.mpi.anatomy`."""
        from miniapps.communication.mpi.anatomy import MPIAnatomy

        return MPIAnatomy(self, settings, progress).measured()
