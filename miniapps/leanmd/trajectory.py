"""Trajectories in H5MD 1.1 (de Buyl, Colberg and Hoefling, Comp. Phys. Comm. 185, 2014).

The output file of the run also contains

``particles/atoms/position``, ``velocity``, ``id``  each with ``step``, ``time`` and ``value``
``particles/atoms/box``  the periodic box
``particles/atoms/species``  the same for all atoms: LJ, or with --units that of the substance
``observables``  the thermo table, column by column
``observables/si``, ``parameters``  with --units: the table in SI units, and the reduced units in SI

All others are in reduced units. Each PE stores the frames of its blocks in a file of its own. At
the end these are joined piece by piece, so no process holds a whole frame. The order of the atoms
differs between frames; ``id`` identifies them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from miniapps.contract import Piece
from miniapps.leanmd import si, thermo
from miniapps.quantities import AXES, Quantity, describe
from miniapps.snapshots import append

AT_ONCE = 1 << 16  # atoms
COLUMNS = {"position": slice(0, 3), "velocity": slice(3, 6)}  # of the piece "atoms"
LENGTH_UNIT, SPEED_UNIT = "sigma", "sigma tau-1"
QUANTITIES = {  # in reduced units
    "position": Quantity("position of each atom, wrapped into the box", LENGTH_UNIT),
    "velocity": Quantity("velocity of each atom", SPEED_UNIT),
    "id": Quantity("id of the atom in each row; the order differs between frames"),
}
SPECIES = 1  # of every atom


@dataclass(frozen=True)
class Trajectory:
    """Writes the atoms of a run in a box; a `miniapps.snapshots.SnapshotWriter`."""

    name: ClassVar[str] = "trajectory"

    box: tuple[float, ...]
    dt: float
    first_step: int
    every: int  # steps; 0: the final state only
    atoms: int

    @property
    def frame_bytes(self) -> float:
        """Position, velocity and id of every atom."""
        return 56.0 * self.atoms

    def wants(self, before: int, step: int) -> bool:
        """Whether ``step`` is a multiple of the interval, as is 0, the state after the setup."""
        return self.every > 0 and step % self.every == 0

    def add(self, frame: Any, pieces: list[Piece]) -> None:
        """Append a block's atoms."""
        for piece in pieces:
            if "rows" not in frame:
                frame.create_dataset("rows", (0, 6), "f8", maxshape=(None, 6))
                frame.create_dataset("id", (0,), "i8", maxshape=(None,))
            append(frame["rows"], piece.values)
            append(frame["id"], piece.ids)

    def join(
        self, file: Any, frames: dict[int, list[Any]], record: dict[str, Any], steps: int
    ) -> None:
        """Join the frames, of which the final state is the last, and add the thermo table."""
        state = file["state"]
        last = {steps: [{"rows": state["atoms"], "id": state["atoms.id"]}]}
        frames = last | frames
        taken = sorted(frames)
        self._write_head(file, record)
        group = file["particles/atoms"]
        self._write_frames(group, taken, [frames[step] for step in taken], record["atoms"])
        self._write_observables(file, record["thermo"])
        if "si" in record:
            self._write_si(file, record["si"])

    def earlier(self, file: Any) -> dict[int, list[Any]]:
        """The frames of a file, each in one part, whose atoms are read when they are joined."""
        atoms = file["particles/atoms"]
        steps = atoms["id/step"][...] - self.first_step
        rows = [atoms[f"{name}/value"] for name in COLUMNS]
        return {
            step: [{"rows": InFrame(rows, number), "id": InFrame([atoms["id/value"]], number)}]
            for number, step in enumerate(steps.tolist())
        }

    def _write_head(self, file: Any, record: dict[str, Any]) -> None:
        """Write the program that made the file, and the box."""
        head = file.create_group("h5md")
        head.attrs["version"] = np.array([1, 1], np.int32)
        head.create_group("author").attrs["name"] = "unknown"
        creator = head.create_group("creator")
        creator.attrs["name"] = "parallel-miniapps"
        creator.attrs["version"] = record["versions"]["parallel-miniapps"]
        box = file.create_group("particles/atoms/box")
        box.attrs["dimension"] = 3
        box.attrs["boundary"] = np.array([b"periodic"] * 3)
        box["edges"] = np.array(self.box)
        sides = Quantity("side lengths of the periodic box", LENGTH_UNIT)
        describe_vectors(box["edges"], sides, [])
        self._write_species(file["particles/atoms"], record)

    def _write_species(self, group: Any, record: dict[str, Any]) -> None:
        """Write the species of all atoms, of an enumerated type."""
        name = si.SUBSTANCES[record["si"]["substance"]].symbol if "si" in record else "LJ"
        kind = np.dtype("u1", metadata={"enum": {name: SPECIES}})  # as h5py.enum_dtype makes it
        values = np.full(record["atoms"], SPECIES, np.uint8)
        species = group.create_dataset("species", data=values, dtype=kind)
        describe(species, "species of the atom in each row, in all frames", ["atom"])

    def _write_frames(self, group: Any, steps: list[int], frames: list[Any], atoms: int) -> None:
        """Write positions, velocities and ids of all frames, `AT_ONCE` atoms at a time."""
        elements = {}
        for name, quantity in QUANTITIES.items():
            tail, kind = ((), "i8") if name == "id" else ((3,), "f8")
            element = elements[name] = group.create_group(name)
            self._write_times(element, steps)
            value = element.create_dataset("value", (len(steps), atoms, *tail), kind)
            if name == "id":
                describe(value, quantity.description, ["frame", "atom"])
            else:
                describe_vectors(value, quantity, ["frame", "atom"])
        for number, sources in enumerate(frames):
            first = 0
            for rows, ids in chunks(sources):
                end = first + len(ids)
                elements["id"]["value"][number, first:end] = ids
                for name, columns in COLUMNS.items():
                    elements[name]["value"][number, first:end] = rows[:, columns]
                first = end

    def _write_observables(self, file: Any, rows: list[dict[str, Any]]) -> None:
        """Write the columns of the thermo table."""
        steps = [row["step"] - self.first_step for row in rows]
        for name, quantity in thermo.QUANTITIES.items():
            element = file.create_group(f"observables/{name}")
            self._write_times(element, steps)
            element["value"] = [row[name] for row in rows]
            describe_scalars(element["value"], quantity, ["frame"])

    def _write_si(self, file: Any, found: dict[str, Any]) -> None:
        """Write the units of a substance, and the columns of the thermo table in SI units."""
        units = file.create_group(f"parameters/{found['substance']}")
        for name, value in found["units"].items():
            quantity, _, unit = name.rpartition("_")
            units[quantity] = value
            about = f"the reduced unit of {quantity}, for {found['substance']}"
            describe_scalars(units[quantity], Quantity(about, unit), [])
        steps = [row["step"] - self.first_step for row in found["thermo"]]
        for name, unit in si.COLUMNS.items():
            element = file.create_group(f"observables/si/{name}")
            self._write_times(element, steps)
            element["value"] = [row[f"{name}_{unit}"] for row in found["thermo"]]
            about = "time" if name == "time" else thermo.QUANTITIES[name].description
            about = f"{about}, as {found['substance']}"
            describe_scalars(element["value"], Quantity(about, unit), ["frame"])

    def _write_times(self, element: Any, steps: list[int]) -> None:
        """Write the steps and times of an element's values; ``steps``: since the run began."""
        since = np.array(steps, np.int64) + self.first_step
        element["step"], element["time"] = since, since * self.dt
        describe(element["step"], "steps made before each frame", ["frame"])
        about = Quantity("time of each frame in reduced units", "tau")
        describe_scalars(element["time"], about, ["frame"])


