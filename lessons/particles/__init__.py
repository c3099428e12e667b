"""Lesson 8: particles that cross blocks, after the PIC kernel of the Parallel Research Kernels.

`miniapps.pic` and docs/pic.md say where the problem comes from. Here the blocks are whole columns.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from miniapps.lessons.lesson import Case, Criterion, Lesson, Traffic

STEPS = 5
SIZE = 48  # columns, and rows
EDGES = {1: (0, 8), 2: (0, 3, 8), 3: (0, 1, 5, 8), 4: (0, 2, 3, 6, 8)}  # eighths of all columns
STAY, NEXT, FAR = 1, 5, 27  # columns that the fastest particle moves in a step
NUMBERS = {STAY: 1000, NEXT: 300, FAR: 6}  # of particles
MANY = 2000  # so many that MPI keeps no copy of a message
UP_TO = 2  # rows that the fastest particle moves in a step
UNIT_CHARGE = 1 / np.sqrt(8)  # of a particle that moves by one column in a step
PARTICLE = 48  # bytes
EACH = 2  # messages to a process in a step: how many particles come, and the particles
OVERHEAD = 512  # bytes to a process in a step, also if no particle goes there


class Particles(Lesson):
    """Blocks push their particles, and send those that have left to the blocks where they are."""

    name: ClassVar[str] = "particles"
    number: ClassVar[int] = 8
    title: ClassVar[str] = "Particles that cross blocks"
    minutes: ClassVar[int] = 90
    function: ClassVar[dict[str, str]] = {"mpi4py": "advance", "charm4py": "Block"}

    criteria: ClassVar[tuple[Criterion, ...]] = (
        Criterion(2, "right if no particle leaves its block", lambda c: c.size[2] == STAY),
        Criterion(2, "right if particles go to the next block", lambda c: c.size[2] == NEXT),
        Criterion(2, "right if few particles cross several blocks", lambda c: few(c)),
        Criterion(2, "right with messages of which MPI keeps no copy", lambda c: many(c)),
        Criterion(2, "few messages, with particles that leave and no others", messages=True),
    )

    def cases(self, processes: int, seed: int, more: int = 0) -> list[Case]:
        """Particles of different speed; with 2 and 3 processes also many of them."""
        sizes = [(SIZE, number + more, fastest) for fastest, number in NUMBERS.items()]
        if processes in (2, 3):
            sizes.append((SIZE, MANY + more, FAR))
        return [Case(processes, size, seed, periodic=True) for size in sizes]

    def arguments(self, case: Case, rank: int) -> tuple[Any, ...]:
        """The block's particles, the fixed charges in its columns, all edges, and the steps."""
        edges = self.edges(case)
        begin, _ = self.beginning(case)
        charges = fixed_charges(case)[edges[rank] : edges[rank + 1] + 1]
        return begin[owners(begin, edges) == rank], charges, edges, STEPS

    def expected(self, case: Case, rank: int) -> np.ndarray:
        """The particles that are in the block after all steps, by id."""
        particles = finished(case)
        return particles[owners(particles, self.edges(case)) == rank]

    def forbidden(self, case: Case, rank: int, traffic: Traffic) -> str:
        """A few messages in each step, and in them no particles but those that leave a block."""
        chare = traffic.sent is None  # which also gets results of reductions
        count = traffic.received or 0 if chare else sum((traffic.sent or {}).values())
        most = EACH * (case.processes + chare) * STEPS
        if count > most:
            did = f"chare {rank} got" if chare else f"process {rank} sent"
            return f"{did} {count} messages; {most} are enough"
        size, leaving = traffic.handed or traffic.got, self.leaving(case)
        enough = 2 * leaving * PARTICLE + OVERHEAD * case.processes * STEPS
        if case.processes > 1 and size > enough:
            bytes_ = f"{size} bytes to MPI to be sent"
            did = f"chare {rank} got {size} bytes" if chare else f"process {rank} gave {bytes_}"
            return f"{did}; {leaving} particles left a block in all steps"
        return ""

    def words(self, case: Case) -> str:
        """How many particles, in blocks of how many columns, and how far they move."""
        widths = ", ".join(map(str, np.diff(self.edges(case))))
        fastest = case.size[2]
        moves = (
            f"{fastest} columns in a step at most" if fastest > STAY else "none leaves its block"
        )
        return f"{len(self.beginning(case)[0])} particles, blocks of {widths} columns; {moves}"

    def leaving(self, case: Case) -> int:
        """How many times a particle leaves a block in all steps."""
        particles, speed = self.beginning(case)
        columns = [particles[:, 0] + step * speed for step in range(STEPS + 1)]
        places = owner_of(np.array(columns) % case.size[0], self.edges(case))
        return int((np.diff(places, axis=0) != 0).sum())

    def beginning(self, case: Case) -> tuple[np.ndarray, np.ndarray]:
        """All particles (n, 6) as they begin, by id, and by how many columns each moves (n,)."""
        size, number, fastest = case.size
        random = case.random()
        half = fastest // 2 + 1
        speed = 2 * random.integers(-half, half, number) + 1
        drift = random.integers(-UP_TO, UP_TO + 1, number)
        column, row = random.integers(0, size, (2, number))
        sign = np.where(column % 2 == 0, 1.0, -1.0)
        rest, charge, ids = np.zeros(number), sign * speed * UNIT_CHARGE, np.arange(1, number + 1)
        particles = np.stack([column + 0.5, row + 0.5, rest, drift, charge, ids], axis=1)
        if fastest > STAY:
            return particles, speed
        last = owner_of((column + STEPS * speed) % size, self.edges(case))
        stays = last == owner_of(column, self.edges(case))
        return particles[stays], speed[stays]

    @staticmethod
    def edges(case: Case) -> np.ndarray:
        """The first column of each block, and the number of columns: (processes + 1,) int64."""
        return np.array(EDGES[case.processes]) * case.size[0] // EDGES[1][1]


