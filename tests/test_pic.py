"""PIC: against the published counts, plain NumPy, exact positions, and programs that are wrong."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
import re
import tracemalloc
from collections.abc import Callable
from functools import reduce
from typing import Any

import llvmlite.binding
import numpy as np
import pytest
import support
from hypothesis import given
from hypothesis import strategies as st

from miniapps import apps, kernels
from miniapps.contract import Measure, MessageError
from miniapps.drivers.engine import Engine
from miniapps.faults import Fault
from miniapps.kernels.pic import initial
from miniapps.kernels.pic.counters import (
    FIRST_LOST,
    HERE,
    LEFT,
    LOST,
    NOWHERE,
    OWNERS,
    clean_counters,
)
from miniapps.kernels.pic.cpu.push import CHUNK, _move
from miniapps.pic import faults
from miniapps.pic import reference_solution as plain
from miniapps.pic.distribution import Distribution
from miniapps.pic.events import Event
from miniapps.pic.particles import FLOATS, NAMES
from miniapps.pic.problem import PicProblem, validate

CPU = kernels.load("pic", "cpu")
APP = apps.load("pic")
NONE: tuple[Event, ...] = ()


def problem_of(**values: Any) -> PicProblem:
    """A small problem without events."""
    given: dict[str, Any] = {
        "size": 24,
        "particles": 400,
        "k": 0,
        "m": 1,
        "distribution": Distribution("geometric", (0.9,)),
    }
    return PicProblem(**(given | values))


def solve(problem: PicProblem, grid: tuple[int, int] = (2, 2), steps: int = 12) -> support.Solved:
    """A problem solved under the serial driver."""
    return support.solve("pic", problem, grid, steps)


def events(*texts: str) -> tuple[Event, ...]:
    """Events as they are written on the command line."""
    return tuple(map(Event.parse, texts))


# Random numbers and where particles begin --------------------------------------------------------

PUBLISHED = [  # what the Parallel Research Kernels' C program places
    (2998, 600_000, "geometric:0.999", 600_056),
    (1000, 1_000_000, "geometric:0.99", 997_651),
    (1000, 100_000, "sinusoidal", 99_632),
    (1000, 100_000, "linear:1.0,3.0", 100_138),
    (1000, 100_000, "patch:0,200,100,200", 99_871),
]


def placed(problem: PicProblem, grid: tuple[int, int]) -> list[Any]:
    """A problem's blocks after no more than the placing of particles."""
    blocks = support.blocks_of("pic", problem, grid)
    steps = [block.setup() for block in blocks]
    totals = sum(step.send(None).value for step in steps)
    for step in steps:
        with pytest.raises(StopIteration):
            step.send(totals)
    return blocks


@pytest.mark.parametrize(("size", "particles", "distribution", "count"), PUBLISHED)
@pytest.mark.parametrize("grid", [(1, 1), (3, 2)])
def test_published_counts(size, particles, distribution, count, grid):
    """Catches another random sequence than the C program's, by as little as one particle."""
    problem = PicProblem(size, particles, distribution=Distribution.parse(distribution))
    blocks = placed(problem, grid)
    assert sum(block.particles.count for block in blocks) == count
    assert {block.placed for block in blocks} == {count}


def test_the_paper_is_the_published_problem() -> None:
    """Catches a preset, or a default on which it relies, that is no longer what ESPM2 measured."""
    preset = PicProblem.presets["paper"]
    assert (preset["steps"], preset["warmup"]) == (1000, 0)
    given = {name: value for name, value in preset.items() if name not in ("steps", "warmup")}
    problem = PicProblem(**given)
    published = {"size": 2998, "particles": 600_000, "k": 0, "m": 1, "events": [], "time_tile": 1}
    assert problem.parameters() == published | {"distribution": "geometric:0.999"}


@pytest.mark.long
@given(st.integers(0, 1 << 64), st.integers(0, 300))
def test_jump(state: int, steps: int) -> None:
    """Catches a jump that is not that many numbers."""
    state %= 1 << 64
    by_hand = state
    for _ in range(steps):
        by_hand = (plain.MULTIPLIER * by_hand + plain.INCREMENT) & plain.MASK
    assert initial.jump(np.uint64(state), np.uint64(steps)) == by_hand


@given(st.floats(0, 60), st.integers(1, plain.MASK - 1), st.integers(1, plain.MASK - 1))
def test_draw(mean: float, first: int, second: int) -> None:
    """Catches a draw that differs from the definition on either side of a mean of 1."""
    right = plain.draw(mean, first, second)
    assert initial.draw(mean, np.uint64(first), np.uint64(second)) == right >= 0


