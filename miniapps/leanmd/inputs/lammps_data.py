"""LAMMPS data files: a title, a header and sections of rows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.leanmd.inputs.scale import Stated, scale_of
from miniapps.leanmd.inputs.tables import OPTION, ROUNDED, TAKEN_AS_REDUCED, Input, box_of, need
from miniapps.leanmd.inputs.text import (
    MOST_ATOMS,
    Lines,
    TextTable,
    is_number,
    lines_of,
    numbers_in,
)
from miniapps.leanmd.si import Substance
from miniapps.parameters import InputError

# The units in a title: `units = real` as LAMMPS writes it, and as people do.
UNITS = re.compile(
    r"""\bunits(?:\s*+[=:]\s*+["']?(\w{1,40})|\s++(lj|real|metal|si|cgs|electron|micro|nano)\b)""",
    re.IGNORECASE,
)
ATOM_FORM, VELOCITY_FORM = "id type x y z [ix iy iz]", "id vx vy vz"
ATOM_FIELDS: list[Any] = [("id", "i8"), ("kind", "S16"), ("position", "f8", (3,))]
ROWS = {  # rows of the sections that are read, by their number of columns
    "Atoms": {5: np.dtype(ATOM_FIELDS), 8: np.dtype([*ATOM_FIELDS, ("images", "i8", (3,))])},
    "Velocities": {4: np.dtype([("id", "i8"), ("velocity", "f8", (3,))])},
}
MASS, PAIR, PAIR_IJ = "Masses", "Pair Coeffs", "PairIJ Coeffs"
LABELS = "Atom Type Labels"
OTHER_SECTIONS = (MASS, PAIR, PAIR_IJ, LABELS)  # one row each
SPANS = ("xlo xhi", "ylo yhi", "zlo zhi")
OF_MOLECULES = ("bond", "angle", "dihedral", "improper")
ONLY = {  # header lines that allow only one value
    "atom types": [1.0],
    "xy xz yz": [0.0, 0.0, 0.0],
    **{f"{name}s": [0.0] for name in OF_MOLECULES},
    **{f"{name} types": [0.0] for name in OF_MOLECULES},
    **dict.fromkeys(("ellipsoids", "lines", "triangles", "bodies"), [0.0]),
}
RESERVED = tuple(f"extra {name} per atom" for name in (*OF_MOLECULES, "special"))  # memory
TILTED = ("avec", "bvec", "cvec", "abc origin")


@dataclass(frozen=True)
class Header:
    """The numbers of header lines, masses and coefficients by name, and where they are."""

    numbers: dict[str, list[float]] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)  # that stand for type 1 in rows

    def put(self, name: str, numbers: list[float], location: str) -> None:
        """Store some numbers."""
        self.numbers[name], self.places[name] = numbers, location

    def one(self, name: str) -> tuple[float, str] | None:
        """A number and its place, if it is there."""
        return (self.numbers[name][0], self.places[name]) if name in self.numbers else None


def from_lammps_data(path: Path, substance: Substance | None = None) -> Input:
    """Read the header of a LAMMPS data file and find its sections."""
    header = Header()
    tables: dict[str, TextTable | None] = {}
    with lines_of(path) as lines:
        title = next(lines, "")
        units = UNITS.search(title)
        named = ((units[1] or units[2]).lower(), lines.location) if units else None
        step = re.search(r"\btimestep\s*+=\s*+(\d{1,18})\b", title)
        for text in lines:
            words, _, comment = text.partition("#")
            numbers = list(takewhile(is_number, words.split()))
            name = " ".join(words.split()[len(numbers) :])
            if numbers:
                found = numbers_in(numbers, lines.location)
                _take_header(lines.location, found, name, header, in_sections=bool(tables))
            elif name:
                need(name not in tables, lines.location, f"there is another section {name} before")
                tables[name] = _section(lines, name, comment.strip(), header)
    for name in ("atoms", *SPANS):
        need(name in header.numbers, path, f"has no line '{name}'")
    positions, velocities = tables.get("Atoms"), tables.get("Velocities")
    if positions is None:
        raise InputError(OPTION, path, "has no section Atoms")
    potential = None
    if PAIR in header.numbers:
        epsilon, sigma = header.numbers[PAIR]
        potential = (epsilon, sigma), header.places[PAIR]
    stated = Stated(named, header.one(MASS), potential, velocities is not None)
    scale = scale_of(stated, substance, path)
    x, y, z = (header.numbers[span][0] for span in SPANS)
    corner = x, y, z
    spans = (header.numbers[span] for span in SPANS)
    box = box_of([(high - low) / scale.length for low, high in spans], path)
    note = "" if named or MASS in header.numbers else TAKEN_AS_REDUCED
    first = int(step[1]) if step else 0
    return Input(path, box, corner, first, positions, velocities, scale, note)


