"""Atoms of an input file, read by a second program for the audit, line by line or by dataset.

Nothing here is shared with `miniapps.leanmd.inputs`, which has checked the file before the run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from miniapps.hdf5 import require_own_data

AT_ONCE = 1 << 16  # rows of which the ids are read
Atom = tuple[list[float], list[float] | None]  # position from the box's corner, and velocity
SIGMA = 3.405  # Angstrom, of argon
OF_HEAT = 119.8 * 0.831446261  # epsilon of argon over one g/mol, in (Angstrom / ps)^2
OF_COLUMN = {  # what a column of extended XYZ is; masses are 1, so momenta are velocities
    **dict.fromkeys(("pos", "position", "positions"), "position"),
    **dict.fromkeys(("v", "vel", "velo", "velocity", "velocities"), "velocity"),
    **dict.fromkeys(("p", "momentum", "momenta"), "velocity"),
    **dict.fromkeys(("id", "ids"), "id"),
}
# Keywords of LAMMPS's headers.
HEADER = re.compile(
    r"atoms|bonds|angles|dihedrals|impropers|(atom|bond|angle|dihedral|improper) types"
    r"|extra (bond|angle|dihedral|improper|special) per atom|ellipsoids|lines|triangles|bodies"
    r"|xlo xhi|ylo yhi|zlo zhi|xy xz yz|[abc]vec|abc origin"
)


@dataclass(frozen=True)
class Found:
    """What a file says: the sides of the box, and some atoms by their ids."""

    box: list[float]
    atoms: dict[int, Atom]


def read(path: Path, wanted: set[int], argon: bool = False) -> Found:
    """The box of a file, and its atoms with these ids. Raises OSError if the file is gone.

    ``argon``: whether LAMMPS data may be in units of argon, real or metal. A file of another syntax
    ends in a LookupError or a ValueError.
    """
    with open(path, "rb") as file:
        if file.read(4) == b"\x89HDF":
            return of_h5md(path, wanted)
        file.seek(0)
        lines = (line.decode("utf-8-sig", "replace") for line in file)
        first, second = [*islice(filter(str.strip, lines), 2), "", ""][:2]
        file.seek(0)
        if first.strip().isdecimal() and not of_header(second.partition("#")[0].split()):
            return of_extended_xyz(file, wanted)
        return of_lammps_data((line.decode(errors="replace") for line in file), wanted, argon)


def number(word: str) -> float:
    """A number as C or Fortran writes it: 1e0, 1.0D+00."""
    return float(word.upper().replace("D", "E"))


# Extended XYZ --------------------------------------------------------------------------------


def of_extended_xyz(file: BinaryIO, wanted: set[int]) -> Found:
    """The box and the atoms of the last frame."""
    count, comment = last_frame(file)
    keys = keys_of(comment)
    columns = columns_of(keys.get("properties", "species:S:1:pos:R:3"))
    atoms: dict[int, Atom] = {}
    for row, line in enumerate(islice(file, count), 1):
        if "id" not in columns and row not in wanted:
            continue
        values = line.decode(errors="replace").split()
        atom = int(values[columns["id"]]) if "id" in columns else row
        if atom in wanted:
            place, at = columns.get("velocity"), columns["position"]
            speed = None if place is None else [number(v) for v in values[place : place + 3]]
            atoms[atom] = [number(x) for x in values[at : at + 3]], speed
    edges = [number(word) for word in re.sub(r"[\[\]{},]", " ", keys["lattice"]).split()]
    return Found(edges if len(edges) == 3 else edges[::4], atoms)


def last_frame(file: BinaryIO) -> tuple[int, str]:
    """The number of atoms in the last frame and its comment; the file is then at its first atom."""
    count = start = 0
    while line := file.readline():
        if line.strip():
            count, start = int(line.decode("utf-8-sig")), file.tell()
            for _ in range(count + 1):
                file.readline()
    file.seek(start)
    return count, file.readline().decode()


def columns_of(properties: str) -> dict[str, int]:
    """The number of words before each column that is read; of another width it is another one."""
    found, before, words = {}, 0, properties.lower().split(":")
    for name, width in zip(words[::3], map(int, words[2::3]), strict=True):
        what = OF_COLUMN.get(name, "")
        if width == (1 if what == "id" else 3):
            found[what] = before
        before += width
    return found


def keys_of(comment: str) -> dict[str, str]:
    """The keys of a comment, in lower case, and their values, letter by letter."""
    found, at = {}, begin_of_word(comment, 0)
    while at < len(comment):
        key, at = word_at(comment, at, "=")
        at, value = begin_of_word(comment, at), "T"
        if comment[at : at + 1] == "=":
            at = begin_of_word(comment, at + 1)
            value, at = word_at(comment, at, "") if key else ("", at)
        found[key.lower()] = value
        at = begin_of_word(comment, at)
    return found


def begin_of_word(text: str, at: int) -> int:
    """The first place from ``at`` on that is not blank."""
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def word_at(text: str, at: int, stops: str) -> tuple[str, int]:
    """The word at a place, without its quotes, up to one of ``stops``; and the place behind it."""
    begin, first, letters = text[at : at + 1], at, []
    if begin and begin in "\"'":
        at += 1
        while text[at] != begin:
            at += text[at] == "\\"
            letters.append(text[at])
            at += 1
        return "".join(letters), at + 1
    end, deepest = {"[": ("]", 2), "{": ("}", 1)}.get("" if stops else begin, ("", 0))
    depth = deepest and 1
    while 0 < depth <= deepest and at + 1 < len(text):
        at += 1
        depth += (text[at] == begin) - (text[at] == end)
        if not depth:
            return text[first : at + 1], at + 1
    at = first  # a word that only begins as a list
    while at < len(text) and not text[at].isspace() and text[at] not in stops:
        at += 1
    return text[first:at], at


# LAMMPS data ---------------------------------------------------------------------------------


def of_lammps_data(lines: Iterable[str], wanted: set[int], argon: bool) -> Found:
    """The box and the atoms of a LAMMPS data file."""
    low, high, section, mass = [0.0] * 3, [0.0] * 3, "", 0.0
    found: dict[str, dict[int, list[float]]] = {"Atoms": {}, "Velocities": {}}
    remaining = iter(lines)
    title = next(remaining, "")
    for words in filter(None, (line.partition("#")[0].split() for line in remaining)):
        if not any(word[-1].isdigit() or word[-1] == "." for word in words):
            section = words[0]
        elif words[-1] in ("xhi", "yhi", "zhi"):
            axis = "xyz".index(words[-1][0])
            low[axis], high[axis] = number(words[0]), number(words[1])
        elif of_header(words):
            continue
        elif section in found and int(words[0]) in wanted:
            first = 2 if section == "Atoms" else 1
            found[section][int(words[0])] = [number(word) for word in words[first : first + 3]]
        elif section == "Masses":
            mass = number(words[1])
    length, speed = units_of(title, mass, argon)
    atoms = {
        atom: (
            [(x - corner) / length for x, corner in zip(at, low, strict=True)],
            [v * speed for v in found["Velocities"][atom]] if found["Velocities"] else None,
        )
        for atom, at in found["Atoms"].items()
    }
    return Found([(to - corner) / length for to, corner in zip(high, low, strict=True)], atoms)


def of_header(words: list[str]) -> bool:
    """Whether these are numbers and a keyword of LAMMPS's header."""
    first = next((n for n, word in enumerate(words) if word[0].isalpha()), 0)
    return first > 0 and HEADER.fullmatch(" ".join(words[first:])) is not None


