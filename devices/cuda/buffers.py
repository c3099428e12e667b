"""Messages in device memory: those of a Post lie beside each other in one buffer, a `Bundle`.

So one kernel can fill it and one copy can take it to the host.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from devices.cuda import memory, streams
from devices.messages import HEADER_BYTES, DeviceMessage, Envelope


class Bundle(Mapping[Any, "Parcel"]):
    """Messages of one data type beside each other in device memory, each behind a header's room.

    ``buffer``: all of it, flat, of the type; ``starts``: where each
    message begins in it.
    """

    def __init__(
        self,
        shapes: Mapping[Any, tuple[int, ...]],
        dtype: Any,
        stream: Any,
    ) -> None:
        self.dtype, self.stream, self.shapes = np.dtype(dtype), stream, dict(shapes)
        header = HEADER_BYTES // self.dtype.itemsize
        self.starts: dict[Any, int] = {}
        end = 0
        for edge, shape in self.shapes.items():
            self.starts[edge] = end + header
            end = -(-(end + header + math.prod(shape)) // header) * header
        self.buffer = memory.empty(end, self.dtype, stream)
        self.ready: Any = None  # reached once all messages are in place
        self.pinned: np.ndarray | None = None  # the same on the host
        self.copied: Any = None  # reached once they are
        self.read: Any = None  # reached once others may write it again

    def __getitem__(self, edge: Any) -> Parcel:
        return Parcel(self, edge)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def nbytes(self) -> int:
        """Of the whole buffer, room for headers included."""
        return self.buffer.size * self.dtype.itemsize

    @cached_property
    def address(self) -> int:
        """Where the buffer begins."""
        return memory.address(self.buffer)

    def seal(self) -> None:
        """Say that kernels which fill it have been launched."""
        if self.ready is None:
            self.ready = streams.mark(self.stream)

    def stage(self, edges: Iterable[Any], stream: Any) -> int:
        """Begin to copy messages to some edges, and what is between; returns the bytes.

        ``stream`` is where they are copied: on another one than the bundle's, that goes on.
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
            self.buffer[begin:end].copy_to_host(host, stream=stream)
        self.copied = streams.mark(stream)
        return (end - begin) * self.dtype.itemsize

    def on_host(self, edge: Any) -> np.ndarray:
        """A staged message in host memory, as `messages.packed` gives one; waits for its copy."""
        assert self.pinned is not None, "stage() comes first"
        streams.reached(self.copied)
        start = self.starts[edge] * self.dtype.itemsize
        end = start + math.prod(self.shapes[edge]) * self.dtype.itemsize
        envelope = self.pinned[start - HEADER_BYTES : end]
        return np.ndarray(self.shapes[edge], self.dtype, envelope, HEADER_BYTES)


class Parcel(DeviceMessage):
    """One message in device memory, part of a bundle. Pickles as an array on the host."""

    def __init__(self, bundle: Bundle, edge: Any) -> None:
        self.bundle, self.edge = bundle, edge
        self.shape, self.dtype = bundle.shapes[edge], bundle.dtype

    @property
    def start(self) -> int:
        """Where it begins in the bundle's buffer."""
        return self.bundle.starts[self.edge]

    @property
    def memory(self) -> tuple[Any, int]:
        """The flat array that it is part of, and where it begins there."""
        return self.bundle.buffer, self.start

    @property
    def ready(self) -> Any:
        """A mark behind all kernels and copies that write it."""
        return self.bundle.ready

    @property
    def address(self) -> int:
        """Where it begins in device memory."""
        return self.bundle.address + self.start * self.dtype.itemsize

    @cached_property
    def array(self) -> Any:
        """The device array; costs tens of microseconds, so kernels for many parcels do without."""
        end = self.start + math.prod(self.shape)
        array = self.bundle.buffer[self.start : end].reshape(self.shape)
        array.stream = self.bundle.stream  # a view forgets it
        return array

    def seal(self) -> None:
        """Say that kernels which fill it, and all others of its Post, have been launched."""
        self.bundle.seal()

    def on_host(self) -> np.ndarray:
        """It in host memory, once the copy that `Gpu.stage` has begun is there."""
        return self.bundle.on_host(self.edge)

    def in_place(self) -> Any:
        """It where it lies, as MPI takes it, once all kernels that write it are done."""
        if self.bundle.ready is not None:
            streams.reached(self.bundle.ready)
        return self.bundle.stream.toolkit.for_mpi(self.array)

    def __reduce__(self) -> tuple[Any, ...]:
        return np.array, (memory.to_host(self.array),)


def each_bundle(bundles: Iterable[Bundle]) -> list[Bundle]:
    """Every bundle once."""
    return list({id(bundle): bundle for bundle in bundles}.values())


def stage(parcels: Iterable[Parcel], stream: Any) -> int:
    """Begin to copy parcels to the host, one copy for each bundle; returns the bytes."""
    edges: dict[int, list[Any]] = {}
    parcels = list(parcels)
    for parcel in parcels:
        edges.setdefault(id(parcel.bundle), []).append(parcel.edge)
    bundles = each_bundle(parcel.bundle for parcel in parcels)
    return sum(bundle.stage(edges[id(bundle)], stream) for bundle in bundles)
