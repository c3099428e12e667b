"""Wrong versions of the stencil apps, one mistake each, to show that the checks can fail.

Each takes an app's right Block and returns a wrong one. `test_stencils.py` says which checks must
see which mistake.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from kernels.halo.interface import box

Wrong = Callable[[Any], Any]
STALE_AFTER = 2  # steps
STEPS = 12  # that a wrong program is run for


def opposite(edge: tuple[int, ...]) -> tuple[int, ...]:
    """The edge on the other side."""
    return tuple(-d for d in edge)


def pairs(region: tuple[int, ...]) -> list[tuple[int, int]]:
    """The bounds of a region, axis by axis."""
    return list(zip(region[::2], region[1::2], strict=True))


def swapped_halos(right: Any) -> Any:
    """What comes from one side is put on the other, wherever there is a neighbour on both."""

    class Block(right):
        def fill_ghosts(self, came: Any) -> None:
            """Fill the ghosts beyond the opposite faces."""
            edges = {edge: opposite(edge) for edge in came}
            super().fill_ghosts({e: came[o if o in came else e] for e, o in edges.items()})

    return Block


def stale_halo(right: Any) -> Any:
    """After the first steps ghosts are no longer refreshed."""

    class Block(right):
        def fill_ghosts(self, came: Any) -> None:
            """Fill the ghosts for a while."""
            if self.time < STALE_AFTER:
                super().fill_ghosts(came)

    return Block


def one_stale_face(right: Any) -> Any:
    """One face of one block keeps the ghosts of the first steps."""

    class Block(right):
        def fill_ghosts(self, came: Any) -> None:
            """Fill the ghosts, but for that face."""
            first = next(iter(came)) if came and not any(self.index[1:]) else None
            fresh = self.time < STALE_AFTER
            super().fill_ghosts({e: values for e, values in came.items() if fresh or e != first})

    return Block


def heated_blocks(right: Any) -> Any:
    """Every block's low faces are heated, not the domain's: the ancestors' mistake."""

    class Block(right):
        def fill_ghosts(self, came: Any) -> None:
            """Fill the ghosts; 255 on low sides."""
            hot = {e: 255.0 if min(e) < 0 else values for e, values in came.items()}
            super().fill_ghosts(hot)

    return Block


def no_corners(right: Any) -> Any:
    """Ghosts are exchanged across faces only, which a time tile's second sweep needs beyond."""

    class Block(right):
        def fill_ghosts(self, came: Any) -> None:
            """Fill the ghosts of faces."""
            super().fill_ghosts({e: v for e, v in came.items() if sum(map(abs, e)) == 1})

    return Block


def with_kernels(right: Any, formula: Callable[[np.ndarray, list[np.ndarray]], np.ndarray]) -> Any:
    """A block whose sweep is another formula of a cell and its neighbours (tiles of 1 only)."""

    def sweep(old: np.ndarray, new: np.ndarray, *region: int) -> None:
        def box(axis: int = 0, by: int = 0) -> tuple[slice, ...]:
            spans = [slice(a, b) for a, b in pairs(region)]
            spans[axis] = slice(spans[axis].start + by, spans[axis].stop + by)
            return tuple(spans)

        if all(a < b for a, b in pairs(region)):
            sides = itertools.product(range(old.ndim), (-1, 1))
            new[box()] = formula(old[box()], [old[box(axis, by)] for axis, by in sides])

    return type("Block", (right,), {"kernels": SimpleNamespace(sweep=sweep)})


def factor_added(right: Any) -> Any:
    """The factor is added to the sum, not multiplied with it: an ancestor's GPU kernel."""
    return with_kernels(right, lambda cell, near: 1 / (1 + len(near)) + sum(near, cell))


def factor_off(right: Any) -> Any:
    """The factor is wrong in the seventh digit."""
    return with_kernels(right, lambda cell, near: (1 + 1e-7) / (1 + len(near)) * sum(near, cell))


def factor_hardly_off(right: Any) -> Any:
    """The factor is wrong by 1e-15."""
    return with_kernels(right, lambda cell, near: (1 / (1 + len(near)) + 1e-15) * sum(near, cell))


