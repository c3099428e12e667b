"""Input files of LeanMD: what is read is what was written, and errors are reported in one line."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import os
import pickle
import re
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyh5md
import pytest
import support
from hypothesis import given
from hypothesis import strategies as st

from miniapps.leanmd import inputs, plain_input
from miniapps.leanmd.inputs import atoms_between, opened, tables
from miniapps.leanmd.inputs.h5md import MAGIC
from miniapps.leanmd.inputs.reading import wrapped
from miniapps.leanmd.problem import position_quantum
from miniapps.parameters import InputError
from miniapps.workbench.cli import spec_of

BOX = np.array([4.0, 5.0, 6.5])
IDS = np.array([7, 2, 9, 4, 11])
AT = np.array(  # in the box, from its corner
    [[0.5, 0.25, 6.0], [3.75, 4.5, 1.0], [1.1, 2.2, 3.3], [2.0, 0.0, 5.5], [0.125, 3.0, 0.7]]
)
SPEED = np.array(
    [[0.1, -0.2, 0.3], [1.5, 0.0, -2.25], [0.7, 0.7, 0.1], [-3.0, 1e-5, 4.0], [0.0, 0.3, -0.3]]
)

DATA = """\
LAMMPS data file via hand, timestep = 40, units = lj

5 atoms
1 atom types
0 bonds

-1 3 xlo xhi  # a comment
2 7 ylo yhi
0.25 6.75 zlo zhi
0 0 0 xy xz yz

Masses

1 1.0 # argon

Pair Coeffs # lj/cut

1 1 1

Atoms # atomic

7 1 -0.5 2.25 6.25 0 0 0
2 1 2.75 6.5 1.25 0 -1 0
9 1 0.1 4.2 3.55 0 0 0
4 1 1 2 5.75 1 0 0
11 1 -0.875 5 0.95 0 0 0

Velocities

11 0.0 0.3 -0.3
2 1.5 0.0 -2.25
4 -3.0 1e-5 4.0
7 0.1 -0.2 0.3
9 0.7 0.7 0.1
"""
COMMENT = 'Lattice="4 0 0 0 5 0 0 0 6.5" Properties=species:S:1:pos:R:3:id:I:1:velo:R:3:q:R:2'
FRAME = f"""\
5
{COMMENT} pbc="T T T" units=lj
Ar 0.5 0.25 6.0 7 0.1 -0.2 0.3 0 0
Ar 3.75 4.5 1.0 2 1.5 0.0 -2.25 0 0
Ar 1.1 2.2 3.3 9 0.7 0.7 0.1 0 0
Ar 2.0 0.0 5.5 4 -3.0 1e-5 4.0 0 0
Ar 0.125 3.0 0.7 11 0.0 0.3 -0.3 0 0
"""
OLD_FRAME = """\
2
Lattice="9 0 0 0 9 0 0 0 9" Properties=species:S:1:pos:R:3
Ar 1 1 1
Ar 2 2 2
"""


def write_h5md(path: Path, **changes: Any) -> None:
    """An H5MD file of two frames; a change is a dataset's new value, None: without it."""
    data: dict[str, Any] = {
        "position/value": np.stack([AT * 0.5, AT]),
        "position/step": [30, 40],
        "velocity/value": np.stack([SPEED * 0.5, SPEED]),
        "velocity/step": [30, 40],
        "box/edges": BOX,
        "id": IDS,
    }
    boundary = changes.pop("boundary", ["periodic"] * 3)
    version = changes.pop("version", [1, 1])
    units = {key: changes.pop(key) for key in list(changes) if key.endswith("unit")}
    with h5py.File(path, "w") as file:
        file.create_group("h5md").attrs["version"] = version
        group = file.create_group("particles/all")
        group.create_group("box")
        group["box"].attrs["boundary"] = boundary
        for name, values in (data | changes).items():
            if values is not None:
                group[name] = values
        for name, unit in units.items():
            group[name.removesuffix("/unit")].attrs["unit"] = unit


def written(path: Path, kind: str) -> Path:
    """The five atoms as a file of a kind."""
    if kind == "h5md":
        write_h5md(path)
    else:
        path.write_text({"lammps": DATA, "xyz": OLD_FRAME + FRAME}[kind])
    return path


