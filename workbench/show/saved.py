"""Reads the HDF5 file of a run, for figures, animations and traces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.drivers.timing import SYNC, compute_per_pe
from miniapps.hdf5 import require_stored
from miniapps.json_input import parsed_object
from miniapps.parameters import require
from miniapps.workbench.run.checkpoint import is_checkpoint
from miniapps.workbench.run.revalidation import contradiction
from miniapps.workbench.run.schema import extent_of, upgraded
from miniapps.workbench.show.captions import command_text, problem_text
from miniapps.workbench.show.reading import opened, read_rows, require_survivable
from miniapps.workbench.show.saved_claims import broken_claim
from miniapps.workbench.show.thumbnails import (
    Sides,
    are_counted,
    density,
    quantity_of,
    sides_of,
    thumbnail_of,
)
from miniapps.workbench.show.trajectory import TRAJECTORY, require_sound, trajectory_in

Period = tuple[int, int]  # first step, and one past the last step


def record_in(file: Any, source: Path) -> dict[str, Any]:
    """The record in a file that `opened` has opened. Raises InputError if no run has written it."""
    no_record = "is a checkpoint, which only --paraview shows"
    require(not is_checkpoint(file), "FILE.h5", source, no_record)
    record = upgraded(parsed_object(file.attrs["record"]))
    reason = contradiction(record)
    require(reason is None, "FILE.h5", source, f"record: {reason}")
    return record


NOWHERE = -1  # the PE of a block that does not exist


@dataclass(frozen=True)
class SavedRun:
    """The record, timings and thumbnails of a run.

    ``rounds`` (rounds, 2), ``wall_s`` (rounds,); ``rows``, ``slices`` (None if the run was not
    traced) and ``syncs`` have the dtypes ``ROW``, ``SLICE`` and ``SYNC`` of `drivers.timing`, and
    so have ``sent``, ``sizes`` and ``loads``, which runs may lack, ``SENT``, ``SIZE`` and ``LOAD``;
    ``thumbnail_steps`` (n,) and ``thumbnails`` (n, nx, ny), or (n, nx) if the domain has one axis;
    the last one is of the final state. ``quantity``: what they show, with its unit; ``counted``:
    whether they hold numbers of particles.
    """

    record: dict[str, Any]
    rounds: np.ndarray
    wall_s: np.ndarray
    rows: np.ndarray
    slices: np.ndarray | None
    syncs: np.ndarray
    thumbnail_steps: np.ndarray
    thumbnails: np.ndarray
    has_trajectory: bool
    quantity: str
    counted: bool
    sent: np.ndarray | None = None
    sizes: np.ndarray | None = None
    loads: np.ndarray | None = None

    @classmethod
    def read(cls, source: Path) -> SavedRun:
        """Read a file that ``run --output`` wrote, and validate it again. Raises InputError."""
        require_survivable(source, lambda: _read_all(source))
        return cls._read(source)

    @classmethod
    def _read(cls, source: Path) -> SavedRun:
        """Read and validate a file that libhdf5 can read."""
        with opened(source) as file:
            record = record_in(file, source)
            require_stored(source, *file["timing"].values(), *file["state"].values())
            timing = {name: data[...] for name, data in file["timing"].items()}
            steps, thumbnails = _thumbnails(file, source, record)
            run = cls(
                record,
                timing["rounds"],
                timing["wall_s"],
                timing["blocks"],
                timing.get("slices"),
                timing.get("balancing", np.empty(0, SYNC)),
                steps,
                thumbnails,
                TRAJECTORY in file,
                quantity_of(file["state"], "box" not in record),
                are_counted(file["state"]),
                timing.get("messages"),
                timing.get("sizes"),
                timing.get("loads"),
            )
            broken = broken_claim(run)
            require(broken is None, "FILE.h5", source, f"contradicts itself: {broken}")
            if run.has_trajectory:
                require_sound(trajectory_in(file, source), file["state"], record, source)
            return run

    @property
    def sides(self) -> Sides:
        """Lengths of the domain along x and y, or along its only axis."""
        return sides_of(extent_of(self.record))

    @property
    def unit(self) -> str:
        """The unit of lengths."""
        return "sigma" if "box" in self.record else "cells"

    @cached_property
    def shown(self) -> np.ndarray:
        """The thumbnails in their ``quantity``: particles per unit of area, or a field's values."""
        return density(self.thumbnails, self.sides) if self.counted else self.thumbnails

    @property
    def lb_steps(self) -> list[int]:
        """The steps before which the load was balanced."""
        return [entry["step"] for entry in self.record["lb"]]

    @cached_property
    def blocks(self) -> int:
        """The number of blocks."""
        return int(self.rows["block"].max()) + 1

    @property
    def end(self) -> int:
        """The last step plus one."""
        return int(self.rounds[-1].sum())

    def compute(self) -> np.ndarray:
        """Compute time of each PE in each round, s: (PEs, rounds)."""
        return compute_per_pe(self.rows, self.record["pes"], len(self.rounds))

    def rounds_in(self, period: Period) -> slice:
        """The rounds that begin in a period; if there is none, the round that spans it."""
        low, high = np.searchsorted(self.rounds[:, 0], period)
        if low == high:
            low = max(0, high - 1)
            high = low + 1
        return slice(int(low), int(high))

    def by_block(self, periods: Iterable[Period]) -> tuple[np.ndarray, np.ndarray]:
        """Compute time per step, ms, and PE of each block in each period: two (blocks, periods).

        Where a block does not exist, it has no load, and its last PE, or its first one.
        """
        rows = self.rows
        shape = self.blocks, len(self.rounds)
        seconds, pes = np.zeros(shape), np.full(shape, NOWHERE)
        seconds[rows["block"], rows["round"]] = rows["compute_s"]
        pes[rows["block"], rows["round"]] = rows["pe"]
        for ways in (1, -1):
            last = np.maximum.accumulate(
                np.where(pes[:, ::ways] == NOWHERE, 0, np.arange(shape[1])), axis=1
            )
            pes = np.take_along_axis(pes[:, ::ways], last, axis=1)[:, ::ways]
        parts = [self.rounds_in(period) for period in periods]
        loads = [seconds[:, part].sum(axis=1) / self.rounds[part, 1].sum() for part in parts]
        return 1e3 * np.array(loads).T, np.array([pes[:, part.start] for part in parts]).T

    def heaviest(self, most: int) -> np.ndarray:
        """The numbers of the blocks with the largest load, ``most`` or all, in increasing order."""
        loads = np.bincount(self.rows["block"], self.rows["compute_s"], self.blocks)
        return np.sort(np.argsort(-loads, kind="stable")[:most])

    def name_of(self, block: int) -> str:
        """The number of a block, with its index in the grid if there is only one kind of blocks."""
        grid = self.record["blocks"]
        if np.prod(grid) != self.blocks:
            return f"block {block}"
        index = ", ".join(str(i) for i in np.unravel_index(block, grid))
        return f"block {block} ({index})"

    def command(self) -> str:
        """The command line of the run without the options of its problem."""
        return command_text(self.record)

    def problem(self) -> str:
        """The problem of the run, in a few words."""
        return problem_text(self.record["app"], [self.record["problem"]])


