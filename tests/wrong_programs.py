"""Wrong versions of the stencil apps, one mistake each, to show that the checks can fail.

Each takes an app's right Block and returns a wrong one. `test_audits.py` says which checks must see
which mistake. `miniapps.grid_faults` has the mistakes that are tried on small problems.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from kernels.halo.interface import box

STALE_AFTER = 2  # steps


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
