"""CG: kernels against NumPy, the reference against dense matrices, bits on all blocks, checks."""

from __future__ import annotations

import contextlib
import itertools
import math
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
from continued import Leg, final_state, require_continued

from miniapps import apps, kernels
from miniapps.arrays import LINE, ghosted
from miniapps.audit import AuditPlan
from miniapps.cg import plain
from miniapps.cg.block import CgBlock, groups
from miniapps.cg.problem import CgProblem, condition, extreme_eigenvalues
from miniapps.contract import AllReduce, Begin, Collect, Measure, Pause, Post, combine
from miniapps.drivers.engine import Engine
from miniapps.drivers.sim import SimOptions
from miniapps.drivers.sim import driver as sim
from miniapps.kernels.cg import cpu
from miniapps.kernels.exact_sum import accumulator, exact
from miniapps.kernels.halo.interface import box

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "seven": {"operator": 7},
    "sgs": {"preconditioner": "sgs"},
    "seven, sgs": {"operator": 7, "preconditioner": "sgs"},
    "pipelined": {"pipelined": True},
    "pipelined, ones": {"pipelined": True, "solution": "ones"},
}
SHAPES = [(1, 1, 1), (3, 2, 7), (2, 3, 8), (2, 1, 9), (4, 5, 23), (1, 1, 4101), (2, 45, 72)]
CG = kernels.load("cg", "cpu")


def problem_of(**values: Any) -> CgProblem:
    """The preset ``tiny``, smaller, with other values for some fields."""
    return support.small_problem(apps.load("cg"), **({"size": (7, 6, 5)} | values))


def vectors(
    cells: tuple[int, ...], count: int, spread: int = 3
) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """Vectors of numbers, ghosts and padding too, and their points' region.

    Their magnitudes are 10^-spread to 10^spread. With 0, kernels need not add products anew.
    """
    rng = np.random.default_rng(1)
    empty, own = ghosted(cells, [(1, 1)] * 3, 1)
    made = [ghosted(cells, [(1, 1)] * 3, 1)[0] for _ in range(count)]
    for vector in made:
        power = rng.integers(-spread, spread + 1, empty.shape)
        vector[...] = rng.normal(size=empty.shape) * 10.0**power
    return made, own


def around(own: tuple[int, ...]) -> tuple[slice, ...]:
    """The points and one layer of ghosts."""
    return box(tuple(at + (1 if n % 2 else -1) for n, at in enumerate(own)))


def sum_of(a: np.ndarray, b: np.ndarray) -> Fraction:
    """The exact dot product of two boxes."""
    return sum(
        (Fraction(x) * Fraction(y) for x, y in zip(a.flat, b.flat, strict=True)), Fraction(0)
    )


def held(words: np.ndarray) -> Fraction:
    """The exact sum in an accumulator."""
    return Fraction(exact(words), 1 << 2176)


# Kernels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [27, 7])
@pytest.mark.parametrize("cells", SHAPES)
@pytest.mark.parametrize(
    ("close", "spread"),
    [(False, 0), (False, 3), (True, 0)],
    ids=["lines", "lines, many magnitudes", "close"],
)
def test_the_operator(points, cells, close, spread, monkeypatch):
    """Catches other bits, a point left out or written besides, and a lost or doubled product.

    In small arrays rows begin at cache lines, in large ones they are as close as possible.
    """
    if close:
        monkeypatch.setattr("miniapps.arrays.CACHED_CELLS", 0)
    compare_operator(points, cells, spread)


