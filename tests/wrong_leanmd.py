"""Wrong versions of LeanMD, one mistake each, to show that its checks can fail.

Each takes a right class of blocks and returns a wrong one; `test_leanmd.py` says which class, and
what must see the mistake.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

LAST = 60  # steps of the runs in which these are tried
FASTEST = 3.0  # sigma / tau


def forces_every_other_step(right: Any) -> Any:
    """In odd steps nothing is felt."""

    class Wrong(right):
        def find_forces(self, anew: bool) -> Generator[Any, Any, None]:
            """Find them, and forget them."""
            yield from super().find_forces(anew)
            if self.time % 2:
                self.atoms.force[:] = 0

    return Wrong


def forces_at_the_ends(right: Any) -> Any:
    """Forces act in the first and the last step; a benchmark would not notice."""

    class Wrong(right):
        def find_forces(self, anew: bool) -> Generator[Any, Any, None]:
            """Find them, and forget them."""
            yield from super().find_forces(anew)
            if 0 < self.time < LAST:
                self.atoms.force[:] = 0

    return Wrong


def own_cluster_pushed(right: Any) -> Any:
    """What atoms of a cluster feel from each other has the wrong sign."""

    class Wrong(right):
        def add_forces(self, first: int, end: int) -> None:
            """Take away twice what they feel from each other."""
            super().add_forces(first, end)
            atoms, none = self.atoms, np.zeros_like(self.lists.starts)
            own = np.zeros_like(atoms.force)
            self.kernels.forces(
                atoms.position, atoms.position, self.clusters, first, end, none,
                self.lists.neighbors, True, self.problem.cutoff, own, atoms.error_flags,
            )  # fmt: skip
            atoms.force -= 2 * own

    return Wrong


def own_cell_pushed(right: Any) -> Any:
    """What atoms of a cell feel from each other has the wrong sign."""

    class Wrong(right):
        def forces(self, answers: Any) -> dict[Any, np.ndarray]:
            """Turn the forces of a cell on itself around."""
            sign = -1 if len(self.neighbors) == 1 else 1
            return {edge: sign * force for edge, force in super().forces(answers).items()}

    return Wrong


def nobody_changes_domain(right: Any) -> Any:
    """Atoms stay with the block in which they began."""

    class Wrong(right):
        def change_domains(self) -> Generator[Any, Any, None]:
            """Believe that it is done."""
            atoms = self.atoms
            atoms.set(atoms.ids, atoms.own("position"), atoms.own("velocity"))
            atoms.clear_error_flags()
            self.built = self.time
            return
            yield

    return Wrong


def ghosts_of_one_side_lost(right: Any) -> Any:
    """The first block along x sends no ghosts across the box's edge."""

    class Wrong(right):
        def leaving(self, axis: int) -> dict[Any, np.ndarray]:
            """Empty one of the messages."""
            messages = super().leaving(axis)
            if self.index == (0, 0, 0) and axis == 0:
                messages[-1, 0, 0] = np.empty((3, 0))
            return messages

    return Wrong


def ghosts_not_shifted(right: Any) -> Any:
    """The first block along x sends ghosts across the box's edge as if there were none."""

    class Wrong(right):
        def leaving(self, axis: int) -> dict[Any, np.ndarray]:
            """Take the shift back."""
            messages = super().leaving(axis)
            if self.index == (0, 0, 0) and axis == 0:
                messages[-1, 0, 0][0] -= self.over[0, 0]
            return messages

    return Wrong


def pair_not_shifted(right: Any) -> Any:
    """Pairs of cells across one face of the box do not see each other."""

    class Wrong(right):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.over = self.over and [0.0, *self.over[1:]]

    return Wrong


def lists_for_ever(right: Any) -> Any:
    """Lists are made once."""

    class Wrong(right):
        def must_rebuild(self, farthest: float) -> Generator[Any, Any, bool]:
            """Say that they still hold."""
            return False
            yield

    return Wrong


def lists_too_seldom(right: Any) -> Any:
    """Lists are made anew when it is time, however far atoms have moved."""

    class Wrong(right):
        def must_rebuild(self, farthest: float) -> Generator[Any, Any, bool]:
            """Look at the clock alone."""
            return self.time - self.built >= self.problem.rebuild
            yield

    return Wrong


def lost_compute(right: Any) -> Any:
    """One compute, of a cell and the next, says that nothing is felt."""

    class Wrong(right):
        def forces(self, answers: Any) -> dict[Any, np.ndarray]:
            """Forget them."""
            factor = 0 if self.index == (0, 0, 0, 0, 0, 1) else 1
            return {edge: factor * force for edge, force in super().forces(answers).items()}

    return Wrong


def lost_own_compute(right: Any) -> Any:
    """One compute, of a cell with itself, says that nothing is felt."""

    class Wrong(right):
        def forces(self, answers: Any) -> dict[Any, np.ndarray]:
            """Forget them."""
            factor = 0 if self.index == (0, 0, 0, 0, 0, 0) else 1
            return {edge: factor * force for edge, force in super().forces(answers).items()}

    return Wrong


def one_sided_compute(right: Any) -> Any:
    """One compute gives forces to the first of its cells only."""

    class Wrong(right):
        def forces(self, answers: Any) -> dict[Any, np.ndarray]:
            """Forget those on the second."""
            forces = super().forces(answers)
            if self.index == (0, 0, 0, 0, 0, 1):
                forces[1,] = 0 * forces[1,]
            return forces

    return Wrong


def clamped_velocities(right: Any) -> Any:
    """No atom becomes faster than `FASTEST` along an axis, and no error is reported."""

    class Wrong(right):
        def step(self, count: int) -> Generator[Any, Any, bool]:
            """Make a step, then hold back those that are too fast."""
            finished = yield from super().step(count)
            np.clip(self.atoms.velocity, -FASTEST, FASTEST, out=self.atoms.velocity)
            return finished

    return Wrong


def lost_atom(right: Any) -> Any:
    """One atom is forgotten where atoms change domain."""

    class Wrong(right):
        def change_domains(self) -> Generator[Any, Any, None]:
            """Forget the last one, in the middle of the run."""
            atoms = self.atoms
            if 0 < self.time < LAST and self.index == (0, 0, 0) and not vars(self).get("did"):
                self.did, count = True, atoms.count - 1
                rows = atoms.position[:, :count], atoms.velocity[:, :count]
                atoms.set(atoms.ids[:-1], *rows)
            yield from super().change_domains()

    return Wrong


def swapped_ids(right: Any) -> Any:
    """Two atoms take each other's id, and nothing else."""

    class Wrong(right):
        def change_domains(self) -> Generator[Any, Any, None]:
            """Swap, then go on."""
            if 0 < self.time and self.index == (0, 0, 0) and not vars(self).get("did"):
                self.did, ids = True, self.atoms.ids
                ids[0], ids[1] = ids[1], ids[0]
            yield from super().change_domains()

    return Wrong
