"""The halo of a block of cells on the GPU: one launch packs all faces, one unpacks all ghosts.

A thread copies one cell. It finds the face of its cell in a table with one row per face, in the
order of threads: the first thread, where the message begins, where the cells begin in the field,
the cells along the last axis and the last but one, and the field's cells per plane and per row.
Messages that leave begin in one buffer. Those that come are in a buffer for each sender, so the
table has their addresses, and one launch reads them all. Cost: 16 bytes per cell, and 56 bytes per
face, from cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from devices.backend import Array, Device
from devices.cuda.buffers import addresses
from devices.cuda.compiler import Kernel, cuda, inlined, kernel, viewer
from devices.cuda.launches import Launch, nothing, repeated
from devices.cuda.memory import flat
from devices.cuda.primitives import launch
from kernels.halo.interface import Region, shape_of

COLUMNS = 7  # of the table
MOST = 256  # tables that a block keeps: its messages change places, but there are only a few


@inlined
def _place(thread, faces, table):  # type: ignore[no-untyped-def]
    """Return the row of a thread's face, and the numbers of its cell there and in the field."""
    row = np.uint64(0)
    while row + np.uint64(1) < faces and table[row + np.uint64(1), 0] <= thread:
        row += np.uint64(1)
    cell = thread - table[row, 0]
    high, wide = table[row, 4], table[row, 3]
    plane, line, place = cell // (high * wide), cell // wide % high, cell % wide
    here = table[row, 2] + plane * table[row, 5] + line * table[row, 6] + place
    return row, cell, here


@kernel(
    "void(uint64, uint64, uint64[:, ::1], float64[::1], float64[::1])",
    "void(uint64, uint64, uint64[:, ::1], float32[::1], float32[::1])",
)
def _pack(count, faces, table, field, buffer):  # type: ignore[no-untyped-def]
    thread = np.uint64(cuda.grid(1))
    if thread < count:
        row, cell, here = _place(thread, faces, table)
        buffer[table[row, 1] + cell] = field[here]


def _unpacking(real: str) -> Kernel:
    """Return the kernel that copies messages, found by their addresses, to a field of a type."""
    message_at = viewer(real)

    @kernel(f"void(uint64, uint64, uint64[:, ::1], {real}[::1])")
    def unpack(count, faces, table, field):  # type: ignore[no-untyped-def]
        thread = np.uint64(cuda.grid(1))
        if thread < count:
            row, cell, here = _place(thread, faces, table)
            message = message_at(np.int64(table[row, 1]), np.int64(cell + np.uint64(1)))
            field[here] = message[cell]

    return unpack


_unpack64, _unpack32 = _unpacking("float64"), _unpacking("float32")


def face_table(
    shape: tuple[int, ...], faces: Iterable[tuple[int, Region]]
) -> tuple[int, np.ndarray]:
    """Return how many cells some faces have, and the table of the faces, (faces, COLUMNS) uint64.

    ``faces``: for each one where its message begins, and its region of the field.
    """
    rows, count = [], 0
    row_cells = shape[-1]
    plane_cells = row_cells * shape[-2]
    for start, region in faces:
        low = (0,) * (3 - len(shape)) + region[::2]
        planes, high, wide = (1,) * (3 - len(shape)) + shape_of(region)
        first = low[0] * plane_cells + low[1] * row_cells + low[2]
        rows.append((count, start, first, wide, high, plane_cells, row_cells))
        count += planes * high * wide
    return count, np.array(rows, np.uint64).reshape(-1, COLUMNS)


class Faces:
    """Faces or ghosts that one launch copies: how many cells, how many faces, and their table."""

    def __init__(self, cells: int, number: int, table: Array) -> None:
        self.cells, self.number, self.table = cells, number, table


@repeated
def _pack_faces(field: Any, memory: Any, faces: Faces) -> Launch:
    """Launch one thread for every cell of the faces of a field."""
    if not faces.cells:
        return nothing
    where = launch(faces.cells, field.stream)
    return _pack.prepared(where, faces.cells, faces.number, faces.table, flat(field), memory)


@repeated
def _unpack_ghosts(field: Any, table: Any, ghosts: Faces) -> Launch:
    """Launch one thread for every ghost of a field; the table has the messages' addresses."""
    if not ghosts.cells:
        return nothing
    where, unpack = launch(ghosts.cells, field.stream), (_unpack64, _unpack32)
    single = field.dtype.itemsize == 4
    return unpack[single].prepared(where, ghosts.cells, ghosts.number, table, flat(field))


class Halo:
    """Copies by kernels; see `kernels.halo.interface.Halo`."""

    def __init__(
        self, device: Device, inside: Mapping[Any, Region], outside: Mapping[Any, Region]
    ) -> None:
        self.device, self.inside, self.outside = device, inside, outside
        self.shapes = {edge: shape_of(region) for edge, region in inside.items()}
        self.ghosts = {edge: shape_of(region) for edge, region in outside.items()}
        self.faces: dict[Any, Faces] = {}  # by side, and where messages begin

    def pack(self, field: Array) -> Mapping[Any, Any]:
        """Copy all faces into one message buffer, by one launch."""
        buffer: Any = self.device.messages(self.shapes, field.dtype)
        memory, starts = buffer.memory
        _pack_faces(field, memory, self._faces(self.inside, starts, field))
        return buffer

    def unpack(self, field: Array, came: Mapping[Any, Any]) -> None:
        """Copy all messages by one launch."""
        views = self.device.received(came)
        for edge, view in views.items():
            if view.shape != self.ghosts[edge] or view.dtype != field.dtype:
                wanted = f"{self.ghosts[edge]} ghosts of {field.dtype}"
                raise ValueError(f"edge {edge}: {wanted}, {view.shape} of {view.dtype} came")
        ghosts = self._faces(self.outside, addresses(views), field)
        _unpack_ghosts(field, ghosts.table, ghosts)

    def _faces(self, regions: Mapping[Any, Region], starts: Mapping[Any, int], field: Array) -> Any:
        """Return the faces whose messages begin at ``starts``, and keep at most `MOST` of them."""
        key = (regions is self.inside, *starts, *starts.values())
        found = self.faces.get(key)
        if found is None:
            if len(self.faces) >= MOST:
                del self.faces[next(iter(self.faces))]  # the oldest
            faces = [(start, regions[edge]) for edge, start in starts.items()]
            cells, table = face_table(tuple(field.shape), faces)
            found = self.faces[key] = Faces(cells, len(faces), self.device.to_device(table))
        return found
