"""The loads and messages of a run, as a replay needs them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.decomposition import factorizations, least_surface
from miniapps.parameters import InputError, require
from miniapps.workbench.run.schema import extent_of
from miniapps.workbench.show.saved import SavedRun

Grid = tuple[int, ...]


@dataclass(frozen=True)
class Edges:
    """What blocks send to each other: a row per pair, sums over all timed rounds."""

    sender: np.ndarray
    receiver: np.ndarray
    messages: np.ndarray
    nbytes: np.ndarray

    def merged(self, group: np.ndarray) -> Edges:
        """The edges between groups of blocks; ``group`` (blocks,): that of each."""
        count = int(group.max()) + 1
        key = group[self.sender].astype(np.int64) * count + group[self.receiver]
        pairs, which = np.unique(key, return_inverse=True)
        sums = [np.bincount(which, of, len(pairs)) for of in (self.messages, self.nbytes)]
        return Edges(pairs // count, pairs % count, *sums)


@dataclass(frozen=True)
class Recorded:
    """A run's loads.

    ``rounds`` (rounds, 2): first step and number of steps; ``loads`` (rounds, blocks): compute
    time, s; ``pes`` (rounds, blocks): where each block was; ``sizes`` (blocks,): bytes that migrate
    with a block, and ``edges``: both None unless the run was traced; ``grid``: the blocks along
    each axis, None if there are several kinds of blocks; ``wall_s``: of all rounds together.
    """

    record: dict[str, Any]
    rounds: np.ndarray
    loads: np.ndarray
    pes: np.ndarray
    sizes: np.ndarray | None
    edges: Edges | None
    grid: Grid | None
    wall_s: float

    @classmethod
    def read(cls, source: Path) -> Recorded:
        """Read a file that ``run --output`` wrote. Raises InputError."""
        run = SavedRun.read(source)
        require(run.record["valid"], "FILE.h5", source, "must be of a valid run")
        always = len(run.rows) == len(run.rounds) * run.blocks
        require(always, "FILE.h5", source, "must be of blocks that exist in all steps")
        return cls.of(run)

    @classmethod
    def of(cls, run: SavedRun) -> Recorded:
        """The loads of a run that has been read."""
        shape = len(run.rounds), run.blocks
        loads, pes = np.zeros(shape), np.zeros(shape, np.int32)
        at = run.rows["round"], run.rows["block"]
        loads[at], pes[at] = run.rows["compute_s"], run.rows["pe"]
        sizes = None
        if run.sizes is not None and len(run.sizes):
            sizes = np.zeros(run.blocks, np.int64)
            sizes[run.sizes["block"]] = run.sizes["bytes"]
        grid = tuple(run.record["blocks"])
        return cls(
            run.record,
            run.rounds,
            loads,
            pes,
            sizes,
            _edges(run),
            grid if math.prod(grid) == run.blocks else None,
            float(run.wall_s.sum()),
        )

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return int(self.loads.shape[1])

    @property
    def steps(self) -> int:
        """The number of timed steps."""
        return int(self.rounds[:, 1].sum())

    @property
    def firsts(self) -> list[tuple[int, int]]:
        """First step and number of steps of each round."""
        return [(int(first), int(count)) for first, count in self.rounds]

    def homes(self, pes: int) -> np.ndarray:
        """The PE on which each block starts (blocks,), of a number of PEs.

        As recorded if the run had that number of PEs, more than one; else each PE gets a box of the
        grid of blocks, with least surface; if there are several kinds of blocks, or no boxes,
        consecutive ones.
        """
        if self.record["pes"] == pes > 1:
            return self.pes[0]
        if self.grid is not None:
            try:
                parts = least_surface(self.grid, pes)
            except ValueError:
                pass
            else:
                return part_of(self.grid, parts).astype(np.int32)
        return (np.arange(self.blocks) * pes // self.blocks).astype(np.int32)

    def with_blocks(self, count: int) -> Recorded:
        """The run with so many blocks, made of neighbouring ones. Raises InputError.

        The load of a block is the sum of those that it is made of, which is less than exact: a
        larger block has less surface, and another share of the caches.
        """
        if count == self.blocks:
            return self
        odf = f"{count} blocks in all"
        few = f"more than the run's {self.blocks}: record a run with more"
        require(count < self.blocks, "--odf", odf, few)
        parts = None if self.grid is None else _coarser(self.grid, count, self.record)
        if parts is None:
            raise InputError("--odf", odf, f"cannot be made of {self.blocks} neighbouring blocks")
        assert self.grid is not None
        group = part_of(self.grid, parts)
        merged = np.zeros((len(self.rounds), count))
        for at, loads in enumerate(self.loads):
            merged[at] = np.bincount(group, loads, count)
        first = np.full(count, self.blocks)
        np.minimum.at(first, group, np.arange(self.blocks))
        sizes = None if self.sizes is None else np.bincount(group, self.sizes, count)
        return replace(
            self,
            loads=merged,
            pes=self.pes[:, first],
            sizes=sizes,
            edges=None if self.edges is None else self.edges.merged(group),
            grid=parts,
        )


def part_of(grid: Grid, parts: Grid) -> np.ndarray:
    """The part, in C order, to which each block of a grid belongs (blocks,), in C order.

    ``parts`` along each axis, nearly equal: as `decomposition.split` cuts cells.
    """
    number = np.zeros(1, np.int64)
    for blocks, count in zip(grid, parts, strict=True):
        along = ((np.arange(blocks) + 1) * count - 1) // blocks
        number = (number[:, np.newaxis] * count + along).ravel()
    return number


def _coarser(grid: Grid, count: int, record: dict[str, Any]) -> Grid | None:
    """The grid of ``count`` parts of equally many blocks with least surface; None if there is none.

    ``record``: says how large the domain is.
    """
    extent = extent_of(record)

    def surface(parts: Sequence[int]) -> float:
        return sum((n - 1) / length for n, length in zip(parts, extent, strict=True))

    fitting = [
        parts
        for parts in factorizations(count, len(grid))
        if all(n % part == 0 for n, part in zip(grid, parts, strict=True))
    ]
    return min(fitting, key=surface, default=None)


def _edges(run: SavedRun) -> Edges | None:
    """What the blocks of a traced run sent."""
    sent = run.sent
    if sent is None:
        return None
    own = Edges(sent["block"], sent["to"], sent["messages"], sent["bytes"])
    return own.merged(np.arange(run.blocks))
