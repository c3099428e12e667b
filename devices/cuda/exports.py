"""Messages in device memory that other processes open, by CUDA's IPC handles.

Handles are of whole allocations, and memory of CuPy's pool belongs to arrays of all kinds. So
messages get allocations of their own, chunks, which are cut into pieces and freed with the process:
another process may have opened them.
"""

from __future__ import annotations

from collections import defaultdict
from struct import Struct
from typing import Any, NamedTuple

CHUNK = 2 << 20  # bytes: CUDA shares memory by pages of this size
LINE = 512  # sizes of pieces are multiples
PLACE = Struct("<64sq")  # a handle, and an offset in its allocation


class Chunk(NamedTuple):
    """An allocation, and its handle."""

    address: int
    handle: bytes


class Piece:
    """Memory of one array in a chunk. Once dropped, it is used again in the same stream's work."""

    def __init__(self, unused: list[tuple[Chunk, int]], chunk: Chunk, offset: int) -> None:
        self.unused, self.chunk, self.offset = unused, chunk, offset

    def __del__(self) -> None:
        self.unused.append((self.chunk, self.offset))

    @property
    def address(self) -> int:
        """Where it begins."""
        return self.chunk.address + self.offset


class Exports:
    """The memory of this process that others open, and what it has opened of theirs.

    ``driver``: the module `devices.cuda.driver`.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.unused: dict[Any, list[tuple[Chunk, int]]] = defaultdict(list)  # by stream and size
        self.chunk: Chunk | None = None  # the last one
        self.begin = self.end = 0  # of what is left of it
        self.opened: dict[bytes, int] = {}  # addresses here, by handle

    def take(self, nbytes: int, stream: Any) -> Piece:
        """Return memory for use in a stream. Raises MemoryError."""
        size = -(-nbytes // LINE) * LINE
        unused = self.unused[stream.number, size]
        if not unused:
            unused.append(self._cut(size))
        return Piece(unused, *unused.pop())

    def _cut(self, size: int) -> tuple[Chunk, int]:
        """Return new memory: a chunk, and an offset in it."""
        if self.chunk is None or self.begin + size > self.end:
            self.end = -(-size // CHUNK) * CHUNK
            address = self.driver.allocated(self.end)
            self.chunk, self.begin = Chunk(address, self.driver.handle_of(address)), 0
        self.begin += size
        return self.chunk, self.begin - size

    def place(self, array: Any) -> bytes | None:
        """Return where another process finds an array; None if it is in other memory."""
        if not isinstance(array.memory, Piece):
            return None
        chunk = array.memory.chunk
        return PLACE.pack(chunk.handle, array.address - chunk.address)

    def offer(self) -> tuple[bytes, bytes]:
        """Return the GPU's UUID, and a place that other processes can try to open."""
        chunk, offset = self._cut(LINE)
        return self.driver.uuid(), PLACE.pack(chunk.handle, offset)

    def address(self, place: bytes) -> int:
        """Return the address here of a place of another process. Raises DriverError."""
        handle, offset = PLACE.unpack(place)
        if handle not in self.opened:
            self.opened[handle] = self.driver.opened(handle)
        return self.opened[handle] + offset

    def array(self, place: bytes, like: Any) -> Any:
        """Return an array at a place of another process, like another. Raises DriverError."""
        address = self.address(place)
        return self.driver.DeviceArray(None, address, like.shape, like.dtype, like.stream)

    def close(self) -> None:
        """Close what has been opened. Nothing may use it any more."""
        while self.opened:
            self.driver.close(self.opened.popitem()[1])
