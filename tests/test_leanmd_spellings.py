"""Spellings of LeanMD's input files: each is read with the same bits, or refused for its reason.

What is read is compared with the atoms in `test_leanmd_inputs`, and by the audit with its own
reader; so a spelling that only one of the two readers knows is an error here. The sources are
github.com/libAtoms/extxyz, LAMMPS's page of read_data, ASE and OVITO.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ase
import ase.io
import h5py
import numpy as np
import pytest
import support
from test_leanmd_inputs import AT, BOX, DATA, FRAME, IDS, OLD_FRAME, SPEED, refusal, write_h5md

from miniapps.leanmd import plain_input
from miniapps.leanmd.audit import Audit
from miniapps.leanmd.problem import LeanmdProblem

Changes = list[tuple[str, str]]  # words of a file, and what is there instead
LATTICE = 'Lattice="4 0 0 0 5 0 0 0 6.5"'
PROPERTIES = "Properties=species:S:1:pos:R:3:id:I:1:velo:R:3:q:R:2"
MOVING = ":velo:R:3:q:R:2"
SIX = "4 0 0 0 5 0 0 0 6.5"
HEADER = "0 bonds\n"
TILTED = "0 0 0 xy xz yz"

XYZ: dict[str, Changes] = {
    "plain": [],
    # keys and values
    "single quotes": [(LATTICE, f"Lattice='{SIX}'"), ('pbc="T T T"', "pbc='T T T'")],
    "braces": [(LATTICE, f"Lattice={{{SIX}}}"), ('"T T T"', "{T T T}")],
    "lists": [(LATTICE, "Lattice=[[4,0,0],[0,5,0],[0,0,6.5]]"), ('"T T T"', "[T, T, T]")],
    "lists with blanks": [(LATTICE, "Lattice=[ [4, 0, 0], [0, 5, 0],\t[0, 0, 6.5] ]")],
    "a flat list": [(LATTICE, "Lattice=[4,0,0,0,5,0,0,0,6.5]")],
    "commas in quotes": [(SIX, "4, 0, 0, 0, 5, 0, 0, 0, 6.5")],
    "right angles up to rounding": [(SIX, "4 2.4e-16 0 0 5 -3e-16 0 0 6.5")],
    "units in capitals": [("units=lj", "units=LJ")],
    "three numbers": [(SIX, "4 5 6.5")],
    "three numbers in a list": [(LATTICE, "Lattice=[4, 5, 6.5]")],
    "blanks around =": [("Lattice=", "Lattice = "), ("Properties=", "Properties =\t")],
    "blanks in quotes": [(SIX, f"  {SIX} "), ("T T T", " T  T T ")],
    "quoted Properties": [(PROPERTIES, f'Properties="{PROPERTIES[11:]}"')],
    "single-quoted Properties": [(PROPERTIES, f"Properties='{PROPERTIES[11:]}'")],
    "quoted keys": [("Lattice=", '"Lattice"='), ("Properties=", '"Properties" = ')],
    "lower-case keys": [("Lattice", "lattice"), ("Properties", "properties")],
    "upper-case keys": [("Lattice", "LATTICE"), ("pbc", "PBC")],
    "another order": [(f"{LATTICE} {PROPERTIES}", f"{PROPERTIES} {LATTICE}")],
    "lower-case types": [(":R:", ":r:"), (":S:", ":s:"), (":I:", ":i:")],
    "tabs": [(" ", "\t")],
    "a key with a hyphen": [("units=lj", 'initial-Lattice="12 0 0 0 12 0 0 0 12"')],
    "a hyphen before it": [("5\nLatt", '5\nold-Lattice="12 0 0 0 12 0 0 0 12" Latt')],
    "other keys that end so": [("units=lj", "old.units=real my:pbc=F xProperties=pos:R:3")],
    "a key in a value": [("units=lj", 'title="Lattice=12 pbc=F units=metal"')],
    "a key in single quotes": [("units=lj", "title='Lattice=\"12\" units=metal'")],
    "a key in a list": [("units=lj", "title=[Lattice=12, units=metal]")],
    "a key behind an escape": [("units=lj", 'title="a \\" Lattice=12 units=metal"')],
    "a backslash at the end": [("units=lj", 'path="C:\\\\temp\\\\" units=lj')],
    "an escaped newline": [("units=lj", 'title="a\\nb"')],
    "a value with =": [("units=lj", "title=a=b")],
    "an apostrophe": [("units=lj", "don't Ar's=isn't")],
    "doubled keys that are not read": [("units=lj", "energy=1 energy=2")],
    "bare keys": [("5\nLatt", "5\nmade by hand by hand Latt"), ("units=lj", "relaxed")],
    "a stray =": [("5\nLatt", "5\n= Latt"), ("units=lj", "= =")],
    "an empty value": [("units=lj", 'title="" note=')],
    "json": [("units=lj", 'data="_JSON {\\"Lattice\\": [1, 2]}" units="lj"')],
    "numbers beyond double": [("units=lj", "energy=1e400 virial=[1e400, nan]")],
    "no pbc": [('pbc="T T T" ', "")],
    "pbc of integers": [("T T T", "1 1 1")],
    "pbc of words": [("T T T", "True TRUE true")],
    "one pbc": [('"T T T"', "T")],
    "pbc without a value": [('pbc="T T T"', "pbc")],
    "Origin": [("units=lj", 'Origin="1 2 3"')],
    "Fortran's exponents": [(SIX, "4.0D+00 0 0 0 0.5d1 0 0 0 6.5D0"), ("6.0 7", "6.0D+00 7")],
    "signs and points": [(SIX, "+4. .0 0 0 5e0 0. 0 0 +6.5E+00"), ("0.5 0.25", "+.5 .25")],
    "integers for reals": [("6.0 7", "6 7"), (" 0.0 5.5", " 0 5.5")],
    # columns
    "position": [(":pos:", ":position:")],
    "positions": [(":pos:", ":positions:")],
    "Pos": [(":pos:", ":Pos:")],
    **{
        name: [(":velo:", f":{name}:")]
        for name in ("v", "V", "vel", "velocity", "velocities", "Velocity", "VELO")
    },
    "a magnitude": [(":q:R:2", ":vel_magnitude:R:1:velocity_x:R:1")],
    "magnitudes before": [
        (MOVING, ":vel_magnitude:R:1:v:R:1:velo:R:3"),
        *(
            (f" {id_} {v}", f" {id_} 9 9 {v}")
            for id_, v in (
                ("7", "0.1 -0.2 0.3"),
                ("2", "1.5 0.0 -2.25"),
                ("9", "0.7 0.7 0.1"),
                ("4", "-3.0 1e-5 4.0"),
                ("11", "0.0 0.3 -0.3"),
            )
        ),
        (" 0 0\n", "\n"),
    ],
    "short names of others": [(":q:R:2", ":v:R:1:p:R:1")],
    "a z that is no number": [(":q:R:2", ":z:R:1:p:I:1")],
    "velocities of another name": [(":q:R:2", ":velocity_of_mass:R:2")],
    "forces": [(":q:R:2", ":forces:R:2")],
    **{
        f"{name} with {mass}": [(MOVING, f":{name}:R:3:{mass}:R:1:q:R:1"), (" 0 0\n", " 1.0 0\n")]
        for name, mass in (("momenta", "masses"), ("momentum", "mass"), ("p", "Masses"))
    },
    "masses before momenta": [
        ("id:I:1:velo:R:3:q:R:2", "q:R:2:id:I:1:momenta:R:3"),
        ("species:S:1", "species:S:1:masses:R:1"),
        ("Ar ", "Ar 1 "),
        *((f" {i} ", f" 0 0 {i} ") for i in IDS.tolist()),
        (" 0 0\n", "\n"),
    ],
    "velocities and mass": [(MOVING, ":vel:R:3:mass:R:1:q:R:1"), (" 0 0\n", " 1 0\n")],
    "ids": [(":id:", ":ids:")],
    **{
        name: [("species:S:1", f"{name}:S:1")]
        for name in ("element", "elements", "symbol", "symbols", "Species", "label")
    },
    "type": [("species:S:1", "type:I:1"), ("Ar ", "1 ")],
    "species, type and Z": [(":q:R:2", ":type:I:1:Z:I:1"), (" 0 0\n", " 1 18\n")],
    "Z for species": [("species:S:1", "Z:I:1"), ("Ar ", "18 ")],
    "logical columns": [(":q:R:2", ":fixed:L:2"), (" 0 0\n", " T F\n")],
    "many columns": [(":q:R:2", ":soap:R:512"), (" 0 0\n", " 0.25" * 512 + "\n")],
    "ids with signs": [("6.0 7 ", "6.0 +7 "), ("1.0 2 ", "1.0 002 ")],
    # lines
    "CRLF": [("\n", "\r\n")],
    "a byte order mark": [("5\nLatt", "\ufeff5\nLatt")],
    "trailing blanks": [("\n", " \t\n")],
    "blank last lines": [(" 0 0\nAr 0.125", " 0 0\nAr 0.125"), ("-0.3 0 0\n", "-0.3 0 0\n\n \n\n")],
    "no last newline": [("-0.3 0 0\n", "-0.3 0 0")],
    "blanks around the count": [("5\nLatt", "  5 \nLatt")],
    "zeros before the count": [("5\nLatt", "005\nLatt")],
    "blank first lines": [("5\nLatt", "\n\n5\nLatt")],
    "a hash in a species": [("Ar ", "#Ar#1 ")],
    "leading blanks of rows": [("Ar ", "   Ar   ")],
    "two frames": [("5\nLatt", f"{OLD_FRAME}5\nLatt")],
    "no Lattice in the first frame": [("5\nLatt", "2\nmade by hand\nAr 1 1 1\nAr 2 2 2\n5\nLatt")],
    "no comment in the first frame": [("5\nLatt", "2\n\nAr 1 1 1\nAr 2 2 2\n5\nLatt")],
    "other columns in the first frame": [
        ("5\nLatt", '1\nLattice="9 9" Properties=id:I:1:vel:R:3:pos\n1 Ar\n5\nLatt')
    ],
    "bytes in the first frame": [("5\nLatt", '2\na "\nAr\n\udcff\udcfe\n5\nLatt')],
    "a carriage return in the first frame": [("5\nLatt", "1\na\rb\nAr 1\r2\n5\nLatt")],
    "a blank line between frames": [("5\nLatt", f"{OLD_FRAME}\n5\nLatt")],
    "a first comment as in LAMMPS": [("5\nLatt", "1\n3 heavy atoms\nAr 1 1 1\n5\nLatt")],
}

EXTRA = "".join(
    f"{n} extra {name} per atom\n"
    for n, name in enumerate(("bond", "angle", "dihedral", "improper", "special"))
)
NONE = "".join(f"0 {name}\n" for name in ("ellipsoids", "lines", "triangles", "bodies"))
LAMMPS: dict[str, Changes] = {
    "plain": [],
    "nothing of molecules": [(HEADER, f"{HEADER}0 bond types\n0 angles\n0 impropers\n{NONE}")],
    "extra bond per atom": [(HEADER, HEADER + EXTRA)],
    "no tilt": [(TILTED + "\n", "")],
    "a tilt of zero": [(TILTED, "0.0 -0.0 0e0 xy xz yz")],
    "a tilt of rounding": [(TILTED, "2.4e-16 -1e-17 0 xy xz yz")],
    "Atoms without a style": [("Atoms # atomic", "Atoms")],
    "no blanks at the style": [("Atoms # atomic", "Atoms#atomic")],
    "many blanks at the style": [("Atoms # atomic", "Atoms   #   atomic  ")],
    "columns behind Atoms": [("Atoms # atomic", "Atoms  # id type x y z ix iy iz")],
    "words behind atomic": [("Atoms # atomic", "Atoms # atomic style, sorted")],
    "no image flags": [(" 0 0 0\n", "\n"), (" 0 -1 0\n", "\n"), (" 1 0 0\n", "\n")],
    "comments behind rows": [
        (" 0 -1 0\n", " 0 -1 0  # 4 7\n"),
        ("4 -3.0 1e-5 4.0", "4 -3.0 1e-5 4.0 #2"),
    ],
    "a comment line in the header": [(HEADER, "# 4 atoms\n")],
    "tabs": [
        (" ", "\t"),
        ("xlo\txhi", "xlo xhi"),
        ("ylo\tyhi", "ylo yhi"),
        ("zlo\tzhi", "zlo zhi"),
        ("xy\txz\tyz", "xy xz yz"),
        ("atom\ttypes", "atom types"),
        ("Pair\tCoeffs", "Pair Coeffs"),
    ],
    "blanks between keywords": [("xlo xhi", "xlo  xhi"), ("5 atoms", "   5    atoms ")],
    "CRLF": [("\n", "\r\n")],
    "trailing blanks": [("\n", "  \n")],
    "blank last lines": [("9 0.7 0.7 0.1\n", "9 0.7 0.7 0.1\n\n\n \n")],
    "no last newline": [("9 0.7 0.7 0.1\n", "9 0.7 0.7 0.1")],
    "no blank line behind a section": [
        ("Velocities\n\n", "Velocities\n"),
        ("Masses\n\n", "Masses\n"),
    ],
    "many blank lines": [("\n\n", "\n\n\n \n\n")],
    "a byte order mark": [("LAMMPS data", "\ufeffLAMMPS data")],
    "another order of sections": [
        ("Masses\n\n1 1.0 # argon\n\n", ""),
        ("9 0.7 0.7 0.1\n", "9 0.7 0.7 0.1\n\nMasses\n\n1 1.0\n"),
    ],
    "velocities before atoms": [
        (
            DATA[DATA.index("Atoms") :],
            DATA[DATA.index("Velocities") :]
            + "\n"
            + DATA[DATA.index("Atoms") : DATA.index("Velocities")],
        )
    ],
    "another order of the header": [
        ("-1 3 xlo xhi  # a comment\n", ""),
        ("5 atoms\n", "-1 3 xlo xhi\n5 atoms\n"),
    ],
    "a header line behind a section": [
        ("0.25 6.75 zlo zhi\n", ""),
        ("1 1.0 # argon\n", "1 1.0\n\n0.25 6.75 zlo zhi\n\n0 angles\n"),
    ],
    "no masses": [("Masses\n\n1 1.0 # argon\n", "")],
    "type labels": [("Masses\n\n", "Atom Type Labels\n\n1 Ar\n\nMasses\n\n")],
    "labels in rows": [
        ("Masses\n\n1 1.0", "Atom Type Labels\n\n1 Ar\n\nMasses\n\nAr 1.0"),
        *((f"\n{i} 1 ", f"\n{i} Ar ") for i in IDS.tolist()),
    ],
    "a label with a digit": [
        ("Masses\n\n1 1.0", "Atom Type Labels\n\n1 Ar1\n\nMasses\n\nAr1 1.0"),
        *((f"\n{i} 1 ", f"\n{i} Ar1 ") for i in IDS.tolist()),
    ],
    "signs and points": [
        ("0.25 6.75 zlo", ".25 +6.75 zlo"),
        ("1 1.0 #", "1 +1. #"),
        ("7 1 -0.5", "7 1 -.5"),
    ],
    "exponents": [("-1 3 xlo", "-1e0 3E+00 xlo"), ("7 1 -0.5", "+7 1 -5E-01")],
    "Fortran's exponents": [
        ("-1 3 xlo", "-1.0D0 0.3D+01 xlo"),
        ("7 1 -0.5", "7 1 -5.0D-01"),
        ("7 0.1", "7 1.0d-1"),
    ],
    "a number for a title": [(DATA.partition("\n")[0], "5")],
    "a number, and the box first": [
        (DATA[: DATA.index("2 7 ylo")], "5\n\n-1 3 xlo xhi\n5 atoms\n")
    ],
    "no title": [(DATA.partition("\n")[0], "")],
    "a title of an XYZ file": [(DATA.partition("\n")[0], "Lattice Properties=pos units = lj")],
    "two units in the title": [("units = lj", "units=lj, not units = real")],
    "units in quotes and capitals": [("units = lj", 'Units: "LJ"')],
    "units without =": [("units = lj", "in units of sigma, units lj")],
    "units of another word": [("units = lj", "myunits = real, units = lj")],
    "bytes in the title": [("via hand", "via h\u00e4nd")],
    "lj pair coefficients": [("# lj/cut", "# lj/cut/omp")],
    "pair ij": [("Pair Coeffs # lj/cut\n\n1 1 1", "PairIJ Coeffs # lj/cut\n\n1 1 1 1")],
}


def changed(text: str, changes: Changes | dict[str, str]) -> str:
    """A file with other words, each of which must be there."""
    for old, new in dict(changes).items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def written(path: Path, text: str) -> Path:
    """A file of text, in which surrogates stand for bytes that are no text."""
    path.write_bytes(text.encode(errors="surrogateescape"))
    return path


def start(path: Path) -> tuple[LeanmdProblem, np.ndarray]:
    """The problem that begins with a file, and the atoms that blocks begin with: (n, 7)."""
    problem = LeanmdProblem(input=path, cutoff=1.5, skin=0.3)
    ids, position, velocity = problem.beginning(np.zeros(3), problem.box)
    return problem, np.column_stack([ids, position.T, velocity.T])


def wrong(problem: LeanmdProblem, rows: np.ndarray) -> tuple[int, int]:
    """How many positions and velocities are wrong, as the audit says."""
    return Audit(problem, support.layout_of(problem, (1, 1, 1)), 1, 4)._wrong_in_file(rows)


def check_read(path: Path) -> None:
    """The atoms have the bits that were meant, and the audit compares each column of them."""
    problem, rows = start(path)
    order = np.argsort(IDS)
    corner = {"lammps": [-1.0, 2.0, 0.25]}.get(path.suffix[1:], [0.0] * 3)
    at = (AT[order] + corner) - corner  # as rounded as numbers in the file
    assert np.array_equal(problem.box, BOX)
    assert np.array_equal(rows[:, 0], np.sort(IDS))
    assert np.abs(rows[:, 1:4] - at).max() <= 4 * problem.quantum
    assert np.array_equal(rows[:, 4:], SPEED[order])
    assert wrong(problem, rows) == (0, 0)
    for column in range(1, 7):
        other = rows.copy()
        other[:, column] += 4 * problem.quantum
        assert wrong(problem, other) == ((5, 0) if column < 4 else (0, 5))


@pytest.mark.parametrize("name", XYZ)
def test_extended_xyz_is_read(tmp_path: Path, name: str) -> None:
    """Catches a spelling that is refused or misread by a reader, and a column not compared."""
    check_read(written(tmp_path / "file", changed(FRAME, XYZ[name])))


@pytest.mark.parametrize("name", LAMMPS)
def test_lammps_data_are_read(tmp_path: Path, name: str) -> None:
    """Catches a spelling that is refused or misread by a reader, and a column not compared."""
    check_read(written(tmp_path / "file.lammps", changed(DATA, LAMMPS[name])))


PLAIN_ROWS = "".join(f"Ar {x} {y} {z}\n" for x, y, z in AT.tolist())


@pytest.mark.parametrize(
    "text",
    [
        f"5\n{LATTICE}\n{PLAIN_ROWS}",
        f"5\npbc=[T,T,T] Lattice=[4, 5, 6.5] energy=-1\n{PLAIN_ROWS}",
        f"5\n\n{PLAIN_ROWS}5\n{LATTICE}\n{PLAIN_ROWS}",
        f"5\n{LATTICE} Properties=pos:R:3:name:S:1\n"
        + "".join(f"{x} {y} {z} Ar\n" for x, y, z in AT.tolist()),
    ],
    ids=["no Properties", "no Properties, a list", "Lattice in the last frame only", "no species"],
)
def test_without_velocities(tmp_path: Path, text: str) -> None:
    """Catches `Lattice` without `Properties` that ends the audit, and velocities of nothing."""
    problem, rows = start(written(tmp_path / "file", text))
    assert problem.draws_velocities and np.array_equal(rows[:, 0], np.arange(1, 6))
    assert np.abs(rows[:, 1:4] - AT).max() <= problem.quantum
    assert wrong(problem, rows) == (0, 0)
    rows[:, 1] += 4 * problem.quantum
    assert wrong(problem, rows) == (5, 0)


@pytest.mark.parametrize("units", ["units=lj", 'UNITS="lj"', "", "old.units=lj"])
def test_units_that_a_file_does_not_name_are_told(tmp_path: Path, units: str) -> None:
    """Catches lengths in Angstrom that are taken for sigma without a word."""
    path = written(tmp_path / "file", changed(FRAME, [("units=lj", units)]))
    named = units.lower().startswith("units")
    told = f"{path}" if named else f"{path}, which names no units: taken as reduced ones"
    assert start(path)[0].initial == {"positions": told, "velocities": told}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ([], True),
        ([(", units = lj", "")], True),
        ([("Masses\n\n1 1.0 # argon\n\n", "")], True),
        ([(", units = lj", ""), ("Masses\n\n1 1.0 # argon\n\n", "")], False),
    ],
    ids=["both", "mass", "title", "neither"],
)
def test_units_of_lammps_that_nothing_names_are_told(tmp_path, changes, named):
    """Catches lengths in Angstrom, as ASE writes them, that are taken for sigma without a word."""
    path = written(tmp_path / "file.data", changed(DATA, changes))
    note = "" if named else ", which names no units: taken as reduced ones"
    assert start(path)[0].initial["positions"] == f"{path} at step 40{note}"


# H5MD, and files of other programs ----------------------------------------------------------------


def steady(path: Path) -> None:
    """Elements that are constant in time are datasets."""
    parts = {"position": AT, "velocity": SPEED, "box/edges": np.diag(BOX)}
    write_h5md(path, **{f"{name}/{part}": None for name in ("position", "velocity")
                        for part in ("value", "step")}, **parts)  # fmt: skip


def beside(path: Path) -> None:
    """A dataset and another group are beside the group of the atoms."""
    write_h5md(path)
    with h5py.File(path, "r+") as file:
        file.move("particles/all", "particles/atoms")
        file["particles/a note"] = 1.0
        file["particles/another/position"] = np.zeros((1, 3))


def only_group(path: Path) -> None:
    """A dataset that comes first, and is even called atoms, is beside the only group."""
    write_h5md(path)
    with h5py.File(path, "r+") as file:
        file.move("particles/all", "particles/the atoms")
        file["particles/atoms"] = 1.0


H5MD: dict[str, Any] = {
    "plain": {},
    "steady": steady,
    "beside": beside,
    "only group": only_group,
    "numbers of another size": {
        "position/value": np.stack([AT, AT]).astype(">f8"),
        "velocity/value": np.stack([SPEED, SPEED]).astype(np.longdouble),
    },
    "ids in time": {"id": None, "id/value": np.stack([IDS[::-1], IDS]), "id/step": [30, 40]},
    "unsigned ids": {"id": IDS.astype("u2")},
    "edges in time": {
        "box/edges": None,
        "box/edges/value": np.stack([np.eye(3), np.diag(BOX)]),
        "box/edges/step": [30, 40],
    },
    "sides in time": {"box/edges": None, "box/edges/value": np.stack([BOX + 1, BOX])},
    "more velocities than positions": {
        "velocity/value": np.stack([SPEED * 0, SPEED * 2, SPEED]),
        "velocity/step": [20, 30, 40],
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", H5MD)
def test_h5md_is_read(tmp_path: Path, name: str) -> None:
    """Catches an element that one of the two readers looks for elsewhere, or in another frame."""
    path, how = tmp_path / "file", H5MD[name]
    how(path) if callable(how) else write_h5md(path, **how)
    check_read(path)


@pytest.mark.parametrize("named", [{"position/value/unit": "sigma"}, {}], ids=["sigma", "none"])
def test_units_that_h5md_does_not_name_are_told(tmp_path: Path, named: dict[str, str]) -> None:
    """Catches lengths in nm that are taken for sigma without a word."""
    path = tmp_path / "file"
    write_h5md(path, **named)
    note = "" if named else ", which names no units: taken as reduced ones"
    assert start(path)[0].initial["velocities"] == f"{path} at step 40{note}"


def argon(momenta: bool) -> ase.Atoms:
    """The atoms in ASE, which gives velocities as momenta over masses."""
    atoms = ase.Atoms("Ar5", AT, cell=BOX, pbc=True, info={"Lattice-name": "a b", "note": 'x="1"'})
    atoms.set_masses([1.0] * 5)
    if momenta:
        atoms.set_velocities(SPEED)
    return atoms


def test_ase_writes_what_is_read(tmp_path: Path) -> None:
    """Catches ASE's quotes and columns that one of the readers does not know."""
    path = tmp_path / "file.xyz"
    ase.io.write(path, [argon(False), argon(True)], format="extxyz")
    check_ase(path, moving=True)
    ase.io.write(path, argon(True), format="extxyz", columns=["symbols", "positions", "numbers"])
    check_ase(path, moving=False)
    ase.io.write(path, argon(True), format="extxyz", write_info=False, vec_cell=False)
    check_ase(path, moving=True)
    ase.io.write(path, argon(True), format="lammps-data")
    check_ase(path, moving=False)
    more = dict.fromkeys(("atom_type_labels", "write_image_flags", "force_skew"), True)
    ase.io.write(path, argon(True), format="lammps-data", **more)
    check_ase(path, moving=False)
    ase.io.write(path, argon(True), format="lammps-data", masses=True, velocities=True)
    assert "with mass 0.9999999997427557 must be known" in refusal(path)  # ASE has units metal


