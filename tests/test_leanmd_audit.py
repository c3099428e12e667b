"""The audit of LeanMD, beyond the size for which the reference is run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import support
from hypothesis import example, given
from hypothesis import strategies as st
from pytest import MonkeyPatch
from test_leanmd_inputs import written

from miniapps import kernels
from miniapps.audit import AuditPlan
from miniapps.kernels.leanmd.units import ENERGY_UNIT, VIRIAL_UNIT
from miniapps.leanmd import plain, thermo
from miniapps.leanmd import problem as problem_module
from miniapps.leanmd.block import LeanmdBlock
from miniapps.leanmd.checks import REFERENCE_ATOMS
from miniapps.leanmd.close_pairs import ClosePairs
from miniapps.leanmd.pairs import Compute
from miniapps.leanmd.problem import Gradient, LeanmdProblem

CPU = kernels.load("leanmd", "cpu")
STEPS = 12
HOT = LeanmdProblem(lattice=(7, 6, 7), temperature=4.0, rebuild=3, thermo=4)
PAIRS = LeanmdProblem(
    lattice=(7, 6, 7), density=0.6, temperature=4.0, cutoff=2.0, skin=1.5, rebuild=3, shift=True,
    decomposition="pairs",
)  # fmt: skip
PLACES, START = "audit: wrong initial positions", "audit: wrong initial velocities"
POSITIONS, VELOCITIES = "audit: wrong positions", "audit: wrong velocities"
POTENTIAL, TABLE = "audit: wrong energies or virials", "audit: error of the thermo table"
CLOSE = "audit: wrong forces of close pairs"
MIXED, VIRIAL = "ids that left their atoms", "virial error"


def failed(problem: LeanmdProblem, seed: int = 1, steps: int = STEPS) -> set[str]:
    """The checks that a run fails."""
    grid = (2, 2, 2) if problem.decomposition == "blocks" else (1, 1, 1)
    assert problem.atoms > REFERENCE_ATOMS
    plan = AuditPlan(samples=16, every=0, seed=seed)
    return support.solve("leanmd", problem, grid, steps, plan=plan).failed


# Each function below patches one mistake into the kernels or the table.


def permuted_ids(patch: MonkeyPatch) -> None:
    """Where atoms are sorted, their ids are not."""
    right = CPU.arrange

    def wrong(first: int, count: int, rows: Any, order: Any, into: Any) -> None:
        right(first, count, rows, order, into)
        if len(into) == 7:
            into[6, :count] = rows[6, :count]

    patch.setattr(CPU, "arrange", wrong)


def reversed_ids(patch: MonkeyPatch) -> None:
    """In messages of atoms, ids are in reverse order."""
    right = CPU.gather

    def wrong(rows: Any, which: Any, sizes: Any, axis: int, over: Any, messages: Any) -> None:
        right(rows, which, sizes, axis, over, messages)
        for message in messages:
            message[6:] = message[6:, ::-1].copy()

    patch.setattr(CPU, "gather", wrong)


def reversed_positions(patch: MonkeyPatch) -> None:
    """In messages of atoms, positions are in reverse order; energy and momentum stay."""
    right = CPU.gather

    def wrong(rows: Any, which: Any, sizes: Any, axis: int, over: Any, messages: Any) -> None:
        right(rows, which, sizes, axis, over, messages)
        for message in messages:
            if len(message) == 7:
                message[:3] = message[:3, ::-1].copy()

    patch.setattr(CPU, "gather", wrong)


def shared_draws(patch: MonkeyPatch) -> None:
    """Velocities are drawn by id + axis, so that atoms share numbers."""

    def wrong(ids: np.ndarray, seed: int, numbers: np.ndarray) -> None:
        for axis in range(3):
            numbers[axis, : len(ids)] = plain.drawn(ids + axis, seed)[0]

    patch.setattr(CPU, "draw", wrong)


def weak_virial(patch: MonkeyPatch) -> None:
    """The virial's 48 is 47."""
    right = CPU.energies

    def wrong(*arguments: Any) -> None:
        right(*arguments)
        totals = arguments[-1]
        energy, virial, _ = thermo.sums_of_potential(totals)
        repulsion = (virial * VIRIAL_UNIT - 6 * energy * ENERGY_UNIT) / 24
        totals[3] -= round(repulsion / VIRIAL_UNIT)

    patch.setattr(CPU, "energies", wrong)


def no_potentials(patch: MonkeyPatch) -> None:
    """Blocks contribute no energies and virials to the audit."""
    for kind in (LeanmdBlock, Compute):
        patch.setattr(kind, "potentials", lambda block, most: [])


