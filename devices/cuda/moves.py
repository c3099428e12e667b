"""Arrays of a block that migrates: they leave in one buffer, and arrive by one copy.

While a block is pickled, its state has a `Place` for each array. All arrays are copied to one
buffer: memory that another process opens, if the block stays on this device, else pinned memory,
which is waited for once and travels. Where the block arrives, one copy brings the buffer to its
memory there, and the block's arrays are parts of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from miniapps.devices.cuda import memory, streams
from miniapps.devices.cuda.buffers import MessageBuffer, MessageView, Spare

LINE = 512  # bytes; arrays begin at multiples, as in CuPy's pool


class Place(NamedTuple):
    """An array that migrates: where it begins in the buffer, in bytes, and what it is."""

    start: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def end(self) -> int:
        """Where it ends in the buffer, in bytes."""
        return self.start + math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Room:
    """Pinned memory of a process for one block at a time, which is used again for the next."""

    def __init__(self, toolkit: Any) -> None:
        self.toolkit, self.memory = toolkit, np.empty(0, np.uint8)
        self.read: Any = None  # a mark: the last block that arrived has been copied to the device

    def take(self, nbytes: int) -> np.ndarray:
        """Return so many bytes, as soon as the device has read what was there before."""
        streams.reached(self.read)
        if self.memory.size < nbytes:
            self.memory = self.toolkit.pinned(nbytes)
        return self.memory[:nbytes]


class Leaving:
    """The arrays of a block that leaves."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, Any]] = []  # where contiguous parts begin in the buffer
        self.nbytes = 0

    def add(self, array: Any, used: slice) -> Place:
        """Let an array leave, of its last axis only the entries that are used."""
        *others, last = array.shape
        shape = *others, len(range(*used.indices(last)))
        place = Place(self.nbytes, shape, array.dtype.str)
        parts = [array]
        if shape[-1] < last:
            parts = [row[used] for row in (array if others else [array])]
        at = place.start
        for part in parts:
            self.parts.append((at, part))
            at += part.size * part.dtype.itemsize
        self.nbytes = -(-place.end // LINE) * LINE
        return place

    def streams(self) -> list[Any]:
        """Return the streams of the arrays, usually one."""
        used = {id(part.stream): part.stream for _, part in self.parts if part.size}
        return list(used.values())

    def lent(self) -> MessageView | None:
        """Begin to copy all arrays into memory that other processes can open.

        None if there are no arrays, if they are used in several streams, or without such memory.
        """
        used = self.streams()
        if len(used) != 1:
            return None
        try:
            buffer = MessageBuffer({None: (self.nbytes,)}, np.uint8, used[0], Spare())
        except MemoryError:
            return None
        message = buffer[None]
        for at, part in self.parts:
            if part.size:
                into = message.array[at : at + part.size * part.dtype.itemsize]
                into.copy_to_device(part, stream=buffer.stream)
        message.seal()
        return message

    def copied(self, room: Room) -> np.ndarray:
        """Copy all arrays to the host; waits for the copies once per stream."""
        host = room.take(self.nbytes)
        for at, part in self.parts:
            if part.size:
                into = host[at : at + part.size * part.dtype.itemsize].view(part.dtype)
                part.copy_to_host(into.reshape(part.shape), stream=part.stream)
        for stream in self.streams():
            stream.synchronize()
        return host


class Arriving:
    """The arrays of a block that arrives."""

    def __init__(self, pieces: Sequence[np.ndarray], room: Room) -> None:
        self.pieces, self.room = pieces, room
        self.flat: Any = None  # all of it on the device

    def array(self, place: Place, stream: Any) -> Any:
        """Return an array for use in the block's stream, in which the copy was made."""
        if self.flat is None:
            self.flat = self._flat(stream)
        flat = self.flat[place.start : place.end].view(place.dtype)
        return memory.shaped(flat, place.shape, stream)

    def _flat(self, stream: Any) -> Any:
        """Begin to copy the buffer; returns the copy."""
        host = self.room.take(sum(piece.size for piece in self.pieces))
        np.concatenate(self.pieces, out=host)
        flat = memory.empty(host.size, np.uint8, stream)
        flat.copy_to_device(host, stream=stream)
        self.room.read = streams.mark(stream)
        return flat


class Borrowing(Arriving):
    """The same from memory of another process.

    ``source``: the array there like a given one.
    """

    def __init__(self, nbytes: int, source: Callable[[Any], Any]) -> None:
        self.nbytes, self.source = nbytes, source
        self.flat = self.read = None  # read: a mark, the source has been copied

    def _flat(self, stream: Any) -> Any:
        flat = memory.empty(self.nbytes, np.uint8, stream)
        flat.copy_to_device(self.source(flat), stream=stream)
        self.read = streams.mark(stream)
        return flat

    def is_written(self) -> bool:
        """Return whether the source is known to have been copied."""
        return self.read is None or self.read.query()

    def in_place(self) -> None:
        """Wait until the source has been copied."""
        streams.reached(self.read)
