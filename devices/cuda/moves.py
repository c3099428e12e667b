"""Arrays of a block that migrates: they leave in one buffer, and arrive by one copy.

While a block is pickled, its state has a `Place` for each array. All arrays are copied to pinned
memory, which is waited for once and travels as one buffer. Where the block arrives, one copy brings
the buffer to the device, and the block's arrays are parts of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from miniapps.devices.cuda import memory, streams

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

    def copied(self, room: Room) -> np.ndarray:
        """Copy all arrays to the host; waits for the copies once per stream, usually one."""
        host = room.take(self.nbytes)
        used = {id(part.stream): part.stream for _, part in self.parts if part.size}
        for at, part in self.parts:
            if part.size:
                into = host[at : at + part.size * part.dtype.itemsize].view(part.dtype)
                part.copy_to_host(into.reshape(part.shape), stream=part.stream)
        for stream in used.values():
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
            host = self.room.take(sum(piece.size for piece in self.pieces))
            np.concatenate(self.pieces, out=host)
            self.flat = memory.empty(host.size, np.uint8, stream)
            self.flat.copy_to_device(host, stream=stream)
            self.room.read = streams.mark(stream)
        flat = self.flat[place.start : place.end].view(place.dtype)
        return memory.shaped(flat, place.shape, stream)
