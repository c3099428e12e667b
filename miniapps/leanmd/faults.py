"""Faults of LeanMD."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from miniapps.faults import in_place_of
from miniapps.kernels.leanmd.units import FORCE_UNIT

MISTAKE_FROM = 3  # step
FASTEST = 1.0  # sigma / tau
DOMAIN = "miniapps.leanmd.domain:Domain"
BLOCK = "miniapps.leanmd.block:LeanmdBlock"
CELL = "miniapps.leanmd.pairs:Cell"
COMPUTE = "miniapps.leanmd.pairs:Compute"
KERNELS = "miniapps.kernels.leanmd.cpu"
IN_BLOCKS = {"decomposition": "blocks"}
IN_PAIRS = {"decomposition": "pairs"}
SHORT = {"rebuild": 3, "thermo": 4, "steps": 5, "warmup": 1}
HOT = SHORT | {"temperature": 30.0}  # atoms leave their block within a few steps
PROBLEMS = {"tiny": SHORT | {"lattice": (4, 4, 4)}, "small": HOT, "large": HOT}


# Forces and motion -------------------------------------------------------------------------------


@in_place_of(f"{BLOCK}.find_forces", f"{CELL}.find_forces")
def forces_every_other_step(right: Any, self: Any, anew: bool) -> Generator[Any, Any, None]:
    """In odd steps no forces act."""
    yield from right(self, anew)
    if self.time % 2:
        self.atoms.force[:] = 0


@in_place_of(f"{BLOCK}.find_forces", f"{CELL}.find_forces")
def forces_at_the_start_only(right: Any, self: Any, anew: bool) -> Generator[Any, Any, None]:
    """Forces act in the first steps only; a benchmark would not notice."""
    yield from right(self, anew)
    if self.time >= MISTAKE_FROM:
        self.atoms.force[:] = 0


@in_place_of(f"{BLOCK}.find_forces", f"{CELL}.find_forces")
def forces_of_the_other_sign(right: Any, self: Any, anew: bool) -> Generator[Any, Any, None]:
    """Atoms are pulled where they should be pushed."""
    yield from right(self, anew)
    self.atoms.force *= -1


@in_place_of(f"{BLOCK}.add_forces", given=IN_BLOCKS)
def own_cluster_pushed(right: Any, self: Any, first: int, end: int) -> None:
    """What atoms of a cluster feel from each other has the wrong sign."""
    right(self, first, end)
    atoms, none = self.atoms, np.zeros_like(self.lists.starts)
    own = np.zeros_like(atoms.force)
    self.kernels.FORCES["float64"](
        atoms.position, atoms.position, self.clusters, first, end, none,
        self.lists.neighbors, True, self.problem.cutoff, own, atoms.error_flags,
    )  # fmt: skip
    atoms.force -= 2 * own


@in_place_of(f"{COMPUTE}.forces", given=IN_PAIRS)
def own_cell_pushed(right: Any, self: Any, answers: Any) -> dict[Any, np.ndarray]:
    """What atoms of a cell feel from each other has the wrong sign."""
    sign = -1 if len(self.neighbors) == 1 else 1
    return {edge: sign * force for edge, force in right(self, answers).items()}


@in_place_of(f"{KERNELS}:kick_and_drift")
def kick_too_strong(
    right: Any, n: int, x: Any, v: Any, f: Any, origin: Any, dt: float, *more: Any
) -> None:
    """The first half of the kick is 0.5005 of it."""
    v[:, :n] += 0.0005 * dt * FORCE_UNIT * f[:, :n]
    right(n, x, v, f, origin, dt, *more)


@in_place_of(f"{KERNELS}:kick_and_drift")
def drift_too_far_along_z(right: Any, n: int, x: Any, v: Any, *more: Any) -> None:
    """Atoms move 1.01 dt along z."""
    before = x[2, :n].copy()
    right(n, x, v, *more)
    quantum = more[3]
    x[2, :n] += np.rint(0.01 * (x[2, :n] - before) / quantum) * quantum


@in_place_of(f"{KERNELS}:kick")
def second_kick_left_out(right: Any, *motion: Any) -> None:
    """The second half of the kick does not happen."""


@in_place_of(f"{KERNELS}:kick")
def swapped_axes(
    right: Any, count: int, position: Any, velocity: Any, force: Any, *more: Any
) -> None:
    """The second half of the kick takes the forces along x and y for each other."""
    right(count, position, velocity, np.ascontiguousarray(force[[1, 0, 2]]), *more)


@in_place_of(f"{KERNELS}:kick_and_drift")
def velocities_in_single_precision(right: Any, n: int, x: Any, v: Any, *more: Any) -> None:
    """Velocities are kept in float32."""
    v[:, :n] = v[:, :n].astype(np.float32)
    right(n, x, v, *more)


@in_place_of(f"{DOMAIN}.step")
def clamped_velocities(right: Any, self: Any, count: int) -> Generator[Any, Any, bool]:
    """No atom becomes faster than a limit along an axis, and no error is reported."""
    finished: bool = yield from right(self, count)
    np.clip(self.atoms.velocity, -FASTEST, FASTEST, out=self.atoms.velocity)
    return finished


@in_place_of(f"{BLOCK}.__init__", f"{CELL}.__init__", f"{COMPUTE}.__init__")
def shorter_cutoff(right: Any, self: Any, problem: Any, *arguments: Any) -> None:
    """Pairs beyond 0.9 of the cutoff do not act on each other."""
    right(self, problem, *arguments)
    self.problem = Shorter(problem)


class Shorter:
    """A problem with a shorter cutoff for its blocks alone."""

    def __init__(self, problem: Any) -> None:
        self.problem, self.cutoff = problem, 0.9 * problem.cutoff

    def __getattr__(self, name: str) -> Any:
        if name == "problem":
            raise AttributeError(name)
        return getattr(self.problem, name)


# Ghosts, lists and domains -----------------------------------------------------------------------


@in_place_of(f"{BLOCK}.leaving", given=IN_BLOCKS)
def ghosts_of_one_side_lost(right: Any, self: Any, axis: int) -> Any:
    """The first block along x sends no ghosts across the box's edge."""
    messages = dict(right(self, axis))
    if self.index == (0, 0, 0) and axis == 0:
        messages[-1, 0, 0] = np.empty((3, 0))
    return messages


