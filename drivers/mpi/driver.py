"""The mpi driver: one block per rank, non-blocking messages from buffer to buffer.

Every edge of a block is a link (`mpi_links`): a receive that always stands, so that a message finds
its buffer even while this rank computes, and sends that nobody waits for until their buffer must be
reused. Nothing is pickled and, where the block used `packed`, nothing is copied. Messages that lie
on a GPU are copied to the host while the block goes on, and leave when it waits; or from where they
are, if this MPI reads a GPU's memory.
"""

from __future__ import annotations

import zlib
from time import sleep
from typing import Any

import numpy as np
from mpi4py import MPI

from devices.messages import DeviceMessage
from drivers.job import Job, RunError, Watcher
from drivers.mpi.gpu_aware import gpu_aware
from drivers.mpi.links import DeviceLink, Link, SelfLink
from drivers.outcome import Part, Report, joined
from drivers.timing import PELog, Stepper, answer_batches
from miniapps.contract import SETUP, AllReduce, Batch, Collect, Edge, Pause, Post, checked_message

OPS = {"sum": MPI.SUM, "min": MPI.MIN, "max": MPI.MAX}


class Engine:
    """The block of one rank and its links."""

    def __init__(self, comm: MPI.Comm, job: Job) -> None:
        self.comm = comm
        self.block = job.build(job.layout.indices()[comm.rank])
        self.stepper = Stepper(self.block, job.traced)
        self.direct, self.why = transport(comm, job)
        self.links: dict[Edge, Link | SelfLink] = {}
        self.leaving: list[tuple[int, str, dict[Edge, DeviceMessage]]] = []  # from a device
        for edge, peer in self.block.neighbors.items():
            rank = job.layout.home(*peer.place)
            if rank == comm.rank:
                self.links[edge] = SelfLink(self.links, edge, peer)
            elif self.direct:
                self.links[edge] = DeviceLink(comm, edge, peer, rank, self.block.device)
            else:
                self.links[edge] = Link(comm, edge, peer, rank)

    def setup(self) -> None:
        """Run the block's setup."""
        self._finish(SETUP, self.stepper.set_up())

    def round(self, step: int, count: int) -> bool:
        """Advance the block ``count`` steps; True where it says that the run is finished."""
        self._finish(step, self.stepper.start(count))
        return self.stepper.finished

    def _finish(self, step: int, request: Any) -> None:
        """Answer the block's requests until its generator has ended."""
        while request is not None:
            request = self.stepper.resume(self._answer(step, request))
        self._send_leaving()

    def _answer(self, step: int, request: Any) -> Any:
        """Do what the block asks for."""
        if isinstance(request, Post):
            self._post(step, request)
            return None
        if self.leaving:
            self._send_leaving()
        if isinstance(request, Collect):
            return {edge: self.links[edge].receive(step, request.phase) for edge in request.edges}
        if isinstance(request, AllReduce):
            total = np.array(request.value)
            self.comm.Allreduce(MPI.IN_PLACE, total, OPS[request.op])
            return total[()]
        if isinstance(request, Pause):  # there is one block only
            return None
        if isinstance(request, Batch):
            ((_, answer),) = answer_batches([(self.stepper, request)])
            return answer
        raise TypeError(f"block {self.block.index} yielded {request!r}, which mpi cannot answer")

    def _post(self, step: int, request: Post) -> None:
        """Send what is here; what lies on the device may have to be made yet, or copied here."""
        if self.block.device.name == "cpu":
            for edge, message in request.messages.items():
                self.links[edge].send(step, request.phase, message)
            return
        away: dict[Edge, DeviceMessage] = {}
        for edge, message in request.messages.items():
            if isinstance(message, DeviceMessage) and isinstance(self.links[edge], Link):
                away[edge] = checked_message(edge, message)
            else:
                self.links[edge].send(step, request.phase, message)
        if away:
            if not self.direct:
                self.block.device.stage(away.values())
            self.leaving.append((step, request.phase, away))

    def _send_leaving(self) -> None:
        """Send what was made on the device, as soon as it is."""
        for step, phase, away in self.leaving:
            for edge, message in away.items():
                ready: Any = message if self.direct else message.on_host()
                self.links[edge].send(step, phase, ready)
        self.leaving.clear()

    def close(self) -> None:
        """End all communication."""
        for link in self.links.values():
            link.close()


def transport(comm: MPI.Comm, job: Job) -> tuple[bool, str]:
    """Whether messages travel from device to device without the host, and why or why not."""
    if job.device == "cpu" or job.gpu_aware != "auto":
        return job.gpu_aware == "on", "asked for"
    answers = comm.allgather(gpu_aware(comm))
    return min(answers, key=lambda answer: answer[0])


def run(job: Job, report: Report, watcher: Watcher) -> int:
    """Run a job on all ranks of COMM_WORLD; rank 0 reports the outcome.

    Returns the exit status: the report's on rank 0, else 0.
    """
    comm = MPI.COMM_WORLD.Dup()
    if comm.size != job.layout.pes:
        raise RunError(f"asked for {job.layout.pes} ranks, started on {comm.size}")
    crc = zlib.crc32(repr((job.problem, job.layout, job.phases())).encode())
    if comm.allreduce(crc, MPI.MIN) != comm.allreduce(crc, MPI.MAX):
        raise RunError("the ranks were started with different problems")
    job.take_device(comm.Split_type(MPI.COMM_TYPE_SHARED).rank)
    jit_s = job.compile()
    engine = Engine(comm, job)
    engine.setup()
    log, done = PELog(comm.rank), 0
    for start, end in job.phases():
        engine.block.device.synchronize()
        comm.Barrier()
        log.start()
        for number, (step, count) in enumerate(job.rounds(start, end)):
            watcher.beat(comm.rank, step)
            finished = engine.round(step, count)
            log.add(comm.rank, number, engine.stepper)
            job.keep_frame(comm.rank, step, step + count, engine.block)
            done = step + count
            if finished and start == job.warmup:
                break
        comm.Barrier()
    engine.close()
    watcher.finish(comm.rank)
    store_in_turn(comm, job, engine.block)
    parts = comm.gather(Part.of([engine.block], log, jit_s))
    if parts is None:
        return 0
    library = MPI.Get_library_version().splitlines()[0].strip()
    path = ("gpu-aware" if engine.direct else "staged"), engine.why
    return report(joined(job, parts, done, {"mpi": library}, path))


def store_in_turn(comm: MPI.Comm, job: Job, block: Any) -> None:
    """Write the final state, one rank after the other, so that no rank ever holds all of it."""
    if job.store is None:
        return
    if comm.rank == 0:
        job.store.create(block.state())
    else:
        comm.recv(source=comm.rank - 1)
    job.store.write(block.state())
    if comm.rank + 1 < comm.size:
        comm.send(None, comm.rank + 1)
    comm.Barrier()


def fail(status: int) -> None:
    """End all ranks, once rank 0 has said what all of them found and the launcher has passed it on.

    An Abort at once would now and then take the launcher down with that line unread in its pipe.
    """
    sleep(0.5 if MPI.COMM_WORLD.rank else 0.2)
    MPI.COMM_WORLD.Abort(status)
