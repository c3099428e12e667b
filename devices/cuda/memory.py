"""Arrays in a GPU's memory.

Every array has its stream as ``array.stream``, and a kernel is launched in the stream of the array
that it writes. A stream has its toolkit, which allocates the memory.
"""

from __future__ import annotations

import math
from collections import deque
from copy import copy
from typing import Any, Self

import numpy as np

from miniapps.devices.backend import HostCopy
from miniapps.devices.cuda import streams

PIECES = 3  # of pinned memory in a ring: as many tables as a step of pic brings to the GPU


def empty(shape: int | tuple[int, ...], dtype: Any, stream: Any) -> Any:
    """Return an array in device memory with undefined contents, for use in a stream."""
    return _made("empty", shape, dtype, stream)


def zeros(shape: int | tuple[int, ...], dtype: Any, stream: Any) -> Any:
    """Return an array of zeros in device memory, for use in a stream."""
    return _made("zeros", shape, dtype, stream)


def for_messages(size: int, dtype: Any, stream: Any) -> Any:
    """Return an array with one axis for messages that are sent, for use in a stream."""
    array = stream.toolkit.message_array(size, dtype, stream)
    array.stream = stream
    return array


def _made(how: str, shape: int | tuple[int, ...], dtype: Any, stream: Any) -> Any:
    """Return an array that the stream's toolkit allocates."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    return shaped(stream.toolkit.array(how, math.prod(shape), dtype, stream), shape, stream)


def shaped(flat: Any, shape: tuple[int, ...], stream: Any) -> Any:
    """Return an array with one axis in another shape, for use in a stream."""
    flat.stream = stream
    if len(shape) == 1:
        return flat
    array = flat.reshape(shape)
    array.stream, array.flat_array = stream, flat
    return array


def flat(array: Any) -> Any:
    """Return a contiguous device array as one axis.

    That of an array with several is stored with it, because making it costs microseconds.
    """
    if len(array.shape) == 1:
        return array
    return array.flat_array if hasattr(array, "flat_array") else array.reshape(array.size)


def to_device(array: np.ndarray, stream: Any) -> Any:
    """Return a copy in device memory; waits for the copy."""
    made, source = empty(array.shape, array.dtype, stream), np.ascontiguousarray(array)
    if array.size:
        made.copy_to_device(source, stream=stream)
        stream.synchronize()  # before the source is freed
    return made


def sent(array: np.ndarray, stream: Any) -> Any:
    """Return a copy of a small array in device memory, as work in a stream; nothing waits for it.

    It goes through pinned memory, which is used again once the device has read it.
    """
    made = empty(array.shape, array.dtype, stream)
    if array.size:
        host = stream.pinned.take(array.nbytes).view(array.dtype)
        host[...] = array.reshape(-1)
        flat(made).copy_to_device(host, stream=stream)
        stream.pinned.give(streams.mark(stream))
    return made


def to_host(array: Any) -> np.ndarray:
    """Return a copy of a contiguous device array on the host; waits for all work on the array."""
    copy = np.empty(array.shape, array.dtype)  # allocated here: numba would return a view of bytes
    if array.size:
        array.copy_to_host(copy, stream=array.stream)
        array.stream.synchronize()
    return copy


class PinnedCopy(HostCopy):
    """A copy of a device array in pinned memory, made in the array's stream.

    ``pinned``: where the last copy is; `devices.cuda.host_copies` puts it elsewhere.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        nbytes, toolkit = array.size * array.dtype.itemsize, array.stream.toolkit
        self.pinned = toolkit.pinned(nbytes).view(array.dtype).reshape(array.shape)
        self.copied: Any = None  # a mark: the copy has ended

    @classmethod
    def begun(cls, array: Any) -> Self:
        """Begin to copy an array, and return the copy."""
        found = cls(array)
        found.begin()
        return found

    def begin(self) -> None:
        """See `HostCopy.begin`. The mark has a time, so that it is also that of a round's end."""
        self.array.copy_to_host(self.pinned, stream=self.array.stream)
        self.copied = streams.mark(self.array.stream, timed=True)

    def arrived(self) -> np.ndarray:
        """Return the copy as an array as soon as it is made."""
        streams.reached_already(self.copied)
        return self.pinned

    def get(self) -> Any:
        """See `HostCopy.get`."""
        return self.arrived().tolist()


class PinnedNumber(PinnedCopy):
    """The same for an array with one number."""

    def get(self) -> Any:
        """Return the number."""
        return super().get()[0]


class PinnedArray(PinnedCopy):
    """The same for numbers that remain an array."""

    @classmethod
    def begun_rows(cls, array: Any) -> list[Self]:
        """Begin to copy an array by one copy, and return the copies of its rows."""
        whole = cls.begun(array)
        rows = [copy(whole) for _ in whole.pinned]
        for row, pinned in zip(rows, whole.pinned, strict=True):
            row.pinned = pinned
        return rows

    def get(self) -> Any:
        """Return the array."""
        return self.arrived()


class PinnedRing:
    """Pinned memory for copies to the device, in pieces that are used in turn.

    While the device still reads the piece that was used longest ago, a further one is taken. The
    host waits only if there are ``most`` already.
    """

    def __init__(self, toolkit: Any, most: float = PIECES) -> None:
        self.toolkit, self.most = toolkit, most
        self.pieces: deque[tuple[np.ndarray, Any]] = deque()  # and a mark: it may be written again

    def take(self, nbytes: int) -> np.ndarray:
        """Return so many bytes to write; `give` comes before the next call."""
        piece = np.empty(0, np.uint8)
        if self.pieces and (len(self.pieces) == self.most or self.pieces[0][1].query()):
            piece, copied = self.pieces.popleft()
            streams.reached_already(copied)
        self.taken = piece if piece.size >= nbytes else self.toolkit.pinned(nbytes)
        return self.taken[:nbytes]

    def give(self, copied: Any) -> None:
        """Let the piece that was taken be used again after a mark."""
        self.pieces.append((self.taken, copied))


def address(array: Any) -> int:
    """Return the address of a device array."""
    return array.stream.toolkit.address(array)
