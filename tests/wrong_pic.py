"""Wrong versions of PIC, one mistake each, to show that its checks can fail.

Each takes the right Block and returns a wrong one. `test_pic_audit.py` says what must see which
mistake. `miniapps.pic.faults` has the mistakes that are tried on small problems.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

MISTAKE_AT = 7  # step; later than the events


def wrong_sign(right: Any) -> Any:
    """Particles of odd columns have the charge of even ones, so they move backwards."""

    class Block(right):
        def begin(self, *arguments: Any) -> None:
            """Begin, all with positive charges."""
            super().begin(*arguments)
            self.particles.charge = np.abs(self.particles.charge)

    return Block


def misrouted(right: Any) -> Any:
    """Particles that leave through one side are sent through another."""

    class Block(right):
        def pack(self, left: int) -> Any:
            """Pack what belongs to the neighbour at another edge."""
            messages = super().pack(left)
            edges = list(self.targets)
            return dict(zip(edges, (messages[edge] for edge in edges[1:] + edges[:1]), strict=True))

    return Block


def scattered(right: Any) -> Any:
    """Particles are hurled, and what comes is elsewhere: in all directions."""

    class Block(right):
        def settle(self, left: int, came: Any) -> None:
            """Take in what came, in other places; hurl all."""
            size, far = self.problem.size, np.array([(-2, 0), (3, 0), (0, -2), (0, 3)])
            elsewhere = {edge: message.copy() for edge, message in came.items()}
            for message in elsewhere.values():
                message[:, :2] += 0.5 * size * np.resize(far, (len(message), 2))
            super().settle(left, elsewhere)
            mine, count = self.particles, self.particles.count
            mine.vx[:count], mine.vy[:count] = size * np.resize(far, (count, 2)).T

    return Block


def nan_position(right: Any) -> Any:
    """One particle's position is no number."""

    class Block(right):
        def settle(self, left: int, came: Any) -> None:
            """Take in what came; spoil one."""
            super().settle(left, came)
            if self.time == MISTAKE_AT and self.particles.count:
                self.particles.y[0] = np.nan

    return Block


# What only audits see beyond the size of the reference --------------------------------------------


def of_another_problem(right: Any, change: Any) -> Any:
    """Blocks that solve another problem than the one that is validated."""

    class Block(right):
        def __init__(self, problem: Any, *rest: Any) -> None:
            super().__init__(dataclasses.replace(problem, **change(problem)), *rest)

    return Block


def half_as_many_placed(right: Any) -> Any:
    """Half of the particles are placed."""
    return of_another_problem(right, lambda problem: {"particles": problem.particles // 2})


def half_as_many_removed(right: Any) -> Any:
    """A removal takes half of what it should, as was foreseen."""

    def halved(problem: Any) -> dict[str, Any]:
        halves = [dataclasses.replace(e, fraction=e.fraction / 2) for e in problem.events]
        return {"events": tuple(halves)}

    return of_another_problem(right, halved)


def with_kernel(right: Any, name: str, wrong: Any) -> Any:
    """Blocks that call another kernel; its first argument is the right one."""

    class Block(right):
        @property
        def kernels(self) -> Any:
            """The kernels, one of them replaced."""
            kernels = super().kernels
            wrong_one = {name: partial(wrong, getattr(kernels, name))}
            return SimpleNamespace(**vars(kernels) | wrong_one)

    return Block


def all_in_the_bottom_row(right: Any) -> Any:
    """Every particle begins in the lowest row of its block."""

    def place(place: Any, means: Any, own: Any, kept: Any, size: int, cells: Any) -> None:
        place(means, own, kept, size, cells)
        cells[:] = cells // size * size + own[2]

    return with_kernel(right, "place", place)


def dense_columns(right: Any) -> Any:
    """Where one particle or more is expected in a cell, there are too many."""

    def more(kernel: Any, means: Any, *rest: Any) -> None:
        kernel(np.where(means >= 1, 1.1 * means, means), *rest)

    return with_kernel(with_kernel(right, "place", more), "count_columns", more)


def ids_reversed(right: Any) -> Any:
    """The ids of a message are unpacked in reverse."""

    class Block(right):
        def settle(self, left: int, came: Any) -> None:
            """Take in what came, with the ids of others."""
            turned = {edge: message.copy() for edge, message in came.items()}
            for message in turned.values():
                message[:, 5] = message[::-1, 5].copy()
            super().settle(left, turned)

    return Block


def fast_by_1e10(right: Any) -> Any:
    """The velocity changes by a little more than the acceleration: 1 + 1e-10 times."""

    class Block(right):
        def push(self, steps: int) -> None:
            """Push, and add to what was added."""
            mine, count = self.particles, self.particles.count
            before = mine.vx[:count].copy()
            super().push(steps)
            mine.vx[:count] += (mine.vx[:count] - before) * 1e-10

    return Block


def injected_in_reverse(right: Any) -> Any:
    """Injected particles are numbered backwards."""

    class Block(right):
        def begin(self, motion: int, cells: np.ndarray, ids: np.ndarray) -> None:
            """Begin injected particles with the ids of others."""
            super().begin(motion, cells, ids[::-1].copy() if motion else ids)

    return Block


def lost_but_counted(right: Any) -> Any:
    """Every block loses a particle, and the sums of ids are of those that should be there."""

    class Block(right):
        def settle(self, left: int, came: Any) -> None:
            """Take in what came; lose the last one, once."""
            super().settle(left, came)
            if self.time == MISTAKE_AT and self.particles.count:
                self.particles.count -= 1
                self.lost = self.particles.ids[self.particles.count]

        def measure(self) -> dict[str, Any]:
            """Measure, as if nothing was lost."""
            measures = super().measure()
            if "lost" in vars(self):
                one = self.kernels.sums_of_ids(1, np.array([self.lost]))
                op, sums = measures["ids"]
                measures["ids"] = type(measures["ids"])(op, sums + one)
            return measures

    return Block