def everything(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All atoms of a file."""
    source = opened(path)
    return atoms_between(
        source, np.zeros(3), np.array(source.box), position_quantum(np.array(source.box))
    )


def agree_on(path: Path) -> None:
    """Assert that the audit's own reader finds the same box, positions and velocities."""
    ids, position, velocity = everything(path)
    source = opened(path)
    found, box = plain_input.read(path, set(ids.tolist())), np.array(source.box)
    assert np.array_equal(found.box, box) and sorted(found.atoms) == ids.tolist()
    at, speed = (np.array([found.atoms[n][part] for n in ids.tolist()]) for part in (0, 1))
    assert np.array_equal(wrapped(at, box, position_quantum(box)).T, position)
    if source.has_velocities:
        np.testing.assert_allclose(speed, velocity.T, rtol=1e-14 * bool(source.scale.said))
    else:
        assert all(one is None for one in speed)


def refusal(path: Path) -> str:
    """Why a file is refused, on one line."""
    with pytest.raises(InputError) as error:
        opened(path)
    text = str(error.value)
    assert text.startswith(f"--input {path}") and "\n" not in text
    return text


# What is read ------------------------------------------------------------------------------------

KINDS = ["lammps", "xyz", "h5md"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_is_what_was_written(tmp_path: Path, kind: str) -> None:
    """Catches a wrong column, frame, corner or order, and a velocity given to another atom."""
    source = opened(written(tmp_path / "file", kind))
    assert source.atoms == 5 and source.has_velocities
    assert np.array_equal(source.box, BOX)
    assert source.step == {"lammps": 40, "xyz": 0, "h5md": 40}[kind]
    source = pickle.loads(pickle.dumps(source))
    ids, position, velocity = atoms_between(source, np.zeros(3), BOX, position_quantum(BOX))
    order = np.argsort(IDS)
    assert (ids.dtype, position.dtype, velocity.dtype) == (np.int64, np.float64, np.float64)
    assert np.array_equal(ids, IDS[order])
    assert np.abs(position.T - AT[order]).max() < 4 * position_quantum(BOX)
    assert np.array_equal(velocity.T, SPEED[order])
    assert np.array_equal(
        np.rint(position / position_quantum(BOX)) * position_quantum(BOX), position
    )


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_velocities_may_be_missing(tmp_path: Path, kind: str) -> None:
    """Catches a file refused for what it need not have, and velocities that are not 0 then."""
    path = tmp_path / "file"
    if kind == "lammps":
        path.write_text(DATA[: DATA.index("Velocities")].rstrip())
    elif kind == "xyz":
        path.write_text(OLD_FRAME)
    else:
        write_h5md(path, id=None, **{"velocity/value": None, "velocity/step": None})
    ids, position, velocity = everything(path)
    right = np.sort(IDS) if kind == "lammps" else np.arange(1, 3 if kind == "xyz" else 6)
    assert np.array_equal(ids, right)
    assert not opened(path).has_velocities
    assert velocity.shape == position.shape and not velocity.any()


@pytest.mark.slow
@pytest.mark.parametrize("cubes", [(1, 1, 1), (2, 3, 1), (4, 4, 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_boxes_that_tile_the_domain_have_every_atom_once(tmp_path, kind, cubes, monkeypatch):
    """Catches an atom on a face that two boxes have, or none, and a lost end of a chunk."""
    monkeypatch.setattr(tables, "CHUNK", 2)
    source = opened(written(tmp_path / "file", kind))
    parts = []
    for cube in itertools.product(*map(range, cubes)):
        low, high = BOX / cubes * cube, BOX / cubes * (np.array(cube) + 1)
        parts.append(atoms_between(source, low, high, position_quantum(BOX)))
        assert np.all((parts[-1][1].T >= low) & (parts[-1][1].T < high))
    whole = everything(source.path)
    order = np.argsort(np.concatenate([part[0] for part in parts]))
    for which in range(3):
        together = np.concatenate([part[which] for part in parts], axis=-1)
        assert np.array_equal(together[..., order], whole[which])


@given(st.lists(st.floats(-1e99, 1e99), min_size=3, max_size=3), st.floats(1e-3, 1e9))
def test_wrapping_ends_in_the_box(at: list[float], side: float) -> None:
    """Catches an atom on or beyond the upper face, at -0, or off the quantum."""
    box = np.array([side, 7.0, 1e6])
    quantum = position_quantum(box)
    sides = np.rint(box / quantum) * quantum
    for near in (np.array([at]), np.array([at]) % (3 * box) - box, -quantum * np.eye(3)):
        inside = wrapped(near, box, quantum)
        assert np.all((inside >= 0) & (inside < sides))
        assert np.array_equal(np.rint(inside / quantum) * quantum, inside)
        assert not np.signbit(inside).any()
    far = sides * [2, -3, 1] + quantum * np.array([5, 6, 7])
    assert np.array_equal(wrapped(far[None], box, quantum)[0], quantum * np.array([5, 6, 7]))


# As ASE writes atoms with positions, tags, masses, momenta and charges.
OF_ASE = """\
2
Lattice="4.0 0.0 0.0 0.0 5.0 0.0 0.0 0.0 6.5" units=lj \
Properties=species:S:1:pos:R:3:Z:I:1:tags:I:1:masses:R:1:momenta:R:3:initial_charges:R:1 pbc="T T T"
Ar       0.50000000       0.25000000       6.00000000  18  0  1.0  0.1  -0.2  0.3  0.0
Ar       3.75000000       4.50000000       1.00000000  18  7  1.0  1.5   0.0 -2.25 0.5
"""
BARE = '2\nunits=lj Lattice="9 0 0 0 9 0 0 0 9"\nAr 1 1 1\nAr 3 3 3\n'
VOID = {
    "--lattice 4x4x4": "which has positions",
    "--density 0.5": "which has positions",
    "--per-cell 7": "which has positions",
    "--cells 3x3x3": "not together with --cells",
    "--temperature 3": "which has velocities",
    "--seed 3": "which has velocities",
}


def test_options_that_a_file_makes_void(tmp_path: Path, refused: Callable[..., str]) -> None:
    """Catches options that are ignored without a word, because the file has the atoms."""
    path, bare = tmp_path / "ase.xyz", tmp_path / "bare.xyz"
    path.write_text(OF_ASE)
    bare.write_text(BARE)
    for words, said in VOID.items():
        line = refused("run", "leanmd", "--input", path, *words.split())
        assert words.split()[0] in line and said in line
    alone = path.with_name("alone.xyz")
    alone.write_text("1\n" + "\n".join(BARE.splitlines()[1:3]))
    line = refused("run", "leanmd", "--input", alone)
    assert f"--input {alone}: there must be two atoms" in line
    spec = spec_of(f"run leanmd --preset tiny --input {bare} --seed 3".split())
    assert (spec.problem.lattice, spec.problem.seed, spec.problem.cutoff) == ((10, 10, 10), 3, 2.2)
    assert spec_of(spec.arguments()).problem == spec.problem
    assert spec.problem.initial == {
        "positions": str(bare),
        "velocities": "random, of temperature 12 (seed 3)",
    }
    spec = spec_of(f"run leanmd --cutoff 1 --input {path}".split())
    assert spec.problem.initial == {"positions": str(path), "velocities": str(path)}


@pytest.mark.long
def test_last_of_linear_frames_and_matrix_of_edges(tmp_path: Path) -> None:
    """Catches steps stored as one number, a box per frame, and the group called atoms."""
    path = tmp_path / "file"
    frames = {"position/step": 10, "velocity/step": None, "box/edges": None}
    frames |= {"box/edges/value": np.stack([np.eye(3), np.diag(BOX)]), "box/edges/step": [0, 10]}
    write_h5md(path, **frames, **{"position/value/unit": "sigma", "velocity/value/unit": b"1"})
    with h5py.File(path, "r+") as file:
        file["particles/atoms"] = file["particles/all"]
        file.create_group("particles/other")
    assert (opened(path).step, opened(path).box) == (10, (4.0, 5.0, 6.5))


# Files that other programs write ---------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("store", ["time", "linear"])
def test_reads_what_pyh5md_writes(tmp_path: Path, store: str) -> None:
    """Catches a dialect of our own: the library of the format's authors writes the file."""
    path = tmp_path / "real.h5"
    every = {"store": store} | ({"step": 20} if store == "linear" else {})
    with pyh5md.File(path, "w", creator="test", author="test") as file:
        group = file.particles_group("all")
        group.create_box(dimension=3, boundary=["periodic"] * 3, store="fixed", data=BOX)
        parts = [
            pyh5md.element(group, name, shape=data.shape, dtype=data.dtype, **every)
            for name, data in (("position", AT), ("velocity", SPEED), ("id", IDS))
        ]
        for frame in range(3):
            for part, values in zip(parts, (AT, SPEED, IDS), strict=True):
                part.append(values if frame == 2 else values * 0, step=20 * frame)
    assert opened(path).step == 40
    ids, position, velocity = everything(path)
    order = np.argsort(IDS)
    assert np.array_equal(ids, IDS[order])
    assert np.abs(position.T - AT[order]).max() < position_quantum(BOX)
    assert np.array_equal(velocity.T, SPEED[order])


# What is refused -------------------------------------------------------------------------------

LAMMPS_CASES: list[tuple[str, str, int | None, str]] = [
    # what is in the file, what is there instead, the line that must be named, what must be said
    ("units = lj", "units = metal", 1, "without it, units must be lj"),
    ("units = lj", "units = si", 1, "units must be lj, real or metal, not 'si'"),
    ("units = lj", "units: \u00c5", 1, "units must be lj, real or metal, not '\u00e5'"),
    *(
        ("units = lj", words, 1, "without it, units must be lj")
        for words in ("Units = REAL", 'units: "real"', "in units of length, units metal")
    ),
    ("5 atoms", "6 atoms", 27, "6 rows as announced, has 5"),
    ("5 atoms", "4 atoms", 26, "more rows than announced"),
    ("5 atoms", "5.5 atoms", 3, "integer from 1 to 1e+15"),
    ("5 atoms", "0 atoms", 3, "integer from 1 to 1e+15"),
    ("5 atoms", "five atoms", 3, "sections must be"),
    ("5 atoms", "1e300 atoms", 3, "integer from 1 to 1e+15"),
    ("5 atoms\n", "\n", 12, "number of atoms must come before"),
    ("1 atom types", "2 atom types", 4, "must be 1"),
    ("0 bonds", "3 bonds", 5, "must be 0"),
    ("-1 3 xlo xhi", "3 -1 xlo xhi", 7, "a side of the box"),
    ("-1 3 xlo xhi", "3 3 xlo xhi", 7, "a side of the box"),
    ("-1 3 xlo xhi", "-1 nan xlo xhi", 7, "finite numbers"),
    ("-1 3 xlo xhi", "-1 1e308 xlo xhi", 7, "a side of the box"),
    ("-1 3 xlo xhi", "-1 3 4 xlo xhi", 7, "a line of the header"),
    ("2 7 ylo yhi", "2 7 xlo xhi", 8, "another line 'xlo xhi'"),
    ("Velocities", "4 atoms\n\nVelocities", 28, "another line 'atoms'"),
    ("2 7 ylo yhi", "", None, "has no line 'ylo yhi'"),
    ("0 0 0 xy", "0 0.5 0 xy", 10, "must be 0 0 0"),
    ("-1 3 xlo xhi", "4 0 0 avec", 7, "'avec' is of a general triclinic box, which is not read"),
    ("0 0 0 xy xz yz", "0 0 0 abc origin", 10, "is of a general triclinic box"),
    ("0 bonds", "2 ellipsoids", 5, "'ellipsoids' must be 0: there are plain atoms"),
    ("0 bonds", "2 extra bonds per atom", 5, "must be here, not '2 extra bonds per atom'"),
    ("0 bonds", "2 3 extra bond per atom", 5, "must be here, not '2 3 extra bond per atom'"),
    ("1 1.0 #", "Ar 1.0 #", 14, "the mass of all atoms: Ar 1.0"),
    ("Masses\n\n1 1.0", "Atom Type Labels\n\n1 Ar\n2 Kr", 15, "more rows than announced"),
    ("Masses\n\n1 1.0", "Atom Type Labels\n\n2 Ar", 14, "must be '1 LABEL', the only type"),
    ("Atoms # atomic", "Atoms#charge", 20, "atom style must be atomic, not 'charge'"),
    ("Atoms # atomic", "Atoms # hybrid atomic", 20, "must be atomic, not 'hybrid atomic'"),
    ("7 1 -0.5 2.25 6.25 0 0 0", "7 1 0.0 -0.5 2.25 6.25", 22, "must be 'id type x y z [ix iy"),
    ("1 1.0 #", "2 39.948 #", 14, "the mass of all atoms"),
    ("1 1.0 #", "1 -39.948 #", 14, "the mass of all atoms"),
    ("1 1.0 # argon", "1 39.948\n2 83.798", 15, "more rows than announced"),
    ("1 1 1\n", "1 2 1\n", 18, "epsilon and sigma must be 1 in units lj, are 2 and 1"),
    ("1 1 1\n", "1 1\n", 18, "must have epsilon and sigma"),
    ("# lj/cut", "# morse", 18, "the pair style must be lj/cut, not 'morse'"),
    ("1 1.0 #", "1 heavy #", 14, "finite numbers"),
    ("Pair Coeffs # lj/cut", "Bonds", 16, "sections must be"),
    ("Pair Coeffs # lj/cut", "Masses", 16, "another section"),
    ("Atoms # atomic", "Atoms # full", 20, "atom style must be atomic"),
    ("Atoms # atomic", "Ellipsoids", 20, "sections must be"),
    ("9 1 0.1 4.2 3.55 0 0 0", "9 2 0.1 4.2 3.55 0 0 0", 24, "one kind"),
    ("9 1 0.1 4.2 3.55 0 0 0", "9 1 0.1 y 3.55 0 0 0", 24, "id type x y z"),
    ("9 1 0.1 4.2 3.55 0 0 0", "9 1 0.1 nan 3.55 0 0 0", 24, "atom 9: position must be finite"),
    ("9 1 0.1 4.2 3.55 0 0 0", "9 1 0.1 1e308 3.55 0 0 0", 24, "atom 9: position must be finite"),
    ("9 1 0.1 4.2 3.55 0 0 0", "9 1 0.1 4.2 3.55", 24, "id type x y z"),
    ("9 1 0.1 4.2 3.55 0 0 0", "9 1 0.1 4.2 3.55 0 0 0 0", 24, "id type x y z"),
    ("9 1 0.1 4.2 3.55 0 0 0", "# 9 1 0.1 4.2 3.55 0 0 0", 24, "a comment between the rows"),
    ("9 1 0.1 4.2 3.55 0 0 0", "0 1 0.1 4.2 3.55 0 0 0", 24, "from 1 to 2^53"),
    ("9 1 0.1 4.2 3.55 0 0 0", "9.5 1 0.1 4.2 3.55 0 0 0", 24, "id type x y z"),
    ("9 1 0.1 4.2 3.55 0 0 0", f"{9**30} 1 0.1 4.2 3.55 0 0 0", 24, "id type x y z"),
    ("9 1 0.1 4.2 3.55 0 0 0", "2 1 0.1 4.2 3.55 0 0 0", 24, "atom 2 is there more than once"),
    ("7 1 -0.5 2.25 6.25 0 0 0", "7 1 -0.5 2.25", 22, "id type x y z"),
    ("4 -3.0 1e-5 4.0", "2 -3.0 1e-5 4.0", 32, "atom 2 is there more than once"),
    ("4 -3.0 1e-5 4.0", "5 -3.0 1e-5 4.0", 32, "a velocity, but no position"),
    ("4 -3.0 1e-5 4.0", "4 -3.0 inf 4.0", 32, "atom 4: velocity must be finite"),
    ("9 0.7 0.7 0.1\n", "", 34, "5 rows as announced, has 4"),
    ("9 0.7 0.7 0.1\n", "9 0.7 0.7 0.1\n1 0 0 0\n", 35, "more rows than announced"),
    (DATA[DATA.index("Atoms") :], "", None, "has no section Atoms"),
    (DATA[DATA.index("Atoms") :], "Atoms\n\n", 22, "the file ends where Atoms must begin"),
]
XYZ_CASES: list[tuple[str, str, int | None, str]] = [
    ("4 0 0 0 5 0", "4 0 0 0.1 5 0", 6, "right angles"),
    ("4 0 0 0 5 0", "4 0 0 1e-11 5 0", 6, "right angles"),
    ("2\nLatt", "2 # atoms\nLatt", 1, "the number of atoms alone"),
    ("2\nLatt", "# made\n2\nLatt", 1, "the number of atoms alone"),
    ("4 0 0 0 5 0", "-4 0 0 0 5 0", 6, "a side of the box"),
    ("4 0 0 0 5 0", "4 0 0 0 5", 6, "must be nine numbers"),
    ("4 0 0 0 5 0", "4 0 0 0 five 0", 6, "finite numbers"),
    ('Lattice="4 0 0 0 5 0 0 0 6.5"', 'Origin="0 0 0"', 6, 'Lattice="ax 0 0 0 by'),
    ("T T T", "T T F", 6, "pbc must be"),
    ("units=lj", "units=metal", 6, "units must be lj, not 'metal'; only LAMMPS data in"),
    (":pos:R:3:id", ":force:R:3:id", 6, "must have pos:R:3"),
    (":pos:R:3:id", ":pos:R:2:more:R:1:id", 6, "must be pos:R:3"),
    (":pos:R:3:id", ":pos:I:3:id", 6, "must be pos:R:3"),
    (":velo:R:3", ":pos:R:3", 6, "same meaning"),
    (":q:R:2", ":q::2", 6, "must be name:type:width"),
    (":q:R:2", ":q:R:3", 6, "11 columns, the first row 10"),
    (":q:R:2", ":q:R:two", 6, "name:type:width"),
    (":q:R:2", ":masses:R:2", 6, "masses must be masses:R:1"),
    (":velo:R:3:q:R:2", ":velo:R:3:masses:R:1:q:R:1", 7, "the mass of all atoms must be 1"),
    (":velo:R:3:q:R:2", ":velo:R:3:Z:I:1:Z:I:1", 6, "same meaning"),
    (":velo:R:3", ":momenta:R:3", 6, "momenta need a column masses:R:1 of ones"),
    ("Ar 1.1 2.2", "Kr 1.1 2.2", 9, "one kind, which is 'Ar'"),
    ("species:S:1:pos:R:3:id:I:1", "species:S:1:pos:R:3:Z:I:1", 8, "one kind, which is 7"),
    ("Ar 1.1 2.2", "Ar 1.1 x", 9, "must be"),
    ("Ar 1.1 2.2", "Ar 1.1 -inf", 9, "atom 9: position must be finite"),
    ("Ar 1.1 2.2", "Ar 1.1", 9, "must be"),
    ("Ar 1.1 2.2 3.3 9", "Ar 1.1 2.2 3.3 7", 9, "atom 7 is there more than once"),
    ("Ar 1.1 2.2 3.3 9", "Ar 1.1 2.2 3.3 -9", 9, "from 1 to 2^53"),
    ("3.3 9", "3.3 9007199254740993", 9, "from 1 to 2^53"),
    ("\n5\n", "\n6\n", 12, "6 rows as announced, has 5"),
    ("units=lj", f"{COMMENT[:30]}", 6, "Lattice must be there once"),
    ("units=lj", "LATTICE=[4, 5, 6.5]", 6, "LATTICE must be there once"),
    ("units=lj", "properties=pos:R:3", 6, "properties must be there once"),
    ("units=lj", "'pbc' = T", 6, "pbc must be there once"),
    ("units=lj", 'units=lj title="a', 6, "a quotation mark has no second one: '\"a"),
    ("units=lj", 'path="C:\\temp\\"', 6, "a quotation mark has no second one: '\"C:"),
    ("units=lj", "title='tis", 6, "a quotation mark has no second one"),
    ("units=lj", "Units=metal", 6, "units must be lj, not 'metal'"),
    ('"T T T"', "[T, T, F]", 6, "pbc must be 'T T T', not '[T, T, F]'"),
    ('"T T T"', "F", 6, "pbc must be"),
    ('"T T T"', "TTT", 6, "pbc must be"),
    ('"T T T"', '""', 6, "pbc must be"),
    ('"T T T"', "[T, T]", 6, "pbc must be"),
    ("T T T", "1 1 0", 6, "pbc must be"),
    ("4 0 0 0 5 0 0 0 6.5", "4", 6, "must be nine numbers"),
    ("4 0 0 0 5 0 0 0 6.5", "4_0 5 6", 6, "finite numbers are needed"),
    ("4 0 0 0 5 0 0 0 6.5", "4 5 1.0D+400", 6, "finite numbers are needed"),
    ('="4 0 0 0 5 0 0 0 6.5"', "", 6, "finite numbers are needed, not 'T'"),
    ('6.5"', "6.5", 6, "finite numbers are needed, not '4 0 0 0 5"),  # a quotation mark is lost
    ('"4 0 0 0 5 0 0 0 6.5"', "", 6, "finite numbers are needed, not 'Properties="),
    ('"4 0 0 0 5 0 0 0 6.5"', "[[4, 0], [0, 5]]", 6, "must be nine numbers"),
    (f"\n{COMMENT}", '\nLattice="4 5 6.5"', 6, "'species x y z', the first has 10 words"),
    (":velo:R:3", ":velo:I:3", 6, "velo must be velo:R:3"),
    (":velo:R:3", ":v:I:3", 6, "v must be v:R:3"),
    (":velo:R:3", ":p:R:3", 6, "momenta need a column masses:R:1 of ones"),
    (":velo:R:3", ":vx:R:1:vy:R:1:vz:R:1", 6, "must be one column vel:R:3, not vx"),
    (":velo:R:3", ":Velocity_X:R:1:b:R:2", 6, "must be one column vel:R:3, not Velocity_X"),
    (":velo:R:3:q:R:2", ":velo:R:1:momenta:R:3:mass:R:1", 6, "velo must be velo:R:3"),
    (":velo:R:3:q:R:2", ":Z:S:1:q:R:4", 6, "Z must be Z:I:1"),
    (":velo:R:3:q:R:2", ":vel:R:3:ids:I:1:more:R:1", 6, "same meaning, id and ids"),
    (":velo:R:3:q:R:2", ":element:S:1:q:R:4", 8, "one kind, which is '0.1'"),
    (":velo:R:3:q:R:2", ":type:R:1:q:R:4", 8, "one kind, which is '0.1'"),
    ("Ar 0.5 0.25", "\nAr 0.5 0.25", 7, "must have 5 rows as announced, has 0"),
    ("Ar 1.1 2.2", "\nAr 1.1 2.2", 9, "must have 5 rows as announced, has 2"),
    ("Ar 1.1 2.2", "Ar 1.1+100 2.2", 9, "must be"),
    ("\n5\n", "\n4\n", 11, "the number of atoms in a frame"),
    ("\n5\n", "\n0\n", 5, "the number of atoms in a frame"),
]
H5MD_CASES: list[tuple[dict[str, Any], str]] = [
    ({"position/value": None, "position/step": None}, "has no position"),
    ({"position/value": None}, "has no value"),
    ({"position/value": np.zeros((0, 5, 3))}, "has no frames"),
    ({"position/value": np.zeros((2, 5, 2))}, "must be (frames, N, 3)"),
    ({"position/value": np.zeros((2, 0, 3))}, "must be (frames, N, 3)"),
    ({"position/value": np.full((2, 5, 3), b"x")}, "must be numbers"),
    ({"position/value": np.stack([AT, AT * np.nan])}, "value[0]: atom 7: position must be"),
    ({"position/step": [30]}, "has 2 frames, but steps (1,)"),
    ({"position/step": [30, 40 + 0j]}, "steps must be integers, not complex128"),
    ({"velocity/value": np.stack([SPEED, SPEED + np.inf])}, "velocity must be finite"),
    ({"velocity/value": np.zeros((2, 4, 3))}, "velocity must be (frames, 5, 3)"),
    ({"velocity/step": [30, 41]}, "must be of step 40"),
    ({"id": IDS[:4]}, "id must be (frames, 5)"),
    ({"id": IDS * 1.5}, "must be integers"),
    ({"id": [1, 2, 3, 2, 5]}, "position/value[3]: atom 2 is there more than once"),
    ({"id": [1, 2, 0, 4, 5]}, "[2]: atom 0: ids must be from 1 to 2^53"),
    ({"species": [1, 1, 2, 1, 1]}, "species must be 1 for all"),
    ({"mass": [1.0, 1, 1, 1, 2]}, "mass must be 1 for all"),
    ({"box/edges": None}, "has no edges"),
    ({"box/edges": [4.0, 0.0, 5.0]}, "a side of the box"),
    ({"box/edges": [4.0, np.nan, 5.0]}, "a side of the box"),
    ({"box/edges": [4.0, 5.0]}, "edges must be"),
    ({"box/edges": np.ones((3, 3))}, "right angles"),
    ({"boundary": ["periodic", "none", "periodic"]}, "must be periodic"),
    ({"boundary": []}, "must be periodic"),
    ({"version": [2, 0]}, "must be H5MD of version 1"),
    ({"position/value/unit": "nm"}, "the unit must be 'sigma', is 'nm'; only LAMMPS data in"),
    ({"velocity/value/unit": "nm ps-1"}, "the unit must be 'sigma tau-1', is 'nm ps-1'"),
    ({"box/edges/unit": "nm"}, "the unit must be 'sigma', is 'nm'"),
]


@pytest.mark.parametrize(
    ("right", "old", "new", "line", "said"),
    [(DATA, *case) for case in LAMMPS_CASES] + [(OLD_FRAME + FRAME, *case) for case in XYZ_CASES],
)
def test_what_is_wrong_in_text_is_told(tmp_path, right, old, new, line, said):
    """Catches a bad file that is taken, a wrong line, and a complaint about another thing."""
    path = tmp_path / "file"
    assert right.count(old) == 1
    path.write_text(right.replace(old, new))
    message = refusal(path)
    named = re.match(re.escape(f"--input {path}") + r":(\d+): ", message)
    assert (named and int(named[1])) == line, message
    assert said in message


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "said"), H5MD_CASES)
def test_what_is_wrong_in_h5md_is_told(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """Catches a bad file that is taken, and a complaint about another thing."""
    write_h5md(tmp_path / "file", **changes)
    assert said in refusal(tmp_path / "file")


def empty_group(path: Path) -> None:
    """An HDF5 file that has /h5md and nothing else."""
    with h5py.File(path, "w") as file:
        file.create_group("h5md").attrs["version"] = [1, 1]


def two_groups(path: Path) -> None:
    """An H5MD file of two groups of particles, neither called atoms."""
    write_h5md(path)
    with h5py.File(path, "r+") as file:
        file["particles/more"] = file["particles/all"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "there is no such file"),
        (Path.mkdir, "is not a file"),
        (os.mkfifo, "is not a file"),
        (Path.touch, "is empty"),
        (lambda path: path.write_bytes(gzip.compress(FRAME.encode())), "is compressed by gzip"),
        (lambda path: path.write_bytes(bz2.compress(FRAME.encode())), "is compressed by bzip2"),
        (lambda path: path.write_bytes(lzma.compress(FRAME.encode())), "is compressed by xz"),
        (lambda path: path.write_text(FRAME.replace("\n", "\r")), "lines end with CR alone"),
        (
            lambda path: path.write_text(
                FRAME.replace("Ar 2", f"{'A' * 40}B 2").replace("Ar ", f"{'A' * 40} ")
            ),
            ":6: all atoms must be of one kind",
        ),
        (lambda path: path.write_bytes(b"\xff\xfe\x08\xff\xff\n\xfe\n"), ":1: is not text"),
        (lambda path: path.write_bytes(DATA.encode() + b"\n# \xff"), ":36: is not text"),
        (lambda path: path.write_bytes(FRAME.encode().replace(b"Ar", b"\xff")), ":3: is not text"),
        (lambda path: path.write_bytes(DATA.encode()[:-2] + b"\xff\n"), ":34: must be"),
        (
            lambda path: path.write_text("2\nmade by hand\nAr 1 1\nAr 2 2\n"),
            ':2: Lattice="ax 0 0 0 by 0 0 0 cz" is missing',
        ),
        (lambda path: path.write_bytes(MAGIC), "is not H5MD"),
        (lambda path: h5py.File(path, "w").close(), "must be H5MD of version 1"),
        (empty_group, "must have one group"),
        (two_groups, "must have one group"),
    ],
)
def test_what_is_no_such_file_is_told(tmp_path, make, said):
    """Catches a traceback, or a wait without end, for what is no file of any format."""
    make(tmp_path / "file")
    assert said in refusal(tmp_path / "file")


def test_a_file_that_became_bad_is_refused(tmp_path: Path) -> None:
    """Catches another exception, or half of the atoms, when a file changes after it was checked."""
    for kind in KINDS:
        path = written(tmp_path / kind, kind)
        source, content = opened(path), path.read_bytes()
        for size in (0, len(content) // 2):
            path.write_bytes(content[:size])
            with pytest.raises(InputError):
                atoms_between(source, np.zeros(3), BOX, position_quantum(BOX))


def taken(path: Path) -> bool:
    """Whether a damaged file is taken, all atoms of it; it may only be that or refused."""
    try:
        source = opened(path)
        ids, position, velocity = everything(path)
    except InputError as error:
        assert "\n" not in str(error) and not support.OF_PYTHON.search(str(error)), error
        return False
    assert ids.size == source.atoms == np.unique(ids).size
    assert np.isfinite(position).all() and np.isfinite(velocity).all()
    agree_on(path)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lammps", "xyz"])
def test_damaged_text_is_refused_or_read(tmp_path: Path, kind: str) -> None:
    """Catches any other exception than InputError, and readers that differ, after random damage."""
    right = written(tmp_path / "file", kind).read_bytes()
    dice = np.random.default_rng(1)
    words = [b"nan", b"-", b"\n", b"9", b"\xff", b"\0", b" ", b"#", b"1e400", b"=", b'"', b"'"]
    words += [b"\t", b"\r", b"[", b"{", b",", b"a", b"\\", b":", b"_", b"+", b"d1", b"s", b"v"]
    outcomes = set()
    for _ in range(1000):
        bad = bytearray(right[: dice.integers(1, len(right))] if dice.random() < 0.3 else right)
        for _ in range(dice.integers(1, 4)):
            place, length = int(dice.integers(len(bad))), int(dice.integers(0, 4))
            bad[place : place + length] = words[dice.integers(len(words))]
        (tmp_path / "file").write_bytes(bad)
        outcomes.add(taken(tmp_path / "file"))
    assert outcomes == {True, False}


@pytest.mark.slow
def test_truncated_hdf5_is_refused(tmp_path: Path) -> None:
    """Catches any other exception than InputError when a copy of a file was not finished."""
    right = written(tmp_path / "file", "h5md").read_bytes()
    for size in range(1, len(right), 307):
        (tmp_path / "file").write_bytes(right[:size])
        assert not taken(tmp_path / "file")


REPLACEMENTS: list[Any] = [
    1.5,
    "text",
    b"\xff",
    [],
    h5py.Empty("f8"),
    np.zeros((2, 5, 3), bool),
    np.zeros((2, 5, 3), "i4,f8"),
    np.full((2, 5, 3), 2**63, np.uint64),
]


def replaced(path: Path, name: str, value: Any) -> None:
    """An H5MD file of which something is something else, or, where that is None, not there."""
    write_h5md(path)
    with h5py.File(path, "r+") as file:
        at, _, attribute = name.partition("@")
        if attribute:
            file[at].attrs.pop(attribute, None)
            if value is not None:
                file[at].attrs[attribute] = value
        else:
            del file[at]
            file[at] = value if value is not None else h5py.SoftLink("/nowhere")  # leads nowhere


@pytest.mark.slow
def test_strange_hdf5_is_refused_or_read(tmp_path: Path) -> None:
    """Catches any other exception than InputError for HDF5 of another structure than H5MD's.

    It is not bytes that change here: where strings are damaged, the HDF5 library itself crashes.
    """
    write_h5md(tmp_path / "file")
    names = ["h5md@version", "particles/all/box@boundary", "particles/all/position/value@unit"]
    with h5py.File(tmp_path / "file") as file:
        file.visit(names.append)
    assert len(names) == 15
    refused = []
    for name, value in itertools.product(names, [None, *REPLACEMENTS]):
        replaced(tmp_path / "file", name, value)
        refused.append(not taken(tmp_path / "file"))
    assert 0.8 * len(refused) < sum(refused) < len(refused)


def test_more_atoms_than_memory_holds_are_refused(tmp_path: Path) -> None:
    """Catches memory taken for a dataset that says it is of a size that no one has written."""
    write_h5md(tmp_path / "file", id=None, **{"position/value": None, "velocity/value": None})
    with h5py.File(tmp_path / "file", "r+") as file:
        del file["particles/all/velocity"]
        shape, chunks = (2, 10**17, 3), (1, 1000, 3)
        file.create_dataset("particles/all/position/value", shape, "f8", chunks=chunks)
    assert "more than the file can hold" in refusal(tmp_path / "file")


# What it costs ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_process_holds_all_atoms(tmp_path: Path, kind: str) -> None:
    """Catches a reader that takes the file, or a whole dataset, and then selects from it."""
    count, path = 300_000, tmp_path / "file"
    at = np.random.default_rng(3).random((count, 3)) * 80
    if kind == "h5md":
        write_h5md(
            path,
            **{"position/value": at[None], "velocity/value": at[None], "box/edges": [80.0] * 3},
            **{"position/step": [0], "velocity/step": [0], "id": np.arange(count) + 1},
        )
    elif kind == "xyz":
        head = f'{count}\nLattice="80 0 0 0 80 0 0 0 80" Properties=pos:R:3\n'
        path.write_text(head + "".join(f"{x:.6f} {y:.6f} {z:.6f}\n" for x, y, z in at.tolist()))
    else:
        head = f"\n{count} atoms\n0 80 xlo xhi\n0 80 ylo yhi\n0 80 zlo zhi\nAtoms\n\n"
        rows = (f"{n} 1 {x:.6f} {y:.6f} {z:.6f}\n" for n, (x, y, z) in enumerate(at.tolist(), 1))
        path.write_text(head + "".join(rows))
    source = opened(path)
    tracemalloc.start()
    ids, _, _ = atoms_between(
        source, np.zeros(3), np.full(3, 20.0), position_quantum(np.full(3, 80.0))
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert abs(len(ids) - count / 64) < 500
    assert peak < count * 7 * 8 / 3


# The package around them loads kernels of its own, so an empty one takes its place.
IMPORT_INPUTS = """
import sys, types
package = sys.modules["miniapps.leanmd"] = types.ModuleType("miniapps.leanmd")
package.__path__ = sys.argv[1:]
import miniapps.leanmd.inputs
print({"numba", "h5py"} & set(sys.modules))
"""


def test_reading_inputs_needs_no_kernel() -> None:
    """Catches an import of numba or h5py by a run that reads no file."""
    folder = Path(inputs.__file__).parent.parent
    done = support.execute([sys.executable, "-c", IMPORT_INPUTS, folder])
    assert done.stdout.strip() == "set()", done.stderr
