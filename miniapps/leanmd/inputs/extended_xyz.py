"""Extended XYZ files: frames of a count, a comment that names the columns, and a row per atom.

Of ASE's columns these are read: species and Z, which must be the same for all atoms; pos; momenta,
with masses, which must be 1. ASE computes velocities as momenta over masses, and takes the masses
of the elements if a file has none; so momenta without masses are refused. Velocities are those of
other programs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.leanmd.inputs.tables import ONLY_LAMMPS, OPTION, Input, diagonal, need
from miniapps.leanmd.inputs.text import MOST_ATOMS, TextTable, lines_of, numbers_in
from miniapps.parameters import InputError

# Each word is tried from its begin only, and never again in parts: the time is linear.
PAIRS = re.compile(r"""\b(\w++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|(\S++))""")
COLUMNS = {  # names in a file, in lower case, of the columns that are read: field and type
    **dict.fromkeys(("pos", "position", "positions"), ("position", "R3")),
    **dict.fromkeys(("v", "vel", "velo", "velocity", "velocities"), ("velocity", "R3")),
    **dict.fromkeys(("p", "momentum", "momenta"), ("velocity", "R3")),
    **dict.fromkeys(("mass", "masses"), ("mass", "R1")),
    **dict.fromkeys(("z", "number", "numbers"), ("number", "I1")),
    "id": ("id", "I1"),
    "species": ("kind", "S1"),
}
MOMENTA = ("p", "momentum", "momenta")
PLAIN = "species:S:1:pos:R:3"  # the columns of a file that names none
TYPES: dict[str, Any] = {
    "position": ("f8", (3,)),
    "velocity": ("f8", (3,)),
    "mass": ("f8",),
    "number": ("i8",),
    "id": ("i8",),
    "kind": ("S16",),
}

NO_BOX = 'Lattice="ax 0 0 0 by 0 0 0 cz" is missing, which gives the sides of the box'
NO_MASSES = "momenta need a column masses:R:1 of ones: set the masses before the velocities"


def from_extended_xyz(path: Path) -> Input:
    """Find the last frame of an extended XYZ file: a count, a comment, and a row for each atom."""
    with lines_of(path) as lines:
        for text in lines:
            if not text.strip():
                continue
            counted = re.fullmatch(r"\s*0*([1-9]\d{0,14})\s*", text, re.ASCII)
            if counted is None:
                what = "the number of atoms in a frame"
                allowed = f"{what} must be here, an integer from 1 to {MOST_ATOMS:g}"
                raise InputError(
                    OPTION, lines.location, f"{allowed}; are there more rows than that?"
                )
            count = int(counted[1])
            comment, location = next(lines, ""), lines.location
            columns = len(lines.row("atoms"))
            start, line = lines.start, lines.number
            lines.skip_rows(count - 1, count, "the frame")
    keys = {found[1]: "".join(found.groups("")[1:]) for found in PAIRS.finditer(comment)}
    form = keys.get("Properties", PLAIN)
    need("Lattice" in keys, location, NO_BOX)
    fields = _fields(form, columns, location)
    units = keys.get("units", "lj")
    need(units == "lj", location, f"units must be lj, not {units!r}; {ONLY_LAMMPS}")
    periodic = keys.get("pbc", "T T T").split() == ["T", "T", "T"]
    need(periodic, location, f"pbc must be 'T T T', not {keys.get('pbc')!r}")
    lattice = numbers_in(keys["Lattice"].split(), location)
    need(len(lattice) == 9, location, 'Lattice="ax ay az bx by bz cx cy cz" must be there')
    box = diagonal(np.array(lattice).reshape(3, 3), location)
    tables = [
        TextTable(path, what, start, line, count, fields, form)
        for what in ("position", "velocity")
        if what in (fields.names or ())
    ]
    return Input(path, box, (0.0, 0.0, 0.0), 0, tables[0], tables[1] if tables[1:] else None)


def _fields(properties: str, columns: int, location: str) -> np.dtype:
    """The fields of a row, from Properties, which has name:type:width for each column."""
    words = properties.split(":")
    triples = list(zip(words[::3], words[1::3], words[2::3], strict=False))
    good = len(words) % 3 == 0
    good = good and all(kind and re.fullmatch("[1-9][0-9]?", width) for _, kind, width in triples)
    need(good, location, f"Properties must be name:type:width and so on, not {properties!r}")
    widths = [int(width) for _, _, width in triples]
    is_all = f"Properties have {sum(widths)} columns, the first row {columns}"
    need(sum(widths) == columns, location, is_all)
    fields: list[Any] = []
    for number, (name, letter, width) in enumerate(triples):
        # Other columns are ignored, so the first letter of each of their words is enough.
        called, form = COLUMNS.get(name.lower(), (f"column {number}", letter + width))
        need(letter + width == form, location, f"{name} must be {name}:{form[0]}:{form[1]}")
        fields.append((called, *TYPES.get(called, ("S1", (int(width),)))))
    names = [field[0] for field in fields]
    moving = any(name.lower() in MOMENTA for name, _, _ in triples)
    need(not moving or "mass" in names, location, NO_MASSES)
    need(len(set(names)) == len(names), location, "Properties have two columns of the same meaning")
    need("position" in names, location, "Properties must have pos:R:3")
    return np.dtype(fields)