def check_ase(path: Path, moving: bool) -> None:
    """Both readers find the atoms that ASE wrote, with 8 digits."""
    problem, rows = start(path)
    off = rows[:, 1:4] - AT
    assert np.abs(off - np.rint(off / BOX) * BOX).max() < 1e-8
    assert problem.source is not None and problem.source.has_velocities == moving
    assert not moving or np.abs(rows[:, 4:] - SPEED).max() < 1e-8
    assert wrong(problem, rows) == (0, 0)
    rows[:, [1, 4]] += 1e-3
    assert wrong(problem, rows) == (5, 5 * moving)


# The audit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyError("pos"), IndexError(), ValueError("1_0")])
def test_a_file_that_the_audit_cannot_read(tmp_path, error, monkeypatch):
    """Catches a run that ends by a traceback, or is valid, if the second reader fails."""

    def fails(*given: Any) -> None:
        raise error

    problem, rows = start(written(tmp_path / "file", FRAME))
    monkeypatch.setattr(plain_input, "of_extended_xyz", fails)
    assert wrong(problem, rows) == (5, 5)


@pytest.mark.parametrize("make", [FRAME, DATA, None], ids=["xyz", "lammps", "h5md"])
def test_another_box_and_no_velocities_are_seen(tmp_path, make, monkeypatch):
    """Catches a run in a wrong box, or with velocities that no one compares, that is valid."""
    path = tmp_path / "file"
    written(path, make) if make else write_h5md(path)
    problem, rows = start(path)
    found = plain_input.read(path, set(IDS.tolist()))
    assert wrong(problem, rows) == (0, 0)
    for axis in range(3):
        other = problem.box + 4 * problem.quantum * (np.arange(3) == axis)
        monkeypatch.setitem(problem.__dict__, "box", other)
        assert wrong(problem, rows) == (5, 0)
        monkeypatch.undo()
    still = {atom: (at, None) for atom, (at, _) in found.atoms.items()}
    monkeypatch.setattr(plain_input, "read", lambda *given: plain_input.Found(found.box, still))
    assert wrong(problem, rows) == (0, 5)
