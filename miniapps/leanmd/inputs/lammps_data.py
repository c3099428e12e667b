"""LAMMPS data files: a title, a header and sections of rows."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.leanmd.inputs.tables import OPTION, Input, box_of, need
from miniapps.leanmd.inputs.text import (
    MOST_ATOMS,
    Lines,
    TextTable,
    is_number,
    lines_of,
    numbers_in,
)
from miniapps.parameters import InputError

ATOM_FORM, VELOCITY_FORM = "id type x y z [ix iy iz]", "id vx vy vz"
ATOM_FIELDS: list[Any] = [("id", "i8"), ("kind", "S16"), ("position", "f8", (3,))]
ROWS = {  # rows of the sections that are read, by their number of columns
    "Atoms": {5: np.dtype(ATOM_FIELDS), 8: np.dtype([*ATOM_FIELDS, ("images", "i8", (3,))])},
    "Velocities": {4: np.dtype([("id", "i8"), ("velocity", "f8", (3,))])},
}
OTHER_SECTIONS = ("Masses", "Pair Coeffs", "PairIJ Coeffs", "Atom Type Labels")  # one row each
SPANS = ("xlo xhi", "ylo yhi", "zlo zhi")
OF_MOLECULES = ("bond", "angle", "dihedral", "improper")
ONLY = {  # header lines that allow only one value
    "atom types": [1.0],
    "xy xz yz": [0.0, 0.0, 0.0],
    **{f"{name}s": [0.0] for name in OF_MOLECULES},
    **{f"{name} types": [0.0] for name in OF_MOLECULES},
}


def from_lammps_data(path: Path) -> Input:
    """Read the header of a LAMMPS data file and find its sections."""
    header: dict[str, list[float]] = {}
    tables: dict[str, TextTable | None] = {}
    with lines_of(path) as lines:
        step = _step_in_title(lines, next(lines, ""))
        for text in lines:
            words, _, comment = text.partition("#")
            numbers = list(takewhile(is_number, words.split()))
            name = " ".join(words.split()[len(numbers) :])
            if numbers:
                _take_header(lines.location, numbers_in(numbers, lines.location), name, header)
            elif name:
                need(name not in tables, lines.location, f"there is another section {name} before")
                tables[name] = _section(lines, name, comment.strip(), header)
    for name in ("atoms", *SPANS):
        need(name in header, path, f"has no line '{name}'")
    positions = tables.get("Atoms")
    if positions is None:
        raise InputError(OPTION, path, "has no section Atoms")
    x, y, z = (header[span][0] for span in SPANS)
    corner = x, y, z
    box = box_of([header[span][1] - header[span][0] for span in SPANS], path)
    return Input(path, box, corner, step, positions, tables.get("Velocities"))


def _step_in_title(lines: Lines, title: str) -> int:
    """The time step in the title line, else 0. Raises InputError for units other than lj."""
    units = re.search(r"\bunits\s*=\s*(\w+)", title)
    need(units is None or units[1] == "lj", lines.location, f"units must be lj: {title.strip()!r}")
    step = re.search(r"\btimestep\s*=\s*(\d{1,18})\b", title)
    return int(step[1]) if step else 0


def _take_header(
    location: str, numbers: list[float], name: str, header: dict[str, list[float]]
) -> None:
    """Store a line of the header: its numbers and their name. Raises InputError."""
    if name in ONLY:
        only = " ".join(f"{number:g}" for number in ONLY[name])
        what = "there are plain atoms of one type, in a box with right angles"
        need(numbers == ONLY[name], location, f"'{name}' must be {only}: {what}")
        return
    known = name == "atoms" and len(numbers) == 1 or name in SPANS and len(numbers) == 2
    what = "a line of the header or the name of a section must be here"
    need(known, location, f"{what}; are there more rows than announced?")
    if name == "atoms":
        good = 1 <= numbers[0] <= MOST_ATOMS and numbers[0].is_integer()
        need(good, location, f"the number of atoms must be an integer from 1 to {MOST_ATOMS:g}")
    else:
        box_of([numbers[1] - numbers[0]] * 3, location)
    need(name not in header, location, f"there is another line '{name}' before")
    header[name] = numbers


def _section(
    lines: Lines, name: str, style: str, header: dict[str, list[float]]
) -> TextTable | None:
    """Skip the section whose name is the current line; returns its table if it is read."""
    known = f"sections must be {', '.join((*ROWS, *OTHER_SECTIONS))}, not {name[:40]!r}"
    neither = "; nor is the file H5MD or extended XYZ" if lines.number < 4 else ""
    need(name in ROWS or name in OTHER_SECTIONS, lines.location, known + neither)
    need("atoms" in header, lines.location, "the number of atoms must come before")
    plain = name != "Atoms" or style in ("", "atomic")
    need(plain, lines.location, f"the atom style must be atomic, not {style!r}")
    words = lines.row(name)
    if name == "Masses":
        mass = numbers_in(words[1:], lines.location)
        need(
            mass == [1.0], lines.location, f"must be '1 1', the mass of an atom: {' '.join(words)}"
        )
    if name not in ROWS:
        return None
    form = ATOM_FORM if name == "Atoms" else VELOCITY_FORM
    fields = ROWS[name].get(len(words))
    if fields is None:
        raise InputError(OPTION, lines.location, f"must be {form!r}, is {' '.join(words)[:60]!r}")
    what, kind = ("position", b"1") if name == "Atoms" else ("velocity", None)
    count = int(header["atoms"][0])
    table = TextTable(lines.path, what, lines.start, lines.number, count, fields, form, kind)
    lines.skip_rows(count - 1, count, name)
    return table
