"""The links of an mpi rank's block to other ranks, and the format of messages.

A message is one buffer: a header of 64 bytes followed by the bytes of the array.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections import deque
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

from devices.backend import Buffers
from devices.messages import HEADER_BYTES, Envelope, packed
from miniapps.contract import Edge, MessageError, Peer

HEAD = struct.Struct("<q56s")  # step, then the part that many messages share
KIND = struct.Struct("<qIiB7s4q")  # bytes, phase (CRC-32), sender's rank, axes, dtype, shape
assert (HEAD.size, KIND.size) == (HEADER_BYTES, 56)
FIRST_CAPACITY = 4096
NO_AXES = (0, 0, 0, 0)
TESTED_SENDS = 2  # if this many are pending on an edge, test which of them are complete


def tag_of(edge: Edge) -> int:
    """A tag for an edge of up to three axes, each -16..15; below the 2^15 that MPI guarantees."""
    tag = 0
    for offset in edge:
        tag = tag * 32 + offset + 16
    return tag


@cache
def phase_code(phase: str, summed: bool) -> int:
    """The code of a phase in a header; ``summed``: for messages of a PostSum."""
    return zlib.crc32(phase.encode(), int(summed))


@lru_cache(1024)
def kind_of(code: int, rank: int, shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """The header of a message without its step."""
    nbytes, axes = math.prod(shape) * dtype.itemsize, len(shape)
    padded = shape + NO_AXES[axes:]
    return KIND.pack(nbytes, code, rank, axes, dtype.str.encode(), *padded)


@lru_cache(1024)
def read_kind(kind: bytes) -> tuple[int, int, int, tuple[int, ...], np.dtype]:
    """Decode a `kind_of`: phase code, sender's rank, number of bytes, shape, data type."""
    nbytes, crc, rank, axes, dtype, *shape = KIND.unpack(kind)
    return crc, rank, nbytes, tuple(shape[:axes]), np.dtype(dtype.rstrip(b"\0").decode())


def enveloped(array: np.ndarray) -> np.ndarray:
    """A buffer with a message and space for its header; a copy unless it was `packed`."""
    envelope = array.base if type(array.base) is Envelope else packed(array).base
    assert envelope is not None
    return envelope


Message = tuple[int, int]  # identifies a message on an edge: step and phase code


class Receive(NamedTuple):
    """A persistent receive: MPI reads its arguments once, however often it is started."""

    buffer: np.ndarray
    memory: memoryview  # of the buffer
    request: MPI.Prequest


