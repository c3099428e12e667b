"""The published tables that `miniapps model check` predicts, and why the model fails on some."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from miniapps import apps
from miniapps.pic.distribution import Distribution
from miniapps.workbench.model.formula import Counts, Situation, counts
from miniapps.workbench.model.machine import BLOCK, Machine, driver
from miniapps.workbench.model.runtimes import movable, ranks
from miniapps.workbench.run.cases import Case
from miniapps.workbench.study.options import SHIPPED, published_values

MS, S = 1e-3, 1.0
CELLS, PER_STEP = "kernel.jacobi2d.cells", driver(ranks(), BLOCK)


@dataclass(frozen=True)
class Row:
    """A published value: seconds per step, or the bounds of its interval."""

    label: str
    place: int  # on the axis of a figure: PEs, or ODF
    counts: Counts
    published_s: float
    low_s: float
    high_s: float
    fitted: bool  # whether costs are fitted to it, if it is not the one that is left out

    @property
    def times(self) -> np.ndarray:
        """The published time, as the only trial of a cell: (1,)."""
        return np.array([self.published_s])


@dataclass(frozen=True)
class Published:
    """A published table, the costs that are fitted to it, and how near the model must come.

    ``free``: the costs that are fitted; the others are the machine's. ``given``: fitted to the
    table of that title instead. ``fails``: why the model fails here, if it does.
    """

    title: str
    file: str
    machine: str
    free: tuple[str, ...]
    limit: float
    note: str
    given: str | None = None
    fails: str | None = None

    def rows(self, machine: Machine) -> list[Row]:
        """The rows of the table. Raises InputError if the file cannot be read."""
        return list(ROWS[self.title](machine, published(self.file)))


@cache
def published(name: str) -> dict[str, Any]:
    """The contents of a file with published values. Raises InputError."""
    return published_values(Path(SHIPPED) / "published" / f"{name}.json")


def _row(
    machine: Machine, situation: Situation, seconds: Sequence[float], fitted: bool = True
) -> Row:
    """A row of one time, or of the bounds of an interval."""
    case = situation.case
    place = case.odf if case.pes == 1 else case.pes
    middle = sum(seconds) / len(seconds)
    found = counts(machine, situation)
    return Row(str(case), place, found, middle, min(seconds), max(seconds), fitted)


def pic(machine: Machine, table: dict[str, Any]) -> Iterator[Row]:
    """The time of the PE whose tile has most particles; they do not move in the published program.

    L is 5998, as in the public scripts. 24 PEs are half a node, whose cores are faster.
    """
    problem = apps.load("pic").Problem(
        size=5998, particles=600_000, k=0, m=1, distribution=Distribution("geometric", (0.999,))
    )
    for pes, time in zip(table["PEs"], table["mpi4py"], strict=True):
        asked = Situation("pic", problem, Case(ranks(), pes), steps=1)
        yield _row(machine, asked, [time * MS], fitted=pes >= machine.pes_per_host)


def _jacobi(size: tuple[int, int], pes: int) -> Situation:
    problem = apps.load("jacobi2d").Problem(size=size, time_tile=1)
    return Situation("jacobi2d", problem, Case(ranks(), pes))


def jacobi_strong(machine: Machine, table: dict[str, Any]) -> Iterator[Row]:
    """6 to 768 PEs; 1536 to 6144, published as intervals, are extrapolated."""
    size = 24576, 24576
    for pes, time in zip(table["PEs"], table["mpi4py"], strict=True):
        yield _row(machine, _jacobi(size, pes), [time * MS])
    for pes, bounds in table["mpi4py, 99 % intervals, by PEs"].items():
        if int(pes) not in table["PEs"]:
            bounds_s = [bound * MS for bound in bounds]
            yield _row(machine, _jacobi(size, int(pes)), bounds_s, fitted=False)


def jacobi_weak(machine: Machine, table: dict[str, Any]) -> Iterator[Row]:
    """6144 x 6144 on 6 PEs, doubled along x already before the first run, then along y and x."""
    for pes, time in zip(table["PEs"], table["mpi4py and Charm4Py"], strict=True):
        doublings = 1 + (pes // 6).bit_length() - 1
        size = 6144 << (doublings + 1) // 2, 6144 << doublings // 2
        yield _row(machine, _jacobi(size, pes), [time * MS], fitted=False)


def gpu_odf(machine: Machine, table: dict[str, Any]) -> Iterator[Row]:
    """Blocks on one GPU: the host feeds each block."""
    problem = apps.load("jacobi2d").Problem(size=(8192, 8192), time_tile=1)
    for odf, rate in zip(table["ODF"], table["Charm4Py"], strict=True):
        asked = Situation("jacobi2d", problem, Case(movable(), 1, odf))
        yield _row(machine, asked, [problem.work() / (rate * 1e9)], fitted=False)


ATOMS, CORES, PER_CELL = 51e6, 131_072, 300.0  # of CharmPy 2018
NEIGHBOURS = 27  # cells around a cell, itself included
MESSAGES = 2 * NEIGHBOURS + 2 * 2 * NEIGHBOURS / 2  # per cell: positions and forces, both ways


def leanmd(machine: Machine, table: dict[str, Any]) -> Iterator[Row]:
    """Mean counts per core, of cells and pairs of cells; there is no single block per core.

    Pairs within the cutoff of 12 A in cells of 16 A, as `miniapps.leanmd.loads` counts them.
    """
    cells, density = ATOMS / PER_CELL / CORES, PER_CELL / 16.0**3
    pairs = ATOMS / CORES * density * 4 / 3 * np.pi * 12.0**3 / 2
    paid = {
        "kernel.leanmd.atoms": ATOMS / CORES,
        "kernel.leanmd.pairs": pairs,
        "kernel.leanmd.blocks": cells * (1 + NEIGHBOURS / 2),
        driver(movable(), "block_s"): cells * (1 + NEIGHBOURS / 2),
        driver(movable(), "message_hosts_s"): cells * MESSAGES,
        driver(movable(), "byte_hosts_s"): cells * MESSAGES * PER_CELL * 24,
        driver(movable(), "latency_hosts_s"): 2.0,
    }
    per_pe = np.array([[[*paid.values()]]])
    empty = np.zeros_like(per_pe)
    found = Counts(tuple(paid), 1, per_pe, empty, empty, empty[:, :0], np.array([False]), None, 1)
    (times,) = (value for key, value in table.items() if key.startswith("leanmd, 51 million"))
    for name, time in times.items():
        yield Row(f"{name}, {CORES} cores", CORES, found, time * MS, time * MS, time * MS, False)


PIC, STRONG, WEAK = "ESPM2: PIC", "ESPM2: Jacobi2D, strong", "ESPM2: Jacobi2D, weak"
GPU, LEANMD = "H200: over-decomposition", "CharmPy: LeanMD, 51 million atoms"
ROWS = {PIC: pic, STRONG: jacobi_strong, WEAK: jacobi_weak, GPU: gpu_odf, LEANMD: leanmd}
FREE: dict[str, tuple[str, ...]] = {PIC: ("kernel.pic.particles",), STRONG: (CELLS, PER_STEP)}
FILE = Path(__file__).with_suffix(".toml")
TABLES = tuple(
    Published(**table, free=FREE.get(table["title"], ()))
    for table in tomllib.loads(FILE.read_text(encoding="utf-8"))["tables"]
)