@in_place_of(f"{BLOCK}.leaving", given=IN_BLOCKS)
def ghosts_not_shifted(right: Any, self: Any, axis: int) -> Any:
    """The first block along x sends ghosts across the box's edge unshifted: the wrong image."""
    messages = right(self, axis)
    if self.index == (0, 0, 0) and axis == 0:
        messages[-1, 0, 0][0] -= self.over[0, 0]
    return messages


@in_place_of(f"{BLOCK}.arrived", given=IN_BLOCKS)
def stale_ghosts(right: Any, self: Any, axis: int, came: Any) -> list[Any]:
    """Ghosts keep their positions until lists are built anew."""
    kept = vars(self).setdefault("kept", {})
    parts = [np.array(part) for part in right(self, axis, came)]
    old = kept.get(axis)
    same = old and [a.shape for a in old] == [b.shape for b in parts]
    kept[axis] = old if same and self.time != self.built else parts
    return list(kept[axis])


@in_place_of(f"{COMPUTE}.__init__", given=IN_PAIRS)
def pair_not_shifted(right: Any, self: Any, *arguments: Any) -> None:
    """Pairs of cells across one face of the box do not see each other."""
    right(self, *arguments)
    self.over = self.over and [0.0, *self.over[1:]]


@in_place_of(f"{DOMAIN}.change_domains")
def atoms_keep_their_domain(right: Any, self: Any) -> Generator[Any, Any, None]:
    """Atoms stay with the block in which they began."""
    atoms = self.atoms
    atoms.set(atoms.ids, atoms.own("position"), atoms.own("velocity"))
    atoms.clear_error_flags()
    self.built = self.time
    return
    yield


@in_place_of(f"{DOMAIN}.must_rebuild", given={"temperature": 60.0})
def lists_for_ever(right: Any, self: Any, farthest: float) -> Generator[Any, Any, bool]:
    """Lists are made once."""
    return False
    yield


