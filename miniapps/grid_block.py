"""The block of the stencil apps: one box of the grid, its halo, and its sweeps."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from miniapps import kernels
from miniapps.arrays import copied, ghosted
from miniapps.contract import Batch, Checkpoint, Edge, Index, Measure, Piece, Saved
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.grid import initial_field, projections, slabs
from miniapps.halo_user import HaloUser
from miniapps.kernels.halo.interface import Region, box
from miniapps.kernels.jacobi2d.interface import Jacobi2dKernels
from miniapps.kernels.stencil3d.interface import Stencil3dKernels


class GridBlock(HaloUser[Jacobi2dKernels | Stencil3dKernels]):
    """One box of the grid with its ghosts. The app's block adds `step`.

    The block has two arrays of its cells and ghosts. A side with a neighbour has as many ghost
    layers as sweeps per exchange, a side of the domain has one. Between steps ``old`` holds the
    newest values.
    """

    kind = "block"
    arrays, rebuilt = ("old", "new"), ("halo",)
    has_equal_load = True  # as all blocks: each bears an equal share of a launch for all

    def __init__(self, problem: Any, layout: Layout, index: Index, device: Device) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.bounds = layout.bounds(index)
        self.neighbors = layout.neighbors(index, diagonals=problem.time_tile > 1)
        self.time, self.depth = 0, problem.time_tile
        # Whether its PE has no other block to run while messages travel, and some do travel.
        here = layout.home(self.kind, index)
        away = any(layout.home(*peer.place) != here for peer in self.neighbors.values())
        self.alone = layout.odf == 1 and away
        self.together = self.has_equal_load and self.work_together(layout)
        self.packed: Mapping[Edge, Any] | None = None  # the faces, if the last launch packed them
        axes = range(len(index))
        sides = itertools.product(axes, (-1, 1))
        faces = (tuple(side * (d == axis) for d in axes) for axis, side in sides)
        self.grow = [int(face in self.neighbors) for face in faces]  # whether a neighbour is there
        field, self.own = self._filled()
        self.old, self.new = device.to_device(field), device.to_device(copied(field))
        self.halo = self.halo_along(self.edges)

    def __getstate__(self) -> dict[str, Any]:
        """What migrates."""
        return super().__getstate__() | {"packed": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the block after a migration."""
        super().__setstate__(state)
        self.halo = self.halo_along(self.edges)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges to neighbours."""
        return tuple(self.neighbors)

    def _ghosts(self, axis: int, side: int) -> int:
        """Layers of ghosts on a side of an axis."""
        return self.problem.time_tile if self.grow[2 * axis + side] else 1

    def _filled(self, inside: np.ndarray | None = None) -> tuple[np.ndarray, Region]:
        """An array with a field inside and the fixed boundary around, and its region.

        ``inside``: the field; None: the initial one.
        """
        axes = range(len(self.bounds))
        field, own = ghosted(
            [high - low for low, high in self.bounds],
            [(self._ghosts(axis, 0), self._ghosts(axis, 1)) for axis in axes],
            self.problem.time_tile,
            self.problem.dtype,
            self.device.line,
        )
        for axis, side in itertools.product(axes, (0, 1)):
            if not self.grow[2 * axis + side]:
                at = own[2 * axis + 1] if side else own[2 * axis] - 1
                field[(slice(None),) * axis + (at,)] = self.problem.ghost_values()[side]
        cells = field[box(own)]
        if inside is not None:
            cells[...] = inside
            return field, own
        for slab in slabs(self.bounds):
            low, high = (row - self.bounds[0][0] for row in slab[0])
            cells[low:high] = initial_field(self.problem, slab)
        return field, own

    def faces(self) -> Mapping[Edge, Any]:
        """Copies of the block's own cells that neighbours need as ghosts, by edge."""
        packed, self.packed = self.packed, None
        return self.halo.pack(self.old) if packed is None else packed

    def fill_ghosts(self, came: Mapping[Edge, Any]) -> None:
        """Copy the received messages into the ghosts."""
        self.halo.unpack(self.old, came)

    def interior(self) -> Region:
        """Own cells that can be swept before any halo has arrived."""
        return tuple(
            edge + (grow if n % 2 == 0 else -grow)
            for n, (edge, grow) in enumerate(zip(self.own, self.grow, strict=True))
        )

    def border(self) -> Iterator[Region]:
        """The rest of the own cells, as disjoint strips one cell thick."""
        left = list(self.own)
        for axis in range(len(self.index)):
            low, high = 2 * axis, 2 * axis + 1
            if self.grow[low] and left[low] < left[high]:
                yield (*left[:high], left[low] + 1, *left[high + 1 :])
                left[low] += 1
            if self.grow[high] and left[low] < left[high]:
                yield (*left[:low], left[high] - 1, *left[high:])
                left[high] -= 1

    def sweep_interior(self, count: int) -> None:
        """Sweep the cells that need no halo, while messages travel.

        Does nothing with several sweeps per exchange, or if the PE has several blocks: then other
        blocks use the time, and a second pass over the border would cost 2 to 5 %. Nor if all
        messages are to the block itself: they do not travel.
        """
        if count == 1 and self.alone:
            self.kernels.sweep(self.old, self.new, *self.interior())

    def sweep_rest(self, count: int) -> None:
        """Make the rest of ``count`` sweeps, after `fill_ghosts`."""
        if count > 1:
            self._sweep_tile(count, self.own)
        else:
            for region in self.border() if self.alone else (self.own,):
                self.kernels.sweep(self.old, self.new, *region)
            self.old, self.new = self.new, self.old
        self.time += count

    def advance(self, came: Mapping[Edge, Any], count: int) -> Generator[Any, Any, None]:
        """Fill the ghosts and make the rest of ``count`` sweeps."""
        if self.together:
            self.packed = yield Batch(advance_all, (self, came, count))
            return
        self.fill_ghosts(came)
        self.sweep_rest(count)

    def sweep_measured(self, count: int) -> float:
        """Do the same as `sweep_rest`; returns the largest change of a cell in the last sweep."""
        if count > 1:
            sides = zip(self.own, self.grow, strict=True)
            wider = tuple(at + (g if n % 2 else -g) for n, (at, g) in enumerate(sides))
            self._sweep_tile(count - 1, wider)
        change = self.kernels.sweep_residual(self.old, self.new, *self.own)
        self.old, self.new = self.new, self.old
        self.time += count
        return change

    def _sweep_tile(self, count: int, region: Region) -> None:
        """Sweep a region ``count`` times, including the surrounding cells that this needs."""
        where: Any = *region, np.array(self.grow)  # mypy does not know how many axes there are
        if self.kernels.sweep_tile(self.old, self.new, count, *where):
            self.old, self.new = self.new, self.old

    def state(self) -> list[Piece]:
        """The block's cells of the one field, ``u``."""
        origin = tuple(low for low, _ in self.bounds)
        values = self.device.to_host(self.old)[box(self.own)]
        return [Piece("u", values, origin, self.problem.size)]

    def checkpoint(self) -> Checkpoint:
        """Nothing beside the field."""
        return Checkpoint()

    def resume(self, saved: Saved) -> None:
        """Take up the field; the fixed boundary around it is there already."""
        self.time = saved.step
        field, _ = self._filled(saved.cells("u", self.bounds))
        self.old, self.new = self.device.to_device(field), self.device.to_device(copied(field))

    def measure(self) -> dict[str, Measure]:
        """Projections on the test modes, extremes and the number of cells."""
        values = self.state()[0].values
        return {
            "modes": Measure("sum", projections(self.problem, self.bounds, values, self.time)),
            "min": Measure("min", values.min()),
            "max": Measure("max", values.max()),
            "cells": Measure("sum", values.size),
        }


def advance_all(
    tasks: Sequence[tuple[GridBlock, Mapping[Edge, Any], int]],
) -> list[Mapping[Edge, Any]]:
    """Do `GridBlock.advance` for blocks that share a queue, and pack their faces for the next one.

    Tasks are (block, messages that came, sweeps). Returns the faces.
    """
    blocks = [block for block, _, _ in tasks]
    halo: Any = kernels.load("halo", blocks[0].device.name)
    halo.unpack_all([(block.halo, block.old, came) for block, came, _ in tasks])
    for sweeps in {count for _, _, count in tasks}:  # several if some blocks are a round ahead
        _sweep_all([block for block, _, count in tasks if count == sweeps], sweeps)
    return halo.pack_all([(block.halo, block.old) for block in blocks])


def _sweep_all(blocks: Sequence[GridBlock], sweeps: int) -> None:
    """Make as many sweeps of each block."""
    app: Any = blocks[0].kernels
    swept = app.sweep_all([(b.old, b.new, b.own, tuple(b.grow)) for b in blocks], sweeps)
    for block in blocks:
        if swept:
            block.old, block.new = block.new, block.old
        block.time += sweeps