def is_header(text: str) -> bool:
    """Whether a line is one of a header that LAMMPS can read."""
    words = text.partition("#")[0].split()
    numbers = list(takewhile(is_number, words))
    known = "atoms", *SPANS, *ONLY, *RESERVED, *TILTED
    return bool(numbers) and " ".join(words[len(numbers) :]) in known


def _take_header(
    location: str, numbers: list[float], name: str, header: Header, in_sections: bool
) -> None:
    """Store a line of the header: its numbers and their name. Raises InputError."""
    sides = f"'{name}' is of a general triclinic box, which is not read: give {', '.join(SPANS)}"
    need(name not in TILTED, location, sides)
    if name in RESERVED and len(numbers) == 1:
        return
    if name in ONLY:
        only = " ".join(f"{number:g}" for number in ONLY[name])
        what = "there are plain atoms of one type, in a box with right angles"
        good = len(numbers) == len(ONLY[name])
        good = good and all(abs(a - b) <= ROUNDED for a, b in zip(numbers, ONLY[name], strict=True))
        need(good, location, f"'{name}' must be {only}: {what}")
        return
    known = name == "atoms" and len(numbers) == 1 or name in SPANS and len(numbers) == 2
    what = "a line of the header or the name of a section must be here"
    text = " ".join([*(f"{number:g}" for number in numbers[:4]), name])[:40]
    more = "; are there more rows than announced?" if in_sections else f", not {text!r}"
    need(known, location, what + more)
    if name == "atoms":
        good = 1 <= numbers[0] <= MOST_ATOMS and numbers[0].is_integer()
        need(good, location, f"the number of atoms must be an integer from 1 to {MOST_ATOMS:g}")
    else:
        box_of([numbers[1] - numbers[0]] * 3, location)
    need(name not in header.numbers, location, f"there is another line '{name}' before")
    header.put(name, numbers, location)


def _section(lines: Lines, name: str, style: str, header: Header) -> TextTable | None:
    """Skip the section whose name is the current line; returns its table if it is read."""
    known = f"sections must be {', '.join((*ROWS, *OTHER_SECTIONS))}, not {name[:40]!r}"
    neither = "; nor is the file H5MD or extended XYZ" if lines.number < 4 else ""
    need(name in ROWS or name in OTHER_SECTIONS, lines.location, known + neither)
    need("atoms" in header.numbers, lines.location, "the number of atoms must come before")
    if name == "Atoms":
        _require_atomic(lines.location, style.split())
    words = lines.row(name)
    if name not in ROWS:
        _take_row(lines.location, name, style, words, header)
        return None
    form = ATOM_FORM if name == "Atoms" else VELOCITY_FORM
    fields = ROWS[name].get(len(words))
    if fields is None:
        raise InputError(OPTION, lines.location, f"must be {form!r}, is {' '.join(words)[:60]!r}")
    what, kind = ("velocity", None) if name != "Atoms" else ("position", b"1")
    if kind is not None and words[1] in header.labels:
        kind = words[1].encode()
    count = int(header.numbers["atoms"][0])
    table = TextTable(lines.path, what, lines.start, lines.number, count, fields, form, kind)
    lines.skip_rows(count - 1, count, name, comments=b"#")
    return table


def _require_atomic(location: str, words: list[str]) -> None:
    """Raise InputError if the comment behind "Atoms" names another style than atomic.

    LAMMPS writes one word, or hybrid and several; other comments say something else.
    """
    other = len(words) == 1 or words[:1] == ["hybrid"]
    shown = " ".join(words)[:40]
    good = words[:1] == ["atomic"] or not other
    need(good, location, f"the atom style must be atomic, not {shown!r}")


def _take_row(location: str, name: str, style: str, words: list[str], header: Header) -> None:
    """Store the mass or the label of the only type, or epsilon and sigma of the potential."""
    if name == MASS:
        mass = numbers_in(words[1:], location)
        good = words[0] in ("1", *header.labels) and len(mass) == 1 and mass[0] > 0
        need(good, location, f"must be '1 M', the mass of all atoms: {' '.join(words)[:60]}")
        header.put(MASS, mass, location)
    elif name == LABELS:
        good = words[0] == "1" and len(words) == 2
        need(good, location, f"must be '1 LABEL', the only type: {' '.join(words)[:60]}")
        header.labels.append(words[1])
    elif name in (PAIR, PAIR_IJ):
        fits = style == "" or style.startswith("lj/cut")
        need(fits, location, f"the pair style must be lj/cut, not {style[:40]!r}")
        values = numbers_in(words[1 if name == PAIR else 2 :][:2], location)
        need(len(values) == 2, location, f"must have epsilon and sigma: {' '.join(words)[:60]}")
        header.put(PAIR, values, location)
