"""Jacobi2D and Stencil3D: right answers on every decomposition, and wrong programs found out."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import math
import tracemalloc
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import support
from hypothesis import assume, given
from hypothesis import strategies as st
from profiles import examples

from miniapps import apps, grid, grid_faults, kernels
from miniapps.contract import Exchange, Measure
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.drivers.descriptor import Options
from miniapps.drivers.engine import Engine
from miniapps.drivers.sim import SimOptions
from miniapps.drivers.sim import driver as sim
from miniapps.faults import Fault, catalogue
from miniapps.grid_block import GridBlock
from miniapps.jacobi2d.block import JacobiBlock
from miniapps.parameters import InputError
from miniapps.stencil3d.problem import load_factor
from miniapps.workbench.run import record
from miniapps.workbench.run.spec import RunSpec

SIZES = {"jacobi2d": (13, 11), "stencil3d": (13, 11, 9)}
GRIDS = {"jacobi2d": (3, 2), "stencil3d": (3, 2, 1)}
APPS = sorted(SIZES)
BOUNDARIES = ("heated", "zero", "periodic")
REFERENCE = "differs from reference"


def problem_of(app: str, **values: Any) -> Any:
    """A small problem of an app."""
    return apps.load(app).Problem(**({"size": SIZES[app], "time_tile": 1} | values))


# The reference itself ----------------------------------------------------------------------------


def loops(problem: Any, steps: int) -> np.ndarray:
    """The definition, cell by cell in Python floats: what `reference` must give bit for bit."""
    size = problem.size
    ghost = {"heated": (255.0, 1.0), "zero": (0.0, 0.0), "periodic": (math.nan, math.nan)}
    low, high = ghost[problem.boundary]
    field = grid.initial_field(problem, tuple((0, n) for n in size))

    def value(cell: tuple[int, ...]) -> float:
        if problem.boundary == "periodic":
            return float(field[tuple(i % n for i, n in zip(cell, size, strict=True))])
        if min(cell) < 0:
            return low
        return high if any(i == n for i, n in zip(cell, size, strict=True)) else float(field[cell])

    for _ in range(steps):
        new = np.empty(size)
        for cell in np.ndindex(*size):
            total = value(cell)
            for axis, by in itertools.product(range(len(size)), (-1, 1)):
                total += value(tuple(i + by * (d == axis) for d, i in enumerate(cell)))
            new[cell] = (0.2 if len(size) == 2 else 1.0 / 7.0) * total
        field = new
    return field


@pytest.mark.parametrize("initial", grid.INITIALS)
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("app", "size"), [("jacobi2d", (7, 5)), ("stencil3d", (5, 4, 3))])
def test_reference_is_the_definition(app, size, boundary, initial):
    """Catches an error that kernels and reference have in common: order, boundary, factor."""
    problem = problem_of(app, size=size, boundary=boundary, initial=initial)
    for steps in (0, 1, 4):
        assert support.same_bits(apps.load(app).reference(problem, steps), loops(problem, steps))


@pytest.mark.parametrize("initial", grid.INITIALS)
@pytest.mark.parametrize("app", APPS)
def test_initial_field_of_a_part(app: str, initial: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a block that starts from its own indices, or loses cells between slabs."""
    problem = problem_of(app, initial=initial)
    whole = grid.initial_field(problem, tuple((0, n) for n in problem.size))
    bounds = tuple((2, n - 1) for n in problem.size)
    part = grid.initial_field(problem, bounds)
    assert support.same_bits(part, np.ascontiguousarray(whole[tuple(slice(*b) for b in bounds)]))
    monkeypatch.setattr(grid, "SLAB_CELLS", 30)
    pieces = [grid.initial_field(problem, slab) for slab in grid.slabs(bounds)]
    assert len(pieces) > 3
    assert support.same_bits(np.concatenate(pieces), part)


@pytest.mark.parametrize("app", APPS)
def test_initial_mode_is_an_eigenvector(app: str) -> None:
    """Catches test modes that are not modes, so that the checks would compare wrong numbers."""
    for boundary in ("zero", "periodic"):
        problem = problem_of(app, boundary=boundary, initial="mode")
        whole = tuple((0, n) for n in problem.size)
        before = grid.initial_field(problem, whole)
        after = apps.load(app).reference(problem, 1)
        decay = grid.mode_decay(problem, grid.smooth_modes(problem)[1])
        assert abs(decay) > 0.1 and np.abs(before).max() > 0.9
        assert np.abs(after - decay * before).max() < 1e-15


