"""The halos of blocks of cells on the GPU: one launch packs all faces, one unpacks all ghosts.

A launch is for one block or for many. A thread copies one cell. It finds the face of its cell in a
table with one column per face, in the order of threads: the first thread, where the message begins,
where the cells begin in the field, the cells along the last axis and the last but one, and the
field's cells per plane and per row. Messages that leave begin in one buffer. Those that come are in
a buffer for each sender, so the table has their addresses, and one launch reads them all. Cost: 16
bytes per cell, and 56 bytes per face, from cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from miniapps.devices.backend import Array, Device
from miniapps.devices.cuda.buffers import addresses
from miniapps.devices.cuda.compiler import Kernel, blocks, cuda, inlined, kernel, viewer
from miniapps.devices.cuda.launches import Launch, Tasks, nothing, repeated
from miniapps.devices.cuda.memory import address, sent
from miniapps.devices.cuda.primitives import THREADS
from miniapps.devices.cuda.tasks import TABLE, WORDS, Row, launch_for_all, task_here
from miniapps.kernels.halo.interface import Region, shape_of

ROWS = 7  # of the table of faces
CELLS, FACES, FACES_AT, SIZE, FIELD_AT, ROOM, BUFFER_AT = range(WORDS, WORDS + 7)  # of a task
MOST = 256  # tables that a block keeps: its messages change places, but there are only a few

_face_table = viewer("uint64", ROWS)


@inlined
def _place(thread, row, tasks):  # type: ignore[no-untyped-def]
    """Return where a thread's message begins, and its cell's numbers there and in the field."""
    count, face = tasks[row, FACES], np.uint64(0)
    table = _face_table(np.int64(tasks[row, FACES_AT]), np.int64(count))
    while face + np.uint64(1) < count and table[0, face + np.uint64(1)] <= thread:
        face += np.uint64(1)
    cell = thread - table[0, face]
    high, wide = table[4, face], table[3, face]
    plane, line, place = cell // (high * wide), cell // wide % high, cell % wide
    here = table[2, face] + plane * table[5, face] + line * table[6, face] + place
    return table[1, face], cell, here


def _packing(real: str) -> Kernel:
    """Return the kernel that copies faces of fields of a type into message buffers."""
    values_at = viewer(real)

    @kernel(f"void({TABLE})")
    def pack(count, tasks):  # type: ignore[no-untyped-def]
        row, mine = task_here(count, tasks)
        thread = np.uint64(cuda.grid(1))
        if mine and thread < tasks[row, CELLS]:
            start, cell, here = _place(thread, row, tasks)
            field = values_at(np.int64(tasks[row, FIELD_AT]), np.int64(tasks[row, SIZE]))
            buffer = values_at(np.int64(tasks[row, BUFFER_AT]), np.int64(tasks[row, ROOM]))
            buffer[start + cell] = field[here]

    return pack


def _unpacking(real: str) -> Kernel:
    """Return the kernel that copies messages, found by their addresses, to fields of a type."""
    values_at = viewer(real)

    @kernel(f"void({TABLE})")
    def unpack(count, tasks):  # type: ignore[no-untyped-def]
        row, mine = task_here(count, tasks)
        thread = np.uint64(cuda.grid(1))
        if mine and thread < tasks[row, CELLS]:
            start, cell, here = _place(thread, row, tasks)
            field = values_at(np.int64(tasks[row, FIELD_AT]), np.int64(tasks[row, SIZE]))
            message = values_at(np.int64(start), np.int64(cell + np.uint64(1)))
            field[here] = message[cell]

    return unpack


_pack64, _pack32 = _packing("float64"), _packing("float32")
_unpack64, _unpack32 = _unpacking("float64"), _unpacking("float32")


def face_table(
    shape: tuple[int, ...], faces: Iterable[tuple[int, Region]]
) -> tuple[int, np.ndarray]:
    """Return how many cells some faces have, and the table of the faces, (ROWS, faces) uint64.

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
    return count, np.ascontiguousarray(np.array(rows, np.uint64).reshape(-1, ROWS).T)


