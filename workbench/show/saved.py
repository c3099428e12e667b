"""A run as its HDF5 file has it, for figures, films and traces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import drivers
from drivers.timing import SYNC, compute_per_pe
from miniapps.parameters import InputError, words
from workbench.show.thumbnails import Sides, picture_of, sides_of

Period = tuple[int, int]  # of steps: the first, and the first after the last


@contextmanager
def opened(source: Path) -> Iterator[Any]:
    """A run's file. Raises InputError where it is missing, or some other file."""
    import h5py

    try:
        with h5py.File(source) as file:
            yield file
    except (OSError, KeyError) as error:
        raise InputError("FILE.h5", source, f"must be written by --output ({error})") from None


@dataclass(frozen=True)
class SavedRun:
    """Record and timings of a run, and its pictures.

    ``rounds`` (rounds, 2), ``wall_s`` (rounds,), ``rows`` as `drivers.timing.ROW`, ``slices`` as
    ``SLICE`` or None where the run was not traced, ``syncs`` as ``SYNC``; ``picture_steps`` (n,)
    and ``pictures`` (n, nx, ny), of which the last is of the final state.
    """

    record: dict[str, Any]
    rounds: np.ndarray
    wall_s: np.ndarray
    rows: np.ndarray
    slices: np.ndarray | None
    syncs: np.ndarray
    picture_steps: np.ndarray
    pictures: np.ndarray

    @classmethod
    def read(cls, source: Path) -> SavedRun:
        """Read a file that ``run --output`` wrote. Raises InputError."""
        with opened(source) as file:
            record = json.loads(file.attrs["record"])
            timing = {name: data[...] for name, data in file["timing"].items()}
            end = timing["rounds"][-1].sum()
            if "frames" in file:
                steps, pictures = file["frames/step"][...], file["frames/picture"][...]
            else:
                sides = sides_of(record.get("box"), record["problem"])
                steps, pictures = np.array([end]), picture_of(file["state"], sides)[np.newaxis]
            return cls(
                record,
                timing["rounds"],
                timing["wall_s"],
                timing["blocks"],
                timing.get("slices"),
                timing.get("balancing", np.empty(0, SYNC)),
                steps,
                pictures,
            )

    @property
    def sides(self) -> Sides:
        """Lengths of the space along x and y."""
        return sides_of(self.record.get("box"), self.record["problem"])

    @property
    def balanced(self) -> list[int]:
        """The steps before which blocks were balanced."""
        return [entry["step"] for entry in self.record["lb"]]

    @cached_property
    def blocks(self) -> int:
        """How many blocks there are."""
        return int(self.rows["block"].max()) + 1

    @property
    def end(self) -> int:
        """The first step after the last."""
        return int(self.rounds[-1].sum())

    def compute(self) -> np.ndarray:
        """Seconds of computing of each PE in each round: (PEs, rounds)."""
        return compute_per_pe(self.rows, self.record["pes"], len(self.rounds))

    def rounds_in(self, period: Period) -> slice:
        """The rounds that begin in a period, else the one that goes on through it."""
        low, high = np.searchsorted(self.rounds[:, 0], period)
        if low == high:
            low = max(0, high - 1)
            high = low + 1
        return slice(int(low), int(high))

    def by_block(self, periods: Iterable[Period]) -> tuple[np.ndarray, np.ndarray]:
        """Each block in each period: ms of computing per step, and its PE; (blocks, periods)."""
        rows = self.rows
        shape = self.blocks, len(self.rounds)
        seconds, pes = np.zeros(shape), np.zeros(shape, np.int64)
        seconds[rows["block"], rows["round"]] = rows["compute_s"]
        pes[rows["block"], rows["round"]] = rows["pe"]
        parts = [self.rounds_in(period) for period in periods]
        loads = [seconds[:, part].sum(axis=1) / self.rounds[part, 1].sum() for part in parts]
        return 1e3 * np.array(loads).T, np.array([pes[:, part.start] for part in parts]).T

    def name_of(self, block: int) -> str:
        """A block's number, and where it is in the grid of blocks if there is one kind only."""
        grid = self.record["blocks"]
        if np.prod(grid) != self.blocks:
            return f"block {block}"
        place = ", ".join(str(i) for i in np.unravel_index(block, grid))
        return f"block {block} ({place})"

    def command(self) -> str:
        """The run's command line in short, without its problem's options."""
        record = self.record
        given = {
            "--driver": record["driver"],
            "-n": None if drivers.of_record(record["driver"]).one_pe else record["pes"],
            "--odf": record["odf"] if record["odf"] > 1 else None,
            "--balancer": record["balancer"],
            "--lb-period": record["lb_period"] or None,
            "--lb-first": record.get("lb_first"),
            "--steps": record["steps"],
            "--warmup": record["warmup"] or None,
        }
        line = [record["app"], *(word for pair in given.items() for word in words(*pair))]
        return " ".join(line) + ("" if record["valid"] else " (NOT VALID)")


def cut(starts: Iterable[int], end: int, balanced: Iterable[int], most: int) -> list[Period]:
    """Periods of steps, about ``most`` at most, none of which spans a load-balancing step.

    ``starts``: first steps of rounds; periods begin at these. ``balanced``: load-balancing steps.
    If there are more of these than periods, some of the intervals between them are left out.
    """
    first = min(starts)
    inner = [step for step in balanced if first < step < end]  # another run may begin earlier
    walls = np.unique([first, *inner, end])
    edges = np.unique([*starts, *inner])
    spare = max(0, most - len(walls))
    begins: list[int] = []
    for low, high in pairwise(walls):
        inside = edges[(edges >= low) & (edges < high)]
        parts = min(1 + spare * len(inside) // len(edges), len(inside))
        begins += [int(part[0]) for part in np.array_split(inside, parts)]
    periods = list(pairwise([*begins, end]))
    if len(periods) <= most:
        return periods
    return [periods[i] for i in np.linspace(0, len(periods) - 1, most).astype(int)]
