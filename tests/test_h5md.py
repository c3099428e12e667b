"""Trajectories of LeanMD: other programs read them, and a run goes on from them, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyh5md
import pytest
import support

from miniapps import apps

ATOMS = "leanmd --preset tiny --trajectory 10"
CONFIGURATIONS = {
    "serial": "--driver serial",
    "mpi": "--driver mpi -n 2",
    "charm": "--driver charm -n 2 --odf 4 --balancer Rotate --lb-period 7",
    "pairs": "--decomposition pairs",
}


def frames_of(path: Path) -> dict[str, np.ndarray]:
    """All frames as pyh5md reads them, atoms in the order of their ids."""
    with pyh5md.File(str(path), "r") as file:
        atoms = file.particles_group("atoms")
        names = ("position", "velocity", "id")
        position, velocity, ids = (pyh5md.element(atoms, name) for name in names)
        order = np.argsort(ids.value[:], axis=1)
        return {
            "step": position.step[:],
            "time": position.time[:],
            "id": np.sort(ids.value[:], axis=1),
            "position": np.take_along_axis(position.value[:], order[:, :, np.newaxis], axis=1),
            "velocity": np.take_along_axis(velocity.value[:], order[:, :, np.newaxis], axis=1),
        }


Trajectories = Callable[[str], Path]


@pytest.fixture(scope="module")
def trajectories(tmp_path_factory: pytest.TempPathFactory) -> Trajectories:
    """The trajectory of the same atoms from a configuration, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("trajectories")

    @cache
    def made(name: str) -> Path:
        path = folder / f"{name}.h5"
        support.run_record(*f"{ATOMS} {CONFIGURATIONS[name]} --output {path}".split())
        return path

    return made


@pytest.mark.slow
def test_every_way_writes_the_same_frames(trajectories: Trajectories) -> None:
    """Catches a frame that mixes steps, loses a block, or is written by a PE twice."""
    first, *others = (frames_of(trajectories(name)) for name in CONFIGURATIONS)
    assert first["step"].tolist() == [0, 10, 18]
    np.testing.assert_allclose(first["time"], first["step"] * 0.005)
    assert (first["id"] == np.arange(1, 769)).all()
    for other in others:
        assert all(np.array_equal(first[name], other[name]) for name in first)


def test_first_frame_is_the_beginning(trajectories: Trajectories) -> None:
    """Catches a trajectory that begins after the first steps, or before velocities are scaled."""
    first = frames_of(trajectories("charm"))
    problem = support.small_problem(apps.load("leanmd"))
    ids, position = problem.sites(np.zeros(3), problem.box)
    assert np.array_equal(first["position"][0], position.T[np.argsort(ids)])
    assert (first["velocity"][0] ** 2).sum() / (3 * 768 - 3) == pytest.approx(12.0, rel=1e-9)


def test_last_frame_is_the_state(trajectories: Trajectories) -> None:
    """Catches a trajectory that ends a step early, or has columns of another quantity."""
    with h5py.File(trajectories("mpi")) as file:
        rows = file["state/atoms"][:][np.argsort(file["state/atoms.id"][:])]
        assert list(file["h5md"].attrs["version"]) == [1, 1]
        boundary = file["particles/atoms/box"].attrs["boundary"]
        assert [bytes(word) for word in boundary] == [b"periodic"] * 3
        energies = file["observables/total/value"][:]
    frames = frames_of(trajectories("mpi"))
    assert np.array_equal(frames["position"][-1], rows[:, :3])
    assert np.array_equal(frames["velocity"][-1], rows[:, 3:])
    assert len(energies) == 3 and np.ptp(energies) < 0.002 * energies[0]


def test_nothing_is_left_beside(trajectories: Trajectories) -> None:
    """Catches the PEs' own files left behind."""
    files = {trajectories(name) for name in ("mpi", "charm")}
    folder = trajectories("mpi").parent
    others = {folder / f"{name}.h5" for name in CONFIGURATIONS}
    assert files <= set(folder.iterdir()) <= others


Restarts = tuple[dict[str, Any], Callable[[str], dict[str, Any]]]


@pytest.fixture(scope="module")
def restarts(tmp_path_factory: pytest.TempPathFactory) -> Restarts:
    """The record of a whole run, and that of its second part, from a file, by configuration."""
    half = tmp_path_factory.mktemp("restarts") / "half.h5"
    problem = "leanmd --lattice 10x6x6 --warmup 0"
    runs = [f"{problem} --steps 30", f"{problem} --steps 13 --output {half}"]
    whole, _ = support.records_of(runs)
    rest = f"leanmd --input {half} --warmup 0 --steps 17"

    def second_part(configuration: str) -> dict[str, Any]:
        return support.run_record(*f"{rest} {CONFIGURATIONS[configuration]}".split())

    return whole, second_part


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_a_run_goes_on_from_a_file(restarts: Restarts, configuration: str) -> None:
    """Catches a restart that rounds, draws velocities anew, renumbers atoms, or counts from 0."""
    whole, second_part = restarts
    rest = second_part(configuration)
    assert rest["state_hash"] == whole["state_hash"]
    assert rest["thermo"][0]["step"] == 13
    same = {name: value for name, value in whole["thermo"][-1].items() if name != "max_drift"}
    assert same.items() <= rest["thermo"][-1].items()
