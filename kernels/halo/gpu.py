"""The halo of a block of cells on the GPU: one launch packs all faces, one unpacks all ghosts.

A thread copies one cell. It finds the face of its cell in a table with one row per face, in the
order of threads: the first thread, where the message begins in the buffer, where the cells begin
in the field, the cells along the last axis and the last but one, and the field's cells per plane
and per row. Cost: 16 bytes per cell, and 56 bytes per face, from cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from devices.backend import Array, Device
from devices.cuda.buffers import by_buffer
from devices.cuda.compiler import Kernel, cuda, inlined, kernel
from devices.cuda.launches import Launch, nothing, repeated
from devices.cuda.memory import flat
from devices.cuda.primitives import launch
from kernels.halo.interface import Region, shape_of

COLUMNS = 7  # of the table


@inlined
def _places(thread, faces, table):  # type: ignore[no-untyped-def]
    """Return the indices of a thread's cell, in the message buffer and in the field."""
    row = np.uint64(0)
    while row + np.uint64(1) < faces and table[row + np.uint64(1), 0] <= thread:
        row += np.uint64(1)
    cell = thread - table[row, 0]
    high, wide = table[row, 4], table[row, 3]
    plane, line, place = cell // (high * wide), cell // wide % high, cell % wide
    return table[row, 1] + cell, table[row, 2] + plane * table[row, 5] + line * table[
        row, 6
    ] + place


PACK = (
    "void(uint64, uint64, uint64[:, ::1], float64[::1], float64[::1])",
    "void(uint64, uint64, uint64[:, ::1], float32[::1], float32[::1])",
)


@kernel(*PACK)
def _pack(count, faces, table, field, buffer):  # type: ignore[no-untyped-def]
    thread = np.uint64(cuda.grid(1))
    if thread < count:
        there, here = _places(thread, faces, table)
        buffer[there] = field[here]


@kernel(*PACK)
def _unpack(count, faces, table, field, buffer):  # type: ignore[no-untyped-def]
    thread = np.uint64(cuda.grid(1))
    if thread < count:
        there, here = _places(thread, faces, table)
        field[here] = buffer[there]


def face_table(
    shape: tuple[int, ...], faces: Iterable[tuple[int, Region]]
) -> tuple[int, np.ndarray]:
    """Return how many cells some faces have, and the table of the faces, (faces, COLUMNS) uint64.

    ``faces``: for each one where its message begins in the buffer, and its region of the field.
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
def _copy_faces(field: Any, memory: Any, kernel: Kernel, faces: Faces) -> Launch:
    """Launch a kernel that copies faces between a field and a buffer's memory."""
    if not faces.cells:
        return nothing
    where = launch(faces.cells, field.stream)
    return kernel.prepared(where, faces.cells, faces.number, faces.table, flat(field), memory)


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
        _copy_faces(field, memory, _pack, self._faces(self.inside, starts, field))
        return buffer

    def unpack(self, field: Array, came: Mapping[Any, Any]) -> None:
        """Copy all messages of one message buffer by one launch."""
        views = self.device.received(came)
        for edge, view in views.items():
            if view.shape != self.ghosts[edge] or view.dtype != field.dtype:
                wanted = f"{self.ghosts[edge]} ghosts of {field.dtype}"
                raise ValueError(f"edge {edge}: {wanted}, {view.shape} of {view.dtype} came")
        for memory, starts in by_buffer(views):
            _copy_faces(field, memory, _unpack, self._faces(self.outside, starts, field))

    def _faces(self, regions: Mapping[Any, Region], starts: dict[Any, int], field: Array) -> Faces:
        """Return the faces whose messages begin at ``starts`` in a buffer's memory."""
        key = (regions is self.inside, *starts, *starts.values())
        found = self.faces.get(key)
        if found is None:
            faces = [(start, regions[edge]) for edge, start in starts.items()]
            cells, table = face_table(tuple(field.shape), faces)
            found = self.faces[key] = Faces(cells, len(faces), self.device.to_device(table))
        return found
