"""Trajectories for ASE: the same atoms in every frame, and a run that goes on from the last."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from signal import SIGSEGV
from typing import Any

import ase.io
import h5py
import numpy as np
import pytest
import support

from miniapps.workbench.cli import main
from miniapps.workbench.exit_status import BAD_INPUT
from miniapps.workbench.show import saved

ATOMS = "leanmd --preset minimal"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output file of a run with three frames, with a file in extended XYZ beside it."""
    path = tmp_path_factory.mktemp("xyz") / "run.h5"
    (record,) = support.records_of([f"{ATOMS} --units argon --trajectory 2 --output {path}"])
    assert record["valid"]
    done = support.in_process("plot", path, "--xyz")
    assert done.stdout.split() == [str(path.with_suffix(".xyz"))], done.stderr
    return path


@pytest.mark.long
def test_ase_reads_all_frames(run: Path) -> None:
    """Catches atoms in another order in every frame, momenta lost, and a box of another shape."""
    frames = ase.io.read(run.with_suffix(".xyz"), index=":")
    with h5py.File(run) as file:
        atoms = file["particles/atoms"]
        assert len(frames) == len(atoms["position/step"]) == 3
        for number, frame in enumerate(frames):
            order = np.argsort(atoms["id/value"][number])
            assert np.array_equal(frame.positions, atoms["position/value"][number][order])
            speed = atoms["velocity/value"][number][order]
            assert np.array_equal(frame.get_velocities(), speed)
            assert np.array_equal(np.diag(frame.cell), atoms["box/edges"][...]) and frame.pbc.all()
            assert set(frame.symbols) == {"Ar"} and frame.info["step"] == [0, 2, 3][number]
            assert frame.info["time"] == atoms["position/time"][number]


@pytest.mark.slow
def test_a_run_goes_on_from_it(run: Path, tmp_path: Path) -> None:
    """Catches numbers that are rounded, not the bits that H5MD gives, and a time from 0."""
    more = "--steps 2 --warmup 0 --cutoff 2.2 --skin 0.7 --rebuild 2"
    files = run, run.with_suffix(".xyz")
    made = f"--trajectory 1 --output {tmp_path}/more"
    lines = [f"leanmd --input {file} {more} {made}{file.suffix}.h5" for file in files]
    first, second = support.records_of(lines)
    assert first["state_hash"] == second["state_hash"]
    for suffix, begun in ((".h5", 3), (".xyz", 0)):  # extended XYZ has no step to go on from
        with h5py.File(f"{tmp_path}/more{suffix}.h5") as later:
            position = later["particles/atoms/position"]
            assert position["step"][...].tolist() == [begun, begun + 1, begun + 2]
            assert np.array_equal(position["time"][...], position["step"][...] * 0.005)


def lost(name: str, value: Any = None) -> Callable[[Any], None]:
    """Damage: a dataset of the trajectory is gone, or another is in its place."""

    def change(file: Any) -> None:
        del file[f"particles/atoms/{name}"]
        if value is not None:
            file[f"particles/atoms/{name}"] = value

    return change


def at(name: str, where: Any, value: Any) -> Callable[[Any], None]:
    """Damage: other values at a place of a dataset of the trajectory."""

    def change(file: Any) -> None:
        data = file[f"particles/atoms/{name}"]
        assert data.size > 0
        data[where] = value

    return change


def claim(file: Any) -> None:
    """Damage: positions that claim to be many and are not there."""
    del file["particles/atoms/position/value"]
    shape = 3, 1 << 40, 3
    file.create_dataset("particles/atoms/position/value", shape, "f8", chunks=(1, 1, 3))


DAMAGES: dict[str, Callable[[Any], None]] = {
    "no group": lambda file: file.pop("particles/atoms"),
    "two groups": lambda file: file.create_group("particles/others"),
    "no positions": lost("position"),
    "no times": lost("position/time"),
    "no edges": lost("box/edges"),
    "other times": lost("position/time", [0.0]),
    "text for ids": lost("id/value", "one"),
    "floats for ids": lost("id/value", np.zeros((3, 192))),
    "fewer ids": lost("id/value", np.zeros((3, 7), np.int64)),
    "two axes": lost("position/value", np.zeros((3, 192, 2))),
    "fewer velocities": lost("velocity/value", np.zeros((2, 192, 3))),
    "a number for edges": lost("box/edges", 7.0),
    "a species without a name": lost("species", np.zeros(192, np.uint8)),
    "another element": lost("species", np.zeros(192, h5py.enum_dtype({"Qq": 0}, "u1"))),
    "lines for a species": lost("species", np.zeros(192, h5py.enum_dtype({"Ar\n1": 0}, "u1"))),
    "a negative box": lost("box/edges", np.array([7.0, -7.0, 7.0])),
    "no box": lost("box/edges", np.array([7.0, 0.0, 7.0])),
    "an endless box": lost("box/edges", np.array([7.0, np.inf, 7.0])),
    "no position": at("position/value", (1, 5, 0), np.nan),
    "an endless velocity": at("velocity/value", (2, 191, 2), -np.inf),
    "one id for all": at("id/value", 1, 3),
    "an id twice": at("id/value", (1, 5), 6),
    "another atom": at("id/value", (1, 5), 9999),
    "no time": at("position/time", 1, np.nan),
    "time that goes back": at("position/time", 2, 0.0),
    "a step twice": at("position/step", 2, 2),
    "a step before the first": at("position/step", 0, -1),
    "terabytes": claim,
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_trajectory(run: Path, tmp_path: Path, damage: str, capsys: Any) -> None:
    """Catches a traceback, a half-written file, and atoms in wrong places without a word."""
    path = tmp_path / "run.h5"
    path.write_bytes(run.read_bytes())
    with h5py.File(path, "r+") as file:
        DAMAGES[damage](file)
    for words in (["--xyz"], ["--paraview"], ["--animation"]):
        with pytest.raises(SystemExit) as ended:
            main(["plot", str(path), *words])
        said = capsys.readouterr().err
        assert ended.value.code == BAD_INPUT and said.count("\n") == 1, said
        assert "FILE.h5" in said and path.name in said, said
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.long
def test_a_trajectory_that_ends_the_library(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Catches a trajectory that the command itself reads first, and dies of."""
    monkeypatch.setattr(saved, "require_sound", lambda *_: os.kill(os.getpid(), SIGSEGV))
    for option in ("--xyz", "--paraview"):
        with pytest.raises(SystemExit) as ended:
            main(["plot", str(run), option])
        said = capsys.readouterr().err
        assert ended.value.code == BAD_INPUT and "ends the HDF5 library by SIGSEGV" in said


@pytest.mark.long
def test_particles_are_no_atoms(tmp_path: Path) -> None:
    """Catches a traceback for a file without a trajectory."""
    path = tmp_path / "run.h5"
    support.records_of([f"echo --preset minimal --output {path}"])
    done = support.in_process("plot", path, "--xyz")
    assert done.returncode == 2 and "no trajectory" in done.stderr
    assert list(tmp_path.iterdir()) == [path]