def test_draws_have_their_mean() -> None:
    """Catches a definition that is alike in both places, and wrong."""
    rng = np.random.default_rng(7)
    numbers = [int(n) for n in rng.integers(1, plain.MASK, 40_000, np.uint64)]
    for mean in (0.05, 0.5, 0.999, 1.0, 3.7, 40.0):
        drawn = [plain.draw(mean, a, b) for a, b in zip(numbers[::2], numbers[1::2], strict=True)]
        spread = max(0.15 * mean, 0.6)
        assert abs(np.mean(drawn) - mean) < 5 * spread / np.sqrt(20_000)


DISTRIBUTIONS = ["geometric:0.9", "geometric:1", "sinusoidal", "linear:1,3", "patch:3,11,0,23"]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("grid", [(1, 1), (2, 3), (5, 1), (1, 7)])
def test_placing(distribution: str, grid: tuple[int, int]) -> None:
    """Catches a block that jumps to another place in the sequence, or numbers out of order."""
    problem = problem_of(distribution=Distribution.parse(distribution), particles=900)
    right = plain.initial_cells(problem)
    seen = {}
    for block in placed(problem, grid):
        mine = block.particles
        (x0, x1), (y0, y1) = block.bounds
        for n in range(mine.count):
            x, y = divmod(int(mine.cells[n]), problem.size)
            assert x0 <= x < x1 and y0 <= y < y1
            assert (mine.x[n], mine.y[n], mine.vx[n], mine.vy[n]) == (x + 0.5, y + 0.5, 0, 1)
            seen[int(mine.ids[n])] = (x, y)
    assert sorted(seen) == list(range(1, len(right) + 1))
    assert [seen[n + 1] for n in range(len(right))] == [tuple(cell) for cell in right]
    assert abs(len(right) - 900) < 120


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_expected_particles(distribution: str) -> None:
    """Catches a distribution that does not add up, or is another one's."""
    parsed = Distribution.parse(distribution)
    means, (x0, x1, y0, y1) = parsed.means(900, 24), parsed.kept(24)
    assert means[x0:x1].sum() * (y1 - y0) == pytest.approx(900)
    shapes = {
        "geometric:0.9": means[1] / means[0] == pytest.approx(0.9),
        "geometric:1": np.ptp(means) == 0,
        "sinusoidal": means[12] < 1e-12 and means[0] == means.max(),
        "linear:1,3": means[0] / means[12] == pytest.approx(3 / 2.5),
        "patch:3,11,0,23": np.ptp(means) == 0,
    }
    assert shapes[distribution]


# Pushing -----------------------------------------------------------------------------------------


def anywhere(count: int, size: int, seed: int) -> np.ndarray:
    """Particles at any place, with any velocity and charge: rows x, y, vx, vy, charge."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (count, 5))
    rows[:, :2] = rng.uniform(0.1, 0.9, (count, 2)) + rng.integers(0, size, (count, 2))
    rows[:, 4] *= 0.1
    return rows


def work_space(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Owners, counters, and room for the places of those that leave."""
    return np.empty(count, np.uint8), clean_counters(), np.empty(count, np.int64)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, CHUNK, 2 * CHUNK + 3])
def test_push_is_the_reference_bit_by_bit(count: int, steps: int) -> None:
    """Catches another order of additions, a contraction, and the odd ends of vectors and chunks."""
    size = 18
    rows = anywhere(count, size, 5)
    rows[:, 4] *= 1e-5 if steps > 1 else 1.0  # or those near a corner are hurled round the grid
    (block,) = support.blocks_of("pic", problem_of(size=size), (1, 1))
    columns = [column.copy() for column in rows.T]
    owners, counters, leaving = work_space(count)
    where = block.mesh, block.frame, float(size)
    CPU.push(count, steps, *columns, *where, 0, owners, counters, leaving)
    right = reduce(lambda moved, _: plain.push(moved, size), range(steps), rows)
    assert support.same_bits(np.stack(columns, axis=1).reshape(count, 5), right)
    assert (owners == HERE).all() and support.same_bits(counters, clean_counters())


