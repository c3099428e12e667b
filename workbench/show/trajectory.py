"""The trajectory in a run's HDF5 file, which others may have edited or damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.hdf5 import require_stored
from miniapps.leanmd.inputs.tables import LONGEST, SHORTEST
from miniapps.leanmd.si import SUBSTANCES
from miniapps.leanmd.trajectory import LENGTH_UNIT, SPEED_UNIT
from miniapps.parameters import require

TRAJECTORY = "particles"  # H5MD's name of the group of trajectories
STATE_IDS = "atoms.id"  # the dataset of the final state with the ids of all atoms
ELEMENTS = "id", "position", "velocity"
UNITS = {"position/value": LENGTH_UNIT, "velocity/value": SPEED_UNIT, "box/edges": LENGTH_UNIT}
NO_SPECIES = "LJ"  # of the atoms in files of earlier versions, which do not name it
KNOWN_SPECIES = NO_SPECIES, *(substance.symbol for substance in SUBSTANCES.values())
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


def trajectory_in(file: Any, source: Path) -> Trajectory:
    """The trajectory in a file that is open. Raises InputError if it is damaged."""
    groups = [*file[TRAJECTORY].values()]
    require(len(groups) == 1, "FILE.h5", source, "trajectory: there must be one group of particles")
    (group,) = groups
    ids, positions, velocities = (group[f"{name}/value"] for name in ELEMENTS)
    steps, times, edges = (group[name] for name in ("position/step", "position/time", "box/edges"))
    data = ids, positions, velocities, steps, times, edges
    require_stored(source, *data)
    broken = next((claim for claim, holds in _claims(*data) if not holds), None)
    require(broken is None, "FILE.h5", source, f"trajectory: {broken}")
    for name, unit in UNITS.items():
        allowed = f"trajectory: {name} not in {unit}"
        require(_has_unit(group[name], unit), "FILE.h5", source, allowed)
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
    floats = {data.dtype.kind for data in (positions, velocities, times, edges)} == {"f"}
    yield "positions, velocities, times and edges must be floats", floats


def _has_unit(data: Any, unit: str) -> bool:
    """Whether a dataset is in a unit; files of earlier versions do not say."""
    found = data.attrs.get("unit", unit)
    return isinstance(found, str) and found == unit


def _species(group: Any, source: Path) -> str:
    """The name of the species of all atoms."""
    import h5py

    if "species" not in group:
        return NO_SPECIES
    names = h5py.check_enum_dtype(group["species"].dtype) or {}
    known = [*names] in [[name] for name in KNOWN_SPECIES]
    allowed = f"must have one species, of {', '.join(KNOWN_SPECIES)}"
    require(known, "FILE.h5", source, f"trajectory: {allowed}")
    return str(*names)


def require_sound(found: Trajectory, state: Any, record: Mapping[str, Any], source: Path) -> None:
    """Raise InputError unless all frames have the atoms of the final state, and finite numbers.

    ``state``: the group of the final state in the same file, ``record``: its record, of which box
    and times must be. Reads all, some atoms at a time.
    """
    claims = _claims_of_values(found, state, record)
    broken = next((claim for claim, holds in claims if not holds), None)
    require(broken is None, "FILE.h5", source, f"trajectory: {broken}")


def _claims_of_values(
    found: Trajectory, state: Any, record: Mapping[str, Any]
) -> Iterator[tuple[str, bool]]:
    """What must hold of the values, in words, and whether it does; each relies on those before."""
    sides = found.sides
    fits = bool(((SHORTEST <= sides) & (sides <= LONGEST)).all())
    yield f"box/edges must be from {SHORTEST:g} to {LONGEST:g}", fits
    yield "box/edges must be the record's box", np.allclose(sides, record["box"], 1e-12, 0)
    steps, times = found.steps[...], found.times[...]
    yield "steps must be 0 or more and increase", steps[0] >= 0 and bool((np.diff(steps) > 0).all())
    rising = np.isfinite(times).all() and times[0] >= 0 and (np.diff(times) > 0).all()
    yield "times must be finite, 0 or more, and increase", bool(rising)
    dt = record["problem"]["dt"]
    yield f"times must be {dt:g} per step", np.allclose(times, steps * dt, 1e-12, 0)
    ids = np.sort(state[STATE_IDS][...])
    yield f"there must be {ids.size} atoms, as in the state", ids.size == found.atoms
    yield "the state must have each id once", bool((np.diff(ids) > 0).all())
    for frame, step in enumerate(steps):
        same = np.array_equal(np.sort(found.ids[frame]), ids)
        yield f"at step {step} each atom of the state must be there once", same
        inside = all(((0 <= at) & (at <= sides)).all() for at in _rows(found.positions, frame))
        yield f"positions at step {step} must be in the box", inside
        finite = all(np.isfinite(speeds).all() for speeds in _rows(found.velocities, frame))
        yield f"velocities at step {step} must be finite", finite


def _rows(data: Any, frame: int) -> Iterator[np.ndarray]:
    """The atoms of a frame, some at a time."""
    for first in range(0, data.shape[1], AT_ONCE):
        yield data[frame, first : first + AT_ONCE]