@pytest.mark.parametrize("points", [27, 7])
def test_strips_of_rows(points: int) -> None:
    """Catches a row that two strips compute, or none, and sums that begin with another row."""
    compare_operator(points, (1, cpu.IN_STRIP // cpu.CHUNK + 1, cpu.CHUNK), 0)


def compare_operator(points: int, cells: tuple[int, ...], spread: int) -> None:
    """Assert that the operator does what NumPy does, and adds the exact dot product."""
    (u, v), own = vectors(cells, 2, spread)
    before, words = v.copy(), accumulator()
    CG.apply(points, u, v, *own, words)
    before[box(own)] = plain.applied(points, u[around(own)])
    assert support.same_bits(v, before)
    assert held(words) == sum_of(u[box(own)], v[box(own)])
    v[box(own)] = 0.0
    CG.multiply(points, u, v, *own)
    assert support.same_bits(v, before)


@pytest.mark.parametrize("spread", [0, 3])
@pytest.mark.parametrize("cells", SHAPES)
def test_updates(cells: tuple[int, ...], spread: int) -> None:
    """Catches a sum in another order, ghosts that stay or change, and wrong dot products."""
    (x, r, p, q, s, w, z), own = vectors(cells, 7, spread)
    at, more = box(own), around(own)
    right = {name: v.copy() for name, v in zip("xrpqswz", (x, r, p, q, s, w, z), strict=True)}
    right["p"][at] = z[at] + 0.3 * p[at]
    CG.turn(z, p, 0.3, *own)
    assert support.same_bits(p, right["p"])
    words = accumulator()
    right["x"][more] = x[more] + 0.7 * p[more]
    right["r"][at] = r[at] - 0.7 * q[at]
    CG.advance(x, r, p, q, 0.7, *own, words)
    assert support.same_bits(x, right["x"]) and support.same_bits(r, right["r"])
    assert held(words) == sum_of(r[at], r[at])
    words = accumulator()
    CG.dot(p, q, *own, words)
    assert held(words) == sum_of(p[at], q[at])
    right["s"][more] = w[more] + 0.3 * s[more]
    right["p"][more] = r[more] + 0.3 * p[more]
    right["x"][more] += 0.7 * right["p"][more]
    right["r"][more] = r[more] - 0.7 * right["s"][more]
    right["z"][at] = q[at] + 0.3 * z[at]
    right["w"][at] = w[at] - 0.7 * right["z"][at]
    rr, wr = accumulator(2)
    CG.advance_pipelined(x, r, p, q, s, w, z, 0.7, 0.3, *own, rr, wr)
    for name, vector in zip("xrpqswz", (x, r, p, q, s, w, z), strict=True):
        assert support.same_bits(vector, right[name]), name
    assert held(rr) == sum_of(r[at], r[at]) and held(wr) == sum_of(w[at], r[at])
    CG.clear(z)
    assert not z.any()


@pytest.mark.parametrize("row", range(3))
def test_products_that_are_0(row: int) -> None:
    """Catches a product that is not 0 but underflows, in any row beside products that are 0."""
    (a, b), own = vectors((2, 3, 9), 2)
    for one in (a[box(own)], b[box(own)]):
        one[..., ::2] = 0.0
        one[1, row, 3] = 2.0**-600
    words = accumulator()
    CG.dot(a, b, *own, words)
    assert held(words) == sum_of(a[box(own)], b[box(own)])


@pytest.mark.parametrize("name", ["apply", "advance", "dot", "advance_pipelined"])
def test_digits_get_room_after_each_plane(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches digits that overflow, in a sum too long for a test."""
    seen: list[str] = []
    function, add_plane = (getattr(f, "py_func", f) for f in (getattr(CG, name), cpu._add_plane))
    for one in (function, add_plane):
        monkeypatch.setitem(one.__globals__, "carry", lambda words: seen.append(name))
    monkeypatch.setitem(function.__globals__, "_add_plane", add_plane)
    count = {"advance": 4, "advance_pipelined": 7}.get(name, 2)
    arrays, own = vectors((3, 2, 7), count)
    before = (27,) if name == "apply" else ()
    numbers = (0.5,) * {"advance": 1, "advance_pipelined": 2}.get(name, 0)
    words = accumulator(2)[: 1 + (name == "advance_pipelined")]
    function(*before, *arrays, *numbers, *own, *words)
    assert len(seen) == 3 * len(words)


@pytest.mark.parametrize("points", [27, 7])
@pytest.mark.parametrize("cells", SHAPES[:-1])
def test_one_colour(points: int, cells: tuple[int, ...]) -> None:
    """Catches a point of another colour, and other bits of one of this."""
    for odd, colour in enumerate(itertools.product((0, 1), repeat=3)):
        (z, r), own = vectors(cells, 2)
        right, at = z.copy(), box(own)
        every = tuple(slice(first, None, 2) for first in colour)
        right[at][every] = plain.relaxed(points, z[around(own)], r[at])[every]
        CG.relax(points, z, r, np.array([odd]), *own)
        assert support.same_bits(z, right)


COLOURS = [0, 1, 2, 3, 4, 5, 6, 7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("points", [27, 7])
@pytest.mark.parametrize("colours", [COLOURS, COLOURS[4:11], [3, 2], [6, 0, 4, 6, 1, 3]])
@pytest.mark.parametrize("cells", [(1, 1, 1), (2, 3, 8), (5, 4, 23), (4, 45, 11)])
def test_several_colours(points: int, colours: list[int], cells: tuple[int, ...]) -> None:
    """Catches a point that is relaxed before its neighbours, and planes that are left out."""
    compare_colours(points, colours, cells)


@pytest.mark.parametrize("points", [27, 7])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_strips_of_colours(rows: int, points: int) -> None:
    """Catches a row that two strips relax, or none, and one that is relaxed before its neighbours.

    ``rows``: of a strip.
    """
    compare_colours(points, COLOURS, (5, 8, cpu.IN_COLOURS // rows))


def compare_colours(points: int, colours: list[int], cells: tuple[int, ...]) -> None:
    """Assert that several colours at once have the same bits as one after the other."""
    (z, r), own = vectors(cells, 2)
    right = z.copy()
    for colour in colours:
        CG.relax(points, right, r, np.array([colour]), *own)
    CG.relax(points, z, r, np.array(colours), *own)
    assert support.same_bits(z, right)


@pytest.mark.parametrize(("points", "counts"), [(27, (1, 3, 7, 15)), (7, (1, 3, 5, 9))])
def test_ghosts_are_exchanged_as_often_as_needed(points: int, counts: tuple[int, ...]) -> None:
    """Catches colours of one group of which one needs another's ghosts, and needless exchanges."""
    problem = problem_of(size=(5, 4, 3), operator=points, preconditioner="sgs")
    found, states = [], set()
    for cut in itertools.product((False, True), repeat=3):
        found.append(groups(points, cut))
        solved = support.solve("cg", problem, tuple(1 + is_cut for is_cut in cut), 2)
        states.add(solved.state_hash)
    assert len(states) == 1
    assert all(sum(of_cut, []) == COLOURS for of_cut in found)
    none, x, y, z = counts
    assert [len(of_cut) for of_cut in found] == [none, z, y, z, x, z, y, z]


# The reference -----------------------------------------------------------------------------------


def matrix(problem: CgProblem) -> np.ndarray:
    """A as a dense matrix, from the definition."""
    points = [np.array(at) for at in np.ndindex(*problem.size)]
    found = np.zeros((len(points),) * 2)
    for (i, a), (j, b) in itertools.product(enumerate(points), repeat=2):
        apart = np.abs(a - b)
        near = apart.max() == 1 if problem.operator == 27 else apart.sum() == 1
        found[i, j] = problem.operator - 1 if i == j else -float(near)
    return found


@pytest.mark.parametrize("operator", [27, 7])
@pytest.mark.parametrize("size", [(4, 3, 2), (1, 5, 3), (2, 2, 2)])
def test_the_matrix(operator: int, size: tuple[int, ...]) -> None:
    """Catches an operator that is not the definition's, and wrong eigenvalues and counts."""
    problem = problem_of(operator=operator, size=size)
    dense = matrix(problem)
    u = np.random.default_rng(2).random(size)
    applied = plain.applied(operator, np.pad(u, 1))
    assert np.allclose(applied.reshape(-1), dense @ u.reshape(-1), rtol=0, atol=1e-13)
    eigenvalues = np.linalg.eigvalsh(dense)
    assert np.allclose(extreme_eigenvalues(problem), (eigenvalues[0], eigenvalues[-1]), atol=1e-12)
    assert problem.nonzeros == np.count_nonzero(dense)
    assert condition(problem) == pytest.approx(eigenvalues[-1] / eigenvalues[0])


@pytest.mark.parametrize("operator", [27, 7])
def test_the_preconditioner_is_gauss_seidel(operator: int) -> None:
    """Catches sweeps that are no Gauss-Seidel, and a bound of the condition that does not hold."""
    problem = problem_of(operator=operator, size=(4, 3, 5), preconditioner="sgs")
    places = np.array(list(np.ndindex(*problem.size)))
    order = np.lexsort(tuple((places % 2).T[::-1]))  # stable: by colour
    dense = matrix(problem)[np.ix_(order, order)]
    low, d = np.tril(dense), np.diag(np.diag(dense))
    m = low @ np.linalg.inv(d) @ low.T
    r = np.random.default_rng(3).random(problem.size)
    z = plain.preconditioned(problem, r).reshape(-1)[order]
    assert np.allclose(m @ z, r.reshape(-1)[order], rtol=0, atol=1e-13)
    eigenvalues = np.linalg.eigvals(np.linalg.solve(m, dense)).real
    assert eigenvalues.max() <= 1 + 1e-12
    assert 0.2 < eigenvalues.max() / eigenvalues.min() / condition(problem) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_finds_the_solution(kind: str) -> None:
    """Catches iterations that are not those of conjugate gradients."""
    problem = problem_of(size=(5, 4, 3), **KINDS[kind])
    dense = matrix(problem)
    right = plain.solution(problem, tuple((0, n) for n in problem.size))
    found = plain.reference(problem, 25)
    assert np.abs(found - right).max() < 1e-10
    b = dense @ right.reshape(-1)
    one = plain.reference(problem, 1).reshape(-1)
    z = plain.preconditioned(problem, b.reshape(problem.size)).reshape(-1)
    assert np.allclose(one, z * (b @ z) / (z @ dense @ z), rtol=0, atol=1e-14)


def test_exact_dots_of_the_reference() -> None:
    """Catches a reference whose sums are rounded on the way."""
    rng = np.random.default_rng(4)
    a, b = (np.ldexp(rng.normal(size=50), rng.integers(-300, 300, 50)) for _ in range(2))
    a = np.concatenate([a, -a, [1e-160, 0.0]])
    b = np.concatenate([b, b, [1e-150, 1.0]])
    assert plain.exact_dot(a, b) == float(sum_of(a, b)) != 0
    assert plain.exact_dot(a[:1] * 2.0**600, b[:1]) == float(sum_of(a[:1] * 2.0**600, b[:1]))


def test_parts_of_a_sum() -> None:
    """Catches a second exact sum that is not exact, and parts that cannot be added in any order."""
    rng = np.random.default_rng(5)
    a, b = (np.ldexp(rng.normal(size=400), rng.integers(-300, 300, 400)) for _ in range(2))
    a[:3], b[:3] = (0.0, 5e-324, 1e300), (1.0, 1e-300, -1e7)
    parts = [plain.parts_of_dot(a[n::3], b[n::3]) for n in (2, 0, 1)]
    assert plain.sum_of_parts(sum(parts)) == float(sum_of(a, b)) != 0
    largest = 1 - np.ldexp(rng.integers(1, 1 << 17, plain.AT_ONCE).astype(float), -53)
    assert plain._whole(plain._parts(largest, largest), 1) == sum_of(largest, largest) * 2**2300


def test_exact_dots_are_added_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches parts so large that their sums are rounded, and parts that are left out."""
    sizes, right = [], plain._parts
    monkeypatch.setattr("miniapps.grid.SLAB_CELLS", 25)
    monkeypatch.setattr(plain, "AT_ONCE", 7)
    monkeypatch.setattr(plain, "_parts", lambda a, b: sizes.append(a.size) or right(a, b))
    assert not support.solve("cg", problem_of(size=(5, 4, 3)), (1, 1, 1), 2).failed
    assert max(sizes) <= 7 and sum(sizes) == 2 * 60


def test_nothing_is_left_to_do() -> None:
    """Catches a quotient 0 / 0 in iterations after the last one."""
    for kind in KINDS.values():
        solved = support.solve("cg", problem_of(size=(1, 1, 1), **kind), (1, 1, 1), 4)
        assert not solved.failed


@pytest.mark.long
@pytest.mark.parametrize(
    ("size", "steps", "kind"),
    [
        ((20, 20, 20), 1300, {"operator": 7, "solution": "noise"}),
        ((16, 16, 16), 900, {"operator": 7, "solution": "noise", "preconditioner": "sgs"}),
        ((64, 64, 64), 250, {"solution": "ones", "pipelined": True}),
    ],
)
def test_long_after_the_solution(size: tuple[int, ...], steps: int, kind: dict[str, Any]) -> None:
    """Catches iterations with subnormal products, or with a w that is no longer A r."""
    solved = support.solve("cg", problem_of(size=size, **kind), (1, 1, 1), steps)
    assert not solved.failed


# Runs --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits_on_all_blocks(kind: str) -> None:
    """Catches sums, ghosts or colours that follow the blocks, in each iterate and under sim."""
    problem = problem_of(**KINDS[kind])
    for steps in (1, 5):
        whole = plain.reference(problem, steps)
        for grid in ((1, 1, 1), (3, 1, 2), (2, 3, 1)):
            solved = support.solve("cg", problem, grid, steps)
            assert support.same_bits(solved.fields["x"], whole), (grid, steps)
            assert not solved.failed
    moved = support.solve(
        "cg", problem, (2, 1, 2), 5, odf=2, driver=sim, options=SimOptions(seed=5)
    )
    assert support.same_bits(moved.fields["x"], whole)
    assert not moved.failed


@pytest.mark.parametrize("kind", KINDS)
def test_iterations_until_the_tolerance(kind: str) -> None:
    """Catches a count of iterations that follows the blocks, and a run that ends elsewhere."""
    problem = problem_of(tolerance=1e-6, **KINDS[kind])
    found = [support.solve("cg", problem, grid, 60) for grid in ((1, 1, 1), (2, 1, 2))]
    (steps,) = {solved.outcome.steps_done for solved in found}
    assert 3 < steps < 60
    assert not any(solved.failed for solved in found)
    assert "residual over tolerance" in {check.name for check in found[0].checks}
    whole = tuple((-1, n + 1) for n in problem.size)
    b = plain.applied(problem.operator, plain.solution(problem, whole))

    def residual(made: int) -> float:
        x = np.pad(plain.reference(problem, made), 1)
        return float(np.linalg.norm(b - plain.applied(problem.operator, x)) / np.linalg.norm(b))

    assert residual(steps) <= 1e-6 * (1 + 1e-9) < residual(steps - 1)
    norms = problem.results(found[0].outcome.measures)
    assert norms["relative_residual"] == pytest.approx(residual(steps), rel=1e-9)
    exact_x = plain.solution(problem, tuple((0, n) for n in problem.size))
    error = np.linalg.norm(found[0].fields["x"] - exact_x) / np.linalg.norm(exact_x)
    assert norms["relative_error"] == pytest.approx(float(error), rel=1e-9)


def test_a_reduction_travels_while_a_block_waits_for_its_halo() -> None:
    """Catches pipelined CG whose reduction begins when its result is needed: the same bits."""
    (block,) = support.blocks_of("cg", problem_of(pipelined=True), (1, 1, 1))
    Engine([block]).setup()
    step, kinds, request = block.step(1), [], None
    with contextlib.suppress(StopIteration):
        while True:
            answers = {Collect: {}, AllReduce: np.ones(2)}
            request = step.send(answers.get(type(request)))
            kinds.append(type(request))
    assert kinds == [Post, Pause, Begin, Collect, AllReduce]


def test_memory_of_blocks_that_have_migrated() -> None:
    """Catches vectors without memory for the line that kernels read beyond their end."""
    (block,) = support.blocks_of("cg", problem_of(), (1, 1, 1))
    for vector in pickle.loads(pickle.dumps(block)).vectors.values():
        assert isinstance(vector.base, np.ndarray) and not vector.ctypes.data % LINE
        ends = [array.ctypes.data + array.nbytes for array in (vector, vector.base)]
        assert ends[1] - ends[0] >= LINE


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_continued_on_other_blocks(kind: str, tmp_path: Path) -> None:
    """Catches a checkpoint that lacks a vector, a number or ghosts of an iteration."""
    legs = [Leg((2, 3, 1), "cpu", 2), Leg((7, 1, 5), "cpu", 3), Leg((1, 1, 1), "cpu", 1)]
    require_continued(apps.load("cg").Block, problem_of(**KINDS[kind]), legs, tmp_path)


def test_numbers_of_a_checkpoint(tmp_path: Path) -> None:
    """Catches a count or a departure that a run forgets when it is continued."""
    problem, seen = problem_of(), []

    def make(*given: Any) -> Any:
        block = apps.load("cg").Block(*given)
        seen.append(block)
        block.not_positive = 0 if seen[1:] else 3
        return block

    final_state(make, problem, [Leg((1, 1, 1), "cpu", 2)] * 2, tmp_path / "c.h5")
    first, last = seen
    assert last.not_positive == 3 and last.departure == first.departure > 0
    assert last.b_squared == first.b_squared > 0


def test_the_tolerance_is_met_at_once() -> None:
    """Catches a residual that is as small as the tolerance, and is not small enough."""
    problem = problem_of(tolerance=0.5)
    (block,) = support.blocks_of("cg", problem, (1, 1, 1))
    block.b_squared = 4.0
    met = []
    for rr in (1.0, 1.0001):
        block.test_tolerance(rr)
        met.append(block.has_met)
    assert met == [True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_goes_on_when_its_tolerance_is_met(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Catches a run that makes all its iterations although it must end earlier."""
    problem, name = problem_of(tolerance=1e-3, **KINDS[kind]), "tolerance met unnoticed"
    early = support.solve("cg", problem, (2, 1, 1), 3)
    assert [check.value for check in early.checks if check.name == name] == [0]
    monkeypatch.setattr(CgBlock, "test_tolerance", lambda self, rr: setattr(self, "rr", rr))
    late = support.solve("cg", problem, (2, 1, 1), 20)
    assert late.outcome.steps_done == 20 and late.failed == {name}


WRONG = {
    "cg: no halo": "ghosts that differ",
    "cg: diagonal off": "residual differs from the iterations'",
    "cg: not symmetric": "departure from symmetry",
    "cg: forward only": "departure from symmetry",
    "cg: steepest descent": "energy of the error",
    "cg: direction lost": "residual along the direction",
    "cg: products rounded": "dot products that are not exact",
    "cg: sums in single precision": "dot products that are not exact",
    "cg: sums that follow the blocks": "differs from reference",
    "cg: tolerance met too early": "residual over tolerance",
}


LIMITS = [("residual differs from the iterations'", 3, 0, 40), ("energy of the error", 5, 6, 8)]


@pytest.mark.parametrize(("name", "place", "over", "steps"), LIMITS)
def test_limits_are_near_right_runs(name: str, place: int, over: int, steps: int) -> None:
    """Catches a check that allows more than its limit, or a limit far above what runs need."""
    for kind in ("plain", "pipelined"):
        problem = problem_of(size=(9, 9, 9), **KINDS[kind])
        solved = support.solve("cg", problem, (1, 1, 1), steps)
        (found,) = (check for check in solved.checks if check.name == name)
        assert 1e-3 * found.limit < found.value < 0.5 * found.limit
        for factor in (0.99, 1.01):
            squares = solved.outcome.measures["squares"].value.copy()
            squares[place] = (factor * found.limit) ** 2 * squares[over]
            measures = solved.outcome.measures | {"squares": Measure("sum", squares)}
            checks = apps.load("cg").validate(problem, steps, measures, solved.state_hash)
            assert {check.name: check.ok for check in checks}[name] == (factor < 1)


AUDITED = {
    "cg: beta off": "audit: points that differ",
    "cg: pipelined beta off": "audit: points that differ",
    "cg: relaxed too far": "audit: points that differ",
    "cg: two sweeps": "audit: points that differ",
    "cg: sums of one block": "audit: numbers that blocks do not share",
    "cg: solution of another run": "audit: initial points that differ",
}


def test_an_audit_compares_numbers_at_both_ends() -> None:
    """Catches an audit of alpha and beta that sees only what blocks have before an iteration."""
    problem = problem_of()
    blocks = support.blocks_of("cg", problem, (2, 1, 1))
    audit = apps.load("cg").Audit(problem, support.layout_of(problem, (2, 1, 1)), 1, 5)
    engine = Engine(blocks).setup()
    began = combine(*[audit.begin(block, 0, 1) for block in blocks])
    engine.round(0, 1)
    for wrong in (0, 1):
        blocks[1].beta += wrong
        ended = combine(*[audit.end(block, 0, 1) for block in blocks])
        found = {check.name: check.value for check in audit.validate(0, 1, began, ended)}
        assert found["audit: numbers that blocks do not share"] == wrong


@pytest.mark.long
@pytest.mark.parametrize("fault", AUDITED)
def test_the_audit_finds_a_wrong_program(fault: str) -> None:
    """Catches an audit that cannot fail, and one of a right program that does."""
    given: dict[str, Any] = {"pipelined": True} if "pipelined" in fault else {}
    given |= {"preconditioner": "sgs"} if fault in ("cg: relaxed too far", "cg: two sweeps") else {}
    problem, plan = problem_of(**given), AuditPlan(samples=24, every=1, seed=5)
    assert not support.solve("cg", problem, (2, 2, 1), 4, plan=plan).failed
    with support.with_fault("cg", fault):
        assert AUDITED[fault] in support.solve("cg", problem, (2, 2, 1), 4, plan=plan).failed


@pytest.mark.parametrize("fault", WRONG)
def test_each_check_finds_a_wrong_program(fault: str) -> None:
    """Catches a check that cannot fail."""
    given = {"tolerance": 1e-3} if "tolerance" in fault else {}
    given |= {"preconditioner": "sgs"} if "forward" in fault else {}
    moving = {"driver": sim, "options": SimOptions(seed=5)} if "lost" in fault else {}
    with support.with_fault("cg", fault):
        solved = support.solve("cg", problem_of(**given), (2, 2, 1), 8, **moving)
    assert WRONG[fault] in solved.failed


def test_a_matrix_that_is_not_definite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a check of curvatures that cannot fail."""
    right = CG.apply

    def apply(points: int, u: np.ndarray, v: np.ndarray, *where: Any) -> None:
        right(points, u, v, *where)
        v[box(where[:6])] -= 10 * u[box(where[:6])]
        where[-1][...] = 0
        CG.dot(u, v, *where[:6], where[-1])

    monkeypatch.setattr(CG, "apply", apply)
    for kind in ("plain", "pipelined"):
        problem = problem_of(size=(9, 9, 9), **KINDS[kind])
        solved = support.solve("cg", problem, (1, 1, 1), 8)
        assert "curvatures that are not positive" in solved.failed, kind


@pytest.mark.parametrize(
    ("curvature", "rz", "count"),
    [(1, 1, 0), (0, 0, 0), (2, 0, 0), (-1, 0, 0), (-1, 1, 1), (0, 1, 1), (1, -1, 1), (-1, -1, 1)],
)
def test_curvatures_and_products(curvature: float, rz: float, count: int) -> None:
    """Catches a curvature of 0, and a negative one that a negative r z hides."""
    (block,) = support.blocks_of("cg", problem_of(), (1, 1, 1))
    block.note_curvature(curvature, rz)
    assert block.not_positive == count


@pytest.mark.long
def test_a_large_problem_is_validated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches checks that hold for small problems only, and norms of some planes only."""
    monkeypatch.setattr("miniapps.grid.SLAB_CELLS", 3000)
    for kind in ("plain", "sgs", "pipelined"):
        problem = problem_of(size=(33, 40, 31), **KINDS[kind])
        solved = support.solve("cg", problem, (2, 2, 1), 30)
        assert "differs from reference" not in {check.name for check in solved.checks}
        assert not solved.failed
        energy = next(c for c in solved.checks if c.name == "energy of the error")
        assert energy.limit < 0.2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--size 4x4", "--size 4x4: must name 3 axes"),
        ("--size 4x0x4", "--size 4x0x4: must be 1 or more along each axis"),
        ("--operator 9", "--operator 9: must be 27 or 7"),
        ("--pipelined --preconditioner sgs", "--pipelined yes: only with --preconditioner none"),
        ("--tolerance -1", "--tolerance"),
    ],
)
def test_bad_input(words: str, said: str) -> None:
    """Catches a wrong value that is found late, or not."""
    assert said in support.refused(["run", "cg", *words.split()])


def test_scaled_problems() -> None:
    """Catches a weak study whose PEs get other blocks than HPCG's."""
    problem = CgProblem((104, 104, 104), preconditioner="sgs")
    assert problem.weak(4).size == (208, 208, 104) and problem.weak(4).preconditioner == "sgs"
    assert math.prod(problem.smaller().size) * 2 == 104**3


def test_work_is_that_of_hpcg() -> None:
    """Catches operations that HPCG counts and the rate does not, or the reverse."""
    points, nonzeros = 104**3, 310**3  # of a line's 104 points, all but two have two beside them
    vectors = 10 * points  # two dot products and three updates
    problem = CgProblem((104, 104, 104))
    assert (problem.nonzeros, problem.work()) == (nonzeros, 2 * nonzeros + vectors)
    swept = problem_of(size=problem.size, preconditioner="sgs", solution="ones").work()
    assert swept == 6 * nonzeros + vectors + 2 * points  # two sweeps, and one more dot product


def test_memory_of_vectors() -> None:
    """Catches a vector that is not counted."""
    vectors = {"plain": 4, "sgs": 5, "pipelined": 7}
    given: dict[str, Any] = {"plain": {}, "sgs": {"preconditioner": "sgs"}}
    for name, count in vectors.items():
        problem = problem_of(**given.get(name, {"pipelined": True}))
        assert problem.least_bytes() == 8 * count * problem.points


def test_when_nothing_is_left() -> None:
    """Catches runs that stop before they are as accurate as they can be, or after it."""
    size = (64, 64, 64)
    assert problem_of(size=size).nothing_left(2.0) == 2.0**-899
    ones, noise = (
        problem_of(size=size, solution=which, pipelined=True) for which in ("ones", "noise")
    )
    of_ax = (3 * 2.0**-52 * 54) ** 2 * 64**3 * condition(ones)
    assert ones.nothing_left(1.0) == pytest.approx(of_ax, rel=1e-12, abs=0)
    assert noise.nothing_left(1.0) == pytest.approx(of_ax / 3, rel=1e-12, abs=0)
    assert noise.nothing_left(1e30) == 2.0**-92 * 1e30


def test_results_are_relative() -> None:
    """Catches norms at the end that are not over those of b and of the solution."""
    squares = np.array([4.0, 9.0, 1.0, 0.0, 36.0, 0.0, 0.0, 0.0, 0.0])
    found = problem_of().results({"squares": Measure("sum", squares)})
    assert found == {"relative_residual": 0.5, "relative_error": 2.0}
    (line,) = CgProblem.lines(found)
    assert line == "norm of b - A x over that of b: 0.5; of x - x' over x': 2"


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 3, 1)])
def test_norms_at_the_end(grid: tuple[int, ...]) -> None:
    """Catches norms of the checks that are those of another vector."""
    problem = problem_of(solution="noise")
    blocks = support.blocks_of("cg", problem, grid)
    engine = Engine(blocks).setup()
    for step in range(2):
        engine.round(step, 1)
    vectors = {name: np.empty(problem.size) for name in "xrp"}
    for block, (name, vector) in itertools.product(blocks, vectors.items()):
        vector[tuple(slice(*ends) for ends in block.bounds)] = block.vectors[name][box(block.own)]
    whole = tuple((-1, n + 1) for n in problem.size)
    right, x, inner = plain.solution(problem, whole), np.pad(vectors["x"], 1), (slice(1, -1),) * 3
    b, e = plain.applied(27, right), (right - x)[inner]
    rest, r, p = b - plain.applied(27, x), vectors["r"], vectors["p"]
    pairs = [(b, b), (right[inner],) * 2, (rest, rest), (rest - r, rest - r), (e, e)]
    pairs += [(e, plain.applied(27, np.pad(e, 1))), (right[inner], b), (p, p), (r, p)]
    found = sum(block.measure()["squares"].value for block in blocks)
    sizes = [np.linalg.norm(one) * np.linalg.norm(other) for one, other in pairs]
    off = [abs(square - np.vdot(*pair)) for square, pair in zip(found, pairs, strict=True)]
    assert (np.array(off) <= 1e-12 * np.maximum(sizes, 1e-15)).all()
    assert (np.array(sizes) > 0).all()


HOW = (
    "",
    "--driver mpi -n 2",
    "--driver file -n 2",
    "--driver charm -n 2 --odf 2 --balancer Rotate --lb-period 2",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sgs", "pipelined"])
def test_drivers(kind: str) -> None:
    """Catches bits that follow the driver; `miniapps verify cg` compares those of plain CG."""
    words = {"sgs": "--preconditioner sgs", "pipelined": "--pipelined"}[kind]
    found = support.records_of([f"cg --preset tiny --size 9x7x6 {words} {how}" for how in HOW])
    assert len({record["state_hash"] for record in found}) == 1
    assert all(record["valid"] for record in found)
