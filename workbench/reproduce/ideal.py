"""What balancing PIC can gain at most, as published and as corrected: counts of particles.

Without balancing a step takes as long as the PE with the most particles, with a perfect balancer as
long as the mean. Where particles hop between two columns, as in the public program of ESPM2 2021,
the imbalance is that of the start. Where they move 2k + 1 cells per step along x, the crowded
columns leave the PEs that had them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from miniapps.pic import Problem
from miniapps.workbench.reproduce.carry_out import FULL, options_of
from miniapps.workbench.reproduce.papers import Figure
from miniapps.workbench.study.cells import columns_of
from miniapps.workbench.study.options import study_of
from miniapps.workbench.table import Table

EVERY = 10  # steps between two counts
Gains = tuple[float, float, float]  # published, and ideal: as published, as corrected


def ideal_gain(problem: Any, pes: int, steps: int) -> float:
    """The most particles of a PE over the mean, averaged over steps; 0 steps: at the start.

    Along y particles are spread evenly, so columns of PEs count.
    """
    layout = problem.cut(pes, 1, None)
    mass = problem.distribution.means(problem.particles, problem.size)
    edges = np.cumsum([0, *layout.widths(0)])
    shifts = (2 * problem.k + 1) * np.arange(0, max(steps, 1), EVERY)
    most = [np.add.reduceat(np.roll(mass, shift), edges[:-1]).max() for shift in shifts]
    return float(np.mean(most) / mass.sum() * (len(edges) - 1))


def gains_table(figure: Figure) -> Table:
    """For the published numbers of PEs, the published gain and the ideal ones."""
    columns = columns_of(
        "#PEs", "#published gain", "#ideal gain, as published", "#ideal gain, as corrected"
    )
    found = list(_gains(figure))
    rows = tuple((str(pes), *(f"{value:.2f}" for value in gains)) for pes, gains in found)
    notes = (
        "ideal gain: that of a perfect balancer without cost, which is the largest number of "
        "particles on a PE over the mean, averaged over the steps; computed for the published "
        "problem on PE grids of minimal surface, not measured",
        conclusion([gains for _, gains in found]),
    )
    return Table("Fig. 7: does the gain remain when particles move?", columns, rows, notes)


def conclusion(gains: Sequence[Gains]) -> str:
    """What ideal gains say of the published ones."""
    moving = [corrected for _, _, corrected in gains]
    lost = [1 - corrected / still for _, still, corrected in gains]
    beyond = sum(published > corrected for published, _, corrected in gains)
    told = (
        f"refute the published gain on {beyond} of {len(gains)} numbers of PEs"
        if beyond
        else "do not refute the published gain, which is smaller on every number of PEs"
    )
    return (
        f"when particles move, the ideal gain is {min(moving):.2f} to {max(moving):.2f}, "
        f"{min(lost):.0%} to {max(lost):.0%} less than as published: counts {told}; only runs on "
        "that many PEs can confirm it"
    )


def _gains(figure: Figure) -> Iterator[tuple[int, Gains]]:
    study = study_of(options_of(figure, FULL, None))
    assert isinstance(study.problem, Problem)
    slow, fast = figure.lines.values()
    for pes, ms in slow.items():
        still, moving = (ideal_gain(study.problem, pes, steps) for steps in (0, study.steps))
        yield pes, (ms / fast[pes], still, moving)
