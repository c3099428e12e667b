"""Trajectories in extended XYZ, for programs that do not read H5MD, such as ASE and OVITO.

Numbers are those of the H5MD trajectory, in its units, with all digits. Momenta and masses of 1 are
columns that ASE makes velocities of. Atoms are in the order of their ids, the same in every frame.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

import numpy as np

from miniapps.parameters import InputError
from workbench.run.output import aside
from workbench.run.spec import check_writable
from workbench.show.saved import SavedRun, opened

PROPERTIES = "species:S:1:pos:R:3:momenta:R:3:masses:R:1:id:I:1"
SYMBOLS = MappingProxyType({"LJ": "X"})  # ASE's symbol of atoms that are of no element


def write_xyz(source: Path, target: Path) -> Path:
    """Write all frames of a run's trajectory. Raises InputError if the file has none."""
    SavedRun.read(source)
    check_writable("--xyz", target)
    try:
        with opened(source) as file, aside(target).open("w") as made:
            if "particles" not in file:
                raise InputError("--xyz", source, "has no trajectory of atoms")
            (group,) = file["particles"].values()
            for number in range(len(group["position/step"])):
                _write_frame(made, group, number)
        os.replace(aside(target), target)
    finally:
        aside(target).unlink(missing_ok=True)
    return target


def _write_frame(made: TextIO, group: Any, number: int) -> None:
    """Write the count of atoms, the line that describes the frame, and a line for each atom."""
    position = group["position"]
    sides = " ".join(repr(side) for side in np.diag(group["box/edges"][...]).ravel().tolist())
    step, time = position["step"][number], position["time"][number]
    made.write(
        f"{position['value'].shape[1]}\n"
        f'Lattice="{sides}" Properties={PROPERTIES} units=lj step={step} time={time} '
        f'pbc="T T T"\n'
    )
    made.writelines(_rows(group, number))


def _rows(group: Any, number: int) -> Iterator[str]:
    """The lines of a frame's atoms, sorted by id."""
    import h5py

    (species,) = h5py.check_enum_dtype(group["species"].dtype) if "species" in group else ("LJ",)
    symbol = SYMBOLS.get(species, species)
    ids = group["id/value"][number]
    order = np.argsort(ids)
    columns = (group[f"{name}/value"][number][order].tolist() for name in ("position", "velocity"))
    for at, speed, of in zip(*columns, ids[order].tolist(), strict=True):
        vectors = " ".join(map(repr, [*at, *speed]))
        yield f"{symbol} {vectors} 1.0 {of}\n"
