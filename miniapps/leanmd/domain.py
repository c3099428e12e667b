"""A box of space and the atoms in it: how they move, change their box and are accounted for.

Both decompositions own atoms this way; they differ in who works out the forces.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from kernels.device import Device
from kernels.leanmd_units import CLOSEST, ENERGY_UNIT
from kernels.messages import packed
from kernels.state_hash import sums_of_ids
from miniapps.block import (
    AllReduce,
    Edge,
    Exchange,
    Index,
    Mark,
    Measure,
    Piece,
    StepError,
)
from miniapps.decomposition import Layout
from miniapps.kernel_user import KernelUser
from miniapps.leanmd.atoms import Atoms, Bins
from miniapps.leanmd.problem import LeanmdProblem
from miniapps.leanmd.thermo import TOTALS, wide

FASTEST = 1000.0  # sigma / tau; squares of what is faster leave the range of their sums
SIDES = LOW, HIGH = 0, 1
AXES = range(3)


class Explosion(StepError):
    """The system flies apart: a step is too long, or atoms began too close to each other."""


def edge_of(axis: int, side: int) -> Edge:
    """The edge to the neighbour on a side along an axis."""
    return tuple((2 * side - 1) * (axis == other) for other in AXES)


def complain_of_closeness(
    kernels: Any, step: int, ids: np.ndarray, closest2: float, *where: Any
) -> None:
    """Raise Explosion for atoms that are closer to each other than a force can be told."""
    atom, _ = kernels.find_close(*where)
    raise Explosion(
        f"step {step}: atom {ids[atom]} is {math.sqrt(closest2):.3g} from another one; "
        f"below {CLOSEST} the forces cannot be told"
    )


def strayed(position: np.ndarray, low: np.ndarray, high: np.ndarray, skin: float) -> int:
    """How many positions (3, n) are more than half a skin outside [low, high)."""
    far = (position < low[:, np.newaxis] - skin / 2) | (position > high[:, np.newaxis] + skin / 2)
    return int(np.count_nonzero(far.any(axis=0)))


class Domain(KernelUser):
    """A box of space; subclasses say in `find_forces` and `potential` how atoms feel each other."""

    kind = "block"

    def __init__(
        self, problem: LeanmdProblem, layout: Layout, index: Index, device: Device
    ) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.neighbors = layout.neighbors(index, kind=self.kind)
        self.low, self.high = problem.corners(layout, index)
        self.over = self._over(layout)
        self.atoms = Atoms(self.kernels)
        self.rows = np.empty((0, 1 + TOTALS), np.int64)  # of the thermo table: step, then sums
        self.time = self.built = 0  # steps made, and when atoms last changed domain
        self.atoms.set(*problem.beginning(self.low, self.high))
        self.born = sums_of_ids(self.atoms.count, self.atoms.ids)

    def _over(self, layout: Layout) -> np.ndarray:
        """What is added to a coordinate that goes over a side, out of the box or not: (3, 2)."""
        over = np.zeros((3, 2))
        for axis in AXES:
            if self.index[axis] == 0:
                over[axis, LOW] = self.problem.box[axis]
            if self.index[axis] == layout.grid[axis] - 1:
                over[axis, HIGH] = -self.problem.box[axis]
        return over

    # The parallel life ---------------------------------------------------------------------------

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Make a step of velocity Verlet."""
        if self.time == 0:
            yield from self.begin()
        atoms, problem = self.atoms, self.problem
        farthest = self.kernels.kick_and_drift(
            atoms.count, atoms.position, atoms.velocity, atoms.force, atoms.origin,
            problem.dt, problem.grain,
        )  # fmt: skip
        self.time += count
        yield Mark()
        anew = yield from self.must_rebuild(farthest)
        if anew:
            yield from self.change_domains()
        yield from self.find_forces(anew)
        self.kernels.kick(atoms.count, atoms.velocity, atoms.force, problem.dt)
        if problem.is_reported(self.time):
            yield from self.report()
        return False

    def begin(self) -> Generator[Any, Any, None]:
        """Give the atoms velocities and find the first forces."""
        if self.problem.draws_velocities:
            yield from self.warm()
        yield from self.change_domains()
        yield from self.find_forces(True)
        yield from self.report()

    def find_forces(self, anew: bool) -> Generator[Any, Any, None]:
        """Set the forces on all atoms; ``anew``: they may have changed domain and order."""
        raise NotImplementedError

    def potential(self) -> Generator[Any, Any, np.ndarray]:
        """The domain's part of energy, virial and pairs; (6,) as the kernel `energies` has it."""
        raise NotImplementedError

    def warm(self) -> Generator[Any, Any, None]:
        """Velocities drawn at random, at rest as a whole and of the temperature asked for."""
        atoms, problem = self.atoms, self.problem
        self.kernels.draw(atoms.ids, problem.seed, atoms.velocity)
        drawn = yield AllReduce(self.sums(), "sum")
        atoms.velocity -= (drawn[2:5] * ENERGY_UNIT / problem.atoms)[:, np.newaxis]
        resting = yield AllReduce(self.sums(), "sum")
        wanted = problem.temperature * (3 * problem.atoms - 3)
        atoms.velocity *= math.sqrt(wanted / (wide(resting, 0) * ENERGY_UNIT))

    def must_rebuild(self, farthest: float) -> Generator[Any, Any, bool]:
        """Whether atoms must change domain now: it is time, or one has used up the skin."""
        if not farthest < math.inf:
            self._complain(~np.isfinite(self.atoms.own("position")).all(axis=0), "flies apart")
        if self.time - self.built >= self.problem.rebuild:
            return True
        farthest = yield AllReduce(farthest, "max")
        return bool(4 * farthest > self.problem.list_skin**2)

    def report(self) -> Generator[Any, Any, None]:
        """Add a row to the thermo table."""
        totals = self.sums()
        totals[8:14] = yield from self.potential()
        totals = yield AllReduce(totals, "sum")
        self.rows = np.vstack([self.rows, np.concatenate([[self.time], totals])])

    # Changing domains ----------------------------------------------------------------------------

    def change_domains(self) -> Generator[Any, Any, None]:
        """Send atoms that have left along x, then y, then z, and sort those that are here then."""
        atoms = self.atoms
        rows = np.concatenate([atoms.own("position"), atoms.velocity, [atoms.ids.view(np.float64)]])
        for axis in AXES:
            beyond = rows[axis] < self.low[axis], rows[axis] >= self.high[axis]
            messages = {}
            for side in SIDES:
                message = packed(rows.take(np.flatnonzero(beyond[side]), axis=1))
                message[axis] += self.over[axis, side]
                messages[edge_of(axis, side)] = message
            came = yield from Exchange(f"atoms along {axis}", messages)
            parts = [came[edge_of(axis, side)] for side in SIDES]
            if any(part.size for part in (*messages.values(), *parts)):
                stay = rows.take(np.flatnonzero(~(beyond[LOW] | beyond[HIGH])), axis=1)
                rows = np.concatenate([stay, *parts], axis=1)
        low, high = self.low[:, np.newaxis], self.high[:, np.newaxis]
        outside = np.any((rows[:3] < low) | (rows[:3] >= high), axis=0)
        if outside.any():
            self._complain(outside, "flies too fast", rows[6].view(np.int64))
        order = Bins(self.low, self.high).sort(self.kernels, rows, rows.shape[1], turning=True)
        rows = rows.take(order, axis=1, mode="clip")
        atoms.set(rows[6].view(np.int64).copy(), rows[:3], rows[3:6].copy())
        atoms.origin[:, : atoms.count] = rows[:3]
        self.built = self.time
        yield Mark()

    # Accounting ----------------------------------------------------------------------------------

    def sums(self) -> np.ndarray:
        """The domain's part of the sums of a thermo row, without the potential."""
        atoms, totals = self.atoms, np.zeros(TOTALS, np.int64)
        fast = np.any(np.abs(atoms.velocity) > FASTEST, axis=0)
        if fast.any():
            self._complain(fast, f"is faster than {FASTEST:g}")
        self.kernels.sums_of_motion(atoms.count, atoms.velocity, atoms.force, totals)
        totals[14] = atoms.count
        return totals

    def state(self) -> list[Piece]:
        """Position in the box and velocity of the domain's atoms, a row each."""
        atoms, box = self.atoms, self.problem.box[:, np.newaxis]
        position = atoms.own("position")
        position = position - box * (position >= box) + box * (position < 0)
        rows = np.ascontiguousarray(np.concatenate([position, atoms.velocity]).T)
        return [Piece("atoms", rows, None, (self.problem.atoms,), atoms.ids)]

    def strayed(self) -> int:
        """How many atoms are farther from the domain than they may be until they change it."""
        return strayed(self.atoms.own("position"), self.low, self.high, self.problem.list_skin)

    def measure(self) -> dict[str, Measure]:
        """Which atoms are and were here, and rows of the thermo table with the last one's sums."""
        return {
            "ids": Measure("sum", sums_of_ids(self.atoms.count, self.atoms.ids)),
            "born": Measure("sum", self.born),
            "strayed": Measure("sum", self.strayed()),
            "rows": Measure("max", self.rows),
            "time": Measure("max", self.time),
            "totals": Measure("sum", self.sums()),
        }

    def _complain(self, which: np.ndarray, what: str, ids: np.ndarray | None = None) -> None:
        """Raise Explosion for the first of some atoms."""
        ids = self.atoms.ids if ids is None else ids
        raise Explosion(f"step {self.time}: atom {ids[np.argmax(which)]} {what}")