def test_force_is_coulombs() -> None:
    """Catches a force that kernel and reference have wrong alike: each corner on its own."""
    (block,) = support.blocks_of("pic", problem_of(size=4), (1, 1))
    block.mesh[:] = 0
    x, y, charge = 1.3, 2.6, 0.7
    for corner in itertools.product((1, 2), (2, 3)):
        mesh = block.mesh.copy()
        mesh[corner] = -1
        fields = [np.array([value]) for value in (x, y, 0.0, 0.0, charge)]
        CPU.push(1, 1, *fields, mesh, block.frame, 4.0, 0, *work_space(1))
        apart = np.array([x - corner[0], y - corner[1]])
        distance = np.hypot(*apart)
        force = -charge * apart / distance / distance**2
        np.testing.assert_allclose([fields[2][0], fields[3][0]], force, rtol=1e-14)
        np.testing.assert_allclose(
            [fields[0][0], fields[1][0]], (np.array([x, y]) + force / 2) % 4, rtol=1e-14
        )


@pytest.mark.parametrize(("k", "m"), [(0, 1), (1, 2), (3, -5), (0, 0), (5, 12)])
def test_every_particle_is_where_it_must_be(k: int, m: int) -> None:
    """Catches a charge, velocity or wrap that moves particles elsewhere; by integers alone."""
    problem = problem_of(k=k, m=m)
    for steps in (1, 2, 25):
        rows, ids = plain.reference(problem, steps)
        cells = plain.initial_cells(problem)[ids - 1]
        moved = cells + np.array([(2 * k + 1) * steps, m * steps])
        assert np.abs(rows[:, :2] - (moved % 24 + 0.5)).max() < 1e-9
        assert np.abs(rows[:, 2] - 2 * (2 * k + 1) * (steps % 2)).max() < 1e-9


@pytest.mark.slow
def test_vector_instructions() -> None:
    """Catches a push that LLVM no longer vectorises: it would take four times as long."""
    registers = set(re.findall(r"sqrtpd\s.*%([xyz]mm)", support.machine_code(_move)))
    features = llvmlite.binding.get_host_cpu_features()
    wide = "zmm" if features.get("avx512f") else "ymm" if features.get("avx2") else "xmm"
    assert registers == {wide}


# Order -------------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), max_size=60))
def test_gaps_are_closed(stays: list[bool]) -> None:
    """Catches a particle that is dropped with those that leave, or one that stays twice."""
    count = len(stays)
    arrays = [np.arange(count) + 100.0 * n for n in range(5)]
    arrays += [np.arange(count) + 100 * n for n in range(5, 8)]
    left = set(zip(*(array[np.array(stays, bool)] for array in arrays), strict=True))
    gaps = np.flatnonzero(~np.array(stays, bool))
    owners = np.where(stays, HERE, LOST).astype(np.uint8)
    spare = np.empty(count, np.uint64)
    CPU.close_gaps(count, gaps, 0, len(gaps), owners, clean_counters(), spare, tuple(arrays))
    kept = list(zip(*(array[: count - len(gaps)] for array in arrays), strict=True))
    assert set(kept) == left and len(kept) == len(left)


@given(st.lists(st.sampled_from([0, 3, *[HERE] * 6, 7, LOST]), max_size=70), st.integers(0, 70))
def test_emigrants_are_found(owners: list[int], room: int) -> None:
    """Catches one overlooked among eight at a time, and a list that overruns its room."""
    counters, leaving = clean_counters(), np.full(room, -1, np.int64)
    work, every = np.array([*owners, 0, 0], np.uint8), (1 << OWNERS) - 1
    CPU.find_leaving(len(owners), work, every, counters, leaving)
    right = [n for n, owner in enumerate(owners) if owner != HERE]
    assert counters[LEFT] == len(right) == counters[:OWNERS].sum()
    assert counters[FIRST_LOST] == NOWHERE
    assert leaving[: min(room, len(right))].tolist() == right[:room]
    assert all(counters[owner] == owners.count(owner) for owner in (0, 3, 7, LOST))
    lost = [n for n, owner in enumerate(owners) if owner in (0, LOST)]
    CPU.find_leaving(len(owners), work, every & ~1 & ~(1 << LOST), counters, leaving)
    assert counters[FIRST_LOST] == (lost[0] if lost else NOWHERE)


