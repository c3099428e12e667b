"""A box of space and the atoms in it: how they move, change domain and are counted.

Both decompositions use it; they differ in how the forces are computed.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from functools import cache
from typing import Any

import numpy as np

from miniapps.contract import (
    AllReduce,
    Checkpoint,
    Edge,
    Exchange,
    Index,
    Measure,
    Pause,
    Piece,
    Saved,
    StepError,
)
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device, HostCopy, known
from miniapps.kernel_user import KernelUser
from miniapps.kernels.leanmd.interface import LeanmdKernels
from miniapps.kernels.leanmd.units import (
    CLOSE,
    CLOSE_UNIT,
    CLOSEST,
    ENERGY_UNIT,
    FAST,
    FASTEST,
    FORESEEN,
    STRAY,
)
from miniapps.leanmd.atoms import ROWS, Atoms, Bins
from miniapps.leanmd.problem import LeanmdProblem
from miniapps.leanmd.thermo import TOTALS, wide

SIDES = LOW, HIGH = 0, 1
AXES = range(3)


class Explosion(StepError):
    """The system is unstable: the time step is too long, or atoms began too close together."""


@cache
def edge_of(axis: int, side: int) -> Edge:
    """The edge to the neighbour on a side along an axis."""
    return tuple((2 * side - 1) * (axis == other) for other in AXES)


def raise_too_close(step: int, ids: np.ndarray, flag: int) -> None:
    """Raise Explosion if atoms are so close to each other that forces cannot be computed.

    ``ids`` may lack the atom of the flag; then another block raises the error.
    """
    closest2, atom = (flag >> 32) * CLOSE_UNIT, flag & 0xFFFFFFFF
    if closest2 < CLOSEST**2 and atom < len(ids):
        raise Explosion(
            f"step {step}: atom {ids[atom]} is {math.sqrt(closest2):.3g} from another one; "
            f"below {CLOSEST} the forces cannot be computed"
        )


def strayed(position: np.ndarray, low: np.ndarray, high: np.ndarray, skin: float) -> int:
    """The number of positions (3, n) that are more than half a skin outside [low, high)."""
    far = (position < low[:, np.newaxis] - skin / 2) | (position > high[:, np.newaxis] + skin / 2)
    return int(np.count_nonzero(far.any(axis=0)))


class Domain(KernelUser[LeanmdKernels]):
    """A box of space; subclasses compute forces and energies in `find_forces` and `potential`."""

    kind = "block"

    def __init__(
        self, problem: LeanmdProblem, layout: Layout, index: Index, device: Device
    ) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.neighbors = layout.neighbors(index, kind=self.kind)
        self.low, self.high = problem.corners(layout, index)
        self.over = self._over(layout)
        self.atoms = Atoms(device)
        self.rows = np.empty((0, 1 + TOTALS), np.int64)  # of the thermo table: step, then sums
        self.time = self.built = 0  # steps made; step at which atoms last changed domain
        self.allowed2 = problem.list_skin**2 / 4  # square of how far atoms may move until then
        self.atoms.set(*problem.beginning(self.low, self.high))
        self.born = self.atoms.sums_of_ids()
        self.mixed_up = np.zeros(
            3, np.uint64
        )  # change of `Atoms.identity` where atoms changed domain

    def _over(self, layout: Layout) -> np.ndarray:
        """The shift of coordinates sent over each side, nonzero at the box's faces: (3, 2)."""
        over = np.zeros((3, 2))
        for axis in AXES:
            if self.index[axis] == 0:
                over[axis, LOW] = self.problem.box[axis]
            if self.index[axis] == layout.grid[axis] - 1:
                over[axis, HIGH] = -self.problem.box[axis]
        return over

    # Steps ---------------------------------------------------------------------------------------

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Make a step of velocity Verlet."""
        self.kernels.kick_and_drift(*self.motion())
        self.time += count
        yield Pause()
        anew = yield from self.must_rebuild(self.farthest(self.time - count))
        if anew:
            yield from self.regroup()
        yield from self.find_forces(anew)
        self.kernels.kick(*self.motion())
        self.atoms.show()
        if self.problem.is_reported(self.time):
            yield from self.report()
        return False

    def motion(self) -> tuple[Any, ...]:
        """The arguments of the kernels that move atoms."""
        atoms, problem = self.atoms, self.problem
        return (
            atoms.count, atoms.position, atoms.velocity, atoms.force, atoms.origin,
            problem.dt, problem.quantum, self.allowed2, atoms.error_flags,
        )  # fmt: skip

    def setup(self) -> Generator[Any, Any, None]:
        """Give the atoms velocities and find the first forces."""
        if self.problem.draws_velocities:
            yield from self.warm()
        yield from self.regroup()
        yield from self.find_forces(True)
        yield from self.report()

    def checkpoint(self) -> Checkpoint:
        """The thermo table, and the sums that show whether an atom is lost or has another id."""
        return Checkpoint(
            totals={
                "rows": Measure("max", self.rows),
                "born": Measure("sum", self.born),
                "mixed up": Measure("sum", self.mixed_up),
            }
        )

    def resume(self, saved: Saved) -> Generator[Any, Any, None]:
        """Take up the atoms in the domain, and find their forces; the thermo table goes on."""
        ids, rows = saved.rows("atoms", self.low.tolist(), self.high.tolist())
        self.atoms.set(ids, rows[:, :3].T, rows[:, 3:].T)
        self.time = saved.step
        self.rows = saved.total("rows")
        self.born, self.mixed_up = saved.total("born"), saved.total("mixed up")
        yield from self.regroup()
        yield from self.find_forces(True)

    def find_forces(self, anew: bool) -> Generator[Any, Any, None]:
        """Set the forces on all atoms; ``anew``: atoms may have changed domain and order."""
        raise NotImplementedError

    def potential(self) -> Generator[Any, Any, np.ndarray]:
        """The domain's part of energy, virial and pairs; (6,) as in the kernel `energies`."""
        raise NotImplementedError

    def warm(self) -> Generator[Any, Any, None]:
        """Draw random velocities with zero total momentum and the requested temperature."""
        atoms, problem = self.atoms, self.problem
        self.kernels.draw(self.device.to_device(atoms.ids), problem.seed, atoms.velocity)
        drawn = yield AllReduce(self.sums(), "sum")
        drift = drawn[2:5] * ENERGY_UNIT / problem.atoms
        self.kernels.adjust(atoms.count, atoms.velocity, drift, 1.0)
        resting = yield AllReduce(self.sums(), "sum")
        wanted = problem.temperature * (3 * problem.atoms - 3)
        factor = math.sqrt(wanted / (wide(resting, 0) * ENERGY_UNIT))
        self.kernels.adjust(atoms.count, atoms.velocity, np.zeros(3), factor)

    def farthest(self, step: int) -> float:
        """The square of the longest distance that an atom has moved since it changed domain.

        0 if none has moved farther than allowed. ``step``: that of the last forces. Where the last
        kick has foreseen it, the drift of this step need not have ended. Raises as `check_errors`.
        """
        flags, known = self.atoms.seen(), FORESEEN
        if flags is None:
            flags, known = self.device.to_host(self.atoms.error_flags), STRAY
        self.check_errors(step, flags)
        return float(flags.view(np.float64)[known])

    def check_errors(self, step: int, flags: np.ndarray) -> None:
        """Raise Explosion for an error flag set since atoms last changed domain.

        ``step``: that of the last forces. Raises StepError if the drift before them moved an atom
        farther than allowed and it was not foreseen: else lists would have been made anew.
        """
        atoms = self.atoms
        if atoms.shown is not None and flags[STRAY]:
            raise StepError(f"step {step}: an atom moved farther than foreseen, so lists are old")
        if flags[CLOSE] >> 32 < CLOSEST**2 / CLOSE_UNIT:
            raise_too_close(step, atoms.ids, int(flags[CLOSE]))
        if flags[FAST] < atoms.count:
            self._complain(int(flags[FAST]), f"is faster than {FASTEST:g}")

    def must_rebuild(self, farthest: float) -> Generator[Any, Any, bool]:
        """Whether atoms must change domain: the interval is over, or one has used up the skin."""
        if not farthest < math.inf:
            lost = ~np.isfinite(self.atoms.own("position")).all(axis=0)
            self._complain(int(np.argmax(lost)), "flies apart")
        if self.time - self.built >= self.problem.rebuild:
            return True
        farthest = yield AllReduce(farthest, "max")
        return bool(farthest > self.allowed2)

    def report(self) -> Generator[Any, Any, None]:
        """Add a row to the thermo table."""
        totals = self.sums()
        totals[8:14] = yield from self.potential()
        totals = yield AllReduce(totals, "sum")
        self.rows = np.vstack([self.rows, np.concatenate([[self.time], totals])])

    # Changing domains ----------------------------------------------------------------------------

    def regroup(self) -> Generator[Any, Any, None]:
        """Change domains, and note whether ids have stayed with their atoms."""
        side = self.problem.box[0]
        before = self.atoms.identity(side)
        yield from self.change_domains()
        self.mixed_up = self.mixed_up + self.atoms.identity(side) - before

    def change_domains(self) -> Generator[Any, Any, None]:
        """Exchange atoms along x, then y, then z, and sort those that are in the domain then."""
        atoms, rows, count = self.atoms, self.atoms.rows, self.atoms.count
        for axis in AXES:
            rows, count = yield from self.change_along(axis, rows, count)
        outside = self.kernels.first_outside(count, rows, self.low, self.high)
        bins = Bins(self.low, self.high, self.device, self.kernels.WIDTH)
        order = bins.sort(self.kernels, rows, count, turning=True)
        atoms.arrange(count, rows, order)
        atoms.clear_error_flags()
        self.built = self.time
        lost = yield from self.known(outside)
        if 0 <= lost < count:
            ids = self.device.to_host(rows[ROWS - 1]).view(np.int64)
            self._complain(lost, "flies too fast", ids)
        yield Pause()

    def change_along(self, axis: int, rows: Any, count: int) -> Generator[Any, Any, Any]:
        """Exchange atoms along an axis; returns the rows of the atoms here, and their number."""
        kernels, device = self.kernels, self.device
        which = device.empty((count,), np.uint32)
        *leave, stay = yield from self.known(
            kernels.choose(count, rows[axis], self.low[axis], self.high[axis], which)
        )
        shapes = {edge_of(axis, side): (ROWS, leave[side]) for side in SIDES}
        messages = device.messages(shapes, np.float64)
        sides = [messages[edge] for edge in shapes]
        kernels.gather(rows, which, leave, axis, self.over[axis], sides)
        came = device.received((yield from Exchange(f"atoms along {axis}", messages)))
        parts = [came[edge] for edge in shapes]
        total = stay + sum(part.shape[1] for part in parts)
        if total == stay == count:
            return rows, count
        here = device.empty((ROWS, max(total, 1)), np.float64)  # rows must not be empty
        kernels.arrange(sum(leave), stay, rows, which, here)
        kernels.place(here, stay, parts)
        return here, total

    def known(self, result: Any) -> Generator[Any, Any, Any]:
        """Numbers that a kernel function has counted; other blocks run before this one waits."""
        if isinstance(result, HostCopy):
            yield Pause()
        return known(result)

    # Accounting ----------------------------------------------------------------------------------

    def sums(self) -> np.ndarray:
        """The domain's part of the sums for a thermo row, without the potential."""
        atoms = self.atoms
        totals = self.device.to_device(np.zeros(TOTALS, np.int64))
        moving = atoms.count, atoms.velocity, atoms.force
        self.kernels.sums_of_motion(*moving, totals, atoms.error_flags)
        self.check_errors(self.time, self.device.to_host(atoms.error_flags))
        totals = self.device.to_host(totals)
        totals[14] = atoms.count
        return totals

    def state(self) -> list[Piece]:
        """Position, wrapped into the box, and velocity of each atom, one row each."""
        atoms, box = self.atoms, self.problem.box[:, np.newaxis]
        position = atoms.own("position")
        position = position - box * (position >= box) + box * (position < 0)
        rows = np.ascontiguousarray(np.concatenate([position, atoms.own("velocity")]).T)
        return [Piece("atoms", rows, None, (self.problem.atoms,), atoms.ids)]

    def strayed(self) -> int:
        """The number of atoms that are farther outside the domain than allowed."""
        return strayed(self.atoms.own("position"), self.low, self.high, self.problem.list_skin)

    def measure(self) -> dict[str, Measure]:
        """Sums of present and initial ids, stray atoms, thermo rows, and sums for the last row."""
        return {
            "ids": Measure("sum", self.atoms.sums_of_ids()),
            "born": Measure("sum", self.born),
            "mixed up": Measure("sum", self.mixed_up),
            "strayed": Measure("sum", self.strayed()),
            "rows": Measure("max", self.rows),
            "time": Measure("max", self.time),
            "totals": Measure("sum", self.sums()),
        }

    def _complain(self, atom: int, what: str, ids: np.ndarray | None = None) -> None:
        """Raise Explosion for an atom."""
        ids = self.atoms.ids if ids is None else ids
        raise Explosion(f"step {self.time}: atom {ids[atom]} {what}")
