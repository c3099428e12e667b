"""Extended XYZ files: frames of a count, a comment that names the columns, and a row per atom.

The comment has the syntax of github.com/libAtoms/extxyz, and ASE's single quotes: ``key=word``,
``key="words"`` or ``key=[list]``. Of its keys those in `KEYS` are read, in any case of letters.

Of the columns these are read: the kind of atom, which must be the same for all; pos; velocities;
momenta, with masses, which must be 1. ASE computes velocities as momenta over masses, and takes the
masses of the elements if a file has none; so momenta without masses are refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.leanmd.inputs.tables import (
    ONLY_LAMMPS,
    OPTION,
    TAKEN_AS_REDUCED,
    Input,
    Sides,
    diagonal,
    need,
)
from miniapps.leanmd.inputs.text import MOST_ATOMS, Lines, TextTable, lines_of, numbers_in
from miniapps.parameters import InputError

KEYS = ("lattice", "properties", "pbc", "units")
# Each part is taken whole or not at all, so the time is linear.
QUOTED = r"""\"(?:[^"\\]++|\\.)*+\"|'(?:[^'\\]++|\\.)*+'"""
LISTED = r"\[(?:[^\[\]]++|\[[^\[\]]*+\])*+\]|\{[^{}]*+\}"
VALUE = rf"""\s*+=\s*+(?P<value>{QUOTED}|{LISTED}|[^\s"']\S*+)"""
PAIR = re.compile(rf"""\s*+(?:=|(?P<key>{QUOTED}|[^\s="'][^\s=]*+)(?:{VALUE})?+)\s*+""")
IN_LIST = re.compile(r"[^\s,\[\]{}]++")  # an item of a list, with blanks or commas between
TRUE = ("t", "true", "1")

COLUMNS = {  # names in a file, in lower case, of the columns that are read: field and type
    **dict.fromkeys(("pos", "position", "positions"), ("position", "R3")),
    **dict.fromkeys(("v", "vel", "velo", "velocity", "velocities"), ("velocity", "R3")),
    **dict.fromkeys(("p", "momentum", "momenta"), ("velocity", "R3")),
    **dict.fromkeys(("mass", "masses"), ("mass", "R1")),
    **dict.fromkeys(("z", "number", "numbers"), ("number", "I1")),
    "id": ("id", "I1"),
    "ids": ("id", "I1"),
    "species": ("kind", "S1"),
    **dict.fromkeys(("element", "elements"), ("element", "S1")),
    **dict.fromkeys(("symbol", "symbols"), ("symbol", "S1")),
    **dict.fromkeys(("type", "types", "atom_type", "atom_types"), ("type", "")),  # of any type
}
SHORT = ("v", "p", "z")  # names that mean something else if the width is another, or the type R
ALONG_X = re.compile(r"v(?:el|elo|elocity)?[_.]?x")  # a column for one component of velocities
MOMENTA = ("p", "momentum", "momenta")
PLAIN = "species:S:1:pos:R:3"  # the columns of a file that names none
TYPES: dict[str, Any] = {
    "position": ("f8", (3,)),
    "velocity": ("f8", (3,)),
    "mass": ("f8",),
    "number": ("i8",),
    "id": ("i8",),
    **dict.fromkeys(("kind", "element", "symbol", "type"), ("S64",)),
}

NO_BOX = 'Lattice="ax 0 0 0 by 0 0 0 cz" is missing, which gives the sides of the box'
NO_MASSES = "momenta need a column masses:R:1 of ones: set the masses before the velocities"


def from_extended_xyz(path: Path) -> Input:
    """Find the last frame of an extended XYZ file: a count, a comment, and a row for each atom."""
    with lines_of(path) as lines:
        for text in lines:
            if not text.strip():
                continue
            count = _count(text, lines)
            comment, location = next(lines, ""), lines.location
            columns = len(next(lines, "").split())
            start, line = lines.start, lines.number
            rows = f"the frame must have {count} rows as announced, has 0"
            need(columns > 0, lines.location, rows)
            lines.skip_rows(count - 1, count, "the frame")
    keys = _keys(comment, location)
    need("lattice" in keys, location, NO_BOX)
    box = _box(keys["lattice"], location)
    form = keys.get("properties", PLAIN)
    if "properties" not in keys:
        what = f"without Properties a row must be 'species x y z', the first has {columns} words"
        need(columns == 4, location, what)
    fields = _fields(form, columns, location)
    units, pbc = keys.get("units", "lj"), keys.get("pbc", "T")
    need(units.lower() == "lj", location, f"units must be lj, not {units[:40]!r}; {ONLY_LAMMPS}")
    along = [word.lower() in TRUE for word in IN_LIST.findall(pbc)]
    periodic = all(along) and len(along) in (1, 3)
    need(periodic, location, f"pbc must be 'T T T', not {pbc[:40]!r}")
    tables = [
        TextTable(path, what, start, line, count, fields, form, comments=None)
        for what in ("position", "velocity")
        if what in (fields.names or ())
    ]
    moving = tables[1] if tables[1:] else None
    note = "" if "units" in keys else TAKEN_AS_REDUCED
    return Input(path, box, (0.0, 0.0, 0.0), 0, tables[0], moving, note=note)


