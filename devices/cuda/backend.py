"""The GPU as a device: a block's streams, and its messages in device memory.

Every block has its own stream, in which its kernels run one after another; no function waits for
them unless its docstring says so. The messages of one Post are in one `MessageBuffer`. One copy
moves them to the host, and one copy moves received messages to the device, in a second stream,
while kernels run in the first.
"""

from __future__ import annotations

import pickle
import sys
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from types import ModuleType
from typing import Any

import numpy as np

from miniapps.devices.backend import Backend, Device, DeviceUnavailable, HostCopy
from miniapps.devices.cuda import memory, streams
from miniapps.devices.cuda.buffers import MessageBuffer, MessageView, Spare, stage
from miniapps.devices.cuda.compiler import declared
from miniapps.devices.cuda.host_copies import begin_all
from miniapps.devices.cuda.moves import Arriving, Borrowing, Leaving, Place, Room
from miniapps.devices.cuda.toolkit import Toolkit, chosen, require, retire


class Slot:
    """A buffer for messages from other processes; two of them alternate."""

    def __init__(self) -> None:
        self.buffer: MessageBuffer | None = None

    def make_room(self, shapes: Mapping[Any, tuple[int, ...]], dtype: Any, stream: Any) -> Any:
        """Allocate a message buffer if the last one has another size or type.

        Returns a mark; the buffer may be written once that is reached.
        """
        buffer = self.buffer
        if buffer is not None and (buffer.shapes, buffer.dtype) == (shapes, dtype):
            return buffer.read
        self.buffer = MessageBuffer(shapes, dtype, stream, None)
        self.buffer.is_reused = True
        return streams.mark(stream)  # until then, kernels may use this memory for freed arrays


