"""The GPU as a device: a block's stream, and its messages in device memory.

A block's kernels run one after another on a stream of its own; no call here waits for them unless
it says so. All messages of a Post lie beside each other in one `MessageBuffer`. It goes to the
host by one copy, as what comes from there does, on a second stream, while the first computes.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Mapping
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

from devices.backend import Backend, Device
from devices.cuda import memory, streams
from devices.cuda.buffers import MessageBuffer, MessageView, each_buffer, stage
from devices.cuda.compiler import declared
from devices.cuda.toolkit import Toolkit, chosen, require

RENEWED_S = 1.0  # event times are float32: a device's clock is set anew after so many seconds


class Slot:
    """Where messages from elsewhere land; two of them take turns."""

    def __init__(self) -> None:
        self.pinned = np.empty(0, np.uint8)
        self.copied: Any = None  # reached once ``pinned`` may be written again
        self.buffer: MessageBuffer | None = None

    def make_room(self, shapes: Mapping[Any, tuple[int, ...]], dtype: Any, stream: Any) -> Any:
        """Make the message buffer fit; returns a mark, after which it may be written."""
        buffer = self.buffer
        if buffer is not None and (buffer.shapes, buffer.dtype) == (shapes, dtype):
            return buffer.read
        self.buffer = MessageBuffer(shapes, dtype, stream)
        return streams.mark(stream)  # what had this memory before may be in use until then


class Gpu(Device):
    """What one block has of a GPU."""

    name = "gpu"
    line = 128
    lag = 64

    def __init__(self, backend: CudaBackend) -> None:
        self.backend, toolkit = backend, backend.toolkit
        self.stream, self.copies = toolkit.stream(), toolkit.stream()
        weakref.finalize(self, toolkit.idle.extend, (self.stream, self.copies))
        self.staged_bytes = 0
        self.slots: dict[Any, list[Slot]] = {}  # by edge; None for what comes from the host
        self.reading: list[MessageBuffer] = []  # since the last `received`
        self.stream.synchronize()
        self.epoch = streams.mark(self.stream), perf_counter()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array on the device; what is in it is not said."""
        return memory.empty(shape, dtype, self.stream)

    def to_device(self, array: np.ndarray) -> Any:
        """A copy on the device."""
        return memory.to_device(array, self.stream)

    def to_host(self, array: Any) -> np.ndarray:
        """A copy of a contiguous array in host memory, when all work on it is done."""
        return memory.to_host(array)

    # Messages ------------------------------------------------------------------------------------

    def messages(self, shapes: Mapping[Any, tuple[int, ...]], dtype: Any) -> MessageBuffer:
        """A message buffer, by edge, that kernels fill in and a Post gives away."""
        return MessageBuffer(shapes, dtype, self.stream)

    def stage(self, views: Iterable[Any]) -> None:
        """Begin to copy messages to the host, one copy for each message buffer."""
        self.staged_bytes += stage(views, self.copies)

    def received(self, came: Mapping[Any, Any]) -> Mapping[Any, MessageView]:
        """What a Collect brought, by edge, as message views; valid until the next such call."""
        self._end_reading()
        staged = {edge: array for edge, array in came.items() if isinstance(array, np.ndarray)}
        moved = self._from_host(staged) if staged else {}
        views = {edge: moved.get(edge, message) for edge, message in came.items()}
        for buffer in each_buffer(view.buffer for view in views.values()):
            if buffer.stream is not self.stream:
                streams.wait_for(buffer.ready, self.stream)
            self.reading.append(buffer)
        return views

    def room(self, edge: Any, shape: tuple[int, ...], dtype: Any) -> MessageView:
        """Memory for a message that MPI puts there itself; the next but one has it again."""
        slot = self._next_slot(edge)
        streams.reached(slot.make_room({edge: shape}, np.dtype(dtype), self.stream))
        assert slot.buffer is not None
        return slot.buffer[edge]

    def _next_slot(self, edge: Any) -> Slot:
        """The slot whose turn it is."""
        slots = self.slots.setdefault(edge, [Slot(), Slot()])
        slots.reverse()
        return slots[0]

    def _end_reading(self) -> None:
        """Keep the memory of what was received until kernels here have read it."""
        if not self.reading:
            return
        read = streams.mark(self.stream)
        for buffer in self.reading:
            if buffer.stream is not self.stream:
                streams.wait_for(read, buffer.stream)
            buffer.read = read
        self.reading.clear()

    def _from_host(self, staged: Mapping[Any, np.ndarray]) -> Mapping[Any, MessageView]:
        """Copy messages to the device, all at once, beside what it computes."""
        slot = self._next_slot(None)
        (dtype,) = {array.dtype for array in staged.values()}
        shapes = {edge: array.shape for edge, array in staged.items()}
        streams.wait_for(slot.make_room(shapes, dtype, self.stream), self.copies)
        if slot.copied is not None:
            streams.reached(slot.copied)
        buffer = slot.buffer
        assert buffer is not None
        if slot.pinned.size < buffer.nbytes:
            slot.pinned = self.stream.toolkit.pinned(buffer.nbytes)
        host = slot.pinned[: buffer.nbytes].view(dtype)
        for edge, array in staged.items():
            start = buffer.starts[edge]
            host[start : start + array.size] = array.reshape(-1)
        if buffer.nbytes:
            buffer.flat.copy_to_device(host, stream=self.copies)
        slot.copied = buffer.ready = streams.mark(self.copies)
        streams.wait_for(slot.copied, self.stream)
        self.staged_bytes += buffer.nbytes
        return buffer

    # Time ----------------------------------------------------------------------------------------

    def mark(self) -> Any:  # type: ignore[override]
        """A point in the block's stream."""
        return streams.mark(self.stream)

    def seconds(self, first: Any, last: Any) -> float:
        """The time between two marks; waits until the second has been reached."""
        return streams.seconds(first, last)

    def total(self, spans: Iterable[tuple[Any, Any]]) -> float:
        """The time between pairs of marks, added up; waits until all have been reached."""
        return sum([streams.seconds(*span) for span in spans])

    def time_of(self, mark: Any) -> float:
        """When a mark was reached, by ``perf_counter``; waits until it has been."""
        event, then = self.epoch
        return then + streams.seconds(event, mark)

    def renew(self, mark: Any) -> None:
        """Measure time from that mark on, if the one in use is old."""
        time = self.time_of(mark)
        if time - self.epoch[1] > RENEWED_S:
            self.epoch = mark, time

    def synchronize(self) -> None:
        """Wait until all work on the block's streams is done."""
        self.copies.synchronize()
        self.stream.synchronize()