@dataclass(frozen=True)
class InFrame:
    """A frame of datasets (frames, atoms, ...), side by side; a slice reads that of some atoms."""

    columns: list[Any]
    frame: int

    def __len__(self) -> int:
        return int(self.columns[0].shape[1])

    def __getitem__(self, atoms: slice) -> np.ndarray:
        parts = [data[self.frame, atoms] for data in self.columns]
        return parts[0] if len(parts) == 1 else np.hstack(parts)


def describe_scalars(data: Any, quantity: Quantity, axes: list[str]) -> None:
    """Describe a dataset of numbers with one unit, in H5MD's attribute ``unit``, too."""
    describe(data, quantity.description, axes, quantity.units)
    data.attrs["unit"] = quantity.units


def describe_vectors(data: Any, quantity: Quantity, axes: list[str]) -> None:
    """Describe a dataset whose last axis is along x, y and z, in H5MD's ``unit``, too."""
    columns = dict.fromkeys(AXES, quantity.units)
    describe(data, quantity.description, [*axes, "column"], columns=columns)
    data.attrs["unit"] = quantity.units


def chunks(sources: list[Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and ids of a frame from all its sources, at most `AT_ONCE` atoms at a time."""
    for source in sources:
        for first in range(0, len(source["id"]), AT_ONCE):
            yield source["rows"][first : first + AT_ONCE], source["id"][first : first + AT_ONCE]
