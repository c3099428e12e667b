"""The mpi driver: one block per rank, non-blocking messages from buffer to buffer.

Every edge of a block to another rank has a link (`drivers.mpi.links`) with a receive that is always
posted, so that a message finds its buffer even while this rank computes, and non-blocking sends.
Nothing is pickled and, if the block used `packed`, nothing is copied. Messages on a GPU are copied
to the host while the block continues, and sent when it waits; a GPU-aware MPI sends them directly
from device memory.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from time import sleep
from typing import Any

import numpy as np
from mpi4py import MPI

from drivers.audits import Auditor
from drivers.engine import Engine, Runner, Transport, run_phases, write_state
from drivers.job import Job, RunError, Watcher
from drivers.mpi import RankOptions
from drivers.mpi.gpu_aware import gpu_aware
from drivers.mpi.links import DeviceLink, Link, phase_code
from drivers.outcome import Part, Report, joined
from drivers.reduction import packed_value, result_of
from miniapps.contract import (
    Collect,
    CollectSum,
    Edge,
    Place,
    Post,
    PostSum,
    checked_messages,
)

OPS = {"sum": MPI.SUM, "min": MPI.MIN, "max": MPI.MAX}


class Ranks(Transport):
    """Moves the messages of one rank's block."""

    def __init__(self, comm: MPI.Comm, job: Job[RankOptions]) -> None:
        super().__init__()
        self.comm, self.layout = comm, job.layout
        self.direct, self.why = device_path(comm, job)
        self.links: dict[Edge, Link] = {}  # to other ranks

    def connect(self, runners: dict[Place, Runner]) -> None:
        """Post the receives from the neighbours on other ranks."""
        super().connect(runners)
        (runner,) = runners.values()
        for edge, peer in runner.block.neighbors.items():
            rank = self.layout.home(*peer.place)
            if rank == self.comm.rank:
                continue
            if self.direct:
                device = runner.block.device
                self.links[edge] = DeviceLink(self.comm, edge, peer, rank, device)
            else:
                self.links[edge] = Link(self.comm, edge, peer, rank)

    def post(self, runner: Runner, request: Post | PostSum) -> None:
        """Send messages in host memory, and queue messages on the device for `flush`."""
        step, code = runner.inbox.step, phase_code(request.phase, type(request) is PostSum)
        links, neighbors, put = self.links, runner.block.neighbors, runner.inbox.deliver
        staged: list[tuple[Any, Any]] = []
        for edge, message in checked_messages(request).items():
            link = links.get(edge)
            if link is None and type(request) is Post:  # an edge to the block itself
                put(step, request.phase, neighbors[edge][2], runner.place, message)
            elif link is None:
                runner.inbox.add(step, request.phase, (neighbors[edge][2],), message)
            elif isinstance(message, np.ndarray):
                link.send(step, code, request.messages[edge])  # with space for the header
            else:
                staged.append((link, message))
        if staged:
            runner.stage(request, staged, not self.direct)

    def flush(self, runner: Runner) -> None:
        """Send the queued messages; waits until the device has finished them."""
        for departure in runner.departures():
            code = phase_code(departure.phase, departure.summed)
            messages = departure.messages if self.direct else departure.on_host()
            for link, message in messages:
                link.send(departure.step, code, message)

    def collect(self, runner: Runner, request: Collect | CollectSum) -> Any:
        """Wait for the messages that the block collects; returns the answer to its request."""
        links, inbox = self.links, runner.inbox
        if not links:
            return super().collect(runner, request)
        step, phase, summed = inbox.step, request.phase, type(request) is CollectSum
        code = phase_code(phase, summed)
        if summed:
            for edge in request.edges:
                if edge in links:
                    inbox.add(step, phase, (edge,), links[edge].receive(step, code))
            return super().collect(runner, request)
        own = [edge for edge in request.edges if edge not in links]
        mine = inbox.take(Collect(phase, tuple(own))) if own else {}
        if mine is None:
            return None
        return {e: mine[e] if e in mine else links[e].receive(step, code) for e in request.edges}

    def missing(self, runner: Runner) -> list[Edge] | None:
        """The edge on which this rank waits in MPI; None if all edges lead to the block itself."""
        return [edge for edge, link in self.links.items() if link.waits] if self.links else None

    def begin(self) -> None:
        """Begin a round. Raises MessageError if the block has not collected a message."""
        for link in self.links.values():
            link.advance()

    def all_reduce(self, value: Any, op: str) -> Any:
        """Combine the values of all ranks."""
        total = packed_value(value, op)
        self.comm.Allreduce(MPI.IN_PLACE, total, OPS[op])
        return result_of(total, value, op)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.comm.Barrier()

    def close(self) -> None:
        """End all communication."""
        for link in self.links.values():
            link.close()


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
    comm = MPI.COMM_WORLD.Dup()
    if comm.size != job.layout.pes:
        raise RunError(f"asked for {job.layout.pes} ranks, started on {comm.size}")
    crc = zlib.crc32(repr((job.problem, job.layout, job.phases())).encode())
    if comm.allreduce(crc, MPI.MIN) != comm.allreduce(crc, MPI.MAX):
        raise RunError("the ranks were started with different problems")
    job = replace(job, audit=comm.bcast(job.audit))  # each rank may have drawn a seed
    job.take_device(comm.Split_type(MPI.COMM_TYPE_SHARED).rank)
    jit_s = job.compile()
    transport = Ranks(comm, job)
    block = job.build(job.layout.indices()[comm.rank])
    engine = Engine([block], job.traced, transport, Auditor.of(job))
    log, done = run_phases(job, engine, comm.rank, watcher)
    store_in_turn(comm, job, block)
    parts = comm.gather(Part.of(job, engine.runners.values(), log, jit_s))
    if parts is None:
        return 0
    library = MPI.Get_library_version().splitlines()[0].strip()
    path = ("gpu-aware" if transport.direct else "staged"), transport.why
    return report(joined(job, parts, done, {"mpi": library}, path))


def store_in_turn(comm: MPI.Comm, job: Job, block: Any) -> None:
    """Write the final state, one rank after the other, so that no rank holds all of it."""
    if job.store is None:
        return
    created = bool(comm.rank) and comm.recv(source=comm.rank - 1)
    created = write_state(job.store, [block], created)
    if comm.rank + 1 < comm.size:
        comm.send(created, comm.rank + 1)
    comm.Barrier()


def fail(status: int) -> None:
    """End all ranks, after a delay in which rank 0 prints the error and the launcher forwards it.

    An immediate Abort would sometimes end the launcher before it has read that line.
    """
    sleep(0.5 if MPI.COMM_WORLD.rank else 0.2)
    MPI.COMM_WORLD.Abort(status)