class Gpu(Device):
    """A GPU as one block uses it."""

    name = "gpu"
    line = 128
    lag = 64

    def __init__(self, backend: CudaBackend) -> None:
        self.backend, toolkit = backend, backend.toolkit
        self.copies = toolkit.stream()
        self.streams = [self.copies]  # of no other block
        weakref.finalize(self, retire, toolkit.idle, self.streams)
        if backend.one_queue:
            self.stream = toolkit.shared_stream()
        self.staged_bytes, self.spare = 0, Spare()
        self.slots: dict[Any, list[Slot]] = {}  # by edge; None: messages from the host
        self.pinned = memory.PinnedRing(toolkit)  # for these
        self.reading: dict[int, MessageBuffer] = {}  # which kernels here read, by id

    @cached_property
    def stream(self) -> Any:
        """The stream of the block's kernels: its own, unless it shares one."""
        own = self.backend.toolkit.stream()
        self.streams.append(own)
        streams.set_clock(own)
        return own

    @cached_property
    def begin(self) -> Any:  # type: ignore[override]  # called several times per step
        """Return a mark that is recorded as soon as the block's stream gets work."""
        return partial(self.backend.toolkit.begin, self.stream)

    @cached_property
    def mark_after(self) -> Any:  # type: ignore[override]
        """Return a mark after that work, or the same one if there is none."""
        return partial(self.backend.toolkit.mark_after, self.stream)

    def share_queue(self) -> bool:
        """See `Device.share_queue`."""
        self.stream = self.backend.toolkit.shared_stream()
        self.shares_queue = True
        return True

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array on the device, with undefined contents."""
        return memory.empty(shape, dtype, self.stream)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array of zeros on the device."""
        return memory.zeros(shape, dtype, self.stream)

    def zeros_as(self, zeros: np.ndarray) -> Any:
        """Return as many zeros on the device, without a copy."""
        return self.zeros(zeros.shape, zeros.dtype)

    def to_device(self, array: np.ndarray) -> Any:
        """Return a copy on the device; waits for the copy."""
        return memory.to_device(array, self.stream)

    def to_host(self, array: Any) -> np.ndarray:
        """Return a copy of a contiguous array in host memory; waits for all work on it."""
        return memory.to_host(array)

    def to_host_later(self, array: Any) -> HostCopy:
        """See `Memory.to_host_later`."""
        return memory.PinnedArray.begun(array)

    def host_copy(self, array: Any) -> HostCopy:
        """See `Memory.host_copy`."""
        return memory.PinnedCopy(array)

    def begin_copies(self, copies: Sequence[Any]) -> None:
        """See `Memory.begin_copies`."""
        begin_all(copies)

    def leaving(self, array: Any, used: slice = slice(None)) -> Any:
        """See `Memory.leaving`: a copy on the host, unless `CudaBackend.pack` takes it along."""
        if self.backend.leaving is not None:
            return self.backend.leaving.add(array, used)
        return np.ascontiguousarray(self.to_host(array)[..., used])

    def arriving(self, array: Any) -> Any:
        """See `Memory.arriving`."""
        if isinstance(array, Place):
            assert self.backend.arriving is not None, "the block was packed"
            return self.backend.arriving.array(array, self.stream)
        return self.to_device(array)

    # Messages ------------------------------------------------------------------------------------

    def messages(self, shapes: Mapping[Any, tuple[int, ...]], dtype: Any) -> MessageBuffer:
        """Return a message buffer, which kernels fill and a Post sends."""
        return MessageBuffer(shapes, dtype, self.stream, self.spare)

    def stage(self, views: Iterable[Any]) -> None:
        """Begin to copy messages to the host, one copy per message buffer."""
        self.staged_bytes += stage(views, self.copies)

    def received(self, came: Mapping[Any, Any]) -> Mapping[Any, MessageView]:
        """Return by edge message views, which are valid until the next such call."""
        self._end_reading()
        staged = {edge: array for edge, array in came.items() if isinstance(array, np.ndarray)}
        views = {**came, **self._from_host(staged)} if staged else came
        return {edge: view.for_kernels_of(self) for edge, view in views.items()}

    def begin_reading(self, buffer: MessageBuffer) -> None:
        """Let kernels here read a buffer that was received, once it is written."""
        if id(buffer) not in self.reading:
            self.reading[id(buffer)] = buffer
            if buffer.stream is not self.stream:
                streams.wait_for(buffer.ready, self.stream)

    def room(self, edge: Any, shape: tuple[int, ...], dtype: Any) -> MessageView:
        """Return memory for a message that MPI receives there; the next but one call reuses it."""
        slot = self._next_slot(edge)
        streams.reached(slot.make_room({edge: shape}, np.dtype(dtype), self.stream))
        assert slot.buffer is not None
        return slot.buffer[edge]

    def fetch(self, edge: Any, shape: tuple[int, ...], dtype: Any, place: bytes) -> MessageView:
        """See `Buffers.fetch`. The copy is in the block's stream, as all that reads it is."""
        slot, toolkit = self._next_slot(edge), self.backend.toolkit
        slot.make_room({edge: shape}, np.dtype(dtype), self.stream)
        assert slot.buffer is not None
        copy = slot.buffer[edge]
        if copy.nbytes:
            copy.array.copy_to_device(toolkit.share().array(place, copy.array), stream=self.stream)
        slot.buffer.ready = streams.latest(self.stream)
        return copy

    def _next_slot(self, edge: Any) -> Slot:
        """Return the slot whose turn it is."""
        slots = self.slots.setdefault(edge, [Slot(), Slot()])
        slots.reverse()
        return slots[0]

    def _end_reading(self) -> None:
        """Let other streams write received buffers only after kernels here have read them."""
        if not self.reading:
            return
        read = streams.latest(self.stream)
        for buffer in self.reading.values():
            if buffer.stream is not self.stream:
                streams.wait_for(read, buffer.stream)
            buffer.read = read
        self.reading.clear()

    def _from_host(self, staged: Mapping[Any, np.ndarray]) -> Mapping[Any, MessageView]:
        """Copy messages to the device by one copy in the second stream."""
        slot = self._next_slot(None)
        dtype, *others = {array.dtype for array in staged.values()}
        if others:
            raise ValueError(f"messages of one Collect are {dtype} and {others[0]}: one type only")
        shapes = {edge: array.shape for edge, array in staged.items()}
        streams.wait_for(slot.make_room(shapes, dtype, self.stream), self.copies)
        buffer = slot.buffer
        assert buffer is not None
        host = self.pinned.take(buffer.nbytes).view(dtype)
        for edge, array in staged.items():
            start = buffer.starts[edge]
            host[start : start + array.size] = array.reshape(-1)
        if buffer.nbytes:
            buffer.flat.copy_to_device(host, stream=self.copies)
        buffer.ready = streams.mark(self.copies)
        self.pinned.give(buffer.ready)
        streams.wait_for(buffer.ready, self.stream)
        self.staged_bytes += buffer.nbytes
        return buffer

    # Time ----------------------------------------------------------------------------------------

    def mark(self) -> Any:  # type: ignore[override]
        """Record an event in the block's stream."""
        return streams.mark(self.stream, timed=True)

    def seconds(self, first: Any, last: Any) -> float:
        """Return the time between two marks; waits until the second one is reached."""
        return streams.seconds(first, last)

    def read(self, spans: Sequence[tuple[Any, Any, float]]) -> tuple[float, float, float]:
        """See `Clock.read`."""
        (*_, (_, last, _)) = spans
        last.synchronize()  # and so all marks before it are reached
        time_of, stream, compute_s = streams.time_of, self.stream, 0.0
        for first, last, share in spans:
            end_s = time_of(stream, last)
            compute_s += share * (end_s - time_of(stream, first))
        return time_of(stream, spans[0][0]), end_s, compute_s

    def time_of(self, mark: Any) -> float:
        """Return the time of a mark, as `perf_counter` gives it; waits until it is reached."""
        mark.synchronize()
        return streams.time_of(self.stream, mark)

    def synchronize(self) -> None:
        """Wait until all work in the block's streams has ended."""
        self.copies.synchronize()
        self.stream.synchronize()


