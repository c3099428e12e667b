"""The mpi driver: one block per rank, non-blocking messages from buffer to buffer.

Every edge of a block is a `Link`: a receive that always stands, so that a message finds its buffer
even while this rank computes, and sends that nobody waits for until their buffer must be reused.
A message is one buffer, a header of 64 bytes and the array as it lies in memory: nothing is
pickled and, where the block used `packed`, nothing is copied.
"""

from __future__ import annotations

import struct
import zlib
from time import sleep
from typing import Any

import numpy as np
from mpi4py import MPI

from drivers.job import Job, RunError, Watcher
from drivers.outcome import Part, Report, joined
from drivers.timing import PELog, Stepper
from miniapps.block import (
    HEADER_BYTES,
    AllReduce,
    Collect,
    Edge,
    MessageError,
    Peer,
    Post,
    checked_message,
    is_packed,
    packed,
)

# step, bytes, phase (CRC-32), sender's rank, axes, dtype, shape
HEAD = struct.Struct("<qqIiB7s4q")
assert HEAD.size <= HEADER_BYTES
OPS = {"sum": MPI.SUM, "min": MPI.MIN, "max": MPI.MAX}
FIRST_CAPACITY = 4096
SENDS_IN_FLIGHT = 2


def tag_of(edge: Edge) -> int:
    """A tag for an edge of up to three axes, each -16..15; below the 2^15 that MPI guarantees."""
    tag = 0
    for place in edge:
        tag = tag * 32 + place + 16
    return tag


def with_header_room(message: np.ndarray) -> np.ndarray:
    """The bytes of a message and of the header in front of it; a copy unless it was `packed`."""
    buffer = message.base if is_packed(message) else packed(message).base
    assert buffer is not None
    return buffer


class Link:
    """One edge of this rank's block: the messages to and from the neighbour there.

    The standing receive has room for the longest message so far on this edge. Both ends know that
    length without asking, so a longer message travels as two: what fits, and the rest.
    """

    def __init__(self, comm: MPI.Comm, edge: Edge, peer: Peer, rank: int) -> None:
        self.comm, self.edge, self.rank = comm, edge, rank
        self.send_tag, self.receive_tag = tag_of(peer.edge), tag_of(edge)
        self.send_capacity = FIRST_CAPACITY
        self.sending: list[tuple[MPI.Request, np.ndarray]] = []
        # Two buffers: the block may use one message until it collects the next.
        self.buffers = [np.empty(FIRST_CAPACITY, np.uint8) for _ in range(2)]
        self._stand()

    def _stand(self) -> None:
        """Post the receive of the next message into the buffer that the block is done with."""
        self.buffers.reverse()
        self.request = self.comm.Irecv(self.buffers[0], self.rank, self.receive_tag)

    def send(self, step: int, phase: str, array: np.ndarray) -> None:
        """Send an array that the block has given away."""
        message = checked_message(self.edge, array)
        buffer = with_header_room(message)
        shape = message.shape + (0,) * (4 - message.ndim)
        head = step, message.nbytes, zlib.crc32(phase.encode()), self.comm.rank, message.ndim
        HEAD.pack_into(buffer.data, 0, *head, message.dtype.str.encode(), *shape)
        while len(self.sending) >= SENDS_IN_FLIGHT:
            self.sending.pop(0)[0].Wait()
        fits = self.send_capacity
        self._isend(buffer[:fits])
        if buffer.nbytes > fits:
            self._isend(buffer[fits:])
            self.send_capacity = buffer.nbytes

    def _isend(self, part: np.ndarray) -> None:
        self.sending.append((self.comm.Isend(part, self.rank, self.send_tag), part))

    def receive(self, step: int, phase: str) -> np.ndarray:
        """Wait for the next message on this edge, which must be the one of this step and phase."""
        self.request.Wait()
        buffer = self.buffers[0]
        came, nbytes, phase_crc, sender, ndim, dtype, *shape = HEAD.unpack_from(buffer.data)
        if (came, phase_crc, sender) != (step, zlib.crc32(phase.encode()), self.rank):
            raise MessageError(
                f"edge {self.edge}: waited for step {step}, phase {phase!r} from rank {self.rank};"
                f" got step {came}, phase CRC {phase_crc:#x} from rank {sender}"
            )
        if HEADER_BYTES + nbytes > buffer.nbytes:
            buffer = self._longer(HEADER_BYTES + nbytes)
        self._stand()
        body = buffer[HEADER_BYTES : HEADER_BYTES + nbytes]
        return body.view(dtype.rstrip(b"\0").decode()).reshape(shape[:ndim])

    def _longer(self, nbytes: int) -> np.ndarray:
        """Make room for a message that outgrew its buffer, and receive the rest of it."""
        begun = self.buffers[0]
        self.buffers = [np.empty(nbytes, np.uint8) for _ in range(2)]
        buffer = self.buffers[0]
        buffer[: begun.nbytes] = begun
        self.comm.Recv(buffer[begun.nbytes :], self.rank, self.receive_tag)
        return buffer

    def close(self) -> None:
        """Finish the sends and withdraw the standing receive; raises where a message has come."""
        for request, _ in self.sending:
            request.Wait()
        if self.request.Test():
            raise MessageError(f"edge {self.edge}: a message that nobody collected")
        self.request.Cancel()
        status = MPI.Status()
        self.request.Wait(status)
        if not status.Is_cancelled():
            raise MessageError(f"edge {self.edge}: a message that nobody collected")


class Engine:
    """The block of one rank and its links."""

    def __init__(self, comm: MPI.Comm, job: Job) -> None:
        self.comm = comm
        self.block = job.build(job.layout.indices()[comm.rank])
        self.stepper = Stepper(self.block)
        self.links = {
            edge: Link(comm, edge, peer, job.layout.pe(peer.block))
            for edge, peer in self.block.neighbors.items()
        }

    def round(self, step: int, count: int) -> bool:
        """Advance the block ``count`` steps; True where it says that the run is finished."""
        request = self.stepper.start(count)
        while request is not None:
            request = self.stepper.resume(self._answer(step, request))
        return self.stepper.finished

    def _answer(self, step: int, request: Any) -> Any:
        """Do what the block asks for."""
        if isinstance(request, Post):
            for edge, array in request.messages.items():
                self.links[edge].send(step, request.phase, array)
            return None
        if isinstance(request, Collect):
            return {edge: self.links[edge].receive(step, request.phase) for edge in request.edges}
        if isinstance(request, AllReduce):
            total = np.array(request.value)
            self.comm.Allreduce(MPI.IN_PLACE, total, OPS[request.op])
            return total[()]
        raise TypeError(f"block {self.block.index} yielded {request!r}, which is no request")

    def close(self) -> None:
        """End all communication."""
        for link in self.links.values():
            link.close()


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
    jit_s = job.compile()
    engine = Engine(comm, job)
    log, done = PELog(comm.rank), 0
    for start, end in job.phases():
        comm.Barrier()
        log.start()
        for number, (step, count) in enumerate(job.rounds(start, end)):
            watcher.beat(comm.rank, step)
            finished = engine.round(step, count)
            log.add(comm.rank, number, engine.stepper)
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
    return report(joined(job, parts, done, {"mpi": library}))


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
    """End all ranks at once; rank 0 first has the time to say what all of them found."""
    if MPI.COMM_WORLD.rank:
        sleep(0.5)
    MPI.COMM_WORLD.Abort(status)