def _thumbnails(file: Any, source: Path, record: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The steps of the thumbnails (n,) and the thumbnails (n, nx, ny); without any, the final."""
    for group, name in (("snapshots", "thumbnail"), ("frames", "picture")):  # the latter: schema 1
        if group in file:
            steps, thumbnails = file[group]["step"], file[group][name]
            require_stored(source, steps, thumbnails)
            return steps[...], thumbnails[...]
    end = file["timing/rounds"][-1].sum()
    final = thumbnail_of(file["state"], sides_of(extent_of(record)))
    return np.array([end]), final[np.newaxis]


def _read_all(source: Path) -> None:
    """Read all that figures, animations and traces read of a file."""
    SavedRun._read(source)
    with opened(source) as file:
        read_rows(*file["state"].values())


def periods_of_steps(
    starts: Iterable[int], end: int, lb_steps: Iterable[int], most: int
) -> list[Period]:
    """At most ``most`` periods of steps, none of which spans a load-balancing step.

    ``starts``: the first steps of rounds, where periods may begin. ``lb_steps``: as in `SavedRun`;
    if they are too many for ``most`` periods, some of the periods between them are left out.
    """
    first = min(starts)
    walls = np.unique(np.clip([first, *lb_steps, end], first, end))  # another run's may be outside
    edges = np.unique([*starts, *walls[:-1]])
    spare = max(0, most - len(walls))
    begins: list[int] = []
    for low, high in pairwise(walls):
        inside = edges[(edges >= low) & (edges < high)]
        parts = min(1 + spare * len(inside) // len(edges), len(inside))
        begins += [int(part[0]) for part in np.array_split(inside, parts)]
    periods = list(pairwise([*begins, end]))
    return [periods[i] for i in np.unique(np.linspace(0, len(periods) - 1, most).astype(int))]