def units_of(title: str, mass: float, argon: bool) -> tuple[float, float]:
    """The length of sigma, and the factor to sigma / tau, of a file; ``mass`` 0: none is there."""
    styles = "lj|real|metal|si|cgs|electron|micro|nano"
    after = rf"(?:\s*[=:]\s*[\"']?(?=\w)|\s+(?=(?:{styles})\b))"
    named = re.search(rf"\bunits{after}(\w+)", title.lower())
    of_argon = argon and abs(mass - 39.948) < 0.1
    units = named[1] if named else "real" if of_argon else "lj"
    if units == "lj":
        return 1.0, math.sqrt(mass or 1.0)
    metal = math.sqrt((mass or 39.948) / OF_HEAT)  # ps per Angstrom times sigma / tau
    return SIGMA, metal if units == "metal" else 1000 * metal


# H5MD ----------------------------------------------------------------------------------------


def of_h5md(path: Path, wanted: set[int]) -> Found:
    """The box and the atoms of the last frame of an H5MD file; only their rows are held."""
    import h5py

    with h5py.File(path, "r") as file:
        require_own_data(file)
        parent = file["particles"]
        groups = [group for group in parent.values() if isinstance(group, h5py.Group)]
        atoms = groups[0] if len(groups) == 1 else parent["atoms"]
        found: dict[int, Atom] = {}
        for row, atom in rows_of(atoms, wanted):
            position, velocity = last(atoms, "position", row), last(atoms, "velocity", row)
            speed = None if velocity is None else velocity.astype(float).tolist()
            found[atom] = position.astype(float).tolist(), speed
        edges = last(atoms["box"], "edges", slice(None)).astype(float)
        return Found((edges if edges.ndim == 1 else np.diag(edges)).tolist(), found)


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
