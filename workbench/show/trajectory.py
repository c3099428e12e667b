"""The trajectory in a run's HDF5 file, which others may have edited or damaged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.hdf5 import require_stored
from miniapps.parameters import require
from workbench.show.saved import TRAJECTORY, opened, require_survivable

ELEMENTS = "id", "position", "velocity"
NO_SPECIES = "LJ"  # of the atoms in files of earlier versions, which do not name it
AT_ONCE = 1 << 16  # atoms read at a time


@dataclass(frozen=True)
class Trajectory:
    """F frames of N atoms. ``species``: the name of the species of all atoms.

    Datasets, in reduced units: ``ids`` (F, N); ``positions`` and ``velocities`` (F, N, 3);
    ``steps`` and ``times`` (F,), of the frames. Array: ``sides`` (3,), of the box.
    """

    ids: Any
    positions: Any
    velocities: Any
    steps: Any
    times: Any
    sides: np.ndarray
    species: str

    @property
    def atoms(self) -> int:
        """The number of atoms, N."""
        return int(self.ids.shape[1])


def require_whole(source: Path) -> None:
    """Raise InputError unless the trajectory in a file can be read to its end."""
    require_survivable(source, lambda: _read_all(source))
    with opened(source) as file:
        trajectory_in(file, source)


def trajectory_in(file: Any, source: Path) -> Trajectory:
    """The trajectory in a file that `opened` has opened. Raises InputError if it is damaged."""
    (group,) = file[TRAJECTORY].values()
    ids, positions, velocities = (group[f"{name}/value"] for name in ELEMENTS)
    steps, times, edges = (group[name] for name in ("position/step", "position/time", "box/edges"))
    data = ids, positions, velocities, steps, times, edges
    require_stored(source, *data)
    broken = next((claim for claim, holds in _claims(*data) if not holds), None)
    require(broken is None, "FILE.h5", source, f"trajectory: {broken}")
    species = _species(group, source)
    return Trajectory(ids, positions, velocities, steps, times, edges[...], species)


def _claims(
    ids: Any, positions: Any, velocities: Any, steps: Any, times: Any, edges: Any
) -> Iterator[tuple[str, bool]]:
    """What must hold between the datasets, in words, and whether it does."""
    yield "id must be (frames, atoms)", ids.ndim == 2 and ids.size > 0
    frames, atoms = ids.shape
    vectors = frames, atoms, 3
    yield f"position must be {vectors}", positions.shape == vectors
    yield f"velocity must be {vectors}", velocities.shape == vectors
    yield f"there must be {frames} steps and times", steps.shape == times.shape == (frames,)
    yield "box/edges must be (3,)", edges.shape == (3,)
    yield "ids and steps must be integers", ids.dtype.kind == steps.dtype.kind == "i"
    floats = positions, velocities, times, edges
    yield (
        "positions, velocities, times and edges must be floats",
        all(data.dtype.kind == "f" for data in floats),
    )


def _species(group: Any, source: Path) -> str:
    """The name of the species of all atoms."""
    import h5py

    if "species" not in group:
        return NO_SPECIES
    names = h5py.check_enum_dtype(group["species"].dtype) or ()
    require(len(names) == 1, "FILE.h5", source, "trajectory: must have one named species")
    return str(*names)


def _read_all(source: Path) -> None:
    """Read all atoms of all frames."""
    with opened(source) as file:
        found = trajectory_in(file, source)
        found.steps[...], found.times[...]
        for data in (found.ids, found.positions, found.velocities):
            for frame in range(len(data)):
                for first in range(0, found.atoms, AT_ONCE):
                    data[frame, first : first + AT_ONCE]