class CudaBackend(Backend):
    """The GPU that this process uses, by a toolkit."""

    name = "gpu"

    def __init__(self, toolkit: Toolkit | None = None) -> None:
        self.toolkit = toolkit or chosen()
        self.required = False  # and found to be there

    def require(self, least: int = 1) -> None:
        """Raise DeviceUnavailable where kernels cannot run, or not on so many GPUs."""
        require(self.toolkit, least)
        self.required = True

    def select(self, local_rank: int, per_host: int | None) -> None:
        """Use one of the host's GPUs from now on."""
        self.toolkit.select(local_rank % (per_host or self.toolkit.count()))

    def described(self) -> str:
        """The name of the GPU."""
        return self.toolkit.described()

    def compile(self, module: ModuleType) -> None:
        """Compile the kernels of a package of kernels, and those that it may take from others.

        Where none can run none is compiled: their files can be imported all the same.
        """
        if self.toolkit.missing() is not None:
            return
        packages = module.__name__, "kernels.stencils", "devices.cuda"
        for name, loaded in list(sys.modules.items()):
            if any(name == package or name.startswith(f"{package}.") for package in packages):
                self.toolkit.compile_all(declared(loaded).values())

    def device(self) -> Gpu:
        """What a block has of the GPU. Raises DeviceUnavailable where there is none."""
        if not self.required:
            self.require()
        return Gpu(self)