def other_order(right: Any) -> Any:
    """The neighbours are added in another order: the last bits differ, nothing else."""
    weight = {4: 0.2, 6: 1.0 / 7.0}
    return with_kernels(right, lambda cell, near: weight[len(near)] * sum(reversed(near), cell))


def divided(right: Any) -> Any:
    """The sum is divided by 5 or 7, where the definition multiplies by 0.2 or 1/7."""
    return with_kernels(right, lambda cell, near: sum(near, cell) / (1 + len(near)))


def missing_neighbour(right: Any) -> Any:
    """The last neighbour is taken to be the cell itself."""
    weight = {4: 0.2, 6: 1.0 / 7.0}
    return with_kernels(right, lambda cell, near: weight[len(near)] * sum(near[:-1], cell + cell))


def spoilt(right: Any, step: int, spoil: Callable[[Any], None]) -> Any:
    """A block that does something to its own cells once, after a step."""

    class Block(right):
        def step(self, count: int) -> Any:
            """Step, and spoil."""
            finished = yield from super().step(count)
            if self.time - count < step <= self.time:
                spoil(self)
            return finished

    return Block


def cell_of(block: Any) -> tuple[int, ...]:
    """A cell in the middle of the block, in its arrays."""
    return tuple((a + b) // 2 for a, b in pairs(block.own))


def set_cell(block: Any, value: Callable[[float], float]) -> None:
    """Change the middle cell of the first block."""
    if not any(block.index):
        block.old[cell_of(block)] = value(block.old[cell_of(block)])


def nan(right: Any) -> Any:
    """One cell becomes NaN."""
    return spoilt(right, 3, lambda block: set_cell(block, lambda value: np.nan))


def infinite(right: Any) -> Any:
    """One cell becomes infinite."""
    return spoilt(right, 3, lambda block: set_cell(block, lambda value: np.inf))


def one_cell_off(right: Any) -> Any:
    """One cell is off by 1e-6, in the middle of the run."""
    return spoilt(right, 3, lambda block: set_cell(block, lambda value: value + 1e-6))


def last_bit_off(right: Any) -> Any:
    """One cell is off in its last bit, at the end; earlier it would be rounded away again."""
    return spoilt(right, STEPS, lambda block: set_cell(block, lambda v: np.nextafter(v, 9.0)))


def two_cells_swapped(right: Any) -> Any:
    """Two neighbouring cells have changed places."""

    def swap(block: Any) -> None:
        if not any(block.index):
            here = cell_of(block)
            there = (here[0] - 1, *here[1:])
            block.old[here], block.old[there] = block.old[there], block.old[here]

    return spoilt(right, 3, swap)


def block_transposed(right: Any) -> Any:
    """A block's cells are in reverse order along the first axis, as after a wrong unpacking."""

    def turn(block: Any) -> None:
        if not any(block.index):
            own = block.old[box(block.own)]
            own[...] = own[::-1].copy()

    return spoilt(right, 3, turn)


def shifted_start(right: Any) -> Any:
    """Every block begins with the field of one cell further along x."""

    class Block(right):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            own = self.old[box(self.own)]
            own[...] = np.roll(own, 1, axis=0)

    return Block


def skipped_step(right: Any) -> Any:
    """The blocks make one step less than they say: the first is not swept."""

    class Block(right):
        def sweep_rest(self, count: int) -> None:
            """Sweep, but once less in the first round."""
            if self.time:
                super().sweep_rest(count)
                return
            if count > 1:
                super().sweep_rest(count - 1)
            self.time = count

    return Block


ALL: tuple[Wrong, ...] = (
    swapped_halos,
    stale_halo,
    one_stale_face,
    heated_blocks,
    no_corners,
    factor_added,
    factor_off,
    other_order,
    divided,
    missing_neighbour,
    nan,
    infinite,
    one_cell_off,
    last_bit_off,
    two_cells_swapped,
    block_transposed,
    shifted_start,
    skipped_step,
)
TILE_ONE_ONLY = {factor_added, factor_off, other_order, divided, missing_neighbour}
TILES_ONLY = {no_corners}
BITS_ONLY = {other_order, divided, last_bit_off}  # rounding differs: only a comparison can tell
