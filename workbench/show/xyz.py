"""Trajectories in extended XYZ, for programs that do not read H5MD, such as ASE and OVITO.

Numbers are those of the H5MD trajectory, in its units, with all digits. Momenta and masses of 1 are
columns that ASE makes velocities of. Atoms are in the order of their ids, the same in every frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from miniapps.parameters import require
from miniapps.workbench.run.replaced import replacing
from miniapps.workbench.run.writable import check_writable, require_apart
from miniapps.workbench.show.reading import opened
from miniapps.workbench.show.saved import SavedRun
from miniapps.workbench.show.trajectory import NO_SPECIES, Trajectory, trajectory_in

PROPERTIES = "species:S:1:pos:R:3:momenta:R:3:masses:R:1:id:I:1"
SYMBOLS: Mapping[str, str] = {NO_SPECIES: "X"}  # ASE's symbol of atoms that are of no element


def write_xyz(source: Path, target: Path) -> Path:
    """Write all frames of a run's trajectory.

    Raises InputError if the run has none, or if ``target`` is the file that it began with.
    """
    run = SavedRun.read(source)
    require(run.has_trajectory, "--xyz", source, "has no trajectory of atoms")
    begun_with = run.record["problem"].get("input")
    for folder in (Path(), source.parent) if begun_with else ():
        require_apart({"--input": folder / begun_with, "--xyz": target})
    check_writable("--xyz", target)
    with replacing(target) as part, part.open("w", encoding="utf-8") as made:
        made.writelines(_lines(source))
    return target


def _lines(source: Path) -> Iterator[str]:
    """The lines of all frames."""
    with opened(source) as file:
        found = trajectory_in(file, source)
        for number in range(len(found.steps)):
            yield from _frame(found, number)


def _frame(found: Trajectory, number: int) -> Iterator[str]:
    """The count of atoms, the line that describes the frame, and a line for each atom."""
    sides = " ".join(repr(side) for side in np.diag(found.sides).ravel().tolist())
    step, time = found.steps[number], found.times[number]
    yield (
        f"{found.atoms}\n"
        f'Lattice="{sides}" Properties={PROPERTIES} units=lj step={step} time={time} '
        f'pbc="T T T"\n'
    )
    yield from _rows(found, number)


def _rows(found: Trajectory, number: int) -> Iterator[str]:
    """The lines of a frame's atoms, sorted by id."""
    symbol = SYMBOLS.get(found.species, found.species)  # one of few, as `trajectory_in` says
    ids = found.ids[number]
    order = np.argsort(ids)
    columns = (data[number][order].tolist() for data in (found.positions, found.velocities))
    for at, speed, of in zip(*columns, ids[order].tolist(), strict=True):
        vectors = " ".join(map(repr, [*at, *speed]))
        yield f"{symbol} {vectors} 1.0 {of}\n"
