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
from devices.cuda.compiler import cuda, inlined, kernel
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


class Halo:
    """Copies by kernels; see `kernels.halo.interface.Halo`."""

    def __init__(
        self, device: Device, inside: Mapping[Any, Region], outside: Mapping[Any, Region]
    ) -> None:
        self.device, self.inside, self.outside = device, inside, outside
        self.shapes = {edge: shape_of(region) for edge, region in inside.items()}
        self.ghosts = {edge: shape_of(region) for edge, region in outside.items()}
        # Cells, their table, and how to launch, by where messages begin.
        self.tables: dict[Any, tuple[int, Any, Any]] = {}

    def pack(self, field: Array) -> Mapping[Any, Any]:
        """Copy all faces into one message buffer, by one launch."""
        buffer: Any = self.device.messages(self.shapes, field.dtype)
        memory, starts = buffer.memory
        self._launch(_pack, "inside", self.inside, starts, field, memory)
        return buffer

    def unpack(self, field: Array, came: Mapping[Any, Any]) -> None:
        """Copy all messages of one message buffer by one launch."""
        views = self.device.received(came)
        for edge, view in views.items():
            if view.shape != self.ghosts[edge] or view.dtype != field.dtype:
                wanted = f"{self.ghosts[edge]} ghosts of {field.dtype}"
                raise ValueError(f"edge {edge}: {wanted}, {view.shape} of {view.dtype} came")
        for memory, starts in by_buffer(views):
            self._launch(_unpack, "outside", self.outside, starts, field, memory)

    def _launch(
        self,
        kernel: Any,
        side: str,
        regions: Any,
        starts: dict[Any, int],
        field: Array,
        memory: Any,
    ) -> None:
        """Launch a kernel for the faces whose messages begin at ``starts`` in a buffer's memory."""
        key = (side, *starts, *starts.values())
        found = self.tables.get(key)
        if found is None:
            faces = [(start, regions[edge]) for edge, start in starts.items()]
            count, rows = face_table(tuple(field.shape), faces)
            where = launch(count, field.stream)
            found = self.tables[key] = count, self.device.to_device(rows), where
        count, table, where = found
        if count:
            kernel[where](count, len(starts), table, flat(field), memory)
