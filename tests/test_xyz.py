"""Trajectories for ASE: the same atoms in every frame, and a run that goes on from the last."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase.io
import h5py
import numpy as np
import pytest
import support

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


def another_atom(file: Any) -> None:
    """Damage: an atom that is not in the state."""
    file["particles/atoms/id/value"][1, 5] = 9999


def text_for_ids(file: Any) -> None:
    """Damage: a text in the place of a table."""
    del file["particles/atoms/id/value"]
    file["particles/atoms/id/value"] = "one"


DAMAGES: dict[str, Callable[[Any], None]] = {  # more of them are in test_saved.py
    "no group": lambda file: file.pop("particles/atoms"),
    "two groups": lambda file: file.create_group("particles/others"),
    "no times": lambda file: file.pop("particles/atoms/position/time"),
    "text for ids": text_for_ids,
    "another atom": another_atom,
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_trajectory(run: Path, tmp_path: Path, damage: str) -> None:
    """Catches a traceback, a half-written file, and atoms in wrong places without a word."""
    path = tmp_path / "run.h5"
    path.write_bytes(run.read_bytes())
    with h5py.File(path, "r+") as file:
        DAMAGES[damage](file)
    for option in ("--xyz", "--paraview", "--animation"):
        said = support.refused(["plot", path, option])
        assert "FILE.h5" in said and path.name in said, said
    assert list(tmp_path.iterdir()) == [path]
