"""Atoms of an input file, read by a second program for the audit, line by line or by dataset.

Nothing here is shared with `miniapps.leanmd.inputs`, which has checked the file before the run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.hdf5 import require_own_data

AT_ONCE = 1 << 16  # rows of which the ids are read
Atom = tuple[list[float], list[float] | None]  # position from the box's corner, and velocity
SIGMA = 3.405  # Angstrom, of argon
OF_HEAT = 119.8 * 0.831446261  # epsilon of argon over one g/mol, in (Angstrom / ps)^2


def atoms_of(path: Path, wanted: set[int], argon: bool = False) -> dict[int, Atom]:
    """The atoms of a file with these ids. Raises OSError if the file is gone.

    ``argon``: whether LAMMPS data may be in units of argon, real or metal.
    """
    with open(path, "rb") as file:
        first, second = file.readline(), file.readline()
    if first.startswith(b"\x89HDF"):
        return of_h5md(path, wanted)
    with open(path, encoding="utf-8") as text:
        if b"Lattice" in second:
            return of_extended_xyz(text, wanted)
        return of_lammps_data(text, wanted, argon)


def of_extended_xyz(lines: Iterable[str], wanted: set[int]) -> dict[int, Atom]:
    """The atoms of the last frame."""
    frame: dict[int, Atom] = {}
    remaining = iter(lines)
    for line in remaining:
        if not line.strip():
            continue
        rows = range(int(line))
        named = re.search(r"""Properties\s*=\s*["']?([^\s"']+)""", next(remaining))
        assert named is not None
        words = named[1].lower().split(":")
        places, column = {}, 0
        for name, width in zip(words[::3], words[2::3], strict=True):
            places["vel" if name.startswith("vel") else name] = column
            column += int(width)
        frame = {}
        for row in rows:
            values = next(remaining).split()
            atom = int(values[places["id"]]) if "id" in places else row + 1
            if atom in wanted:
                at, vel = places["pos"], places.get("vel")
                speed = None if vel is None else [float(v) for v in values[vel : vel + 3]]
                frame[atom] = [float(v) for v in values[at : at + 3]], speed
    return frame


def of_lammps_data(lines: Iterable[str], wanted: set[int], argon: bool) -> dict[int, Atom]:
    """The atoms of a LAMMPS data file."""
    corner, section, mass = [0.0, 0.0, 0.0], "", 0.0
    found: dict[str, dict[int, list[float]]] = {"Atoms": {}, "Velocities": {}}
    remaining = iter(lines)
    title = next(remaining)
    for words in filter(None, (line.partition("#")[0].split() for line in remaining)):
        if words[0][0].isalpha():
            section = words[0]
        elif not section and words[-1] in ("xhi", "yhi", "zhi"):
            corner["xyz".index(words[-1][0])] = float(words[0])
        elif section in found and int(words[0]) in wanted:
            first = 2 if section == "Atoms" else 1
            found[section][int(words[0])] = [float(word) for word in words[first : first + 3]]
        elif section == "Masses":
            mass = float(words[1])
    length, speed = units_of(title, mass, argon)
    return {
        atom: (
            [(x - low) / length for x, low in zip(at, corner, strict=True)],
            [v * speed for v in found["Velocities"][atom]] if found["Velocities"] else None,
        )
        for atom, at in found["Atoms"].items()
    }


def units_of(title: str, mass: float, argon: bool) -> tuple[float, float]:
    """The length of sigma, and the factor to sigma / tau, of a file; ``mass`` 0: none is there."""
    of_argon = argon and abs(mass - 39.948) < 0.1
    if re.search(r"units\s*=\s*lj\b", title) or not (re.search(r"units\s*=", title) or of_argon):
        return 1.0, math.sqrt(mass or 1.0)
    metal = math.sqrt((mass or 39.948) / OF_HEAT)  # ps per Angstrom times sigma / tau
    return SIGMA, metal if re.search(r"units\s*=\s*metal\b", title) else 1000 * metal


def of_h5md(path: Path, wanted: set[int]) -> dict[int, Atom]:
    """The atoms of the last frame of an H5MD file, of which only their rows are held."""
    import h5py

    with h5py.File(path, "r") as file:
        require_own_data(file)
        groups = file["particles"]
        atoms = groups["atoms"] if "atoms" in groups else next(iter(groups.values()))
        found = {}
        for row, atom in rows_of(atoms, wanted):
            position, velocity = last(atoms, "position", row), last(atoms, "velocity", row)
            found[atom] = position.tolist(), None if velocity is None else velocity.tolist()
        return found


def rows_of(atoms: Any, wanted: set[int]) -> Iterator[tuple[int, int]]:
    """The row and the id of each wanted atom; without ids, they are numbered from 1."""
    if "id" not in atoms:
        yield from ((atom - 1, atom) for atom in wanted)
        return
    element = atoms["id"]
    count = element["value"].shape[1] if hasattr(element, "keys") else len(element)
    for first in range(0, count, AT_ONCE):
        ids = last(atoms, "id", slice(first, first + AT_ONCE))
        for n in np.flatnonzero(np.isin(ids, sorted(wanted))):
            yield first + int(n), int(ids[n])


def last(atoms: Any, name: str, rows: Any) -> Any:
    """Rows of an element's last frame; None if there is no such element."""
    element = atoms.get(name)
    if element is None:
        return None
    return element["value"][-1, rows] if hasattr(element, "keys") else element[rows]
