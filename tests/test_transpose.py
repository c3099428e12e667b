"""Transpose: kernels against NumPy, bits on all blocks, transforms against sums, checks, audits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import support
from continued import Leg, final_state, require_continued

from miniapps import apps, kernels
from miniapps.audit import AuditPlan
from miniapps.contract import Measure, combine
from miniapps.drivers.charm.mail import Mail
from miniapps.drivers.engine import Engine
from miniapps.drivers.sim import SimOptions
from miniapps.drivers.sim import driver as sim
from miniapps.parameters import InputError
from miniapps.transpose import pencils, plain
from miniapps.transpose.pencils import PencilBlock
from miniapps.transpose.problem import TransposeProblem

TRANSPOSE, PENCILS = (kernels.load(name, "cpu") for name in ("transpose", "pencils"))
SHAPES = [(1, 1), (3, 5), (17, 8), (64, 65), (129, 70), (66, 193)]  # squares have 64 x 64
MATRIX, FIELD = TransposeProblem((29,)), TransposeProblem((5, 4, 6), fft=True)
GRIDS: dict[TransposeProblem, list[tuple[int, ...]]] = {
    MATRIX: [(1, 1), (2, 1), (5, 1), (29, 1)],
    FIELD: [(1, 1, 1), (3, 1, 1), (1, 4, 1), (3, 2, 1), (4, 4, 1)],
}
BOTH = pytest.mark.parametrize("problem", GRIDS, ids=["matrix", "fft"])


def waves(*shape: int) -> np.ndarray:
    """Complex numbers."""
    rng = np.random.default_rng(2)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


# Kernels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("own", "others"), SHAPES)
def test_rows_for_others(own: int, others: int) -> None:
    """Catches a copy made after 1 was added, and elements besides those that were asked for."""
    a, low = support.noise((own, others + 7)), 3
    before, right = a.copy(), a.copy()
    right[:, low : low + others] += 1
    message = np.zeros((own, others))
    TRANSPOSE.take(a, {(1, 0): (low, low + others)}, {(1, 0): message})
    assert support.same_bits(message, np.ascontiguousarray(before[:, low : low + others]))
    assert support.same_bits(a, right)


@pytest.mark.parametrize(("own", "others"), SHAPES)
def test_rows_from_others(own: int, others: int) -> None:
    """Catches an element that is left out, added twice or not transposed, at any size."""
    b, came, low = support.noise((own, others + 7)), support.noise((others, own)), 3
    right, kept = b.copy(), came.copy()
    right[:, low : low + others] += came.T
    TRANSPOSE.add(b, {(1, 0): (low, low + others)}, {(1, 0): came})
    assert support.same_bits(b, right) and support.same_bits(came, kept)


@pytest.mark.parametrize("own", [1, 7, 64, 65, 193])
def test_own_rows(own: int) -> None:
    """Catches 1 added before an element was read, and rows of others that change."""
    (a, b), low = (support.noise((own, own + 11)), support.noise((own, own + 11))[::-1].copy()), 5
    span = slice(low, low + own)
    right_a, right_b = a.copy(), b.copy()
    right_b[:, span] += a[:, span].T
    right_a[:, span] += 1
    TRANSPOSE.turn(a, b, low)
    assert support.same_bits(a, right_a) and support.same_bits(b, right_b)


@pytest.mark.parametrize("length", [1, 2, 7, 12, 16, 97])
def test_transforms_are_fourier_transforms(length: int) -> None:
    """Catches another sign, another scale, and lines along another axis."""
    lines = waves(2, 3, length)
    k = np.arange(length)
    matrix = np.exp(-2j * np.pi * (np.outer(k, k) % length) / length)
    found = PENCILS.transform(lines.copy(), False)
    assert np.allclose(found, lines @ matrix, rtol=0, atol=1e-13 * length)
    assert np.allclose(PENCILS.transform(found, True), lines, rtol=0, atol=1e-14)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 13, 31, 60, 64, 97, 211, 256])
def test_bits_of_a_line_depend_on_no_other(length: int) -> None:
    """Catches a library that rounds otherwise where several lines share a vector register."""
    lines = waves(1, 23, length)
    for back in (False, True):
        alone = [PENCILS.transform(lines[:, n : n + 1].copy(), back) for n in range(23)]
        for first, count in itertools.product((0, 1, 3), (2, 3, 4, 5, 7, 8, 9, 16, 20)):
            found = PENCILS.transform(lines[:, first : first + count].copy(), back)
            right = np.concatenate(alone[first : first + count], axis=1)
            assert support.same_bits(found, right), (first, count)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 4), (5, 70, 9), (67, 2, 40), (2, 33, 99)])
def test_parts_of_lines(shape: tuple[int, ...]) -> None:
    """Catches axes in another order, and points that are lost or written besides."""
    lines, (a, b, n) = waves(*shape), shape
    for low, high in {(0, n), (n // 2, n), (n // 3, n - n // 3)}:
        message = np.empty((a, b, high - low), complex)
        PENCILS.cut(lines, low, message)
        assert support.same_bits(message, np.ascontiguousarray(lines[:, :, low:high]))
        for put, axes, wide in ((PENCILS.forward, (2, 0, 1), b), (PENCILS.backward, (1, 2, 0), a)):
            turned = message.transpose(axes)
            right = waves(*turned.shape[:2], wide + 5)
            for part, ends in ((message, (0, high - low)), (lines, (low, high))):
                found = right.copy()
                put(part, *ends, found, 3)
                expected = right.copy()
                expected[:, :, 3 : 3 + wide] = turned
                assert support.same_bits(found, expected)


# Runs --------------------------------------------------------------------------------------------


@pytest.mark.long
@BOTH
def test_the_same_bits_on_all_blocks(problem: TransposeProblem) -> None:
    """Catches elements that follow the blocks, and checks that no program passes."""
    whole = {piece.name: piece.values for piece in apps.load("transpose").reference(problem, 3)}
    for grid in GRIDS[problem]:
        solved = support.solve("transpose", problem, grid, 3, plan=AuditPlan(20, 1, 5))
        assert not solved.failed, (grid, solved.checks)
        for name, values in whole.items():
            assert support.same_bits(solved.fields[name], np.ascontiguousarray(values)), grid
    moved = support.solve(
        "transpose", problem, GRIDS[problem][1], 3, odf=2, driver=sim, options=SimOptions(seed=5)
    )
    assert not moved.failed and moved.state_hash == solved.state_hash


def test_the_matrices_are_those_of_prk() -> None:
    """Catches a reference and a program that are wrong in the same way: PRK's closed form."""
    solved, n, s = support.solve("transpose", MATRIX, (3, 1), 4), 29, 4
    i, j = np.ix_(range(n), range(n))
    assert (solved.fields["b"] == ((n * i + j) * s + s * (s - 1) // 2).T).all()
    assert (solved.fields["a"] == (n * j + i + s).T).all()


def test_the_spectrum_is_that_of_the_field() -> None:
    """Catches waves in another place, by NumPy's transform in three dimensions."""
    field = plain.field(FIELD, np.arange(120)).reshape(FIELD.size)
    right = np.fft.fftn(field)
    for grid in GRIDS[FIELD]:
        blocks = support.blocks_of("transpose", FIELD, grid)
        Engine(blocks).setup().round(0, 1)
        for block in blocks:
            y, z = (slice(*side.own) for side in (block.y_of_x, block.z_of_y))
            assert np.allclose(block.spectrum, right[:, y, z].transpose(1, 2, 0), atol=1e-13)


def test_lines_keep_their_memory() -> None:
    """Catches lines in new memory in each step, and memory that migrates beside what is in it."""
    blocks = support.blocks_of("transpose", FIELD, (2, 2, 1))
    engine = Engine(blocks).setup()
    engine.round(0, 1)
    memory = [(block.lines.base, block.spectrum.base) for block in blocks]
    engine.round(1, 1)
    for block, (of_field, of_spectrum) in zip(blocks, memory, strict=True):
        assert block.lines.base is of_field and block.spectrum.base is of_spectrum
        assert of_field is not of_spectrum and "memory" not in block.__getstate__()


def test_sums_of_an_audit() -> None:
    """Catches a number of the spectrum that is not the definition's, for large waves as well."""
    size, values = (6, 5, 7), waves(6, 5, 7)
    right = np.fft.fftn(values)
    for wave in ((0, 0, 0), (1, 2, 3), (5, 4, 6)):
        halves = [((0, 2), (0, 5), (0, 7)), ((2, 6), (0, 5), (0, 7))]
        found = sum(plain.sum_of(wave, at, size, values[slice(*at[0])]) for at in halves)
        assert abs(found - right[wave]) < 1e-12


@pytest.mark.parametrize("axis", [0, 2])
def test_sums_over_many_points(axis: int) -> None:
    """Catches sums of checks and audits whose rounding errors grow with the length of a line."""
    length = 1 << 20
    shape = tuple(length if n == axis else 1 for n in range(3))
    values = np.full(shape, 0.1 + 0.1j)
    assert abs(pencils.square(values) / (2 * length * 0.1**2) - 1) < 4e-15
    found = plain.sum_of((0, 0, 0), tuple((0, n) for n in shape), shape, values)
    assert abs(found / (length * (0.1 + 0.1j)) - 1) < 4e-15


@BOTH
def test_continued_on_other_blocks(problem: TransposeProblem, tmp_path: Path) -> None:
    """Catches a checkpoint that lacks an array, or the number of steps."""
    legs = [Leg(grid, "cpu", 1 + n % 2) for n, grid in enumerate(GRIDS[problem][1:])]
    require_continued(apps.load("transpose").Block, problem, legs, tmp_path)


@BOTH
def test_steps_of_a_checkpoint(problem: TransposeProblem, tmp_path: Path) -> None:
    """Catches a continued run that forgets how many steps were made, and so what must be there."""
    seen = []

    def make(*given: Any) -> Any:
        seen.append(apps.load("transpose").Block(*given))
        return seen[-1]

    final_state(make, problem, [Leg(GRIDS[problem][1], "cpu", 2)] * 2, tmp_path / "c.h5")
    assert [block.time for block in seen[-2:]] == [4, 4]


def test_fields_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches points that get the numbers of others, and sums of some planes only."""
    monkeypatch.setattr("miniapps.grid.SLAB_CELLS", 24)
    problem = TransposeProblem((11, 4, 3), fft=True)
    whole = plain.field(problem, np.arange(132)).reshape(problem.size)
    for block in support.blocks_of("transpose", problem, (2, 1, 1)):
        low, high = block.bounds[0]
        assert support.same_bits(block.lines, whole[low:high])
        block.lines[3:5] += 2.0
        squares = block.measure()["squares"].value
        changed, here = block.lines, whole[low:high]
        right = [np.sum(abs(x) ** 2) for x in (changed, changed - here, here)]
        assert np.allclose(squares[[0, 2, 3]], right, rtol=1e-14) and squares[1] == 0


def test_rows_of_another_length() -> None:
    """Catches a message that is too short or too long: memory behind it would be read, or lost."""
    block, _ = support.blocks_of("transpose", MATRIX, (2, 1))  # 15 of 29 columns
    for length in (209, 211):
        step = block.step(1)
        (edge,) = next(step).messages
        next(step)
        with pytest.raises(ValueError, match=f"^{8 * length} bytes from .*, not 1680$"):
            step.send({edge: np.zeros(8 * length, np.uint8)})


def test_matrices_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches columns that are compared with others, or not at all."""
    monkeypatch.setattr("miniapps.transpose.block.SLAB_ELEMENTS", 3 * 29)
    (_, block, _) = blocks = support.blocks_of("transpose", MATRIX, (3, 1))
    Engine(blocks).setup().round(0, 1)
    for place, off in itertools.product(range(len(block.a)), (0.0, 0.5)):
        block.a[place, 28] += off
        block.b[place, 0] -= 2 * off
        assert block.measure()["differences"].value.tolist() == [off, 2 * off]
        block.a[place, 28] -= off
        block.b[place, 0] += 2 * off


WRONG = {
    "transpose: not transposed": "differences of B",
    "transpose: nothing added to a": "differences of A",
    "transpose: starts transposed": "differs from reference",
    "transpose: last bit off": "differs from reference",
    "results: block that is not counted": "missing elements",
    "transpose: step left out": "steps that blocks count otherwise",
    "transpose: nothing transformed": "Parseval",
    "transpose: not normalised": "round trip",
    "transpose: by another library": "differs from reference",
    "transpose: two lines of waves exchanged": "differs from reference",
    "transpose: steps without transforms": "steps that blocks count otherwise",
}
AUDITED = {
    "transpose: one block left out": "audit: elements that differ",
    "transpose: starts transposed": "audit: initial elements that differ",
    "transpose: last bit off": "audit: state hashes that differ",
    "transpose: waves shifted": "audit: distance from waves",
    "transpose: one part left out": "audit: distance from points before",
    "transpose: field of another run": "audit: initial points that differ",
}
OF_FFT = "transform", "normalised", "library", "waves", "part", "field"


def problem_of(fault: str) -> tuple[TransposeProblem, tuple[int, ...]]:
    """The problem in which a fault acts, and blocks."""
    of_fft = any(word in fault.removeprefix("transpose: ") for word in OF_FFT)
    return (FIELD, (2, 2, 1)) if of_fft else (MATRIX, (3, 1))


@pytest.mark.long
@pytest.mark.parametrize(("fault", "check"), [*WRONG.items(), *AUDITED.items()])
def test_each_check_finds_a_wrong_program(fault: str, check: str) -> None:
    """Catches a check that cannot fail."""
    problem, grid = problem_of(fault)
    plan = AuditPlan(3000, 1, 5) if check.startswith("audit") else None
    with support.with_fault("transpose", fault):
        assert check in support.solve("transpose", problem, grid, 3, plan=plan).failed


@pytest.mark.parametrize("size", [(10, 10, 10), (1, 1, 1000)])
def test_a_field_that_is_not_transformed_back(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, ...]
) -> None:
    """Catches a step that finds the spectrum, and keeps the field: it has no rounding errors."""
    problem, plan = TransposeProblem(size, fft=True), AuditPlan(16, 1, 5)
    assert not support.solve("transpose", problem, (1, 1, 1), 5, plan=plan).failed
    right = PencilBlock.step

    def step(self: PencilBlock, count: int) -> Generator[Any, Any, bool]:
        field = self.lines.copy()
        yield from right(self, count)
        self.lines = field
        return False

    monkeypatch.setattr(PencilBlock, "step", step)
    solved = support.solve("transpose", problem, (1, 1, 1), 5, plan=plan)
    assert "audit: field that was not transformed" in solved.failed


def test_a_state_with_lines_of_waves_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an audit that compares the state with what the state is made of."""
    right, plan = PencilBlock.fields, AuditPlan(100, 1, 5)

    def fields(self: PencilBlock) -> Any:
        waves, bounds = right(self)["spectrum "]
        return right(self) | {"spectrum ": (waves[:, ::-1], bounds)}

    monkeypatch.setattr(PencilBlock, "fields", fields)
    failed = support.solve("transpose", FIELD, (1, 1, 1), 2, plan=plan).failed
    assert "audit: state hashes that differ" in failed


def test_waves_of_no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches waves that no block has, or several."""
    blocks = support.blocks_of("transpose", FIELD, (2, 1, 1))
    layout = support.layout_of(FIELD, (2, 1, 1))
    audit = apps.load("transpose").Audit(FIELD, layout, 1, 5)
    began = [audit.begin(block, 0, 1) for block in blocks]
    Engine(blocks).setup().round(0, 1)
    for chosen, wrong in ((blocks, 0), (blocks[:1], 1), ([*blocks, blocks[0]], 1)):
        ended = combine(*[audit.end(block, 0, 1) for block in chosen])
        checks = {c.name: c.value for c in audit.validate(0, 1, combine(*began), ended)}
        assert bool(checks["audit: waves that one block does not have"]) == wrong


def test_limits_are_near_right_runs() -> None:
    """Catches a limit far above what runs need, and one that they nearly reach."""
    problem = TransposeProblem((24, 25, 26), fft=True)
    solved = support.solve("transpose", problem, (2, 1, 1), 4, plan=AuditPlan(200, 1, 5))
    assert not solved.failed
    for check in solved.checks:
        if check.limit:
            least = 0 if check.name == "Parseval" else 1e-3 * check.limit  # errors may cancel
            assert least <= check.value < 0.5 * check.limit, check


def test_limits_are_limits() -> None:
    """Catches checks that allow more than their limits."""
    solved = support.solve("transpose", FIELD, (1, 1, 1), 2)
    for at, name in ((1, "Parseval"), (2, "round trip")):
        limit = next(check.limit for check in solved.checks if check.name == name)
        for factor in (0.9, 1.1):
            squares = solved.outcome.measures["squares"].value.copy()
            field = squares[0]
            squares[at] = (
                (field * (1 + factor * limit)) * FIELD.points
                if at == 1
                else squares[3] * (factor * limit) ** 2
            )
            measures = solved.outcome.measures | {"squares": Measure("sum", squares)}
            checks = apps.load("transpose").validate(FIELD, 2, measures, solved.state_hash)
            assert {check.name: check.ok for check in checks}[name] == (factor < 1), name


# Input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--size 4x4", "--size 4x4: must be one number without --fft"),
        ("--size 0", "--size 0: must be 1 or more along each axis"),
        ("--fft", "must name 3 axes with --fft"),
        (
            "--fft --size 4x3x2 --pe-grid 4x1x1",
            "4x1 pencils need 4 or more points along y, 1 along z",
        ),
        ("--size 9 --pe-grid 3x3", "--pe-grid 3x3"),
        ("--size 90000000 --steps 3", "--steps"),
    ],
)
def test_bad_input(words: str, said: str) -> None:
    """Catches a wrong value that is found late, or not."""
    assert said in support.refused(["run", "transpose", *words.split()])


