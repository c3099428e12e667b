"""Buffers of messages: bytearrays, NumPy arrays, and arrays in a GPU's memory.

A kind of buffer allocates memory, and copies bytes to and from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Protocol, Self

import numpy as np

from miniapps.communication.catalogue import WORD, Benchmark
from miniapps.communication.movement import Block, Movement

HOST = ("bytearray", "numpy")
DEVICE = ("cupy", "numba")
KINDS = (*HOST, *DEVICE)


class Kind(Protocol):
    """A kind of buffer."""

    def allocate(self, size: int) -> Any:
        """A buffer of ``size`` bytes."""

    def part(self, buffer: Any, start: int, stop: int) -> Any:
        """Bytes ``start`` to ``stop`` of a buffer, which share its memory."""

    def write(self, buffer: Any, values: np.ndarray) -> None:
        """Copy bytes (n,) into a buffer of n bytes."""
        as_bytes(buffer)[:] = values

    def read(self, buffer: Any) -> np.ndarray:
        """The bytes (n,) of a buffer, as a view if it is in the host's memory."""
        return as_bytes(buffer)


class Bytes(Kind):
    """Python's bytearray."""

    def allocate(self, size: int) -> bytearray:
        """A bytearray."""
        return bytearray(size)

    def part(self, buffer: Any, start: int, stop: int) -> Any:
        """A memoryview, or the bytearray itself if it is all of it."""
        return buffer if stop - start == len(buffer) else memoryview(buffer)[start:stop]


class Arrays(Kind):
    """NumPy arrays of bytes, or of words that can be added."""

    def __init__(self, words: bool) -> None:
        self.dtype = np.dtype(f"u{WORD}" if words else "u1")

    def allocate(self, size: int) -> np.ndarray:
        """An array of zeros; all of its memory is there."""
        array = np.empty(size // self.dtype.itemsize, self.dtype)
        array[:] = 0
        return array

    def part(self, buffer: Any, start: int, stop: int) -> Any:
        """A slice."""
        return buffer[start // self.dtype.itemsize : stop // self.dtype.itemsize]


def as_bytes(received: Any) -> np.ndarray:
    """The bytes (n,) of an object with the buffer interface, as a view of its memory."""
    if len(received) == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(received, np.uint8)


def kind_of(name: str, words: bool, local_rank: int) -> Kind:
    """The kind of buffer with a name; ``words``: for numbers that are added.

    ``local_rank``: the number of this process on its host, which chooses its GPU.
    """
    if name in DEVICE:
        from miniapps.devices.cuda.byte_arrays import ByteArrays

        return ByteArrays(name, local_rank)
    return Bytes() if name == "bytearray" else Arrays(words)


class Data:
    """The buffers of one rank for one size of message.

    ``sends``, ``receives``: the memory of each block of the movement, in order; ``sending``,
    ``receiving``: all of it, contiguous, unless blocks are ``apart``, each with its own memory.
    With ``shared``, all messages of a window have the same memory, as in OMB. ``on_device``:
    whether it is on a GPU.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        movement: Movement,
        kind: Kind,
        apart: bool = False,
        shared: bool = False,
    ) -> None:
        self.benchmark, self.movement, self.kind = benchmark, movement, kind
        self.apart, self.shared = apart, shared
        self.on_device = not isinstance(kind, Bytes | Arrays)
        self.closing = ExitStack()  # frees what a runtime has made for these buffers
        self.sending, self.sends = self._made(movement.sends)
        self.receiving, self.receives = self._made(movement.receives)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *more: object) -> None:
        if error is None:  # else other ranks may never come to free their part
            self.closing.close()

    def _made(self, blocks: Sequence[Block]) -> tuple[Any, list[Any]]:
        """Memory for blocks: all of it, and that of each."""
        if self.one_for_all and blocks:
            whole = self.kind.allocate(blocks[0].size)
            return whole, [whole] * len(blocks)
        if self.apart:
            return None, [self.kind.allocate(block.size) for block in blocks]
        whole = self.kind.allocate(sum(block.size for block in blocks))
        return whole, self.parts(whole, blocks)

    def parts(self, whole: Any, blocks: Sequence[Block]) -> list[Any]:
        """The memory of each block in that of all."""
        made, start = [], 0
        for block in blocks:
            made.append(self.kind.part(whole, start, start + block.size))
            start += block.size
        return made

    @property
    def one_for_all(self) -> bool:
        """Whether all messages of a window share memory, so that they are as the last one."""
        return self.shared and self.benchmark.windowed

    def distinct(self, parts: Sequence[Any], blocks: Sequence[Block]) -> list[tuple[Any, Block]]:
        """Blocks with their memory, without those whose memory another block has, too."""
        pairs = list(zip(parts, blocks, strict=True))
        return pairs[-1:] if self.one_for_all else pairs