class Faces:
    """Faces or ghosts that one launch copies: how many cells, how many faces, and their table."""

    def __init__(self, cells: int, number: int, table: Array) -> None:
        self.cells, self.number, self.table = cells, number, table

    def row(self, field: Any, *buffer: Any) -> Row:
        """Return the row of a task; ``buffer``: of the messages to be packed, if that is it."""
        words = [self.cells, self.number, address(self.table)]
        for array in (field, *buffer):
            words += [array.size, address(array)]
        return (blocks(self.cells, THREADS), 1, 1), words


@repeated
def _pack_faces(tasks: Tasks) -> Launch:
    """Launch one thread for every cell of the faces of some fields: (field, memory, faces)."""
    field = tasks[0][0]
    if not any(faces.cells for *_, faces in tasks):
        return nothing
    rows = [faces.row(field, memory) for field, memory, faces in tasks]
    pack = (_pack64, _pack32)[field.dtype.itemsize == 4]
    return launch_for_all(pack, THREADS, field.stream, rows)


@repeated
def _unpack_ghosts(tasks: Tasks) -> Launch:
    """Launch one thread for every ghost of some fields: (field, table of ghosts, ghosts)."""
    field = tasks[0][0]
    if not any(ghosts.cells for *_, ghosts in tasks):
        return nothing
    rows = [ghosts.row(field) for field, _, ghosts in tasks]
    unpack = (_unpack64, _unpack32)[field.dtype.itemsize == 4]
    return launch_for_all(unpack, THREADS, field.stream, rows)


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
        _pack_faces([(field, *self.faces_to(field, buffer))])
        return buffer

    def unpack(self, field: Array, came: Mapping[Any, Any]) -> None:
        """Copy all messages by one launch."""
        ghosts = self.ghosts_of(field, came)
        _unpack_ghosts([(field, ghosts.table, ghosts)])

    def faces_to(self, field: Array, buffer: Any) -> tuple[Any, Faces]:
        """Return the memory of a message buffer, and the faces to be copied there."""
        memory, starts = buffer.memory
        return memory, self._faces(self.inside, starts, field)

    def ghosts_of(self, field: Array, came: Mapping[Any, Any]) -> Faces:
        """Return the ghosts with the addresses of the messages that came."""
        views = self.device.received(came)
        for edge, view in views.items():
            if view.shape != self.ghosts[edge] or view.dtype != field.dtype:
                wanted = f"{self.ghosts[edge]} ghosts of {field.dtype}"
                raise ValueError(f"edge {edge}: {wanted}, {view.shape} of {view.dtype} came")
        return self._faces(self.outside, addresses(views), field)

    def _faces(self, regions: Mapping[Any, Region], starts: Mapping[Any, int], field: Array) -> Any:
        """Return the faces whose messages begin at ``starts``, and keep at most `MOST` of them."""
        key = (regions is self.inside, *starts, *starts.values())
        found = self.faces.get(key)
        if found is None:
            if len(self.faces) >= MOST:
                del self.faces[next(iter(self.faces))]  # the oldest
            faces = [(start, regions[edge]) for edge, start in starts.items()]
            cells, table = face_table(tuple(field.shape), faces)
            found = self.faces[key] = Faces(cells, len(faces), sent(table, field.stream))
        return found


def pack_all(tasks: Sequence[tuple[Any, Array]]) -> list[Mapping[Any, Any]]:
    """Do `Halo.pack` for many blocks, pairs (halo, field) in one stream, by one launch."""
    buffers: list[Any] = [halo.device.messages(halo.shapes, field.dtype) for halo, field in tasks]
    packed = zip(tasks, buffers, strict=True)
    _pack_faces([(field, *halo.faces_to(field, buffer)) for (halo, field), buffer in packed])
    return buffers


def unpack_all(tasks: Sequence[tuple[Any, Array, Mapping[Any, Any]]]) -> list[None]:
    """Do `Halo.unpack` for many blocks, (halo, field, came) in one stream, by one launch."""
    ghosts = [(field, halo.ghosts_of(field, came)) for halo, field, came in tasks]
    _unpack_ghosts([(field, one.table, one) for field, one in ghosts])
    return [None] * len(tasks)
