"""Faults of the stencil apps; both have the same blocks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from miniapps.contract import Edge
from miniapps.faults import ACTED, fault, in_place_of, off_in_its_last_bit, spoiling
from miniapps.kernels.halo.interface import box

STALE_AFTER = 2  # steps
BLOCK = "miniapps.grid_block:GridBlock"
STEP = "miniapps.{app}:Block.step"
SWEEP = "miniapps.kernels.{app}.cpu:sweep"
UNSEEN = {
    "grid: one cell off": "once, in one of a million cells, by less than sums over all cells show",
    "grid: last bit off": "the last bit of one of a million cells, at the end",
}
ONE = {"time_tile": 1}
TILES = {"time_tile": 3}


def opposite(edge: Edge) -> Edge:
    """The edge on the other side."""
    return tuple(-d for d in edge)


def pairs(region: tuple[int, ...]) -> list[tuple[int, int]]:
    """The bounds of a region, axis by axis."""
    return list(zip(region[::2], region[1::2], strict=True))


# Halos -------------------------------------------------------------------------------------------


@in_place_of(f"{BLOCK}.fill_ghosts", given={"boundary": "periodic"})
def swapped_halos(right: Any, self: Any, came: Any) -> None:
    """What comes from one side is put on the other, wherever there is a neighbour on both."""
    edges = {edge: opposite(edge) for edge in came}
    right(self, {e: came[o if o in came else e] for e, o in edges.items()})


@in_place_of(f"{BLOCK}.fill_ghosts")
def stale_halo(right: Any, self: Any, came: Any) -> None:
    """After the first steps ghosts are no longer refreshed."""
    if self.time < STALE_AFTER:
        right(self, came)


@in_place_of(f"{BLOCK}.fill_ghosts")
def one_stale_face(right: Any, self: Any, came: Any) -> None:
    """One face of one block keeps the ghosts of the first steps."""
    first = next(iter(came)) if came and not any(self.index[1:]) else None
    fresh = self.time < STALE_AFTER
    right(self, {e: values for e, values in came.items() if fresh or e != first})


@in_place_of(f"{BLOCK}.fill_ghosts")
def heated_blocks(right: Any, self: Any, came: Any) -> None:
    """Every block's low faces are heated, not the domain's: the public versions' mistake."""
    right(self, {e: 255.0 if min(e) < 0 else values for e, values in came.items()})


@in_place_of(f"{BLOCK}.fill_ghosts", given=TILES | {"boundary": "periodic"})
def no_corners(right: Any, self: Any, came: Any) -> None:
    """Ghosts are exchanged across faces only, but the second sweep needs corners."""
    right(self, {e: v for e, v in came.items() if sum(map(abs, e)) == 1})


@in_place_of(f"{BLOCK}.faces")
def halo_before_the_sweep(right: Any, self: Any) -> Any:
    """Faces are taken from the array of the step before."""
    return self.halo.pack(self.new)


@in_place_of(f"{BLOCK}.beside")
def halo_off_by_one(right: Any, self: Any, edge: Edge, beyond: int) -> Any:
    """Faces are taken one cell too far inside."""
    region = list(right(self, edge, beyond))
    for axis, side in enumerate(() if beyond else edge):
        region[2 * axis] -= side
        region[2 * axis + 1] -= side
    return tuple(region)


@in_place_of(f"{BLOCK}.fill_ghosts")
def unwritten_ghosts(right: Any, self: Any, came: Any) -> None:
    """Ghosts keep what the memory held: they are never received."""
    right(self, {edge: np.full_like(v, 7e77) for edge, v in came.items()})


@in_place_of(f"{BLOCK}.border", given=ONE)
def border_incomplete(right: Any, self: Any) -> Any:
    """The last strip beside the halo is not swept."""
    return list(right(self))[:-1]


# Decomposition -----------------------------------------------------------------------------------


@in_place_of("miniapps.decomposition:Layout.bounds", conditional=True)
def every_axis_cut_as_x(right: Any, self: Any, index: Any) -> Any:
    """The number of blocks along x is used along every axis: right on square grids of blocks."""
    parts, subs = ((grid[0],) * len(grid) for grid in (self.pe_grid, self.sub_grid))
    cut = right(replace(self, pe_grid=parts, sub_grid=subs), index)
    if cut != right(self, index):
        ACTED.now()
    return cut


# Formula -----------------------------------------------------------------------------------------


def sweeping(formula: Callable[[np.ndarray, list[np.ndarray]], np.ndarray]) -> Any:
    """A sweep by another formula of a cell and its neighbours, which computes in NumPy."""

    def sweep(old: np.ndarray, new: np.ndarray, *region: int) -> None:
        def shifted(axis: int = 0, by: int = 0) -> tuple[slice, ...]:
            spans = [slice(a, b) for a, b in pairs(region)]
            spans[axis] = slice(spans[axis].start + by, spans[axis].stop + by)
            return tuple(spans)

        if all(a < b for a, b in pairs(region)):
            sides = itertools.product(range(old.ndim), (-1, 1))
            new[shifted()] = formula(old[shifted()], [old[shifted(*side)] for side in sides])

    return sweep


def mean(near: list[np.ndarray]) -> float:
    """The factor of the definition."""
    return 1.0 / (1 + len(near))


@fault(SWEEP, given=ONE)
def factor_added(right: Any) -> Any:
    """The factor is added to the sum, not multiplied with it: a public version's GPU kernel."""
    return sweeping(lambda cell, near: mean(near) + sum(near, cell))