# Every decomposition gives the bits of the reference ---------------------------------------------


@st.composite
def runs(draw: st.DrawFn, app: str) -> dict[str, Any]:
    """A problem with uneven blocks, 1 to 3 along each axis, a fitting tile, and steps."""
    axes = len(SIZES[app])
    parts = tuple(draw(st.integers(1, 3)) for _ in range(axes))
    size = tuple(draw(st.integers(n, 4 * n + 3)) for n in parts)
    thinnest = tuple(cells // n for cells, n in zip(size, parts, strict=True))
    odf = draw(st.sampled_from([1, 1, 2, 4]))
    try:
        cut = support.layout_of(problem_of(app, size=size), parts, odf)
    except InputError:
        assume(False)
    problem = problem_of(
        app,
        size=size,
        boundary=draw(st.sampled_from(BOUNDARIES)),
        initial=draw(st.sampled_from(grid.INITIALS)),
        time_tile=draw(st.one_of(st.just("auto"), st.integers(1, cut.thinnest()))),
    )
    assert cut.thinnest() <= min(thinnest)
    steps, warmup = draw(st.integers(1, 10)), draw(st.integers(0, 3))
    return {"problem": problem, "grid": parts, "odf": odf, "steps": steps, "warmup": warmup}


@pytest.mark.long
@pytest.mark.parametrize("app", APPS)
@examples(100)
@given(data=st.data())
def test_serial_engine_gives_the_reference(app: str, data: st.DataObject) -> None:
    """Catches any dependence of the bits on decomposition, ODF, depth, rounds or warm-up."""
    run = data.draw(runs(app))
    solved = support.solve(app, **run)
    steps = run["warmup"] + run["steps"]
    right = apps.load(app).reference(run["problem"], steps)
    assert support.same_bits(solved.fields["u"], right)
    assert solved.failed == set()
    assert REFERENCE in {check.name for check in solved.checks}
    assert solved.outcome.steps_done == steps


# Boundary and halo -------------------------------------------------------------------------------


class ExchangeOnly(GridBlock):
    """A block that fills its ghosts and computes nothing."""

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Exchange halos."""
        self.fill_ghosts((yield from Exchange("halo", self.faces())))
        return False


def check_ghosts(block: Any, field: np.ndarray) -> int:
    """Compare all cells that a sweep may read with the global field; returns how many they were."""
    problem, tile = block.problem, block.problem.time_tile
    low, high = (0.0, 0.0) if problem.boundary == "periodic" else problem.ghost_values()
    spans = []
    for axis, (first, last) in enumerate(block.bounds):
        before, after = (tile if g else 1 for g in block.grow[2 * axis : 2 * axis + 2])
        spans.append(range(first - before, last + after))
    checked = 0
    for cell in itertools.product(*spans):
        local = [
            i - first + start
            for i, (first, _), start in zip(cell, block.bounds, block.own[::2], strict=True)
        ]
        beyond = [
            not first <= i < last for i, (first, last) in zip(cell, block.bounds, strict=True)
        ]
        outside = [not 0 <= i < n for i, n in zip(cell, problem.size, strict=True)]
        if tile == 1 and sum(beyond) > 1:
            continue  # corners are exchanged for tiles only
        if problem.boundary == "periodic" or not any(outside):
            right = field[tuple(i % n for i, n in zip(cell, problem.size, strict=True))]
        elif sum(outside) == 1:
            right = low if min(cell) < 0 else high
        else:
            continue  # no stencil reaches the corners of the domain
        assert block.old[tuple(local)] == right, (block.index, cell)
        checked += 1
    return checked


HALOS = [  # blocks and tiles
    *itertools.product(["jacobi2d"], itertools.product((1, 2, 3), repeat=2), (1, 2, 3)),
    *itertools.product(
        ["stencil3d"], [(1, 1, 1), (2, 1, 3), (3, 2, 1), (1, 3, 2), (2, 2, 2)], (1, 3)
    ),
]


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("app", "blocks", "tile"), HALOS)
def test_halo(app: str, blocks: tuple[int, ...], tile: int, boundary: str) -> None:
    """Catches a face, edge or corner that is swapped, shifted or transposed: a ramp shows all."""
    problem = problem_of(app, boundary=boundary, initial="ramp", time_tile=tile)
    field = grid.initial_field(problem, tuple((0, n) for n in problem.size))
    made = support.blocks_of(app, problem, blocks, ExchangeOnly)
    Engine(made).round(0, tile)
    for block in made:
        own = math.prod(high - low for low, high in block.bounds)
        assert check_ghosts(block, field) > own


def test_blocks_that_share_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches blocks whose ghosts or sweeps a call for several leaves out; a GPU makes such calls.

    Under sim some blocks are a round ahead of others: 3 sweeps in one, 2 in the last one.
    """
    problem = problem_of("jacobi2d", initial="noise", time_tile=3)
    right = support.solve("jacobi2d", problem, (1, 1), 5)
    halo, app = (kernels.load(name, "cpu") for name in ("halo", "jacobi2d"))

    def sweep_all(tasks: Any, sweeps: int) -> int:
        (swept,) = {app.sweep_tile(*both, sweeps, *own, np.array(g)) for *both, own, g in tasks}
        return int(swept)

    for module, name, function in [
        (halo, "pack_all", lambda tasks: [one.pack(field) for one, field in tasks]),
        (halo, "unpack_all", lambda tasks: [one.unpack(*rest) for one, *rest in tasks]),
        (app, "sweep_all", sweep_all),
    ]:
        monkeypatch.setattr(module, name, function, raising=False)
    monkeypatch.setattr(Device, "share_queue", lambda self: True)
    moving = {"driver": sim, "options": SimOptions(seed=3)}
    run = support.solve("jacobi2d", problem, (1, 1), 5, odf=4, **moving)
    assert run.state_hash == right.state_hash
    assert all(check.ok for check in run.checks)


@pytest.mark.parametrize(("app", "size"), [("jacobi2d", (1000, 900)), ("stencil3d", (90, 96, 99))])
def test_a_block_needs_two_arrays(app: str, size: tuple[int, ...]) -> None:
    """Catches a block that keeps or makes another copy of its cells than the old and the new."""
    problem = support.small_problem(apps.load(app), size=size, time_tile=1)
    grid = (1,) * len(size)
    kernels.load(app, "cpu")
    tracemalloc.start()
    try:
        engine = Engine(support.blocks_of(app, problem, grid)).setup()
        engine.round(0, 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.1 * 2 * 8 * math.prod(size)


def test_a_block_goes_on_from_saved_cells() -> None:
    """Catches a block that begins with the initial field again, or counts its steps from 0."""
    (block,) = support.blocks_of("jacobi2d", problem_of("jacobi2d"), (1, 1))
    field = support.noise(SIZES["jacobi2d"], 1)
    block.resume(SimpleNamespace(step=3, cells=lambda name, bounds: field))
    assert block.time == 3
    assert support.same_bits(block.state()[0].values, field)


# Stopping at a tolerance -------------------------------------------------------------------------


def steps_to_tolerance(problem: Any, most: int) -> int:
    """When a run has to stop, by plain NumPy."""
    before = grid.initial_field(problem, tuple((0, n) for n in problem.size))
    for step in range(1, most + 1):
        after = apps.load("jacobi2d").reference(problem, step)
        change = np.abs(after - before).max()
        if step % problem.check_every == 0 and change <= problem.tolerance:
            return step
        before = after
    return most


@pytest.mark.parametrize("tile", [1, 2, 3, "auto"])
@pytest.mark.parametrize("blocks", [(1, 1), (3, 1), (1, 2), (3, 2)])
def test_tolerance_stops_at_the_same_step(blocks: tuple[int, int], tile: int | str) -> None:
    """Catches blocks that stop apart, or at a step that depends on the tile or the blocks."""
    problem = problem_of("jacobi2d", time_tile=tile, tolerance=3.0, check_every=4)
    right = steps_to_tolerance(problem, 60)
    assert right == 32  # neither at once nor never
    solved = support.solve("jacobi2d", problem, blocks, 60)
    assert solved.outcome.steps_done == right and solved.failed == set()
    assert support.same_bits(solved.fields["u"], apps.load("jacobi2d").reference(problem, right))


def test_tolerance_counts_warm_up() -> None:
    """Catches looks at the tolerance that are counted from the first timed step."""
    problem = problem_of("jacobi2d", tolerance=3.0, check_every=4, time_tile=3)
    assert support.solve("jacobi2d", problem, (2, 1), 60, warmup=7).outcome.steps_done == 32
    assert support.solve("jacobi2d", problem, (2, 1), 9, warmup=3).outcome.steps_done == 12


def test_tolerance_stays_as_it_is_without_a_change() -> None:
    """Catches a comparison with < instead of <=: a constant field changes by exactly nothing."""
    problem = problem_of("jacobi2d", boundary="periodic", tolerance=1e-300, check_every=5)
    assert support.solve("jacobi2d", problem, (2, 2), 60).outcome.steps_done == 5


def test_a_run_that_goes_on_when_its_tolerance_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a run that makes all its steps although it must end earlier."""
    problem = problem_of("jacobi2d", tolerance=3.0, check_every=4)
    name = "tolerance met unnoticed"
    early = support.solve("jacobi2d", problem, (2, 1), 28)
    assert [check.value for check in early.checks if check.name == name] == [0]
    right = JacobiBlock.step

    def step(self: JacobiBlock, count: int) -> Generator[Any, Any, bool]:
        yield from right(self, count)
        self.has_met = False
        return False

    monkeypatch.setattr(JacobiBlock, "step", step)
    late = support.solve("jacobi2d", problem, (2, 1), 40)
    assert late.outcome.steps_done == 40 and late.failed == {name}


def test_tolerance_is_never_met_by_nan() -> None:
    """Catches a run full of NaN that counts as converged."""
    problem = problem_of("jacobi2d", tolerance=1e9, check_every=4)
    with grid_faults.nan.applied("jacobi2d"):
        solved = support.solve("jacobi2d", problem, (2, 2), 12)
    assert solved.outcome.steps_done == 12 and REFERENCE in solved.failed


def test_tile_that_cannot_be() -> None:
    """Catches a tile that reaches beyond the neighbour, or jumps over a look at the tolerance."""
    layout = Layout.create((13, 11), (False, False), 6, 1, (3, 2))
    for values in ({"time_tile": 5}, {"time_tile": 4, "tolerance": 1.0, "check_every": 3}):
        with pytest.raises(InputError, match=r"--time-tile \d: must be at most \d here"):
            problem_of("jacobi2d", **values).prepared(layout, "cpu")
    assert problem_of("jacobi2d", time_tile=4).prepared(layout, "cpu").time_tile == 4


# The synthetic imbalance -------------------------------------------------------------------------


def test_load_of_the_paper() -> None:
    """Catches another imbalance than the published one, at its edges and after 30 steps."""
    problem = problem_of("stencil3d", imbalance="paper")
    at = {
        (part, step): load_factor(problem, part, 10, step)
        for part in range(10)
        for step in (0, 1, 30, 31, 60, 61, 1000)
    }
    assert [at[part, 0] for part in range(10)] == [10, 10, 10, 30, 40, 50, 60, 70, 10, 10]
    assert [at[4, step] for step in (0, 1, 30, 31, 60, 61, 1000)] == [40, 45, 45, 50, 50, 55, 210]
    assert all(at[part, step] == 10 for part in (0, 1, 2, 8, 9) for step in (0, 31, 1000))
    assert load_factor(problem, 0, 1, 5) == 10 == load_factor(problem, 0, 2, 5)
    assert load_factor(problem_of("stencil3d"), 4, 10, 31) == 0.0
    half = problem_of("stencil3d", imbalance="paper", imbalance_scale=0.5)
    assert load_factor(half, 4, 10, 31) == 25.0


def test_load_has_no_rounding_at_its_edges() -> None:
    """Catches 0.2 N or 0.8 N that is rounded past a whole number: exact integers decide."""
    problem = problem_of("stencil3d", imbalance="paper")
    for parts in range(1, 400):
        for part in range(parts):
            light = 5 * part <= parts or 5 * part >= 4 * parts
            right = 10.0 if light else 100.0 * part / parts
            assert load_factor(problem, part, parts, 0) == right, (part, parts)


def test_chares_share_the_load_of_their_mpi_block() -> None:
    """Catches an over-decomposition that changes the imbalance itself."""
    problem = problem_of("stencil3d", imbalance="paper", size=(23, 11, 9))
    layout = Layout.create(problem.shape, problem.periodic, 5, 4)
    module = apps.load("stencil3d")
    blocks = [module.Block(problem, layout, index, Device()) for index in layout.indices()]
    assert sorted(block.part for block in blocks) == sorted([0, 1, 2, 3, 4] * 4)
    assert {block.parts for block in blocks} == {5}
    assert all(block.part == layout.pe(block.index) for block in blocks)


@pytest.mark.parametrize("mode", ["wait", "work"])
def test_imbalance_leaves_the_bits(mode: str) -> None:
    """Catches extra work that is visible in the result."""
    plain = problem_of("stencil3d", initial="noise")
    loaded = dataclasses.replace(
        plain, imbalance="paper", imbalance_mode=mode, imbalance_scale=0.07
    )
    for blocks in ((5, 1, 1), (1, 1, 1)):
        solved = support.solve("stencil3d", loaded, blocks, 6)
        assert solved.state_hash == support.solve("stencil3d", plain, blocks, 6).state_hash
        assert solved.failed == set()


def test_waiting_takes_as_long_as_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a load that is not alpha times the sweep, and one that a GPU's clock leaves out.

    A look at the clock takes 1 ms here.
    """
    looks, marks = iter(range(1000)), []
    monkeypatch.setattr("miniapps.stencil3d.block.perf_counter", lambda: 0.001 * next(looks))
    problem = problem_of("stencil3d", imbalance="paper", imbalance_scale=0.4)
    (block,) = support.blocks_of("stencil3d", problem, (1, 1, 1))  # alpha 10, 4 when scaled
    block.device = SimpleNamespace(mark=lambda: marks.append(next(looks)))
    block.bear_load(0.01)
    assert marks == [41]  # the first look is the begin, the last one before the mark the end


@pytest.mark.parametrize(("scale", "sweeps"), [(0.1, 1.0), (0.33, 3.3), (0.05, 0.5), (0.0, 0.0)])
def test_work_is_as_much_as_it_should_be(scale: float, sweeps: float) -> None:
    """Catches a load that is not alpha times the sweep: counted in cells, to one plane."""
    module = apps.load("stencil3d")
    swept = []

    def count(old: Any, new: Any, *region: int) -> None:
        swept.append(math.prod(b - a for a, b in grid_faults.pairs(region)))

    counting = type("Counting", (module.Block,), {"kernels": SimpleNamespace(sweep=count)})
    problem = problem_of(
        "stencil3d", imbalance="paper", imbalance_mode="work", imbalance_scale=scale
    )
    (block,) = support.blocks_of("stencil3d", problem, (1, 1, 1), counting)
    block.bear_load(1e9)
    assert abs(sum(swept) - sweeps * 13 * 11 * 9) <= 0.5 * 11 * 9 + 1e-6


def test_each_step_bears_the_load_of_its_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a step without its load, with that of another step, or of a part of the sweep."""
    module = importlib.import_module("miniapps.stencil3d.block")
    bear_load, clock = module.StencilBlock.bear_load, itertools.count(0.0)
    swept: list[float] = []
    steps: list[int] = []

    def bear(self: Any, seconds: float) -> None:
        swept.append(seconds)
        bear_load(self, seconds)

    def no_load(problem: Any, part: int, parts: int, step: int) -> float:
        steps.append(step)
        return 0.0

    monkeypatch.setattr(module.StencilBlock, "bear_load", bear)
    monkeypatch.setattr(module, "load_factor", no_load)
    monkeypatch.setattr(Device, "mark", staticmethod(lambda: next(clock)))
    support.solve("stencil3d", problem_of("stencil3d", imbalance="paper"), (2, 1, 1), 3)
    assert steps == [0, 0, 1, 1, 2, 2] and swept == [2.0] * 6  # a second each: inside and rest


# Presets and scaling -----------------------------------------------------------------------------


def presets() -> list[tuple[str, str]]:
    """Every preset of every app."""
    return [(app, name) for app in apps.names() for name in apps.load(app).Problem.presets]


@pytest.mark.parametrize(("app", "preset"), presets())
def test_presets_are_problems(app: str, preset: str) -> None:
    """Catches a preset with a misspelt or impossible value, found only when somebody uses it."""
    problem_class = apps.load(app).Problem
    values = dict(problem_class.presets[preset])
    assert values.pop("steps") >= 1 and values.pop("warmup") >= 0
    problem = problem_class(**values)
    assert problem.work() > 0 and problem.steps_per_round is not None
    json.dumps(problem.parameters())
    layout = Layout.create(problem.shape, problem.periodic, 1)
    assert problem.prepared(layout, "cpu").steps_per_round(0) >= 1


@pytest.mark.parametrize("app", apps.names())
def test_usual_presets_exist(app: str) -> None:
    """Catches an app without the presets that the command line offers."""
    assert {"tiny", "small", "large", "paper"} <= set(apps.load(app).Problem.presets)


def test_published_sizes() -> None:
    """Catches another problem under the name of the published one."""
    jacobi, stencil = (apps.load(app).Problem.presets for app in APPS)
    assert jacobi["paper"] == {"size": (24576,) * 2, "steps": 100, "warmup": 10, "time_tile": 1}
    assert jacobi["paper-weak"]["size"] == (6144, 6144)
    assert jacobi["paper-gpu"]["size"] == (73728, 73728)
    assert stencil["paper"]["steps"] == 1000 and stencil["paper"]["imbalance"] == "paper"


@pytest.mark.parametrize(
    ("app", "size", "pes", "grown"),
    [
        ("jacobi2d", (7, 5), 1, (7, 5)),
        ("jacobi2d", (7, 5), 2, (14, 5)),
        ("jacobi2d", (7, 5), 4, (14, 10)),
        ("jacobi2d", (7, 5), 8, (28, 10)),
        ("jacobi2d", (7, 5), 6, (21, 10)),
        ("jacobi2d", (7, 5), 7, (49, 5)),
        ("stencil3d", (5, 4, 3), 2, (10, 4, 3)),
        ("stencil3d", (5, 4, 3), 8, (10, 8, 6)),
        ("stencil3d", (5, 4, 3), 12, (15, 8, 6)),
        ("echo", (7, 5), 6, (21, 10)),
    ],
)
def test_weak_scaling_keeps_the_work_per_pe(app, size, pes, grown):
    """Catches a weak scaling whose work per PE changes, or that grows along y first."""
    one = apps.load(app).Problem(size=size)
    many = one.weak(pes)
    assert many.size == grown
    assert many.work() == pes * one.work()
    assert dataclasses.replace(many, size=size) == one


# Wrong programs must be found --------------------------------------------------------------------

SEEN = [("heated", "noise"), ("zero", "mode"), ("zero", "noise"), ("periodic", "noise")]
# The modes with all waves > 0 are blind to a sum of functions of one coordinate, which a ramp
# stays under periodic averaging: here some mistakes are seen by the reference alone.
BLIND = [("periodic", "ramp")]


STEPS = 8  # that a wrong program is run for: with tiles of 3, the last round is shorter
# Rounding differs, and nothing else: only a comparison can tell.
BITS_ONLY = {
    grid_faults.other_order,
    grid_faults.divided,
    grid_faults.last_bit_off,
    grid_faults.factor_off_in_its_last_bit,
}


def wrong_runs() -> list[tuple[str, Fault, int]]:
    """Every app with every fault that acts without migrations, and the tiles that it needs."""
    return [
        (app, fault, tile)
        for app in APPS
        for fault in catalogue(grid_faults)
        for tile in (1, 3)
        if not fault.migrating and fault.given.get("time_tile", tile) == tile
    ]


@pytest.mark.parametrize(("boundary", "initial"), SEEN + BLIND)
@pytest.mark.parametrize("tile", [1, 3])
@pytest.mark.parametrize("app", APPS)
def test_right_programs_pass(app: str, tile: int, boundary: str, initial: str) -> None:
    """Catches checks that fail always, which would make the tests below worthless."""
    problem = problem_of(app, boundary=boundary, initial=initial, time_tile=tile)
    assert support.solve(app, problem, GRIDS[app], STEPS).failed == set()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("boundary", "initial"), SEEN + BLIND)
@pytest.mark.parametrize(
    ("app", "fault", "tile"), wrong_runs(), ids=lambda v: getattr(v, "name", None)
)
def test_wrong_programs_fail(app, fault, tile, boundary, initial):
    """Catches a validation that cannot fail, with and without the reference.

    Large problems are not solved again; what is seen there are the modes and bounds. They see every
    mistake here but those that only change the rounding (`BITS_ONLY`): these are found by the
    reference, on small problems, alone.
    """
    problem = problem_of(app, boundary=boundary, initial=initial, time_tile=tile)
    with fault.applied(app):
        failed = support.solve(app, problem, GRIDS[app], STEPS).failed
    assert REFERENCE in failed
    if (boundary, initial) not in BLIND:
        assert bool(failed - {REFERENCE}) == (fault not in BITS_ONLY)


@pytest.mark.parametrize("fault", [grid_faults.nan, grid_faults.infinite], ids=lambda f: f.name)
@pytest.mark.parametrize("app", APPS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_check_fails_for_nan(app: str, fault: Fault) -> None:
    """Catches a check that a NaN passes, because no comparison with it holds."""
    problem = problem_of(app, initial="noise")
    with fault.applied(app):
        failed = support.solve(app, problem, GRIDS[app], STEPS).failed
    assert failed == {"beyond bounds", "mode", REFERENCE}


@pytest.mark.parametrize("wrong", [11, 13])
@pytest.mark.parametrize(("boundary", "initial"), SEEN)
@pytest.mark.parametrize("app", APPS)
def test_one_step_too_many_or_too_few(app: str, boundary: str, initial: str, wrong: int) -> None:
    """Catches a miscount of steps: by the modes as well as by the reference."""
    problem = problem_of(app, boundary=boundary, initial=initial)
    solved = support.solve(app, problem, GRIDS[app], 12, validated_steps=wrong)
    assert solved.failed == {"mode", REFERENCE}


@pytest.mark.parametrize("times", ["that is not counted", "that is counted twice"])
@pytest.mark.parametrize("app", APPS)
def test_lost_block(app: str, times: str) -> None:
    """Catches a block that was lost, or counted twice, on its way from PE to PE."""
    with support.with_fault(app, f"results: block {times}"):
        solved = support.solve(app, problem_of(app), GRIDS[app], 3)
    (missing,) = [check for check in solved.checks if check.name == "missing cells"]
    first = solved.layout.bounds(solved.layout.indices()[0])
    assert not missing.ok and missing.value == math.prod(b - a for a, b in first)


def test_block_that_made_no_steps_is_missed() -> None:
    """Catches a record that is valid although a block's timings are not there."""
    solved = support.solve("jacobi2d", problem_of("jacobi2d"), (3, 2), 4)
    spec = RunSpec("jacobi2d", solved.problem, steps=4, warmup=0, pe_grid=(3, 2), own=Options())
    rows = solved.outcome.blocks
    keeps = {
        0: rows,
        1: rows[rows["block"] != 4],
        2: rows[(rows["round"] != 2) | (rows["block"] < 4)],
    }
    for missing, kept in keeps.items():
        outcome = dataclasses.replace(solved.outcome, blocks=kept)
        made = record.build(spec, outcome, 0.0)
        (check,) = [check for check in made["checks"] if check["name"] == "blocks missing"]
        assert check["value"] == missing and made["valid"] is (missing == 0)
        assert ("step_time_s" in made) is (missing == 0)


@pytest.mark.long
def test_two_cells_exchanged_in_a_large_grid() -> None:
    """Catches modes that are all smooth: neighbouring cells have nearly the same weight in them."""
    problem = problem_of("jacobi2d", size=(2048, 1024), boundary="heated", initial="ones")
    field, whole = apps.load("jacobi2d").reference(problem, 8), ((0, 2048), (0, 1024))
    field[[7, 8], 512] = field[[8, 7], 512]  # where heat has just arrived
    sums = grid.projections(problem, whole, field, 8)
    measures = {
        "modes": Measure("sum", sums),
        "min": Measure("min", field.min()),
        "max": Measure("max", field.max()),
        "cells": Measure("sum", field.size),
    }
    failed = [check.name for check in grid.validate(problem, 8, measures, "") if not check.ok]
    assert failed == [f"mode {grid.finest_mode(problem, 8)} error"]


@pytest.mark.parametrize("steps", [2, 8, 100, 10_000])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("app", APPS)
def test_the_finest_mode_is_still_there_after_all_steps(app, boundary, steps):
    """Catches a mode that has decayed, and so cannot fail, or one that is smoother than it need."""
    size = (4096, 3000, 3500)[: apps.load(app).Problem.axes]
    problem = problem_of(app, size=size, boundary=boundary)
    left = grid.mode_decay(problem, grid.finest_mode(problem, steps)) ** steps
    assert 0.2 < left < 0.45


def test_reference_is_left_out_only_where_it_costs_too_much(monkeypatch):
    """Catches a budget that leaves the small problems of the tests without their best check."""
    problem = problem_of("jacobi2d")
    for steps, there in ((3, True), (4, False)):
        monkeypatch.setattr(grid, "REFERENCE_UPDATES", 3 * 13 * 11)
        checks = support.solve("jacobi2d", problem, (2, 1), steps).checks
        assert (REFERENCE in {check.name for check in checks}) is there
