"""The loads of LeanMD's *blocks* decomposition: atoms with their ghosts, and pairs of atoms."""

from __future__ import annotations

import math

import numpy as np

from miniapps.decomposition import Layout
from miniapps.leanmd.problem import LeanmdProblem
from miniapps.loads import BLOCKS, Flow, Loads, product, sides, widths
from miniapps.parameters import require

BEYOND = 3 / 16  # of a sphere of radius r around atoms of a layer w > r thick: r / w on each side
POSITION = 24.0  # bytes of an atom in a message
ATOM = 80.0  # bytes of an atom, without lists


def loads(problem: LeanmdProblem, layout: Layout, step: int = 0) -> Loads:
    """What blocks compute and send in a step; atoms are counted where they begin.

    ``atoms``: own ones and ghosts. ``pairs``: pairs within the reach of the lists; those of an own
    atom and a ghost are computed by both blocks. Raises InputError for *pairs* and for input files,
    whose atoms are not read here.
    """
    known = problem.decomposition == "blocks" and problem.source is None
    require(known, "model", "leanmd", "has --decomposition blocks without --input")
    cell = problem.box / layout.shape
    wide = [n * length for n, length in zip(widths(layout), cell, strict=True)]
    share = [np.minimum(1.0, problem.reach / w) for w in wide]
    density = _layers(problem) / math.prod(cell.tolist())  # atoms per volume of each layer along x
    own, partners = _own(problem, layout, density, cell)
    ghosts = own * (product([1 + two * s for two, s in zip(sides(layout), share, strict=True)]) - 1)
    inside = product([1 - 2 * BEYOND * s for s in share])
    sphere = 4 / 3 * math.pi * problem.reach**3
    pairs = partners * sphere / 2 * (2 - inside)
    units = {"atoms": own + ghosts, "pairs": pairs, BLOCKS: np.ones(layout.grid)}
    return Loads(units, ATOM * (own + ghosts), _flows(layout, own, share))


def _layers(problem: LeanmdProblem) -> np.ndarray:
    """Mean atoms in a cell of each layer along x."""
    if problem.cells is not None:
        return problem.per_layer.astype(float)
    return np.full(problem.shape[0], problem.atoms / math.prod(problem.shape))


def _own(
    problem: LeanmdProblem, layout: Layout, density: np.ndarray, cell: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Atoms of each block, and their sum weighted by the density around them.

    The sphere around an atom is partly in the layers beside its own.
    """
    out = min(1.0, 2 * BEYOND * problem.reach / cell[0]) / 2
    around = (1 - 2 * out) * density + out * (np.roll(density, 1) + np.roll(density, -1))
    volume = math.prod(cell.tolist())
    sums = []
    for each in (density, density * around):
        ends = np.concatenate([[0.0], np.cumsum(each * volume)])
        bounds = np.array([layout.bounds((n, 0, 0))[0] for n in range(layout.grid[0])])
        sums.append(product([ends[bounds[:, 1]] - ends[bounds[:, 0]], *widths(layout)[1:]]))
    return sums[0], sums[1]


def _flows(layout: Layout, own: np.ndarray, share: list[np.ndarray]) -> tuple[Flow, ...]:
    """The atoms near each side, with the ghosts of the axes before; every step."""
    found, grown = [], own
    for axis in range(3):
        near = share[axis].reshape([-1 if a == axis else 1 for a in range(3)])
        for side in (-1, 1):
            edge = tuple(side if a == axis else 0 for a in range(3))
            found.append(Flow(edge, POSITION * near * grown, 1.0))
        grown = grown * (1 + 2 * near)
    return tuple(found)