def doubled_virial(patch: MonkeyPatch) -> None:
    """The table has twice the virial that blocks compute."""
    right = LeanmdBlock.energies

    def potential(block: Any) -> Any:
        return right(block) * (1, 1, 2, 2, 1, 1)
        yield

    patch.setattr(LeanmdBlock, "potential", potential)


def half_drift(patch: MonkeyPatch) -> None:
    """The largest change of the energy is given as half of it."""
    right = thermo.table

    def table(*arguments: Any) -> list[dict[str, Any]]:
        return [row | {"max_drift": row["max_drift"] / 2} for row in right(*arguments)]

    patch.setattr(problem_module, "table", table)


def late_rows(patch: MonkeyPatch) -> None:
    """Rows of the table have the number of the next step."""
    right = thermo.row
    patch.setattr(thermo, "row", lambda problem, step, totals: right(problem, step + 1, totals))


def rows_left_out(patch: MonkeyPatch) -> None:
    """The table has every other row."""
    patch.setattr(LeanmdProblem, "is_reported", lambda self, step: step % (2 * self.thermo) == 0)


def moving_atoms(patch: MonkeyPatch) -> None:
    """The momentum that is given is not that of the atoms."""
    right = LeanmdProblem.results

    def results(problem: LeanmdProblem, measures: Any) -> dict[str, Any]:
        found = right(problem, measures)
        return found | {"momentum": [part + 7 for part in found["momentum"]]}

    patch.setattr(LeanmdProblem, "results", results)


MISTAKES = {
    doubled_virial: {TABLE},
    half_drift: {TABLE},
    late_rows: {TABLE},
    rows_left_out: {TABLE},
    moving_atoms: {TABLE},
    permuted_ids: {PLACES, START, MIXED},
    reversed_ids: {MIXED},
    reversed_positions: {MIXED},
    shared_draws: {START},
    weak_virial: {POTENTIAL},
    no_potentials: {POTENTIAL},
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_beyond_the_reference(monkeypatch: MonkeyPatch, mistake: Any) -> None:
    """Catches an audit that cannot fail: each mistake ended as a valid run before audits."""
    mistake(monkeypatch)
    assert MISTAKES[mistake] <= failed(HOT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "problem", "check"),
    [
        ("kick too strong", HOT, VELOCITIES),
        ("kick too strong", PAIRS, VELOCITIES),
        ("drift too far along z", HOT, POSITIONS),
    ],
)
def test_wrong_motion_beyond_the_reference(fault, problem, check):
    """Catches the same of mistakes that the catalogue has."""
    with support.with_fault("leanmd", f"leanmd: {fault}"):
        assert check in failed(problem)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [reversed_ids, weak_virial, no_potentials])
def test_mistakes_in_pairs(monkeypatch: MonkeyPatch, mistake: Any) -> None:
    """Catches an audit that does not see cells or computes."""
    mistake(monkeypatch)
    assert MISTAKES[mistake] | ({VIRIAL} if mistake is weak_virial else set()) <= failed(PAIRS)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"lattice": (6, 23, 2), "cutoff": 2.0, "skin": 0.2},  # second images within the cutoff
        {"lattice": (1, 1, 1), "cells": (6, 6, 6), "per_cell": 6, "cutoff": 1.7},
        {"cells": (5, 5, 5), "gradient": Gradient(0, 8), "cutoff": 1.9},
    ],
)
def test_right_runs_pass(values: dict[str, Any], seed: int) -> None:
    """Catches an audit that fails right runs: narrow boxes, empty cells, points near corners."""
    problem = LeanmdProblem(temperature=3.0, rebuild=4, **({"lattice": (7, 6, 7)} | values))
    plan = AuditPlan(samples=16, every=4, seed=seed)
    assert support.solve("leanmd", problem, (2, 2, 1), STEPS, plan=plan).failed == set()


# Some functions below round the force of a pair otherwise, by its last bit; ``d`` displacements, i2
# and i6 1 / r^2 and 1 / r^6. The exact sums hide it: few atoms of a run get another force.


def square_rounded(d: np.ndarray, i2: np.ndarray, i6: np.ndarray) -> np.ndarray:
    """The squares of the displacement are added without a fused operation."""
    i2 = 1 / (d[0] ** 2 + d[1] ** 2 + d[2] ** 2)
    i6 = i2 * i2 * i2
    return plain.fused(48, i6, -24) * (i6 * i2)


