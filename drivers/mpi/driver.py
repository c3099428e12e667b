"""The mpi driver: one block per rank, non-blocking messages from buffer to buffer.

Every edge of a block to another rank has a link (`drivers.mpi.links`) with a receive that is always
posted, so that a message finds its buffer even while this rank computes, and non-blocking sends.
Nothing is pickled and, if the block used `packed`, nothing is copied. Between ranks of a host, long
messages lie in memory that both share (`drivers.shared_memory`), as MPI would copy them once more.
Messages on a GPU are copied to the host while the block continues, and sent when it waits; a
GPU-aware MPI sends them directly from device memory, and a rank on the same GPU copies them there
(`drivers.gpu_ipc`).
"""

from __future__ import annotations

from functools import partial
from time import sleep
from typing import Any

import numpy as np
from mpi4py import MPI

from miniapps.contract import AllReduce, Edge, Peer
from miniapps.drivers import outcome
from miniapps.drivers.engine import Runner
from miniapps.drivers.headers import TAGS
from miniapps.drivers.job import Job, RunError, Watcher
from miniapps.drivers.mpi import RankOptions, around
from miniapps.drivers.mpi.gpu_aware import gpu_aware
from miniapps.drivers.mpi.links import DeviceLink, HostLink, Link, SharedLink
from miniapps.drivers.outcome import Report
from miniapps.drivers.ranks import OfPlaces, RankTransport, run_block, started_on
from miniapps.drivers.reduction import of_process, packed_value, result_of
from miniapps.drivers.shared_memory import Pools

OPS = {"sum": MPI.SUM, "min": MPI.MIN, "max": MPI.MAX}


class Ranks(RankTransport):
    """Moves the messages of one rank's block by MPI."""

    def __init__(self, comm: MPI.Comm, job: Job[RankOptions]) -> None:
        super().__init__(comm.rank, job.layout)
        self.comm = comm
        self.begun: tuple[np.ndarray, MPI.Request] | None = None  # a reduction
        self.direct, self.why = device_path(comm, job)
        if not self.direct:
            self.share_gpu(comm, job)
        self.pools = Pools(comm.rank, job.options.shortest_shared)
        if job.device == "cpu" and comm.size > 1 and self.pools.least:
            self.pools.share(comm)

    def link(self, runner: Runner, edge: Edge, peer: Peer, rank: int) -> Link:
        """A link that has posted its receive."""
        of_link = self.comm, edge, peer, rank, self.kinds_of(runner, peer)
        if self.direct:
            return DeviceLink(runner.block.device, *of_link)
        if rank in self.sharers.ranks:
            return SharedLink(runner.block.device, *of_link)
        if rank in self.pools.readers or rank in self.pools.views:
            return HostLink(self.pools, *of_link)
        return Link(*of_link)

    def close(self) -> None:
        """End all communication. Raises MessageError if a slot was used again too early."""
        super().close()
        self.pools.check()

    def all_reduce(self, value: Any, op: str) -> Any:
        """Combine the values of all ranks, or wait for it where this has begun."""
        if self.begun is None:
            total = packed_value(value, op)
            self.comm.Allreduce(MPI.IN_PLACE, total, OPS[op])
        else:
            (total, request), self.begun = self.begun, None
            request.Wait()
        return result_of(total, value, op)

    def begin_reduction(self, runner: Runner, reduction: AllReduce) -> bool:
        """Begin what `all_reduce` does."""
        value, op = of_process([reduction.value], reduction.op)
        total = packed_value(value, op)
        self.begun = total, self.comm.Iallreduce(MPI.IN_PLACE, total, OPS[op])
        return True

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.comm.Barrier()

    def gather(self, value: Any) -> list[Any] | None:
        """The values of all ranks, on rank 0."""
        found: list[Any] | None = self.comm.gather(value)
        return found


class RanksOfPlaces(OfPlaces, Ranks):
    """The same for blocks that exist for a time."""


def transport(comm: MPI.Comm, job: Job[RankOptions]) -> Ranks:
    """The transport of a rank. Raises RunError if MPI has too few tags for the kinds of blocks."""
    kinds, largest = len(job.layout.counts()), comm.Get_attr(MPI.TAG_UB) or TAGS - 1
    if kinds * TAGS > largest + 1:
        raise RunError(f"this MPI library has tags up to {largest}, too few for {kinds} kinds")
    exist_for_a_time = job.problem.kinds_at(0) is not None
    return (RanksOfPlaces if exist_for_a_time else Ranks)(comm, job)


def device_path(comm: MPI.Comm, job: Job[RankOptions]) -> tuple[bool, str]:
    """Whether MPI sends messages directly from device memory, and the reason."""
    asked = job.options.gpu_aware
    if job.device == "cpu" or asked != "auto":
        return asked == "on", "asked for"
    answers = comm.allgather(gpu_aware(comm))
    return min(answers, key=lambda answer: answer[0])


def run(job: Job[RankOptions], report: Report, watcher: Watcher) -> int:
    """Run a job on all ranks of COMM_WORLD; rank 0 reports the outcome.

    Returns the exit status: the report's on rank 0, else 0.
    """
    all_refuse(False)  # a rank that refuses its input ends the others here
    comm, launcher = MPI.COMM_WORLD.Dup(), around()
    if launcher is not None and launcher.size not in (None, comm.size):
        raise RunError(started_on(launcher.size, comm.size))
    local_rank = comm.Split_type(MPI.COMM_TYPE_SHARED).rank
    ran, used = run_block(job, comm, local_rank, partial(transport, comm), watcher)
    whys = used.gather(used.pools.why)
    if ran.parts is None or whys is None:
        return 0
    why = next(filter(None, whys), None)
    library = MPI.Get_library_version().splitlines()[0].strip()
    path = used.sharers.path("gpu-aware" if used.direct else "staged", used.why)
    unusual = None if why is None else ("mpi", why)
    return report(outcome.joined(ran.job, ran.parts, ran.end, {"mpi": library}, path, unusual))


def all_refuse(refuses: bool) -> bool:
    """Whether all ranks refuse their input. To be called by each: MPI waits for all of them."""
    return bool(MPI.COMM_WORLD.allreduce(refuses, MPI.LAND))


def fail(status: int) -> None:
    """End all ranks, after a delay in which rank 0 prints the error and the launcher forwards it.

    An immediate Abort would sometimes end the launcher before it has read that line.
    """
    sleep(0.5 if MPI.COMM_WORLD.rank else 0.2)
    MPI.COMM_WORLD.Abort(status)