@lru_cache(maxsize=4)  # asked for each block, and each program, of the cases of a launch
def finished(case: Case) -> np.ndarray:
    """All particles after all steps, by id."""
    particles, _ = LESSON.beginning(case)
    for _ in range(STEPS):
        push(particles, fixed_charges(case), 0, case.size[0])
    return particles


def few(case: Case) -> bool:
    """Whether particles are fast, and so few that a block may have none."""
    return case.size[2] == FAR and not many(case)


def many(case: Case) -> bool:
    """Whether there are so many particles that MPI keeps no copy of a message."""
    return case.size[1] >= MANY


def fixed_charges(case: Case) -> np.ndarray:
    """The charges in all columns of mesh points (size + 1,); the last is the first again."""
    return 1.0 - 2.0 * (np.arange(case.size[0] + 1) % 2)


def owner_of(columns: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The blocks in which columns are, of any shape."""
    return np.searchsorted(edges, columns, side="right") - 1


def owners(particles: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The block in which each particle is, (n,) int64."""
    return owner_of(particles[:, 0], edges)


def push(particles: np.ndarray, charges: np.ndarray, low: int, size: int) -> None:
    """Move particles (n, 6) by one step: x, y, their velocities, charge and id of each.

    ``charges``: of mesh columns from ``low`` on. The periodic grid has ``size`` x ``size`` cells.
    """
    position, velocity, charge = particles[:, 0:2], particles[:, 2:4], particles[:, 4:5]
    cell = np.floor(position)
    acceleration = np.zeros_like(position)
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        r = position - cell - corner
        fixed = charges.take(cell[:, :1].astype(int) - low + corner[0], mode="clip")
        square = (r * r).sum(axis=1, keepdims=True)
        acceleration += charge * fixed * r / (square * np.sqrt(square))
    position += velocity + 0.5 * acceleration
    velocity += acceleration
    position %= size


LESSON = Particles()