@pytest.mark.parametrize("pes", [1, 2, 3, 4, 6, 8])
def test_pencils_of_a_thin_box(pes: int) -> None:
    """Catches a box that is refused although some grid of PEs has points for every block."""
    grids = [(n, pes // n) for n in range(1, pes + 1) if pes % n == 0]
    for x, y, z in itertools.product((1, 2, 3, 5, 9), repeat=3):
        problem = TransposeProblem((x, y, z), fft=True)
        if fitting := [grid for grid in grids if grid[0] <= min(x, y) and grid[1] <= min(y, z)]:
            assert problem.cut(pes, 1, None).grid[:2] in fitting
        else:
            with pytest.raises(InputError):
                problem.cut(pes, 1, None)


def test_exact_up_to_the_limit() -> None:
    """Catches a limit of steps beyond which B is no longer exact."""
    problem = TransposeProblem((1 << 20,))
    problem.check_steps(8191)
    with pytest.raises(InputError, match="exact"):
        problem.check_steps(8192)


def test_scaled_problems() -> None:
    """Catches a weak study whose PEs get other numbers of elements."""
    assert TransposeProblem((1000,)).weak(4).size == (2000,)
    assert TransposeProblem((1000,)).smaller().size == (707,)
    assert TransposeProblem((4, 4, 4), fft=True).weak(2).points == 128
    assert TransposeProblem((4, 4, 4), fft=True).smaller().points == 32
    assert TransposeProblem((1000,)).work() == 16e6  # PRK's bytes
    assert TransposeProblem((4, 4, 4), fft=True).work() == 2 * 16 * 4 * 64
    assert math.isclose(FIELD.levels, 1 + math.log2(120))


HOW = (
    "",
    "--driver mpi -n 2",
    "--driver mpi -n 3",
    "--driver file -n 2",
    "--driver charm -n 2 --odf 3",
    "--driver charm -n 2 --odf 3 --balancer Rotate --lb-period 2",
)


class CharmPE:
    """A PE of the charm driver: blocks 0 and 1 are here, 2 and 3 on PE 1, and 4 on PE 2."""

    def __init__(self, known: bool) -> None:
        self.known, self.calls = known, []
        self.here = {"block": {}}
        self.where = np.array([0, 0, 1, 1, 2])
        self.payloads = SimpleNamespace(sent_at_once=lambda arrays, pe: list(arrays))
        noted = lambda to: SimpleNamespace(  # noqa: E731
            deliver=lambda *given: self.calls.append((to, "block")),
            fan_out=lambda *given: self.calls.append((to, "PE")),
        )
        self.arrays = {"block": [noted(number) for number in range(5)]}
        self.thisProxy = [noted(pe) for pe in range(3)]

    def location(self, number: int) -> int | None:
        """The PE of a block."""
        return int(self.where[number]) if self.known else None


@pytest.mark.parametrize(
    ("known", "size", "to", "calls"),
    [
        (True, 9, (2, 3, 4), [(1, "PE"), (2, "PE")]),
        (True, 9, (3, 4), [(3, "block"), (4, "block")]),
        (True, 1 << 16, (2, 3), [(2, "block"), (3, "block")]),
        (False, 9, (2, 3), [(2, "block"), (3, "block")]),
    ],
)
def test_short_messages_travel_together_under_charm(known, size, to, calls):
    """Catches a call for each block, and one of a PE from which a block may have gone."""
    pe = CharmPE(known)
    away = [(("block", number, (number,)), np.zeros(size)) for number in to]
    Mail(pe)._send(SimpleNamespace(place=("block", (0,))), 1, "rows", False, away)
    assert pe.calls == calls


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--size 19", "--fft --size 9x7x6"])
def test_drivers(words: str) -> None:
    """Catches bits that follow the driver; `miniapps verify transpose` compares more of them."""
    found = support.records_of([f"transpose --preset minimal {words} {how}" for how in HOW])
    assert len({record["state_hash"] for record in found}) == 1
    assert all(record["valid"] for record in found)