@in_place_of(f"{DOMAIN}.must_rebuild", given={"temperature": 60.0, "rebuild": 50})
def lists_too_seldom(right: Any, self: Any, farthest: float) -> Generator[Any, Any, bool]:
    """Lists are made anew when it is time, however far atoms have moved."""
    return bool(self.time - self.built >= self.problem.rebuild)
    yield


@in_place_of(f"{COMPUTE}.forces", given=IN_PAIRS)
def lost_compute(right: Any, self: Any, answers: Any) -> dict[Any, np.ndarray]:
    """One compute, of a cell and the next, answers that no forces act."""
    acts = self.index != (0, 0, 0, 0, 0, 1)
    return {edge: acts * force for edge, force in right(self, answers).items()}


@in_place_of(f"{COMPUTE}.forces", given=IN_PAIRS)
def lost_own_compute(right: Any, self: Any, answers: Any) -> dict[Any, np.ndarray]:
    """One compute, of a cell with itself, answers that no forces act."""
    acts = self.index != (0, 0, 0, 0, 0, 0)
    return {edge: acts * force for edge, force in right(self, answers).items()}


@in_place_of(f"{COMPUTE}.forces", given=IN_PAIRS)
def one_sided_compute(right: Any, self: Any, answers: Any) -> dict[Any, np.ndarray]:
    """One compute gives forces to the first of its cells only."""
    lost = (1,) if self.index == (0, 0, 0, 0, 0, 1) else None
    return {edge: (edge != lost) * force for edge, force in right(self, answers).items()}


# Atoms -------------------------------------------------------------------------------------------


def once_late(block: Any) -> bool:
    """Whether atoms change domain for the first time in the middle of the run, in one block."""
    late = block.index == (0, 0, 0) and block.time > 0 and not vars(block).get("did")
    if late:
        block.did = True
    return bool(late)


@in_place_of(f"{DOMAIN}.change_domains")
def lost_atom(right: Any, self: Any) -> Generator[Any, Any, None]:
    """One atom is forgotten where atoms change domain."""
    atoms = self.atoms
    if once_late(self):
        count = atoms.count - 1
        atoms.set(atoms.ids[:-1], atoms.position[:, :count], atoms.velocity[:, :count])
    yield from right(self)


@in_place_of(f"{DOMAIN}.change_domains")
def doubled_atom(right: Any, self: Any) -> Generator[Any, Any, None]:
    """One atom is there twice, a little apart."""
    atoms = self.atoms
    if once_late(self):
        some = [*range(atoms.count), 0]
        position = atoms.own("position")[:, some]
        position[0, -1] += 1.0
        atoms.set(atoms.ids[some], position, atoms.own("velocity")[:, some])
    yield from right(self)


@in_place_of(f"{DOMAIN}.change_domains")
def swapped_ids(right: Any, self: Any) -> Generator[Any, Any, None]:
    """Two atoms take each other's id, and nothing else."""
    if once_late(self):
        ids = self.atoms.ids
        ids[0], ids[1] = ids[1], ids[0]
    yield from right(self)


@in_place_of("miniapps.leanmd.problem:LeanmdProblem.sites")
def atoms_of_another_lattice(right: Any, self: Any, low: Any, high: Any) -> Any:
    """Atoms begin shifted by a hundredth along x."""
    ids, position = right(self, low, high)
    position[0] += np.rint(0.01 / self.quantum) * self.quantum * (ids % 2)
    return ids, position


@in_place_of("miniapps.leanmd.atoms:Atoms.__getstate__", migrating=True)
def migrates_at_rest(right: Any, self: Any) -> dict[str, Any]:
    """A migrating block forgets its atoms' velocities."""
    state = dict(right(self))
    state["rows"] = state["rows"].copy()
    state["rows"][3:6] = 0
    return state


@in_place_of("miniapps.leanmd.atoms:Atoms.__getstate__", migrating=True)
def migrates_without_forces(right: Any, self: Any) -> dict[str, Any]:
    """A migrating block forgets the forces of the step before."""
    state = dict(right(self))
    return state | {"force": np.zeros_like(state["force"])}
