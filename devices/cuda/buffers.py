"""Messages in device memory: those of one Post are beside each other in one `MessageBuffer`.

So one kernel can fill them all, and one copy can move them to the host.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from miniapps.devices.cuda import memory, streams
from miniapps.devices.messages import HEADER_BYTES, DeviceMessage, DeviceMessages, Envelope

SPARE = 4  # arrays that a block keeps


@lru_cache
def places(
    shapes: tuple[tuple[Any, tuple[int, ...]], ...], size: int
) -> tuple[dict[Any, int], int]:
    """Return where messages begin, by edge, and where the last one ends, in elements of a size.

    Each begins at a multiple of a header's size, behind a header. ``shapes``: pairs (edge, shape).
    """
    header, starts, end = HEADER_BYTES // size, {}, 0
    for edge, shape in shapes:
        starts[edge] = end + header
        end = -(-(end + header + math.prod(shape)) // header) * header
    return starts, end


def roomy(size: int) -> int:
    """Return a size, or one that is at most an eighth larger: sizes of messages may vary a little.

    Sizes up to 64 are kept; above, there are eight from a power of two to the next.
    """
    step = 1 << max(0, size.bit_length() - 4)
    return size if size <= 64 else -(-size // step) * step


class Spare:
    """Memory of messages that nobody has any more, for later ones of the same `roomy` size.

    It is used again in the work of the same stream, as CuPy's pool would do, which costs more.
    """

    def __init__(self) -> None:
        self.arrays: list[Any] = []

    def take(self, size: int, dtype: np.dtype) -> Any:
        """Return an array that was given; None if none has this size and type."""
        for number, array in enumerate(self.arrays):
            if array.size == size and array.dtype == dtype:
                return self.arrays.pop(number)
        return None

    def give(self, array: Any) -> None:
        """Keep an array, and at most `SPARE` of those given last."""
        self.arrays.append(array)
        del self.arrays[:-SPARE]


class MessageBuffer(DeviceMessages):
    """Messages of one data type in device memory, each with room for a header in front.

    ``flat``: all of the memory, as one array of the type. ``starts``: where each message begins in
    it, by edge. ``spare``: where the memory may come from, and goes; None: it has just this size.
    """

    spare: Spare | None = None

    def __init__(
        self,
        shapes: Mapping[Any, tuple[int, ...]],
        dtype: Any,
        stream: Any,
        spare: Spare | None,
    ) -> None:
        self.dtype, self.stream, self.shapes = np.dtype(dtype), stream, dict(shapes)
        self.starts, end = places(tuple(self.shapes.items()), self.dtype.itemsize)
        self.spare, size = spare, end if spare is None else roomy(end)
        flat = None if spare is None else spare.take(size, self.dtype)
        self.flat = self._new(size) if flat is None else flat
        self.ready: Any = None  # a mark: all messages are written
        self.pinned: np.ndarray | None = None  # the copy on the host
        self.copied: Any = None  # a mark: the copy has ended
        self.read: Any = None  # a mark: the receiver has read it, so it may be written again
        self.is_reused = False  # whether another stream writes it again, after that mark

    def _new(self, size: int) -> Any:
        """Return new memory; that of messages which are sent may be opened by other processes."""
        if self.spare is None:
            return memory.empty(size, self.dtype, self.stream)
        return memory.for_messages(size, self.dtype, self.stream)

    def __del__(self) -> None:
        if self.spare is not None and hasattr(self, "flat"):
            if self.stream.toolkit.is_last_user(self.flat):
                self.spare.give(self.flat)

    def __getitem__(self, edge: Any) -> MessageView:
        return MessageView(self, edge)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def memory(self) -> tuple[Any, dict[Any, int]]:
        """`flat` and `starts`, for kernels that write or read several messages."""
        return self.flat, self.starts

    @property
    def nbytes(self) -> int:
        """The size of the whole buffer, room for headers included."""
        return self.flat.size * self.dtype.itemsize

    @cached_property
    def address(self) -> int:
        """The address of the buffer in device memory."""
        return memory.address(self.flat)

    def seal(self) -> None:
        """Note that all kernels that fill the buffer have been launched."""
        if self.ready is None:
            self.ready = streams.latest(self.stream)

    def sealed(self) -> dict[Any, DeviceMessage]:
        """Return the messages by edge, sealed."""
        self.seal()
        return {edge: MessageView(self, edge) for edge in self.shapes}

    def stage(self, edges: Iterable[Any], stream: Any) -> int:
        """Begin to copy the messages of some edges, and those between them, to the host.

        ``stream``: the stream of the copy. In a stream other than the buffer's, kernels of the
        block go on meanwhile. Returns the number of bytes.
        """
        spans = [(self.starts[edge], math.prod(self.shapes[edge])) for edge in edges]
        begin, end = min(first for first, _ in spans), max(first + size for first, size in spans)
        if self.pinned is None:
            self.pinned = self.stream.toolkit.pinned(self.nbytes).view(Envelope)
        if begin < end:
            host = self.pinned.view(np.ndarray).view(self.dtype)[begin:end]
            if stream is not self.stream:
                self.seal()
                streams.wait_for(self.ready, stream)
            self.flat[begin:end].copy_to_host(host, stream=stream)
        self.copied = streams.mark(stream)
        return (end - begin) * self.dtype.itemsize

    def on_host(self, edge: Any) -> np.ndarray:
        """Return a staged message in host memory, like `packed_empty`; waits for the copy."""
        assert self.pinned is not None, "stage() comes first"
        streams.reached(self.copied)
        start = self.starts[edge] * self.dtype.itemsize
        end = start + math.prod(self.shapes[edge]) * self.dtype.itemsize
        envelope = self.pinned[start - HEADER_BYTES : end]
        return np.ndarray(self.shapes[edge], self.dtype, envelope, HEADER_BYTES)


class MessageView(DeviceMessage):
    """One message of a message buffer. Pickled as an array in host memory.

    ``start``: where it begins in the buffer's `flat`. ``reader``: the device of the block that has
    received it, if its kernels must wait for it.
    """

    def __init__(self, buffer: MessageBuffer, edge: Any, reader: Any = None) -> None:
        self.buffer, self.edge, self.reader = buffer, edge, reader
        self.shape, self.dtype = buffer.shapes[edge], buffer.dtype
        self.start = buffer.starts[edge]

    def for_kernels_of(self, device: Any) -> MessageView:
        """Return the message as a block with this device receives it.

        If it comes from another stream or is written again, the block's stream waits when a kernel
        takes `memory` or its address: many blocks receive messages that others' kernels read.
        """
        if self.buffer.stream is device.stream and not self.buffer.is_reused:
            return self
        return MessageView(self.buffer, self.edge, device)

    @property
    def memory(self) -> tuple[Any, int]:
        """The flat array of the buffer, and where the message begins in it, for kernels."""
        self.begin_reading()
        return self.buffer.flat, self.start

    def begin_reading(self) -> None:
        """Let the kernels of the block that has received the message read it from now on."""
        if self.reader is not None:
            self.reader.begin_reading(self.buffer)

    @property
    def ready(self) -> Any:
        """A mark after all kernels and copies that write the message; None before `seal`."""
        return self.buffer.ready

    @property
    def address(self) -> int:
        """The address of the message in device memory."""
        return self.buffer.address + self.start * self.dtype.itemsize

    @cached_property
    def array(self) -> Any:
        """The message as a device array; kernels use `memory`, which saves tens of microseconds."""
        end = self.start + math.prod(self.shape)
        array = self.buffer.flat[self.start : end].reshape(self.shape)
        array.stream = self.buffer.stream  # slices lose it
        return array

    def seal(self) -> None:
        """Note that all kernels that fill the buffer have been launched."""
        self.buffer.seal()

    def on_host(self) -> np.ndarray:
        """Return the message in host memory; waits for the copy that `Gpu.stage` began."""
        return self.buffer.on_host(self.edge)

    def in_place(self) -> Any:
        """Return the device array as MPI accepts it; waits for all kernels that write it."""
        if self.buffer.ready is not None:
            streams.reached(self.buffer.ready)
        return self.buffer.stream.toolkit.for_mpi(self.array)

    def is_written(self) -> bool:
        """Return whether all kernels and copies that write the message are known to have ended."""
        return self.buffer.ready is None or self.buffer.ready.query()

    def place(self) -> bytes | None:
        """See `DeviceMessage.place`."""
        return self.buffer.stream.toolkit.share().place(self.in_place())

    def __reduce__(self) -> tuple[Any, ...]:
        return np.array, (memory.to_host(self.array),)


def addresses(views: Mapping[Any, MessageView]) -> dict[Any, int]:
    """Return by edge where messages begin in device memory, for kernels that read them there."""
    for view in views.values():
        view.begin_reading()
    return {edge: view.address for edge, view in views.items()}


def stage(views: Iterable[MessageView], stream: Any) -> int:
    """Begin to copy messages to the host, one copy per message buffer; return the bytes."""
    groups: dict[int, tuple[MessageBuffer, list[Any]]] = {}
    for view in views:
        groups.setdefault(id(view.buffer), (view.buffer, []))[1].append(view.edge)
    return sum(buffer.stage(edges, stream) for buffer, edges in groups.values())