class CudaBackend(Backend):
    """The GPU that this process uses, through a toolkit."""

    name = "gpu"

    def __init__(self, toolkit: Toolkit | None = None) -> None:
        self.toolkit = toolkit or chosen()
        self.required = False  # whether `require` has found a GPU
        self.compiled: set[ModuleType] = set()
        self.leaving: Leaving | None = None  # of the block that is being packed
        self.arriving: Arriving | None = None  # of the one that is being unpacked
        self.room = Room(self.toolkit)  # for both

    def require(self, least: int = 1) -> None:
        """Raise DeviceUnavailable if kernels cannot run, or there are fewer GPUs than ``least``."""
        require(self.toolkit, least)
        self.required = True

    def select(self, local_rank: int, per_host: int | None) -> None:
        """Use one of the host's GPUs from now on; see `Backend.select`.

        Raises DeviceUnavailable if the host has fewer than ``per_host``.
        """
        count = self.toolkit.count()
        number = local_rank % (per_host or count)
        if number >= count:
            raise DeviceUnavailable(f"{per_host} GPUs per host are asked for, {count} found")
        self.toolkit.select(number)

    def described(self) -> str:
        """Return the name of the GPU."""
        return self.toolkit.described()

    def offer(self) -> tuple[bytes, bytes] | None:
        """See `Backend.offer`."""
        try:
            return self.toolkit.share().offer()
        except (RuntimeError, MemoryError):  # DeviceUnavailable and DriverError, too
            return None

    def opens(self, place: bytes) -> bool:
        """Open a place, and keep it open."""
        try:
            self.toolkit.share().address(place)
        except RuntimeError:  # a DriverError
            return False
        return True

    def end_sharing(self) -> None:
        """See `Backend.end_sharing`."""
        self.toolkit.share().close()

    def compile(self, module: ModuleType) -> None:
        """Compile the kernels of an app, and those in shared files that it may call.

        Compiles nothing where kernels cannot run; their files can still be imported.
        """
        if module in self.compiled or self.toolkit.missing() is not None:
            return
        self.compiled.add(module)  # every block asks for it
        packages = module.__name__, "miniapps.kernels.stencils", "miniapps.devices.cuda"
        for name, loaded in list(sys.modules.items()):
            if any(name == package or name.startswith(f"{package}.") for package in packages):
                self.toolkit.compile_all(declared(loaded).values())

    def device(self) -> Gpu:
        """Return a GPU for one block. Raises DeviceUnavailable if there is none."""
        if not self.required:
            self.require()
        return Gpu(self)

    def pack(self, block: Any, lent: bool = False) -> tuple[bytes, Any]:
        """See `Backend.pack`; waits for all work on arrays that are copied to the host, once."""
        self.leaving = leaving = Leaving()
        try:
            pickled = pickle.dumps(block, pickle.HIGHEST_PROTOCOL)
        finally:
            self.leaving = None
        message = leaving.lent() if lent else None
        return pickled, leaving.copied(self.room) if message is None else message

    def unpack(self, pickled: bytes, pieces: Sequence[np.ndarray]) -> Any:
        """See `Backend.unpack`; does not wait for the copy."""
        return self._unpacked(pickled, Arriving(pieces, self.room))

    def unpack_lent(self, pickled: bytes, place: bytes, nbytes: int) -> tuple[Any, Borrowing]:
        """See `Backend.unpack_lent`; does not wait for the copy."""
        arriving = Borrowing(nbytes, partial(self.toolkit.share().array, place))
        return self._unpacked(pickled, arriving), arriving

    def _unpacked(self, pickled: bytes, arriving: Arriving) -> Any:
        self.arriving = arriving
        try:
            return pickle.loads(pickled)
        finally:
            self.arriving = None