class Link:
    """One edge of this rank's block: the messages to and from the neighbour there.

    The posted receive has the size of the longest message so far on this edge. Both ends know that
    size without a handshake, so a longer message is sent in two parts: what fits, and the rest.
    """

    def __init__(self, comm: MPI.Comm, edge: Edge, peer: Peer, rank: int) -> None:
        self.comm, self.edge, self.rank = comm, edge, rank
        self.send_tag, self.receive_tag = tag_of(peer.edge), tag_of(edge)
        self.send_capacity = FIRST_CAPACITY
        self.sending: deque[tuple[MPI.Request, np.ndarray]] = deque()
        self.waits = False  # in `receive`; read by another thread
        self.early: dict[Message, Any] = {}  # came before the block asked for them
        # Two receives: the block may use the buffer of one until it collects the next message.
        self.receives = [self._receive_of(FIRST_CAPACITY) for _ in range(2)]
        self._stand()

    def _receive_of(self, nbytes: int) -> Receive:
        """A receive with a buffer of its own, not posted yet."""
        buffer = np.empty(nbytes, np.uint8)
        request = self.comm.Recv_init(buffer, self.rank, self.receive_tag)
        return Receive(buffer, buffer.data, request)

    def _stand(self) -> None:
        """Post the receive of the next message into the buffer that the block no longer uses."""
        self.receives.reverse()
        self.receives[0].request.Start()

    def send(self, step: int, code: int, array: np.ndarray) -> None:
        """Send an array, which the block must not use any more."""
        buffer = enveloped(array)
        self._write_head(buffer, step, code, array)
        while len(self.sending) >= TESTED_SENDS and self.sending[0][0].Test():
            self.sending.popleft()
        fits = self.send_capacity
        if buffer.nbytes <= fits:
            self._isend(buffer)
        else:
            self._isend(buffer[:fits])
            self._isend(buffer[fits:])
            self.send_capacity = buffer.nbytes

    def _write_head(self, buffer: np.ndarray, step: int, code: int, message: Any) -> None:
        """Write the header of the message that follows it in the buffer."""
        kind = kind_of(code, self.comm.rank, message.shape, message.dtype)
        HEAD.pack_into(buffer.data, 0, step, kind)

    def _isend(self, part: Any) -> None:
        self.sending.append((self.comm.Isend(part, self.rank, self.send_tag), part))

    def receive(self, step: int, code: int) -> Any:
        """Wait for this edge's message of a step and phase; keeps other messages that come first.

        Raises MessageError if the neighbour has moved on to another step without posting it.
        """
        wanted = step, code
        while wanted not in self.early:
            _, memory, request = self.receives[0]
            self.waits = True
            request.Wait()
            self.waits = False
            came, kind = HEAD.unpack_from(memory)
            crc, sender, nbytes, shape, dtype = read_kind(kind)
            if sender != self.rank or came != step:
                self._refuse(step, came, sender)
            if crc == code:
                return self._body(nbytes, shape, dtype)
            if (came, crc) in self.early:
                raise MessageError(f"edge {self.edge}: a message of step {step} arrived twice")
            self.early[came, crc] = self._kept(self._body(nbytes, shape, dtype))
        return self.early.pop(wanted)

    def _refuse(self, step: int, came: int, sender: int) -> None:
        """Raise MessageError for a message that must not arrive before the expected one."""
        what = "never collected" if came < step else "another one must have come before it"
        raise MessageError(
            f"edge {self.edge}, step {step}: a message of step {came} from rank {sender}: {what}"
        )

    def _body(self, nbytes: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """The whole message that has arrived; also posts the receive of the next one."""
        buffer = self.receives[0].buffer
        if HEADER_BYTES + nbytes > buffer.nbytes:
            buffer = self._longer(HEADER_BYTES + nbytes)
        self._stand()
        return np.ndarray(shape, dtype, buffer, HEADER_BYTES)

    def _kept(self, message: Any) -> Any:
        """An early message, whose buffer is replaced so that no receive overwrites it."""
        buffer, _, request = self.receives[1]
        request.Free()
        self.receives[1] = self._receive_of(buffer.nbytes)
        return message

    def _longer(self, nbytes: int) -> np.ndarray:
        """Enlarge the buffers for a message that did not fit, and receive the rest of it."""
        begun = self.receives[0].buffer
        for receive in self.receives:
            receive.request.Free()
        self.receives = [self._receive_of(nbytes) for _ in range(2)]
        buffer = self.receives[0].buffer
        buffer[: begun.nbytes] = begun
        self.comm.Recv(buffer[begun.nbytes :], self.rank, self.receive_tag)
        return buffer

    def advance(self) -> None:
        """Begin a round. Raises MessageError if the block has not collected a message."""
        if self.early:
            step = min(self.early)[0]
            raise MessageError(f"edge {self.edge}: a message of step {step}: never collected")

    def close(self) -> None:
        """Finish the sends and cancel the posted receive. Raises MessageError if one is left."""
        self.advance()
        posted = self.receives[0].request
        if posted.Test():
            raise MessageError(f"edge {self.edge}: a message that was never collected")
        for request, _ in self.sending:
            request.Wait()
        posted.Cancel()
        status = MPI.Status()
        posted.Wait(status)
        if not status.Is_cancelled():
            raise MessageError(f"edge {self.edge}: a message that was never collected")
        for receive in self.receives:
            receive.request.Free()


class DeviceLink(Link):
    """An edge whose messages travel from one device's memory to another's.

    A header cannot be written there without a copy, so it is sent first, in a message of its own.
    """

    def __init__(self, comm: MPI.Comm, edge: Edge, peer: Peer, rank: int, device: Buffers) -> None:
        super().__init__(comm, edge, peer, rank)
        self.device = device

    def send(self, step: int, code: int, array: Any) -> None:
        """Send a message, once all kernels that write it are done."""
        head = np.empty(HEADER_BYTES, np.uint8)
        self._write_head(head, step, code, array)
        while len(self.sending) >= TESTED_SENDS and self.sending[0][0].Test():
            self.sending.popleft()
        self._isend(head)
        self._isend(array.in_place())

    def _body(self, nbytes: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Receive the message that follows the header, into device memory that kernels use."""
        message = self.device.room(self.edge, shape, dtype)
        self.comm.Recv(message.in_place(), self.rank, self.receive_tag)
        self._stand()
        return message

    def _kept(self, message: Any) -> Any:
        """A copy on the host, because the memory on the device will be reused."""
        self.device.stage([message])
        return message.on_host()
