"""Trajectories for ASE: the same atoms in every frame, and a run that goes on from the last."""

from __future__ import annotations

from pathlib import Path

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


def test_a_run_goes_on_from_it(run: Path) -> None:
    """Catches numbers that are rounded: not the bits that H5MD gives."""
    more = "--steps 2 --warmup 0 --cutoff 2.2 --skin 0.7 --rebuild 2"
    files = run, run.with_suffix(".xyz")
    first, second = support.records_of(f"leanmd --input {file} {more}" for file in files)
    assert first["state_hash"] == second["state_hash"]


def test_particles_are_no_atoms(tmp_path: Path) -> None:
    """Catches a traceback for a file without a trajectory."""
    path = tmp_path / "run.h5"
    support.records_of([f"echo --preset minimal --output {path}"])
    done = support.in_process("plot", path, "--xyz")
    assert done.returncode == 2 and "no trajectory" in done.stderr
    assert list(tmp_path.iterdir()) == [path]