def _count(text: str, lines: Lines) -> int:
    """The number of atoms in a frame, which is on the current line."""
    counted = re.fullmatch(r"\s*0*([1-9]\d{0,14})\s*", text, re.ASCII)
    if counted is None:
        allowed = "the number of atoms in a frame must be here, an integer from 1 to"
        what = f"{allowed} {MOST_ATOMS:g}; are there more rows than that?"
        raise InputError(OPTION, lines.location, what)
    return int(counted[1])


def _keys(comment: str, location: str) -> dict[str, str]:
    """The values of `KEYS` in a comment, without their quotes; a key without a value is true."""
    found: dict[str, str] = {}
    comment, place = comment.strip(), 0
    while place < len(comment):
        pair = PAIR.match(comment, place)
        if pair is None:
            what = f"a quotation mark has no second one: {comment[place : place + 40]!r}"
            raise InputError(OPTION, location, what)
        place, key = pair.end(), _unquoted(pair["key"] or "")
        if key.lower() in KEYS:
            need(key.lower() not in found, location, f"{key} must be there once")
            found[key.lower()] = _unquoted(pair["value"] or "T")
    return found


def _unquoted(word: str) -> str:
    """A word without quotes around it, in which a backslash keeps the next character."""
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if word[:1] in ("'", '"') else word


def _box(lattice: str, location: str) -> Sides:
    """The sides of the box from its edges, nine numbers in any kind of list, or from three."""
    numbers = numbers_in(IN_LIST.findall(lattice), location)
    what = f'must be nine numbers, "ax 0 0 0 by 0 0 0 cz", or three, has {len(numbers)}'
    need(len(numbers) in (3, 9), location, f"Lattice {what}")
    matrix = np.diag(numbers) if len(numbers) == 3 else np.array(numbers).reshape(3, 3)
    return diagonal(matrix, location)


def _fields(properties: str, columns: int, location: str) -> np.dtype:
    """The fields of a row, from Properties, which has name:type:width for each column."""
    words = properties.split(":")
    triples = list(zip(words[::3], words[1::3], words[2::3], strict=False))
    good = len(words) % 3 == 0
    good = good and all(kind and re.fullmatch("[1-9][0-9]{0,3}", n) for _, kind, n in triples)
    need(good, location, f"Properties must be name:type:width and so on, not {properties!r}")
    widths = [int(width) for _, _, width in triples]
    is_all = f"Properties have {sum(widths)} columns, the first row {columns}"
    need(sum(widths) == columns, location, is_all)
    called: dict[str, str] = {}  # the fields, and their names in the file
    fields: list[Any] = []
    for number, (name, letter, width) in enumerate(triples):
        # Other columns are ignored, so the first letter of each of their words is enough.
        field, form = _meaning(name.lower(), letter.upper() + width) or (f"column {number}", "")
        good = form in ("", letter.upper() + width)
        need(good, location, f"{name} must be {name}:{form[:1]}:{form[1:]}")
        two = "Properties have two columns of the same meaning"
        need(field not in called, location, f"{two}, {called.get(field)} and {name}")
        called[field] = name
        fields.append((field, *TYPES.get(field, ("S1", (int(width),)))))
    need("position" in called, location, "Properties must have pos:R:3")
    moving = called.get("velocity", "").lower()
    need(moving not in MOMENTA or "mass" in called, location, NO_MASSES)
    apart = [name for name in called.values() if ALONG_X.fullmatch(name.lower())]
    what = f"velocities must be one column vel:R:3, not {', '.join(apart)}"
    need(bool(moving) or not apart, location, what)
    return np.dtype(fields)


def _meaning(name: str, found: str) -> tuple[str, str] | None:
    """The field of a column, and the type that it must have; None: it is not read."""
    meaning = COLUMNS.get(name)
    if meaning is None or name not in SHORT:
        return meaning
    form = meaning[1]
    another = found != form and (found[0] == "R" or found[1:] != form[1:])
    return None if another else meaning