def test_sorting_changes_the_order_and_nothing_else() -> None:
    """Catches arrays that are sorted apart, and a sort that never happens."""
    (block,) = placed(problem_of(particles=3000), (1, 1))
    mine, rng = block.particles, np.random.default_rng(3)
    order = rng.permutation(mine.count)
    for array in mine.arrays:
        array[: mine.count] = array[: mine.count][order]
    before = {row[5]: row for row in zip(*(a[: mine.count] for a in mine.arrays), strict=True)}
    mine.unsorted = mine.count // 9
    mine.sort(CPU, 0.0, 24)
    assert (np.diff(np.floor(mine.x[: mine.count])) < 0).any()
    mine.unsorted = mine.count
    mine.sort(CPU, 0.0, 24)
    assert (np.diff(np.floor(mine.x[: mine.count])) >= 0).all() and mine.unsorted == 0
    after = {row[5]: row for row in zip(*(a[: mine.count] for a in mine.arrays), strict=True)}
    assert after == before and len(after) == mine.count


def test_memory_and_order() -> None:
    """Catches room for many more particles, and particles in an order that leaves the cache.

    A particle takes 82 bytes, 9 more at the start. Unsorted, 1 in 18 is left of the one before it.
    """
    solve(problem_of(), (3, 3))  # compiles
    problem = problem_of(size=48, particles=30_000, m=-3)
    blocks = support.blocks_of("pic", problem, (3, 3))
    tracemalloc.start()
    engine = Engine(blocks).setup()
    for step in range(12):
        engine.round(step, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    particles = [block.particles for block in blocks]
    print(peak / sum(mine.count for mine in particles))
    assert peak < 120 * sum(mine.count for mine in particles)
    columns = [np.floor(mine.x[: mine.count]) for mine in particles]
    assert sum((np.diff(x) < 0).sum() for x in columns) < sum(map(len, columns)) / 50


def test_particles_grow_and_shrink() -> None:
    """Catches particles that are lost where arrays become longer, or when a block migrates."""
    (block,) = placed(problem_of(), (1, 1))
    mine = block.particles
    count = mine.count
    kept = [array[:count].copy() for array in mine.arrays]
    mine.reserve(CPU, 10 * count)
    assert len(mine.x) >= 10 * count and mine.count == count
    again = pickle.loads(pickle.dumps(mine))
    assert len(pickle.dumps(mine)) < 64 * count + 2000
    for holder in (mine, again):
        holder.reserve(CPU, 20 * count)
        for array, right in zip(holder.arrays, kept, strict=True):
            assert support.same_bits(array[:count], right)


# The same bits on every decomposition ------------------------------------------------------------

patches = st.lists(st.integers(0, 23), min_size=4, max_size=4).map(
    lambda p: (min(p[:2]), max(p[:2]), min(p[2:]), max(p[2:]))
)
injections = st.builds(
    lambda step, patch, n, k, m: Event("inject", step, patch, n, k, m),
    st.integers(0, 7), patches, st.integers(0, 60), st.integers(0, 2), st.integers(-4, 4),
)  # fmt: skip
removals = st.builds(
    lambda step, patch, f: Event("remove", step, patch, fraction=f),
    st.integers(0, 7), patches, st.sampled_from([0.0, 0.3, 1.0]),
)  # fmt: skip


@pytest.mark.slow
@given(
    st.sampled_from(DISTRIBUTIONS),
    st.integers(1, 500),
    st.integers(0, 2),
    st.integers(-4, 4),
    st.sampled_from([(1, 1), (2, 1), (1, 3), (3, 2), (5, 4), (6, 1), (2, 6)]),
    st.lists(injections | removals, max_size=4),
    st.integers(1, 20),
    st.sampled_from([1, "auto"]),
)
def test_any_problem_on_any_blocks(
    distribution, particles, k, m, grid, happening, steps, time_tile
):
    """Catches particles that are lost, doubled or moved otherwise at the borders of blocks.

    With several steps per exchange: also a mesh that ends too early, and events that come late.
    """
    problem = problem_of(
        distribution=Distribution.parse(distribution),
        particles=particles,
        k=k,
        m=m,
        events=tuple(happening),
        time_tile=time_tile,
    )
    solved = solve(problem, grid, steps)
    assert solved.failed == set()
    assert "differs from reference" in {check.name for check in solved.checks}


@pytest.mark.parametrize("grid", [(3, 1), (2, 1), (3, 3), (6, 2), (1, 4)])
def test_particles_that_cross_a_whole_block(grid: tuple[int, int]) -> None:
    """Catches a narrow block that is jumped over: 2k cells wide, where each step makes 2k + 1."""
    size = 12
    k = size // grid[0] // 2
    problem = problem_of(size=size, k=k, m=-2, particles=300)
    block, *_ = support.blocks_of("pic", problem, grid)
    if grid[0] > 1:
        assert (2, 0) in block.targets
    solved = solve(problem, grid, 15)
    assert solved.failed == set()


def test_neighbours_only_where_particles_go() -> None:
    """Catches messages to blocks that nothing can reach: most of a step on many small blocks."""
    block, *_ = support.blocks_of("pic", problem_of(m=1), (3, 3))
    assert set(block.targets) == {(0, 1), (1, 0), (1, 1)}
    assert set(block.sources) == {(0, -1), (-1, 0), (-1, -1)}
    block, *_ = support.blocks_of("pic", problem_of(m=0), (3, 3))
    assert set(block.targets) == {(1, 0)}
    down = problem_of(m=0, events=events("inject:2:5:0,3,0,3:0,-1"))
    block, *_ = support.blocks_of("pic", down, (3, 3))
    assert set(block.targets) == {(0, -1), (1, 0), (1, -1)}


def test_empty_and_emptied_blocks() -> None:
    """Catches arrays of length nothing, and all particles in one block."""
    corner = Distribution.parse("patch:0,3,0,3")
    problem = problem_of(distribution=corner, particles=200, k=1, m=4)
    blocks = support.blocks_of("pic", problem, (6, 6))
    engine, held = Engine(blocks).setup(), []
    for step in range(12):
        engine.round(step, 1)
        held.append([block.particles.count for block in blocks])
    assert max(map(max, held)) == sum(held[0])  # at times all are in one block
    assert all(min(counts) == 0 for counts in held)
    filled = np.array(held) > 0
    assert (filled[:-1] & ~filled[1:]).any()  # and blocks lose all they had
    assert solve(problem, (6, 6)).failed == set()


# Events ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [(1, 1), (3, 2), (4, 6)])
def test_injection_is_exact_and_even(grid: tuple[int, int]) -> None:
    """Catches an injection of about N particles, or one that crowds where blocks meet."""
    for count in (0, 1, 35, 36, 37, 500):
        event = Event.parse(f"inject:0:{count}:5,10,9,14")
        problem = problem_of(events=(event,))
        layout = support.layout_of(problem, grid)
        numbers, cells = zip(
            *(event.spread(layout.bounds(index), 24) for index in layout.indices()), strict=True
        )
        assert sorted(np.concatenate(numbers)) == list(range(count))
        per_cell = np.bincount(np.concatenate(cells), minlength=24 * 24).reshape(24, 24)
        inside = per_cell[5:11, 9:15]
        assert inside.sum() == per_cell.sum() == count
        assert inside.max() - inside.min() <= 1


def test_injection_into_a_large_patch() -> None:
    """Catches cells that are wrong because particles times cells have more than 64 bits."""
    size = 1 << 18
    event = Event("inject", 0, (0, size - 1, 0, size - 1), 1 << 30)
    numbers, cells = event.spread(((size - 1, size), (5, 2000)), size)
    assert [tuple(divmod(cell, size)) for cell in cells] == [
        *map(tuple, plain.injected_cells(event, numbers))
    ]


def test_injected_particles_move_by_their_own_rule() -> None:
    """Catches k and m of an injection that are ignored, and injections that come a step late."""
    problem = problem_of(
        distribution=Distribution.parse("patch:20,20,20,20"),
        particles=1,
        events=events("inject:3:1:6,6,6,6:1,-2"),
    )
    rows = solve(problem, (2, 2), 5).fields["particles"]
    there = {tuple(np.round(row[:2], 6)) for row in rows}
    assert (6 + 2 * 3 + 0.5, 6 - 2 * 2 + 0.5) in there


def test_removal_takes_its_share() -> None:
    """Catches a fraction of all, of none, or of other particles on other blocks."""
    everything = Distribution.parse("geometric:1")
    counts = {}
    for fraction in (0, 0.25, 1):
        problem = problem_of(
            distribution=everything, particles=4000, events=events(f"remove:2:0,23,0,11:{fraction}")
        )
        solved = solve(problem, (2, 3), 4)
        assert solved.failed == set()
        counts[fraction] = len(solved.fields["particles"])
    half = counts[0] - counts[1]
    assert abs(half - counts[0] / 2) < 0.05 * counts[0]
    assert abs(counts[0] - counts[0.25] - half / 4) < 5 * np.sqrt(half * 3 / 16)


def test_events_of_one_step_happen_in_order() -> None:
    """Catches events that are sorted by anything but their step."""
    patch = "4,7,4,7"
    base = problem_of(distribution=Distribution.parse("patch:20,20,20,20"), particles=1)
    for order, left in ((("inject", "remove"), 0), (("remove", "inject"), 10)):
        texts = {"inject": f"inject:2:10:{patch}", "remove": f"remove:2:{patch}"}
        problem = dataclasses.replace(base, events=events(*(texts[name] for name in order)))
        solved = solve(problem, (3, 3), 6)
        assert solved.failed == set()
        assert len(solved.fields["particles"]) == left + 1


@pytest.mark.parametrize(
    "text",
    [
        "inject:3:10:0,1,2,3",
        "inject:3:10:0,1,2,3:1,-2",
        "remove:4:0,1,2,3",
        "remove:4:0,1,2,3:0.25",
    ],
)
def test_events_print_as_they_are_read(text: str) -> None:
    """Catches a launched rank that reads another event than the one that was asked for."""
    assert Event.parse(str(Event.parse(text))) == Event.parse(text)


# Programs that are wrong -------------------------------------------------------------------------

CHECKS = {
    faults.one_push_left_out: {"position error"},
    faults.weak_force: {"position error"},
    faults.still_in_y: {"position error"},
    faults.lost_particle: {"missing particles", "id checksum error", "mixed id checksum error"},
    faults.doubled_particle: {"missing particles", "id checksum error"},
    faults.lost_and_doubled: {"mixed id checksum error"},
    faults.swapped_ids: set(),
    faults.no_injection: {"missing particles", "id checksum error"},
    faults.late_injection: {"position error"},
    faults.no_removal: {"missing particles", "id checksum error"},
    faults.removal_of_others: {"id checksum error", "mixed id checksum error"},
}
WITH_EVENTS = events("inject:3:60:2,9,3,8", "remove:5:0,23,0,11:0.5")


@pytest.mark.parametrize("fault", CHECKS, ids=lambda fault: fault.name)
def test_wrong_programs_fail(fault: Fault) -> None:
    """Catches checks that cannot fail: each mistake trips its own, and the bits every time."""
    problem = problem_of(events=WITH_EVENTS)
    assert solve(problem).failed == set()
    with fault.applied("pic"):
        failed = solve(problem).failed
    assert CHECKS[fault] <= failed and "differs from reference" in failed


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (faults.wrong_sign, r"step 1: particle \d+ went to \(.*\), which no move"),
        (faults.mesh_of_another_block, r"step 0: particle \d+ went to \(.*\), which no move"),
        (faults.sent_to_another_neighbour, r"particle \d+ at \(.*\) came by edge .* not in"),
        (faults.hurled, r"step 8: particle \d+ went to \(-.*\), which no move"),
        (faults.nan_position, r"step 8: particle \d+ went to \(.*nan\)"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_particles_that_are_lost_are_named(fault: Fault, said: str) -> None:
    """Catches a particle that is in no block, before a kernel reads beyond the mesh."""
    with fault.applied("pic"), pytest.raises(MessageError, match=said):
        solve(problem_of(m=1), (3, 3))


def test_the_right_particle_is_named() -> None:
    """Catches the number, the place or the edge of a particle that is not the wrong one."""
    block, *_ = support.blocks_of("pic", problem_of(), (3, 3))
    rows = np.zeros((3, 8))
    rows[:, 0] = 20, 21, 22
    rows.view(np.int64)[:, 5:] = [(31, 1, 0), (32, 2, 0), (33, 3, 0)]
    block.came = {(1, 0): rows[:1], (0, 1): rows[1:]}
    for row, edge in enumerate([(1, 0), (0, 1), (0, 1)]):
        named = f"particle {31 + row} at ({20.0 + row}, 0.0) came by edge {edge}"
        with pytest.raises(MessageError, match=re.escape(named)):
            block._complain_of_arrival(row)
    block.particles.set(columns_of(rows))
    with pytest.raises(MessageError, match=re.escape("particle 33 went to (22.0, 0.0)")):
        block._complain_of_emigrant(2, 0)


def columns_of(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Particles as columns, given as in a message."""
    numbers = [*rows.T[: len(FLOATS)], *rows.view(np.int64).T[len(FLOATS) :]]
    return dict(zip(NAMES, numbers, strict=True))


def test_hopping_particles_are_seen() -> None:
    """Catches ``v = a dt``, by which particles go forward and back for ever."""
    with faults.hopping.applied("pic"):
        assert "position error" in solve(problem_of(), (1, 2)).failed
        with pytest.raises(MessageError, match="which no move of this problem leads to"):
            solve(problem_of(), (3, 2))  # of two blocks in a row the one behind is the next one too


def test_a_step_too_many_is_seen() -> None:
    """Catches a check that counts other steps than were made: two too many pass nothing."""
    problem = problem_of()
    for steps in (10, 11, 13, 14):
        solved = support.solve("pic", problem, (2, 2), 12, validated_steps=steps)
        assert "differs from reference" in solved.failed
    with faults.one_push_too_many.applied("pic"):
        assert "position error" in solve(problem, (1, 1)).failed


def test_one_wrong_particle_of_many_is_enough() -> None:
    """Catches a check of most particles, or an inverted one: 0 of 201 right once passed."""
    problem = problem_of()
    blocks = support.blocks_of("pic", problem, (2, 2))
    Engine(blocks).setup().round(0, 1)
    right = [block.measure()["error"].value for block in blocks]
    assert max(right) < 1e-12
    for place in (0, blocks[0].particles.count - 1):
        for off in (1.1e-6, 5.0, 23.9, np.nan):
            blocks[0].particles.x[place] += off
            error = blocks[0].measure()["error"].value
            assert not error <= 1e-6
            blocks[0].particles.x[place] = right_place(blocks[0], place)
    assert blocks[0].measure()["error"].value < 1e-12


def right_place(block: Any, place: int) -> float:
    """Where along x a particle must be."""
    cell = int(block.particles.cells[place])
    shift = block.problem.shifts(block.time)[0, 0]
    return (cell // block.problem.size + shift) % block.problem.size + 0.5


@pytest.mark.parametrize("name", ["error", "ids", "removed", "placed", "starts"])
def test_every_measure_counts(name: str) -> None:
    """Catches a check that does not look at one of its measures."""
    problem = problem_of(size=600, events=WITH_EVENTS)  # too large for the reference
    solved = solve(problem, (1, 1), 8)
    measures = dict(solved.outcome.measures)
    assert all(check.ok for check in validate(problem, 8, measures, ""))
    op, value = measures[name]
    measures[name] = Measure(op, value + np.asarray(value).dtype.type(1))
    assert not all(check.ok for check in validate(problem, 8, measures, ""))


# The command -------------------------------------------------------------------------------------

TINY = "pic --size 24 --particles 400 --distribution geometric:0.9 --steps 10 --warmup 2"
BORDERS = (
    "--event inject:3:50:10,13,10,13 --event remove:7:11,12,0,23 --event inject:7:9:0,23,12,12"
)


# `miniapps verify` makes runs with other events on other numbers of PEs and with every balancer.
WAYS = [
    "--driver serial --pe-grid 3x2",
    "--driver mpi -n 3",
    "--driver mpi -n 3 --time-tile 5",
    "--driver mpi -n 6",
    "--driver charm -n 2 --odf 4 --balancer Greedy --lb-period 1",
    "--driver charm -n 2 --odf 2 --balancer Greedy --lb-period 5 --time-tile auto",
    "--driver charm -n 2 --odf 6 --balancer Rotate --lb-period 4",
]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_driver(way: str) -> None:
    """Catches a driver that loses particles, with events where blocks meet."""
    record = support.run_record(*f"{TINY} {BORDERS} {way}".split())
    problem = problem_of(events=tuple(map(Event.parse, BORDERS.split()[1::2])))
    assert record["state_hash"] == plain.reference_hash(problem, 12)
    assert record["particles_placed"] == len(plain.initial_cells(problem))


def test_positional_form(run_record: Callable[..., dict[str, Any]]) -> None:
    """Catches the Parallel Research Kernels' command line read in another order."""
    record = run_record(*"pic 10 100 500 1 -2 GEOMETRIC 0.9".split())
    assert (record["steps"], record["warmup"], record["valid"]) == (10, 1, True)
    asked = {"size": 100, "particles": 500, "k": 1, "m": -2, "distribution": "geometric:0.9"}
    assert record["problem"] == asked | {"events": [], "time_tile": 1}
    record = run_record(*"pic 2 100 500 0 1 PATCH 3 40 5 60 --pe-grid 2x1".split())
    assert record["problem"]["distribution"] == "patch:3,40,5,60" and record["valid"]


def test_nothing_left_to_move(run_record: Callable[..., dict[str, Any]]) -> None:
    """Catches a right run that fails at its end because it has moved no particle."""
    record = run_record(*"pic --size 8 --steps 2 --warmup 1 --event remove:1:0,7,0,7".split())
    assert record["rate"]["value"] == 0 and record["particles_placed"]


def test_rate_counts_the_particles_that_were_there() -> None:
    """Catches a rate of particles that were asked for, or were there before or after."""
    problem = problem_of(events=events("inject:2:100:0,5,0,5", "remove:4:0,23,0,23"))
    measures = solve(problem, (2, 1), 6).outcome.measures
    count = measures["placed"].value
    assert problem.work_done(0, 6, measures) == 6 * count + 4 * 100 - 2 * (count + 100)
    assert problem.work_done(3, 5, measures) == 2 * (count + 100) - (count + 100)


REFUSED = {
    "--size 7": "--size 7: must be even",
    "--size 0": "--size 0: must be even",
    "--particles 0": "--particles 0: must be 1 or more",
    "--size 20000000 --particles 5": "needs 400000.0 GB of memory at least",
    "-k -1": "-k -1: must be 0 or more",
    "--size 100 -k 30 --pe-grid 2x1": "-k 30: blocks must be 2k = 60 cells wide, one is 50",
    "--size 100 -k 13 --pe-grid 4x1 --driver mpi -n 4": "2k = 26 cells wide, one is 25",
    "--size 100 -m 51 --pe-grid 1x2": "-m 51: blocks must be 51 cells high, one is 50",
    "--size 100 -m -60 --pe-grid 1x2": "-m -60: blocks must be 60 cells high, one is 50",
    "--size 100 --pe-grid 4x1 --event inject:1:5:0,1,0,1:20,0": "0,1:20,0: blocks must be 2k = 40",
    "--size 100 --pe-grid 1x2 --event inject:1:5:0,1,0,1:0,-51": "0,1:0,-51: blocks must be 51",
    "--time-tile 0": "--time-tile 0: must be auto or 1 or more",
    "--time-tile x": "an integer, or auto",
    "--size 104 -k 1 --pe-grid 4x1 --time-tile 10": "--time-tile 10: must be at most 9 here",
    "--size 100 -m -4 --pe-grid 1x4 --time-tile 7": "--time-tile 7: must be at most 6 here",
    "--distribution normal": "geometric:RHO, sinusoidal",
    "--distribution geometric:x": "geometric: with numbers",
    "--distribution geometric:-1": "RHO must be above 0",
    "--distribution linear:3,1": "ALPHA at most BETA",
    "--distribution patch:5,3,0,9": "the patch must lie within cells 0 to 999",
    "--distribution patch:5,1000,0,9": "the patch must lie within cells 0 to 999",
    "--event inject:3": "must be inject:STEP:N:",
    "--event remove:x:0,1,0,1": "must be inject:STEP:N:",
    "--event remove:1:0,1,0,1:1.5": "FRACTION must be from 0 to 1",
    "--event inject:-1:5:0,1,0,1": "STEP must be 0 or more",
    "--event inject:1:5:0,1,0,1:-1,0": "K must be 0 or more",
    "--event remove:200:0,1,0,1": "the run makes steps 0 to 109",
    "10 100 5 0 1": "pic 10 100 5 0 1: must be STEPS L PARTICLES K M",
    "10 100 5 0 1 GEOMETRIC": "must be STEPS L PARTICLES K M",
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_input_is_refused(refused: Callable[..., str], words: str) -> None:
    """Catches a problem that cannot be run as asked, and is launched all the same."""
    assert REFUSED[words] in refused("run", "pic", *words.split())


def test_weak_scaling_keeps_the_work() -> None:
    """Catches a problem that grows in particles but not in space, or to an odd size."""
    problem = problem_of(size=100, particles=1000)
    for pes in (1, 2, 3, 4, 7):
        grown = problem.weak(pes)
        assert grown.particles == 1000 * pes and grown.size % 2 == 0
        assert abs(grown.size**2 / (100**2 * pes) - 1) < 0.02
    json.dumps(problem.parameters())


def test_summary_says_where_particles_come_from() -> None:
    """Catches a summary from which nobody can see what was run, and "1 cells"."""
    problem = PicProblem(m=1, distribution=Distribution("sinusoidal"))
    record = {"problem": problem.parameters(), "particles_placed": 12}
    assert problem.lines(record) == [
        "initial positions: 12 particles at centres of cells, sinusoidal",
        "initial velocities: 0 cells per step along x, 1 along y",
    ]