def in_quanta(pull: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The forces of pairs, rounded as `plain.pair_forces` rounds them."""
    magic = 1.5 * 2.0**52 * plain.FORCE_UNIT
    return np.rint((plain.fused(pull, d, magic) - magic) / plain.FORCE_UNIT).astype(np.int64)


@pytest.mark.parametrize(
    "rounded",
    [
        lambda d, i2, i6: (48 * i6 - 24) * (i6 * i2),  # 48 i6 before 24 is subtracted
        lambda d, i2, i6: plain.fused(48, i6, -24) * i6 * i2,  # factors from the left
        square_rounded,
    ],
    ids=["product", "order", "square"],
)
def test_wrong_roundings_are_found_by_any_seed(rounded: Any) -> None:
    """Catches close pairs that show a wrong rounding for some seeds only, as random atoms do."""
    for seed in range(20):
        pairs = ClosePairs("float64", seed, atoms=5280)
        right = plain.pair_forces(pairs.off, pairs.cutoff)
        wrong = in_quanta(rounded(pairs.off, *plain.inverses(pairs.off, pairs.cutoff)), pairs.off)
        assert 8 <= np.count_nonzero((wrong != right).any(axis=0)) <= 200


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("decomposition", ["blocks", "pairs"])
def test_close_pairs(dtype: str, decomposition: str, monkeypatch: MonkeyPatch) -> None:
    """Catches close pairs that no block computes, a comparison that cannot fail or fails always."""
    problem = replace(PAIRS, dtype=dtype, decomposition=decomposition)
    assert failed(problem) == set()
    exact = plain.PAIR_FORCES[dtype]
    monkeypatch.setitem(plain.PAIR_FORCES, dtype, lambda *given: exact(*given) + 1)
    assert CLOSE in failed(problem, steps=1)
    monkeypatch.undo()
    energies = plain.pair_energies
    monkeypatch.setattr(plain, "pair_energies", lambda *given: energies(*given) + 1)
    assert CLOSE in failed(problem, steps=1)


moderate = st.floats(-1e100, 1e100, allow_subnormal=False).filter(
    lambda x: abs(x) > 1e-100 or not x
)


# The product in the two examples is a tie of the last bit of c but for 2^-60 of it.
TIE, MORE, LESS = 2.0**-53, 1 + 2.0**-30, 1 - 2.0**-30


@given(moderate, moderate, moderate, st.sampled_from([0, 1, -1, 2]))
@example(TIE * MORE, LESS, 1 + 2 * TIE, 0)
@example(-TIE * MORE, LESS, 1 + 2 * TIE, 0)
def test_plain_fused(a: float, b: float, c: float, nearly: int) -> None:
    """Catches a product that is rounded before c is added, and a sum that is rounded twice."""
    if nearly:
        c = float(np.nextafter(-a * b, nearly * math.inf)) if nearly != 2 else -a * b
    assert plain.fused(a, b, c) == float(Fraction(a) * Fraction(b) + Fraction(c))


# Input files -------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["h5md", "xyz", "lammps"])
def source(request: Any, tmp_path_factory: Any) -> LeanmdProblem:
    """A problem that begins with the five atoms of a file in each format."""
    path = tmp_path_factory.mktemp("input") / "atoms"
    return LeanmdProblem(input=written(path, request.param), cutoff=1.5, skin=0.3)


def test_a_right_start_from_a_file(source: LeanmdProblem) -> None:
    """Catches a second reader that misreads a format."""
    assert not support.solve("leanmd", source, (1, 1, 1), 1, plan=AuditPlan(16, 0, 1)).failed


WRONG_STARTS: dict[str, tuple[Callable[..., Any], str]] = {
    "a quantum beside the place": (lambda quantum, ids, at, v: (ids, at + quantum, v), PLACES),
    "another axis": (lambda quantum, ids, at, v: (ids, at, v[::-1].copy()), START),
    "by row, not by id": (lambda quantum, ids, at, v: (ids, at, np.roll(v, 1, axis=1)), START),
}


@pytest.mark.parametrize("mistake", WRONG_STARTS)
def test_a_wrong_start_from_a_file(source, mistake, monkeypatch):
    """Catches atoms that do not begin as the file says, also where there is no reference."""
    (change, check), right = WRONG_STARTS[mistake], problem_module.atoms_between
    wrong = lambda *where: change(source.quantum, *right(*where))  # noqa: E731
    monkeypatch.setattr(problem_module, "atoms_between", wrong)
    plan = AuditPlan(16, 0, 1)
    assert check in support.solve("leanmd", source, (1, 1, 1), 1, plan=plan).failed


def test_velocities_of_a_file_that_are_not_read(source, monkeypatch):
    """Catches random velocities of a run whose file has others."""
    right = problem_module.opened
    still = lambda *given: replace(right(*given), velocities=None)  # noqa: E731
    monkeypatch.setattr(problem_module, "opened", still)
    plan = AuditPlan(16, 0, 1)
    assert START in support.solve("leanmd", replace(source), (1, 1, 1), 1, plan=plan).failed
