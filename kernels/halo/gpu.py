"""The halo of a block of cells on the GPU: one kernel packs all faces, one puts all ghosts down.

A thread copies a cell. It finds its face in a table with a row per face, in the order of threads:
the face's first thread, where its message begins, where its cells begin in the field, its cells
along the last axis and the last but one, and the field's cells in a plane and in a row. 16 bytes a
cell, and 56 bytes a face, from cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from devices.backend import Device
from devices.cuda.compiler import blocks, cuda, inlined, kernel
from devices.cuda.memory import flat
from kernels.halo.cpu import Halo as HaloOnCpu
from kernels.halo.cpu import Region, shape_of

THREADS = 256
COLUMNS = 7  # of the table


@inlined
def _places(thread, faces, table):  # type: ignore[no-untyped-def]
    """Where a thread's cell lies in the buffer of messages, and where in the field."""
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
    """The cells of faces, (start of the message, region of the field) each, and their table."""
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


class Halo(HaloOnCpu):
    """Which cells of a block's arrays go over each edge (``inside``), and where others' come."""

    def __init__(
        self, device: Device, inside: Mapping[Any, Region], outside: Mapping[Any, Region]
    ) -> None:
        super().__init__(device, inside, outside)
        self.ghosts = {edge: shape_of(region) for edge, region in outside.items()}
        self.tables: dict[Any, tuple[int, Any]] = {}  # by layout of messages

    def pack(self, field: Any) -> Mapping[Any, Any]:
        """The messages: copies of the cells inside, by edge, in one message buffer."""
        buffer: Any = self.device.messages(self.shapes, field.dtype)
        starts = tuple(buffer.starts.items())
        self._launch(_pack, "inside", self.inside, starts, field, buffer.flat)
        return buffer

    def unpack(self, field: Any, came: Mapping[Any, Any]) -> None:
        """Put what came over each edge where its cells lie; a launch per message buffer.

        Raises ValueError for a message of another shape.
        """
        buffers: dict[int, tuple[Any, list[tuple[Any, int]]]] = {}
        for edge, view in self.device.received(came).items():
            if view.shape != self.ghosts[edge] or view.dtype != field.dtype:
                raise ValueError(f"edge {edge}: {self.ghosts[edge]} ghosts, {view.shape} came")
            buffer, starts = buffers.setdefault(id(view.buffer), (view.buffer, []))
            starts.append((edge, view.start))
        for buffer, starts in buffers.values():
            self._launch(_unpack, "outside", self.outside, tuple(starts), field, buffer.flat)

    def _launch(
        self, kernel: Any, side: str, regions: Any, starts: tuple[Any, ...], field: Any, buffer: Any
    ) -> None:
        """Run a kernel over the faces whose messages begin at ``starts`` in a buffer."""
        if (side, starts) not in self.tables:
            faces = [(start, regions[edge]) for edge, start in starts]
            count, rows = face_table(tuple(field.shape), faces)
            self.tables[side, starts] = count, self.device.to_device(rows)
        count, table = self.tables[side, starts]
        if count:
            where = blocks(count, THREADS), THREADS, field.stream
            kernel[where](count, len(starts), table, flat(field), buffer)
