"""AMR: kernels against NumPy, layouts, bits on all blocks and placements, checks, drivers."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
from continued import Leg, final_state, require_continued

from miniapps import apps, kernels
from miniapps.amr import block, plain
from miniapps.amr.block import Refinement
from miniapps.amr.layout import BACKGROUND, PLACEMENTS, AmrLayout, refinement, wide_enough
from miniapps.amr.problem import HASH, AmrProblem, active_points, norms, validate
from miniapps.arrays import ghosted
from miniapps.audit import AuditPlan
from miniapps.contract import Measure
from miniapps.devices.backend import Device
from miniapps.drivers.sim import SimOptions
from miniapps.drivers.sim import driver as sim
from miniapps.kernels.halo.interface import box
from miniapps.parameters import InputError
from miniapps.plain_hash import digest_of

AMR = kernels.load("amr", "cpu")
DTYPES = "float64", "float32"
SHAPES = [(1, 1), (1, 9), (5, 3), (7, 23), (3, 70)]
GRIDS = [(1, 1), (3, 1), (2, 2), (1, 4)]


def problem_of(**values: Any) -> AmrProblem:
    """The preset ``tiny``, smaller, with other values for some fields."""
    usual = {"size": (17, 15), "refinement": (6, 5), "level": 1}
    return support.small_problem(apps.load("amr"), **(usual | values))


# Kernels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cells", SHAPES)
def test_a_sweep(cells: tuple[int, ...], dtype: str) -> None:
    """Catches other bits, a point left out or written besides, and one that grows too early."""
    rng = np.random.default_rng(1)
    shape, own = ghosted(cells, [(2, 2)] * 2, 1)
    u, sums = (rng.normal(size=shape.shape).astype(dtype) for _ in range(2))
    one = u.dtype.type(1)
    for active in (own, (own[0] + 1, *own[1:]), (own[1], own[0], own[3], own[2])):
        right, grown = sums.copy(), u.copy()
        if active[0] < active[1]:
            around = box(tuple(at + (2 if n % 2 else -2) for n, at in enumerate(active)))
            right[box(active)] += 4 * one * plain.stencil(u[around])
        grown[box(own)] += one
        AMR.sweep(u, u, sums, 4, active, own)
        assert support.same_bits(sums, right) and support.same_bits(u, grown)


def test_the_stencil_is_the_sum_of_two_derivatives() -> None:
    """Catches weights that are not those of the Parallel Research Kernels."""
    x, y = np.ix_(np.arange(9.0), np.arange(8.0))
    assert (plain.stencil(3.0 * x + 0 * y) == 3.0).all()
    assert (plain.stencil(0 * x - 5.0 * y) == -5.0).all()
    unit = np.zeros((9, 9))
    unit[4, 4] = 1.0
    row = [0, 0, 1 / 8, 1 / 4, 0, -1 / 4, -1 / 8, 0, 0]  # 1 / (2 n R) at distance n, for R = 2
    found = np.pad(plain.stencil(unit), 2)
    assert found[4].tolist() == found[:, 4].tolist() == row
    assert np.count_nonzero(found) == 8


@pytest.mark.parametrize("expand", [1, 2, 4])
def test_interpolation(expand: int) -> None:
    """Catches a weight, an edge or a block's first point that is off."""
    coarse = np.random.default_rng(2).integers(0, 99, (5, 4)).astype(float)
    shape = tuple((n - 1) * expand + 1 for n in coarse.shape)

    def at(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return coarse[np.ix_(np.minimum(x, 4), np.minimum(y, 3))]

    whole = plain.bilinear(at, ((0, shape[0]), (0, shape[1])), expand)
    assert (whole[::expand, ::expand] == coarse).all()
    if expand > 1:
        assert whole[1, 0] == coarse[0, 0] + (coarse[1, 0] - coarse[0, 0]) / expand
        assert whole[0, -2] == coarse[0, -1] + (coarse[0, -2] - coarse[0, -1]) / expand
    level = expand.bit_length() - 1
    rows, columns = (list(itertools.combinations(range(n + 1), 2)) for n in shape)
    for (low, high), (left, right) in itertools.product(rows[::3], columns[::2]):
        below = (slice(a // expand, (b - 1) // expand + 2) for a, b in ((low, high), (left, right)))
        u = np.full((high - low + 3, right - left + 2), 7.0)
        own = 1, 1 + high - low, 2, 2 + right - left
        AMR.interpolate(coarse[tuple(below)].copy(), u, level, (low, left), own)
        assert support.same_bits(u[box(own)], whole[low:high, left:right])
        u[box(own)] = 7.0
        assert (u == 7.0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cells", SHAPES)
def test_a_check(cells: tuple[int, ...], dtype: str) -> None:
    """Catches a kind of wrong number, or a point, that is not counted, and a sum left out."""
    empty, own = ghosted(cells, [(2, 2)] * 2, 1, dtype)
    x, y = np.ix_(*(first + np.arange(n) / 4 for first, n in zip((3.25, 50.0), cells, strict=True)))
    points = [*itertools.product(*map(range, cells))][:: max(1, np.prod(cells) // 13)]
    for active in (own, (own[0] + 1, *own[1:]), (own[1], own[0], own[3], own[2])):
        u, sums = (np.full_like(empty, 7.0) for _ in range(2))
        u[box(own)], sums[box(own)] = x + y, 0.0
        sums[box(active)] = -12.0
        right = sums[box(own)].copy()

        def found() -> tuple[float, int]:
            return AMR.check(u, sums, (3.25, 50.0), 0.25, -12.0, active, own)  # noqa: B023

        assert found() == (np.abs(sums[box(active)]).sum(dtype=float), 0)
        for point in points:
            for array, wrong in ((u, np.nan), (u, 0.0), (sums, 12.0), (sums, 0.0), (sums, -12.0)):
                part = array[box(own)]
                kept, part[point] = part[point], wrong
                norm = np.abs(sums[box(active)]).sum(dtype=float)
                assert found() == (norm, int(array is u or right[point] != wrong))
                part[point] = kept
        u[box(own)] -= 1.0
        sums[box(own)] = np.nan
        norm, wrong = found()
        assert wrong == 2 * np.prod(cells)
        assert np.isnan(norm) == (sums[box(active)].size > 0)


# Layouts and schedule ----------------------------------------------------------------------------


def layouts() -> list[AmrLayout]:
    """Layouts of all placements, with one block per PE and several, over few blocks or many."""
    found = [problem_of(size=(41, 38), refinement=(35, 33), level=0).cut(6, 3, None)]
    for placement, pes, odf in itertools.product(PLACEMENTS, (1, 2, 3, 6), (1, 3)):
        problem = problem_of(size=(41, 38), refinement=(9, 8), level=2, placement=placement)
        found.append(problem.cut(pes, odf, None))
    return found


def test_blocks_of_refinements_cover_them_once() -> None:
    """Catches a point in no block or in two, one that is thinner than its halo, and lost blocks."""
    for layout in layouts():
        assert layout.counts() == {kind: len(every) for kind, every in layout.families().items()}
        for kind, family in layout.families().items():
            if kind == BACKGROUND:
                continue
            seen = np.zeros(layout.fine_shape, int)
            for index in family:
                bounds = layout.fine_bounds(index)
                seen[tuple(slice(*ends) for ends in bounds)] += 1
                assert min(high - low for low, high in bounds) >= 2
            assert (seen == 1).all()


def test_edges_lead_there_and_back() -> None:
    """Catches an edge whose other end is another one, and a block that begins without a part."""
    for layout in layouts():
        ends = {}
        for kind, family in layout.families().items():
            for index in family:
                coarse = kind == BACKGROUND
                of = layout.coarse_neighbors if coarse else layout.fine_neighbors
                ends[kind, index] = of(index)
        for place, neighbors in ends.items():
            for edge, peer in neighbors.items():
                assert ends[peer.place][peer.edge][:2] == place
                assert ends[peer.place][peer.edge].edge == edge
            for kind in range(1, 5):  # labels are small numbers: from 0 on
                labels = [edge[1:] for edge in neighbors if len(edge) == 3 and edge[0] == kind]
                assert not labels or np.min(labels, axis=0).tolist() == [0, 0]
            if place[0] != BACKGROUND:
                below = [peer.block for peer in neighbors.values() if peer.kind == BACKGROUND]
                points = {p for block in below for p in points_in(layout.bounds(block))}
                assert points_in(layout.needed(place[1])) <= points


def points_in(bounds: Any) -> set[Any]:
    """The points within bounds."""
    return set(itertools.product(*(range(*ends) for ends in bounds)))


def test_the_points_that_a_block_needs() -> None:
    """Catches a background point too few, or one beyond the refinement."""
    problem = problem_of(size=(41, 38), refinement=(9, 8), level=2)
    layout = problem.cut(6, 1, None)
    for kind, family in layout.families().items():
        for index in family if kind != BACKGROUND else ():
            corner = problem.corners[index[0]]
            bounds = zip(layout.fine_bounds(index), corner, problem.refinement, strict=True)
            for found, (ends, first, cells) in zip(layout.needed(index), bounds, strict=True):
                whole = {first + n for at in range(*ends) for n in (at // 4, -(-at // 4))}
                assert {*range(*found)} >= whole
                assert found[1] - 1 <= first + cells and found[0] == min(whole)


def test_placements() -> None:
    """Catches blocks of a refinement on other PEs than the placement says."""
    for layout in layouts():
        homes: dict[str, list[int]] = {}
        for kind, family in layout.families().items():
            homes[kind] = [layout.home(kind, index) for index in family]
            assert {*homes[kind]} <= {*range(layout.pes)}
            if layout.odf == 1:
                assert len({*homes[kind]}) == len(homes[kind])
            alone = dataclasses.replace(layout, one_home=True)
            assert {alone.home(kind, index) for index in family} == {0}
        refined = [{*homes[refinement(corner)]} for corner in range(4)]
        coarse = {*homes[BACKGROUND]}
        if layout.placement == "fine-grain":
            assert all(pes == coarse == {*range(layout.pes)} for pes in refined)
        elif layout.placement == "high-water" and layout.pes > 1:
            assert all(pes | coarse == {*range(layout.pes)} for pes in refined)
            assert all(not pes & coarse for pes in refined)
        elif layout.placement == "no-talk":
            for index in layout.families()[refinement(1)]:
                assert layout.home(refinement(1), index) == layout.pe(layout.under(index)[0])


def test_pes_of_refinements_are_as_their_work() -> None:
    """Catches a high-water placement that does not follow the work, or leaves one without a PE."""
    for values, own in (
        ({"sub_iterations": 2}, 3),
        ({"sub_iterations": 99}, 5),
        ({"sub_iterations": 1, "size": (200, 200)}, 1),
    ):
        layout = problem_of(placement="high-water", **values).cut(6, 1, (3, 2))
        assert layout.fine is not None and layout.fine.pes == own
        assert len(layout.indices()) == 6 - own


def test_thin_parts_are_joined() -> None:
    """Catches blocks that are thinner than the stencil reaches."""
    assert wide_enough([1, 3, 4, 8, 10], 11) == [0, 3, 8, 11]
    assert wide_enough([2, 9], 11) == [0, 2, 9, 11] and wide_enough([], 5) == [0, 5]


@pytest.mark.parametrize(("period", "duration"), [(4, 3), (2, 2), (3, 1), (1, 1)])
def test_the_schedule(period: int, duration: int) -> None:
    """Catches a refinement at another corner or in another step, and counts that are off."""
    problem = problem_of(period=period, duration=duration, sub_iterations=3)
    there: list[int | None] = []
    for step in range(6 * period):
        corner = (step // period) % 4 if step % period < duration else None
        there.append(corner)
        kinds = {BACKGROUND} if corner is None else {BACKGROUND, f"refinement {corner}"}
        assert problem.kinds_at(step) == kinds
        before, after = there[step - 1] if step else None, step + 1
        begins = corner is not None and (step % period == 0)
        assert problem.begins_at(step) == (corner if begins else None)
        assert begins or before == corner or corner is None
        assert problem.sweeps_of(after) == [3 * there.count(n) for n in range(4)]
        births = [there[n] for n in range(0, after, period)]
        assert problem.lives_of(after) == [births.count(n) for n in range(4)]
    ends = [problem.ends_after(step) for step in range(6 * period)]
    assert ends == [c if n % period == duration - 1 else None for n, c in enumerate(there)]
    assert problem.kinds_at(-1) == {BACKGROUND}


# Runs --------------------------------------------------------------------------------------------

CASES: dict[str, dict[str, Any]] = {
    "usual": {},
    "single precision": {"dtype": "float32", "duration": 2},
    "no gap": {"duration": 4},
    "one step": {"period": 1, "duration": 1, "initial": "linear"},
    "same spacing": {"level": 0, "refinement": (9, 7)},
    "fine": {"level": 3, "refinement": (3, 4), "size": (20, 13)},
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_the_same_bits_on_all_blocks(case: str) -> None:
    """Catches a result that follows the blocks, the placement, or the order of events."""
    problems = [problem_of(placement=placement, **CASES[case]) for placement in PLACEMENTS]
    for steps in (5, 9):
        whole, *_ = plain.reference(problems[0], steps)
        for problem, grid in zip(itertools.cycle(problems), GRIDS, strict=False):
            solved = support.solve("amr", problem, grid, steps)
            assert solved.state_hash == digest_of(whole) and not solved.failed
            for piece in whole:
                assert support.same_bits(solved.fields[piece.name], piece.values)
    moved = support.solve("amr", problem, (2, 2), 9, odf=2, driver=sim, options=SimOptions(seed=5))
    assert moved.state_hash == digest_of(whole) and not moved.failed


@pytest.mark.long
def test_blocks_of_refinements_migrate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a block that loses something on its way in mid-life, or reads numbers never set."""
    moved, right = set(), Refinement.__getstate__

    def noting(block: Refinement) -> dict[str, Any]:
        # Between rounds: begun in this step, or swept in earlier ones.
        moved.add((block.kind, problem.begins_at(block.time) is None))
        state = right(block)
        assert not {"kernels", "halo", "births", "new"}.intersection(state)
        return state

    problem = problem_of(duration=3)
    monkeypatch.setattr(Refinement, "__getstate__", noting)
    monkeypatch.setattr(Device, "empty", lambda self, shape, dtype: np.full(shape, np.nan, dtype))
    solved = support.solve(
        "amr", problem, (2, 2), 16, odf=2, driver=sim, options=SimOptions(seed=1)
    )
    assert moved == {(f"refinement {n}", swept) for n in range(4) for swept in (False, True)}
    assert solved.state_hash == digest_of(plain.reference(problem, 16)[0]) and not solved.failed


def test_norms_of_the_parallel_research_kernels() -> None:
    """Catches norms that are not 2 for each sweep: there (iterations + 1) (COEFX + COEFY)."""
    problem = problem_of(initial="linear", duration=2)
    solved = support.solve("amr", problem, (2, 2), 19)
    coarse, fine = norms(problem, solved.outcome.measures)
    # Refinements begin in steps 0, 4, 8, 12 and 16, each for two steps of two sweeps.
    assert (coarse, fine) == (38.0, [16.0, 8.0, 8.0, 8.0])
    assert problem.results(solved.outcome.measures) == {"norm": coarse, "refinement_norms": fine}


def test_each_norm_is_that_of_the_reference() -> None:
    """Catches a norm that a random start gives, of one block or one lifetime of a refinement."""
    problem = problem_of(duration=2)
    measures = support.solve("amr", problem, (2, 2), 17).outcome.measures
    for n in range(5):
        found = np.array(measures["norms"].value)
        for wrong, by in ((False, 1 + 1e-14), (True, 1 + 1e-6)):
            found[n] = measures["norms"].value[n] * by
            checks = validate(problem, 17, measures | {"norms": Measure("sum", found)}, "")
            assert ("norms off" in [one.name for one in checks if one.value > one.limit]) == wrong


def test_work_is_that_of_the_parallel_research_kernels() -> None:
    """Catches operations that are left out of the rate, or that belong to other steps."""
    problem = problem_of()
    points, fine = active_points(problem.size), active_points(problem.fine_shape)
    assert (points, fine) == (13 * 11, 9 * 7) and problem.work() == 19 * points
    swept = 19 * (points * 5 + fine * 2 * 4)  # steps 1 to 5: of these 1, 2, 4 and 5 have one
    begun = 3 * 11 * (13 + 6 + 1)  # the refinement of step 4
    assert problem.work_done(1, 6, {}) == swept + begun
    assert problem_of(level=0).work_done(0, 1, {}) == 19 * (points + 2 * 3 * 2)


def test_a_large_problem_is_validated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches checks that hold for small problems only, and points of some rows only."""
    monkeypatch.setattr("miniapps.grid.SLAB_CELLS", 900)
    monkeypatch.setattr("miniapps.amr.problem.REFERENCE_UPDATES", 0)
    for initial in ("linear", "noise"):
        problem = problem_of(size=(90, 71), refinement=(33, 30), initial=initial)
        solved = support.solve("amr", problem, (2, 1), 6)
        names = {check.name for check in solved.checks}
        assert "differs from reference" not in names and not solved.failed
        assert ("L1 norm off" in names) == (initial == "linear")


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_continued_on_other_blocks(case: str, tmp_path: Path) -> None:
    """Catches a checkpoint that lacks a refinement, or what an earlier one has left."""
    problem, make = problem_of(**CASES[case]), apps.load("amr").Block
    legs = [Leg((2, 3), "cpu", 2), Leg((3, 1), "cpu", 3), Leg((1, 1), "cpu", 1)]
    legs += [Leg((1, 4), "cpu", 2), Leg((2, 2), "cpu", 2)]
    rows = []

    def noting(*given: Any) -> Any:
        block = make(*given)
        rows.append(block)
        return block

    require_continued(noting, problem, legs, tmp_path)
    alone, *others = (block for block in rows if block.kind == BACKGROUND)
    for name in ("ended", "ended_norms"):
        ended = sum(getattr(block, name) for block in others[-4:])
        assert (ended == getattr(alone, name)).all() and ended.any()
    assert alone.ended[:, HASH].any()


WRONG = {
    "amr: last row left out": "points that are wrong",
    "amr: end lost": "missing points",
    "amr: end reported twice": "ended refinements differ",
    "amr: not scaled": "L1 norm off",
    "amr: last bit off": "differs from reference",
}


@pytest.mark.parametrize("fault", WRONG)
def test_each_check_finds_a_wrong_program(fault: str) -> None:
    """Catches a check that cannot fail."""
    problem = problem_of(initial="linear")
    assert not support.solve("amr", problem, (2, 2), 8).failed
    with support.with_fault("amr", fault):
        assert WRONG[fault] in support.solve("amr", problem, (2, 2), 8).failed


@pytest.mark.parametrize("initial", ["linear", "noise"])
@pytest.mark.parametrize("name", ["values", "sums"])
def test_each_wrong_number_is_counted(initial: str, name: str, tmp_path: Path) -> None:
    """Catches a check that looks at values only, or at sums only."""
    blocks = []

    def noting(*given: Any) -> Any:
        blocks.append(apps.load("amr").Block(*given))
        return blocks[-1]

    final_state(noting, problem_of(initial=initial), [Leg((1, 1), "cpu", 1)], tmp_path / "c.h5")
    assert len({one.kind for one in blocks}) > 1
    for one in blocks:
        numbers, (low, _, left, _) = getattr(one, name), one.own
        for wrong, at in enumerate([(low, left), (low + 3, left + 4)], 1):
            numbers[at] += 1
            assert one.row(one.checked())[1][block.WRONG] == wrong


def test_blocks_that_count_other_steps() -> None:
    """Catches a background that is right for fewer steps than the run has made."""
    solved = support.solve("amr", problem_of(), (2, 2), 8, validated_steps=9)
    assert "steps that blocks count otherwise" in solved.failed


AUDITED = {
    "amr: no halo": "audit: points that differ",
    "amr: not interpolated": "audit: points that differ",
    "amr: values stay": "audit: points that differ",
    "results: state of other cells": "audit: state hashes that differ",
    "results: state with columns exchanged": "audit: state hashes that differ",
}


@pytest.mark.long
def test_the_audit_finds_a_wrong_program() -> None:
    """Catches an audit that cannot fail."""
    plan = AuditPlan(samples=24, every=1, seed=5)
    for fault, check in AUDITED.items():
        with support.with_fault("amr", fault):
            assert check in support.solve("amr", problem_of(), (2, 2), 8, plan=plan).failed, fault


@pytest.mark.long
@pytest.mark.parametrize(
    ("field", "value"), [("initial", "linear"), ("level", 0), ("level", 3), ("dtype", "float32")]
)
def test_the_audit_of_a_right_program(field: str, value: Any) -> None:
    """Catches an audit that interpolates, or adds up, other numbers than the refinement has."""
    plan = AuditPlan(samples=24, every=1, seed=5)
    solved = support.solve("amr", problem_of(**{field: value}), (2, 1), 8, plan=plan)
    assert not solved.failed and len(solved.outcome.audits) == 1 + 8  # the setup, too


def test_the_audit_finds_a_wrong_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an audit that takes the values before the first round as right."""
    right = block.start
    monkeypatch.setattr(block, "start", lambda *given: right(*given) + 1)
    solved = support.solve("amr", problem_of(), (2, 2), 8, plan=AuditPlan(4, 0, 5))
    assert "audit: initial points that differ" in solved.failed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--size 40", "--size 40: must name 2 axes"),
        ("--size 40x4 --refinement 3x3", "--size 40x4: must be 5 or more along each axis"),
        ("--refinement 1000x3", "--refinement 1000x3: must be 1 or more, and less than"),
        ("--refinement 3x0", "--refinement 3x0"),
        ("--refinement 3x3 --level 0", "--refinement 3x3: must have 5 points along each axis"),
        ("--level 9", "--level 9: must be 0 to 8"),
        ("--period 0", "--period 0: must be 1 or more"),
        ("--duration 21", "--duration 21: must be 1 or more, and at most --period"),
        ("--sub-iterations 0", "--sub-iterations 0: must be 1 or more"),
        ("--placement amnesia", "--placement"),
        (
            "--placement high-water --driver mpi -n 4 --pe-grid 2x3",
            "--pe-grid 2x3: must be one part per PE, 4 in all",
        ),
        ("--initial zero", "--initial"),
        ("--dtype float16", "--dtype"),
        (
            "--initial noise --dtype float32 --level 8 --refinement 3x3",
            "--steps with --warmup 110: exact numbers need 34 bits then, of which float32 has 24",
        ),
        ("--output /tmp/a.h5 --hash-every 1", "--hash-every 1: needs blocks that exist in all"),
    ],
)
def test_bad_input(words: str, said: str) -> None:
    """Catches a wrong value that is found late, or not."""
    assert said in support.refused(["run", "amr", *words.split()])


def test_edges_that_have_no_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches edges whose tags would be those of others."""
    monkeypatch.setattr(AmrProblem, "_own_pes", lambda self, pes: 1)
    problem = problem_of(size=(400, 7), refinement=(300, 5), placement="high-water")
    allowed = "--refinement 300x5: a block may have less than 16 others above or below"
    with pytest.raises(InputError, match=allowed):
        problem.cut(23, 1, None)  # 17 blocks of the background are below one
    problem.cut(22, 1, None)


def bits_of(values: np.ndarray) -> int:
    """The bits from the largest value's first one to the last one of all values."""
    behind = next(n for n in range(54) if not np.modf(values * 2.0**n)[0].any())
    return behind + int(np.frexp(np.abs(values).max())[1])


@pytest.mark.long
@pytest.mark.parametrize("initial", ["linear", "noise"])
@pytest.mark.parametrize("level", [0, 1, 3])
def test_bits_of_exact_numbers(initial: str, level: int) -> None:
    """Catches a run that is refused although its numbers are exact, or the reverse."""
    values = {"level": level, "initial": initial, "period": 2, "duration": 2}
    more = level if initial == "linear" else 0  # bits of products, which no value has
    for dtype, steps in (("float64", 7), ("float32", 7)):
        problem = problem_of(dtype=dtype, **values)
        found = max(bits_of(piece.values) for piece in plain.reference(problem, steps)[0])
        assert found <= problem.bits_after(steps) <= found + more + 3
    problem.check_steps(steps)
    assert not support.solve("amr", problem, (2, 1), steps).failed
    few = problem_of(dtype="float32", **values | {"level": 8, "refinement": (2, 2)})
    if initial == "noise":
        with pytest.raises(InputError, match="exact numbers need"):
            few.check_steps(steps)
        assert "points that are wrong" in support.solve("amr", few, (2, 1), steps).failed


def test_scaled_problems() -> None:
    """Catches a weak study whose refinements keep their size."""
    problem = AmrProblem((100, 80), (20, 10))
    assert problem.weak(4) == AmrProblem((200, 160), (40, 20))
    assert problem.smaller() == AmrProblem((50, 80), (10, 10))


HOW = {
    "mpi": ("-n 1", "-n 3", "-n 3 --placement no-talk", "-n 3 --placement high-water"),
    "file": ("-n 2", "-n 2 --placement no-talk", "-n 2 --placement high-water"),
    "charm": ("-n 2 --odf 2", "-n 2 --placement high-water"),
    "charm, Rotate": ("-n 2 --odf 2 --balancer Rotate --lb-period 3",),
    "charm, GreedyRefine": (
        "-n 2 --odf 4 --balancer GreedyRefine --lb-period 2 --placement no-talk",
    ),
}


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize("case", HOW)
def test_drivers(case: str) -> None:
    """Catches bits that follow the driver or the placement, and blocks that end as others move."""
    driver = case.split(",")[0]
    lines = [f"amr --preset tiny --driver {driver} {how}" for how in HOW[case]]
    found = support.records_of(lines)
    assert not [record for record in found if not record.get("valid")]
    right = digest_of(plain.reference(support.small_problem(apps.load("amr")), 22)[0])
    assert {record["state_hash"] for record in found} == {right}
    assert "Rotate" not in case or sum(entry["moved"] for entry in found[0]["lb"])
