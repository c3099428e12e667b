"""The links of an mpi rank's block to other ranks."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

from miniapps.contract import Edge, MessageError, Peer
from miniapps.devices.backend import Buffers
from miniapps.devices.messages import HEADER_BYTES, packed
from miniapps.drivers import gpu_ipc, links
from miniapps.drivers.headers import enveloped
from miniapps.drivers.shared_memory import Handle, Loan, Pools

FIRST_CAPACITY = 4096
MOST_BYTES = 1 << 30  # of a part of a message: MPI counts in 32 bits
HANDLE_TYPE = np.dtype("V1")  # of no other message
TESTED_SENDS = 2  # if this many are pending on an edge, test which of them are complete


def parts(message: Any, begin: int, end: int) -> Iterator[Any]:
    """The bytes of a message from ``begin`` to ``end``, as MPI takes them, part by part."""
    for first in range(begin, end, MOST_BYTES):
        yield [message, (min(MOST_BYTES, end - first), first), MPI.BYTE]


class Receive(NamedTuple):
    """A persistent receive: MPI reads its arguments once, however often it is started."""

    buffer: np.ndarray
    memory: memoryview  # of what is posted: the buffer's first part
    request: MPI.Prequest


class Link(links.Link):
    """One edge of this rank's block: the messages to and from the neighbour there.

    The posted receive has the size of the longest message so far on this edge, and `MOST_BYTES` at
    most. Both ends know that size without a handshake, so a longer message is sent in parts: what
    fits, and the rest.
    """

    def __init__(
        self, comm: MPI.Comm, edge: Edge, peer: Peer, rank: int, kinds: tuple[int, int] = (0, 0)
    ) -> None:
        super().__init__(comm.rank, edge, peer, rank, kinds)
        self.comm = comm
        self.send_capacity = FIRST_CAPACITY
        self.sending: deque[tuple[MPI.Request, np.ndarray]] = deque()
        # Two receives: the block may use the buffer of one until it collects the next message.
        self.receives = [self._receive_of(FIRST_CAPACITY) for _ in range(2)]
        self._stand()

    def _receive_of(self, nbytes: int) -> Receive:
        """A receive with a buffer of its own, not posted yet."""
        buffer = np.empty(nbytes, np.uint8)
        posted = buffer[:MOST_BYTES]
        request = self.comm.Recv_init(posted, self.rank, self.receive_tag)
        return Receive(buffer, posted.data, request)

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
            for part in parts(buffer, fits, buffer.nbytes):
                self._isend(part)
            self.send_capacity = min(buffer.nbytes, MOST_BYTES)

    def _isend(self, part: Any) -> None:
        self.sending.append((self.comm.Isend(part, self.rank, self.send_tag), part))

    def ready(self) -> bool:
        """Whether the posted receive has completed."""
        return self.receives[0].request.Test()

    def arrived(self) -> memoryview:
        """Wait for the next message, or its first part; returns what was posted for it."""
        _, memory, request = self.receives[0]
        request.Wait()
        return memory

    def _body(self, nbytes: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """The whole message that has arrived; also posts the receive of the next one."""
        buffer, posted, _ = self.receives[0]
        if HEADER_BYTES + nbytes > posted.nbytes:
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
        """Receive the rest of a message of which a part came; enlarges the buffers if need be."""
        buffer, begun, _ = self.receives[0]
        if nbytes > buffer.nbytes:
            for receive in self.receives:
                receive.request.Free()
            self.receives = [self._receive_of(nbytes) for _ in range(2)]
            buffer = self.receives[0].buffer
            buffer[: begun.nbytes] = begun
        for part in parts(buffer, begun.nbytes, nbytes):
            self.comm.Recv(part, self.rank, self.receive_tag)
        return buffer

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


class SharedLink(gpu_ipc.SharedLink, Link):
    """An edge to a rank on the same GPU."""


class HostLink(Link):
    """An edge to a rank of the same host; long messages lie in memory that both share."""

    def __init__(self, pools: Pools, *of_link: Any) -> None:
        super().__init__(*of_link)
        self.pools = pools
        if self.rank in pools.readers:
            self.allocate = pools.allocate

    def send(self, step: int, code: int, array: np.ndarray) -> None:
        """Send where a message lies; the message if it is short, or if the pool is full."""
        handle = None if array.nbytes < self.pools.least else self.pools.lend(array, self.rank)
        if handle is not None:
            array = packed(np.frombuffer(pickle.dumps(tuple(handle)), HANDLE_TYPE))
        super().send(step, code, array)

    def _body(self, nbytes: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """The message that has arrived: of a handle, where its sender packed it."""
        body = super()._body(nbytes, shape, dtype)
        return self.pools.borrow(Handle(*pickle.loads(body))) if dtype == HANDLE_TYPE else body

    def _kept(self, message: Any) -> Any:
        """An early message; memory that is shared is not overwritten."""
        return message if type(message.base) is Loan else super()._kept(message)


class DeviceLink(Link):
    """An edge whose messages travel from one device's memory to another's.

    A header cannot be written there without a copy, so it is sent first, in a message of its own.
    """

    takes_device = True

    def __init__(self, device: Buffers, *of_link: Any) -> None:
        super().__init__(*of_link)
        self.device = device

    def send(self, step: int, code: int, array: Any) -> None:
        """Send a message, once all kernels that write it are done.

        Raises MessageError for one in host memory: the receiver expects memory of its device.
        """
        if isinstance(array, np.ndarray):
            raise MessageError(
                f"edge {self.edge}: with GPU-aware MPI, a message must be in device memory; "
                "--gpu-aware off takes both"
            )
        head = np.empty(HEADER_BYTES, np.uint8)
        self._write_head(head, step, code, array)
        while len(self.sending) >= TESTED_SENDS and self.sending[0][0].Test():
            self.sending.popleft()
        self._isend(head)
        for part in parts(array.in_place(), 0, array.nbytes):
            self._isend(part)

    def _body(self, nbytes: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """Receive the message that follows the header, into device memory that kernels use."""
        message = self.device.room(self.edge, shape, dtype)
        for part in parts(message.in_place(), 0, nbytes):
            self.comm.Recv(part, self.rank, self.receive_tag)
        self._stand()
        return message

    def _kept(self, message: Any) -> Any:
        """A copy on the host, because the memory on the device will be reused."""
        self.device.stage([message])
        return message.on_host()
