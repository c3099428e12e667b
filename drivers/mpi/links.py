"""The edges of an mpi rank's block, and what travels on them.

A message is one buffer: a header of 64 bytes and the array as it lies in memory.
"""

from __future__ import annotations

import math
import struct
import zlib
from functools import cache, lru_cache
from typing import Any

import numpy as np
from mpi4py import MPI

from devices.messages import HEADER_BYTES, Envelope, packed
from miniapps.contract import Edge, MessageError, Peer, checked_message

HEAD = struct.Struct("<q56s")  # step, and what is the same for many messages
KIND = struct.Struct("<qIiB7s4q")  # bytes, phase (CRC-32), sender's rank, axes, dtype, shape
assert (HEAD.size, KIND.size) == (HEADER_BYTES, 56)
FIRST_CAPACITY = 4096
NO_AXES = (0, 0, 0, 0)
SENDS_IN_FLIGHT = 2


def tag_of(edge: Edge) -> int:
    """A tag for an edge of up to three axes, each -16..15; below the 2^15 that MPI guarantees."""
    tag = 0
    for place in edge:
        tag = tag * 32 + place + 16
    return tag


@cache
def phase_code(phase: str) -> int:
    """What a header says of a phase."""
    return zlib.crc32(phase.encode())


@lru_cache(1024)
def kind_of(phase: str, rank: int, shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """What a header says of a message but for its step."""
    nbytes, axes = math.prod(shape) * dtype.itemsize, len(shape)
    padded = shape + NO_AXES[axes:]
    return KIND.pack(nbytes, phase_code(phase), rank, axes, dtype.str.encode(), *padded)


@lru_cache(1024)
def read_kind(kind: bytes) -> tuple[int, int, int, tuple[int, ...], np.dtype]:
    """Of a `kind_of`: the phase's code, the sender's rank, the bytes, the shape, the data type."""
    nbytes, crc, rank, axes, dtype, *shape = KIND.unpack(kind)
    return crc, rank, nbytes, tuple(shape[:axes]), np.dtype(dtype.rstrip(b"\0").decode())


def enveloped(array: np.ndarray) -> np.ndarray:
    """The bytes of a message and of the header in front of it; a copy unless it was `packed`."""
    envelope = array.base if type(array.base) is Envelope else packed(array).base
    assert envelope is not None
    return envelope


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
        checked_message(self.edge, array)
        buffer = enveloped(array)
        self._write_head(buffer, step, phase, array)
        while len(self.sending) >= SENDS_IN_FLIGHT:
            self.sending.pop(0)[0].Wait()
        fits = self.send_capacity
        if buffer.nbytes <= fits:
            self._isend(buffer)
        else:
            self._isend(buffer[:fits])
            self._isend(buffer[fits:])
            self.send_capacity = buffer.nbytes

    def _write_head(self, buffer: np.ndarray, step: int, phase: str, message: Any) -> None:
        """Say in a buffer's header which message comes behind it."""
        kind = kind_of(phase, self.comm.rank, message.shape, message.dtype)
        HEAD.pack_into(buffer.data, 0, step, kind)

    def _read_head(self, step: int, phase: str) -> tuple[int, tuple[int, ...], np.dtype]:
        """Bytes, shape and data type of the message that came, which must be the one waited for."""
        came, kind = HEAD.unpack_from(self.buffers[0].data)
        crc, sender, nbytes, shape, dtype = read_kind(kind)
        if (came, crc, sender) != (step, phase_code(phase), self.rank):
            raise MessageError(
                f"edge {self.edge}: waited for step {step}, phase {phase!r} from rank {self.rank};"
                f" got step {came}, phase CRC {crc:#x} from rank {sender}"
            )
        return nbytes, shape, dtype

    def _isend(self, part: Any) -> None:
        self.sending.append((self.comm.Isend(part, self.rank, self.send_tag), part))

    def receive(self, step: int, phase: str) -> Any:
        """Wait for the next message on this edge, which must be the one of this step and phase."""
        self.request.Wait()
        buffer = self.buffers[0]
        nbytes, shape, dtype = self._read_head(step, phase)
        if HEADER_BYTES + nbytes > buffer.nbytes:
            buffer = self._longer(HEADER_BYTES + nbytes)
        self._stand()
        return np.ndarray(shape, dtype, buffer, HEADER_BYTES)

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


class DeviceLink(Link):
    """An edge whose messages travel from one device's memory to another's.

    A header cannot be written there without a copy, so it goes first, by itself.
    """

    def __init__(self, comm: MPI.Comm, edge: Edge, peer: Peer, rank: int, device: Any) -> None:
        super().__init__(comm, edge, peer, rank)
        self.device = device

    def send(self, step: int, phase: str, array: Any) -> None:
        """Send a message, once all kernels that write it are done."""
        head = np.empty(HEADER_BYTES, np.uint8)
        self._write_head(head, step, phase, array)
        while len(self.sending) >= 2 * SENDS_IN_FLIGHT:
            self.sending.pop(0)[0].Wait()
        self._isend(head)
        self._isend(array.in_place())

    def receive(self, step: int, phase: str) -> Any:
        """Wait for the next message on this edge; it is put where kernels find it."""
        self.request.Wait()
        _, shape, dtype = self._read_head(step, phase)
        message = self.device.room(self.edge, shape, dtype)
        self.comm.Recv(message.in_place(), self.rank, self.receive_tag)
        self._stand()
        return message


class SelfLink:
    """An edge that leads back to the block itself, on a periodic axis with one block."""

    def __init__(self, links: dict[Edge, Any], edge: Edge, peer: Peer) -> None:
        self.links, self.edge, self.peer = links, edge, peer
        self.waiting: list[tuple[int, str, np.ndarray]] = []

    def send(self, step: int, phase: str, array: np.ndarray) -> None:
        """Hand an array over to the edge by which the block sees it come."""
        message = step, phase, checked_message(self.edge, array)
        self.links[self.peer.edge].waiting.append(message)

    def receive(self, step: int, phase: str) -> np.ndarray:
        """The next message on this edge, which must be there, and of this step and phase."""
        came, of, array = self.waiting.pop(0) if self.waiting else (None, None, np.empty(0))
        if (came, of) != (step, phase):
            raise MessageError(
                f"edge {self.edge}: waited for step {step}, phase {phase!r} from this block itself;"
                f" got step {came}, phase {of!r}"
            )
        return array

    def close(self) -> None:
        """Raise where a message has been left."""
        if self.waiting:
            raise MessageError(f"edge {self.edge}: a message that nobody collected")
