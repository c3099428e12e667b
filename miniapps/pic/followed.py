"""A sample of PIC's particles, which the audit follows: their start, lives and motion, in NumPy.

Nothing here depends on blocks or uses the app's kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from miniapps.pic import reference_solution as plain

FROM_START, NEVER = -1, 1 << 62  # instead of the step of an injection and of a removal


@dataclass(frozen=True)
class Start:
    """The particles that begin in any column, drawn without those of the columns before it."""

    problem: Any

    @cached_property
    def expected(self) -> np.ndarray:
        """The expected number of particles in a cell of each column: (size,) float64."""
        return plain.expected(self.problem)

    @cached_property
    def sequence(self) -> tuple[np.ndarray, np.ndarray]:
        """Factors and increments that lead from a state to each of the next 2 ``size`` states."""
        factors = np.cumprod(np.full(2 * self.problem.size, plain.MULTIPLIER, np.uint64))
        powers = np.concatenate([np.ones(1, np.uint64), factors[:-1]])
        return factors, np.cumsum(powers * np.uint64(plain.INCREMENT), dtype=np.uint64)

    def column(self, x: int) -> np.ndarray:
        """The number of particles that begin in each cell of column ``x``: (size,) int64."""
        size, (x0, x1, y0, y1) = self.problem.size, plain.kept(self.problem)
        counts = np.zeros(size, np.int64)
        if x0 <= x < x1:
            factors, increments = self.sequence
            states = factors * np.uint64(state_after(2 * size * x)) + increments
            counts[y0:y1] = draws(float(self.expected[x]), states[::2], states[1::2])[y0:y1]
        return counts

    def cells(self, numbers: Iterable[int], counts: np.ndarray) -> np.ndarray:
        """The cells of initial particles, (n, 2) int64, by their ``numbers`` from 0.

        ``counts`` (size,) int64: how many particles begin in each column.
        """
        ends, cells = np.cumsum(counts), []
        for number in numbers:
            x = int(np.searchsorted(ends, number, "right"))
            before = number - (ends[x] - counts[x])
            cells.append((x, int(np.searchsorted(np.cumsum(self.column(x)), before, "right"))))
        return np.array(cells, np.int64).reshape(-1, 2)


def state_after(steps: int) -> int:
    """The generator's state after some numbers: a^n s + c (a^n - 1) / (a - 1), modulo 2^64."""
    less = plain.MULTIPLIER - 1
    power = pow(plain.MULTIPLIER, steps, less << 64)
    return (power * plain.SEED + plain.INCREMENT * ((power - 1) // less)) & plain.MASK


def draws(mean: float, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`plain.draw` for arrays of states, (n,) uint64.

    NumPy's logarithm and cosine may differ from the C library's in the last bit. That changes the
    number of one particle in about 1e15.
    """
    if mean < 1:
        return (second % np.uint64(plain.HALF) <= np.uint64(mean * plain.HALF)).astype(np.int64)
    a, b = (states % np.uint64(plain.MASK) / float(plain.MASK) for states in (first, second))
    z = np.sqrt(-2 * np.log(a)) * np.cos(2 * np.pi * b)
    return np.floor(0.15 * mean * z + mean + 0.5).clip(0).astype(np.int64)


class Followed:
    """Particles with certain ids, from their start to their removal.

    ``ids`` (n,), ``cells`` (n, 2): where they begin; ``k``, ``m`` (n,); ``born``, ``died`` (n,):
    the steps before which they are injected and removed; all int64. ``rows`` (n, 5) float64: x, y,
    vx, vy, charge before step ``time``, or at birth if that is later.
    """

    def __init__(self, problem: Any, counts: np.ndarray, modulus: int, residue: int) -> None:
        """Draw the start of the particles whose ids leave a ``residue`` by a ``modulus``.

        ``counts`` (size,) int64: how many particles begin in each column.
        """
        self.size, self.time = problem.size, 0
        table = sampled(problem, counts, modulus, residue)
        self.ids, self.cells = table[:, 0], table[:, 1:3]
        self.k, self.m, self.born, event = table[:, 3:].T
        self.rows = plain.begun(self.cells, self.k, self.m)
        self.died = np.full(len(self.ids), NEVER)
        for number, removal in enumerate(plain.ordered_events(problem)):
            if removal.action == "remove":
                there = (self.died == NEVER) & (event < number)
                x, y = self.exact_cells(removal.step).T
                taken = there & plain.removes(removal, number, x, y, self.ids)
                self.died[taken] = removal.step

    def present(self) -> np.ndarray:
        """Which of them exist before step ``time`` and its events: (n,) bool."""
        return (self.born < self.time) & (self.time <= self.died)

    def exact_cells(self, time: int) -> np.ndarray:
        """The cells in which they must be before step ``time``: (n, 2) int64."""
        steps = time - np.maximum(self.born, 0)
        moved = np.stack([(2 * self.k + 1) * steps, self.m * steps], axis=1)
        return (self.cells + moved) % self.size

    def push(self, time: int) -> None:
        """Move those that are born, step by step, up to step ``time``."""
        while self.time < time:
            born = self.born <= self.time
            self.rows[born] = plain.push(self.rows[born], self.size)
            self.time += 1

    def jump(self, time: int, found: np.ndarray) -> None:
        """Continue at step ``time`` with the rows that blocks hold then; see `differing`."""
        self.time = time
        present = self.present()
        held = dict(zip(found[:, 0].tolist(), found[:, 1:].view(np.float64), strict=True))
        for n, number in enumerate(self.ids.tolist()):
            if present[n]:
                self.rows[n] = held.get(number, np.nan)

    def differing(self, found: np.ndarray) -> int:
        """How many particles are missing, or there twice or in vain, or differ in a bit.

        ``found`` (any, 6) int64: ids and the bits of the rows of the particles that blocks hold.
        """
        due = np.column_stack([self.ids, self.rows.view(np.int64)])[self.present()]
        right, held = Counter(map(tuple, due.tolist())), Counter(map(tuple, found.tolist()))
        return max((right - held).total(), (held - right).total())

    def error(self, found: np.ndarray) -> float:
        """The largest distance of a particle's position and velocity from the exact ones."""
        which = {number: n for n, number in enumerate(self.ids.tolist())}
        found = found[np.isin(found[:, 0], self.ids)]
        n = [which[number] for number in found[:, 0].tolist()]
        x, y, vx, vy, _ = found[:, 1:].view(np.float64).T
        at, odd = (
            self.exact_cells(self.time)[n] + 0.5,
            (self.time - np.maximum(self.born, 0))[n] % 2,
        )
        off = np.abs(np.stack([x, y], axis=1) - at)
        wrapped = np.minimum(off, self.size - off).ravel()
        fast = np.abs([vx - 2 * (2 * self.k[n] + 1) * odd, vy - self.m[n]]).ravel()
        return float(np.max([*wrapped, *fast], initial=0.0))


def sampled(problem: Any, counts: np.ndarray, modulus: int, residue: int) -> np.ndarray:
    """Ids, cells (two columns), k, m, step of birth and number of event of the sample: (n, 7)."""
    begin = partial(Start(problem).cells, counts=counts)
    births = [(int(counts.sum()), begin, problem.k, problem.m, FROM_START, FROM_START)]
    for number, event in enumerate(plain.ordered_events(problem)):
        if event.action == "inject":
            spread = partial(plain.injected_cells, event)
            births.append(
                (event.particles, spread, *plain.motion_of(problem, event), event.step, number)
            )
    tables, first = [], 1
    for count, cells, *rest in births:
        numbers = np.arange((residue - first) % modulus, count, modulus)
        table = np.empty((len(numbers), 7), np.int64)
        table[:, 0], table[:, 1:3], table[:, 3:] = first + numbers, cells(numbers), rest
        tables.append(table)
        first += count
    return np.concatenate(tables)
