"""Files of any format: detects the format, checks the file, and reads the atoms in a box."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from miniapps.hdf5 import Unreadable, require_readable
from miniapps.leanmd.inputs.extended_xyz import from_extended_xyz
from miniapps.leanmd.inputs.h5md import MAGIC, from_h5md
from miniapps.leanmd.inputs.lammps_data import from_lammps_data, is_header
from miniapps.leanmd.inputs.tables import OPTION, Chunk, Input, Table, blamed, need
from miniapps.leanmd.inputs.text import BYTE_ORDER_MARK, LONGEST
from miniapps.leanmd.si import Substance
from miniapps.parameters import InputError

COMPRESSED = (
    ("gzip", b"\x1f\x8b"),
    ("bzip2", b"BZh"),
    ("xz", b"\xfd7zXZ"),
    ("zstd", b"\x28\xb5\x2f\xfd"),
)
LATTICE = re.compile(rb"[^#]*\bLattice\s*=", re.IGNORECASE)  # in a comment of extended XYZ
FARTHEST = 1e100  # bound of coordinates and velocities: multiples of a quantum stay finite
LARGEST_ID = 1 << 53  # the audit's rows are doubles


def opened(path: Path, substance: Substance | None = None) -> Input:
    """Detect the format of a file and check all of it. Raises InputError.

    Of several frames, the last one is used. Every row is read and checked here, so that a bad one
    is found before the run begins; `atoms_between` then reads the file again. ``substance``: in
    whose units the numbers of a LAMMPS data file may be.
    """
    with blamed(path):
        need(path.exists(), path, "there is no such file")
        need(path.is_file(), path, "is not a file")
        with open(path, "rb") as file:
            begin = file.read(LONGEST)
    need(begin != b"", path, "is empty")
    for how, magic in COMPRESSED:
        need(not begin.startswith(magic), path, f"is compressed by {how}: decompress it first")
    only_cr = b"\r" in begin and b"\n" not in begin and not begin.startswith(MAGIC)
    need(not only_cr, path, "its lines end with CR alone: end them with LF")
    if begin.startswith(MAGIC):
        _require_readable(path)
        source = from_h5md(path)
    elif _is_xyz(begin):
        source = from_extended_xyz(path)
    else:
        headed = any(LATTICE.match(line) for line in begin.split(b"\n")[1:3])
        what = "the first line of extended XYZ must be the number of atoms alone"
        need(not headed, f"{path}:1", what)
        source = from_lammps_data(path, substance)
    try:
        _check_ids(source)
    except MemoryError:  # a file may declare a dataset of any size
        raise InputError(OPTION, path, f"memory is too small for {source.atoms} atoms") from None
    return source


def _is_xyz(begin: bytes) -> bool:
    """Whether a file begins with a frame's count, and not with a number as the title of LAMMPS."""
    text = begin.removeprefix(BYTE_ORDER_MARK).decode(errors="replace")
    first, second = [*(line for line in text.split("\n") if line.strip()), "", ""][:2]
    return re.fullmatch(r"\s*\d+\s*", first, re.ASCII) is not None and not is_header(second)


def _require_readable(path: Path) -> None:
    """Raise InputError if reading an HDF5 file would end this process."""
    try:
        require_readable(path, lambda: _check_ids(from_h5md(path)))
    except Unreadable as error:
        raise InputError(OPTION, path, str(error)) from None


def atoms_between(
    source: Input, low: np.ndarray, high: np.ndarray, quantum: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The atoms in [low, high), (3,) each, with the box's lowest corner as the origin.

    Positions are rounded to multiples of ``quantum`` and wrapped into the box, whose sides are
    rounded too, before atoms are selected. So if boxes tile the whole, every atom is in exactly one
    of them. Returns ids (n,) int64, in ascending order, positions (3, n) and velocities (3, n),
    which are 0 if the file has none. Raises InputError if the file is no longer valid.
    """
    ids, positions = [np.empty(0, np.int64)], [np.empty((0, 3))]
    for some, vectors in _checked(source.positions):
        at = wrapped((vectors - source.corner) / source.scale.length, np.array(source.box), quantum)
        inside = np.all((at >= low) & (at < high), axis=1)
        ids.append(some[inside])
        positions.append(at[inside])
    kept = np.concatenate(ids)
    order = np.argsort(kept)
    kept = kept[order]
    velocity = np.zeros((3, len(kept)))
    if source.velocities is not None:
        padded = np.append(kept, 0)  # ids beyond the last are compared with 0, which is no id
        for some, vectors in _checked(source.velocities):
            slots = np.searchsorted(kept, some)
            known = padded[slots] == some
            velocity[:, slots[known]] = vectors[known].T / source.scale.speed
    return kept, np.ascontiguousarray(np.concatenate(positions)[order].T), velocity


def wrapped(at: np.ndarray, box: np.ndarray, quantum: float) -> np.ndarray:
    """Positions (n, 3) as multiples of the quantum in [0, box); their remainders are exact."""
    sides = np.rint(box / quantum) * quantum
    return np.mod(np.rint(at / quantum) * quantum, sides)


def _checked(table: Table) -> Iterator[Chunk]:
    """The rows of a table, some at a time. Raises InputError for a bad id or vector."""
    first = 0
    for ids, vectors in table.chunks():
        known = (ids >= 1) & (ids <= LARGEST_ID)
        good = known, (np.abs(vectors) < FARTHEST).all(axis=1)  # the second is false for NaN
        what = "ids must be from 1 to 2^53", f"{table.what} must be finite and below {FARTHEST:g}"
        for holds, allowed in zip(good, what, strict=True):
            row = int(np.argmin(holds))
            need(holds.all(), table.location(first + row), f"atom {ids[row]}: {allowed}")
        yield ids, vectors
        first += len(ids)


def _check_ids(source: Input) -> None:
    """Raise InputError unless every atom is in each table exactly once."""
    atoms = _sorted_ids(source.positions)
    if source.velocities is not None:
        moving = _sorted_ids(source.velocities)
        if not np.array_equal(moving, atoms):  # of equal length, so one id is no atom
            atom = int(np.setdiff1d(moving, atoms)[0])
            location = _location_of(source.velocities, atom)
            raise InputError(OPTION, location, f"atom {atom} has a velocity, but no position")


def _sorted_ids(table: Table) -> np.ndarray:
    """The ids in a table, in ascending order: (count,) int64. Raises InputError for duplicates."""
    ids, first = np.empty(table.count, np.int64), 0
    for some, _ in _checked(table):
        ids[first : first + len(some)] = some
        first += len(some)
    ids.sort()
    repeated = ids[1:] == ids[:-1]
    if repeated.any():
        atom = int(ids[np.argmax(repeated)])
        raise InputError(OPTION, _location_of(table, atom), f"atom {atom} is there more than once")
    return ids


def _location_of(table: Table, atom: int) -> str:
    """The location of the last row of an atom in a table."""
    row = first = 0
    for ids, _ in table.chunks():
        row = first + int(np.flatnonzero(ids == atom)[-1]) if atom in ids else row
        first += len(ids)
    return table.location(row)