@fault(SWEEP, given=ONE)
def factor_off(right: Any) -> Any:
    """The factor is wrong in the seventh digit."""
    return sweeping(lambda cell, near: (1 + 1e-7) * mean(near) * sum(near, cell))


@fault(SWEEP, given=ONE)
def factor_off_in_its_last_bit(right: Any) -> Any:
    """The factor is the next larger float: a tolerance does not see it, the bits do."""
    return sweeping(lambda cell, near: np.nextafter(mean(near), 1.0) * sum(near, cell))


@fault(SWEEP, given=ONE)
def other_order(right: Any) -> Any:
    """The neighbours are added in another order: the last bits differ, nothing else."""
    return sweeping(lambda cell, near: mean(near) * sum(reversed(near), cell))


@fault(SWEEP, given=ONE)
def divided(right: Any) -> Any:
    """The sum is divided by 5 or 7, where the definition multiplies by 0.2 or 1/7."""
    return sweeping(lambda cell, near: sum(near, cell) / (1 + len(near)))


@fault(SWEEP, given=ONE)
def missing_neighbour(right: Any) -> Any:
    """The last neighbour is taken to be the cell itself."""
    return sweeping(lambda cell, near: mean(near) * sum(near[:-1], cell + cell))


@fault(SWEEP, given=ONE)
def single_precision(right: Any) -> Any:
    """The sweep computes in float32."""

    def formula(cell: np.ndarray, near: list[np.ndarray]) -> np.ndarray:
        single = [side.astype(np.float32) for side in near]
        return np.float32(mean(near)) * sum(single, cell.astype(np.float32))

    return sweeping(formula)


@fault("miniapps.kernels.{app}.cpu:sweep_tile", given=TILES)
def stale_kernel(right: Any) -> Any:
    """The number of sweeps is compiled into the kernel: always that of the first call."""
    first: list[int] = []

    def sweep_tile(old: Any, new: Any, sweeps: int, *where: Any) -> int:
        first.append(sweeps)
        return int(right(old, new, first[0], *where))

    return sweep_tile


# Cells -------------------------------------------------------------------------------------------


def cell_of(block: Any) -> tuple[int, ...]:
    """A cell in the middle of the block, in its arrays."""
    return tuple((a + b) // 2 for a, b in pairs(block.own))


def set_cell(block: Any, value: Callable[[float], float]) -> None:
    """Change a cell in the middle of a block."""
    block.old[cell_of(block)] = value(block.old[cell_of(block)])


@fault(STEP)
def nan(right: Any) -> Any:
    """One cell becomes NaN."""
    return spoiling(right, lambda block: set_cell(block, lambda value: np.nan))


@fault(STEP)
def infinite(right: Any) -> Any:
    """One cell becomes infinite."""
    return spoiling(right, lambda block: set_cell(block, lambda value: np.inf))


@fault(STEP)
def one_cell_off(right: Any) -> Any:
    """One cell is off by 1e-6, in the middle of the run."""
    return spoiling(right, lambda block: set_cell(block, lambda value: value + 1e-6))


@fault(f"{BLOCK}.state")
def last_bit_off(right: Any) -> Any:
    """One cell is off in its last bit at the end; earlier it would be rounded away again."""
    return off_in_its_last_bit(right)


@fault(STEP)
def two_cells_swapped(right: Any) -> Any:
    """Two neighbouring cells have changed places."""

    def swap(block: Any) -> None:
        here = cell_of(block)
        there = (here[0] - 1, *here[1:])
        block.old[here], block.old[there] = block.old[there], block.old[here]

    return spoiling(right, swap)


@fault(STEP)
def block_reversed(right: Any) -> Any:
    """A block's cells are in reverse order along the first axis, as after a wrong unpacking."""

    def turn(block: Any) -> None:
        own = block.old[box(block.own)]
        own[...] = own[::-1].copy()

    return spoiling(right, turn)


@in_place_of(f"{BLOCK}.__init__")
def shifted_start(right: Any, self: Any, *arguments: Any) -> None:
    """Every block begins with the field of one cell further along x."""
    right(self, *arguments)
    own = self.old[box(self.own)]
    own[...] = np.roll(own, 1, axis=0)


@in_place_of("miniapps.grid_block:initial_field")
def field_of_another_run(right: Any, problem: Any, bounds: Any) -> Any:
    """Every block begins with another run's field."""
    return 1.0 - right(problem, bounds)


@in_place_of(f"{BLOCK}.sweep_rest")
def skipped_step(right: Any, self: Any, count: int) -> None:
    """The blocks make one step less than they say: the first is not swept."""
    if self.time:
        right(self, count)
        return
    if count > 1:
        right(self, count - 1)
    self.time = count


@in_place_of(f"{BLOCK}.__getstate__", migrating=True)
def migrates_in_single_precision(right: Any, self: Any) -> dict[str, Any]:
    """A migrating block is rounded to float32."""
    state = right(self)
    return state | {"old": state["old"].astype(np.float32).astype(state["old"].dtype)}


@in_place_of(f"{BLOCK}.__getstate__", migrating=True)
def migrates_with_the_other_array(right: Any, self: Any) -> dict[str, Any]:
    """A migrating block takes the values of the step before with it."""
    state = right(self)
    return state | {"old": state["new"], "new": state["old"]}
