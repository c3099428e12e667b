"""The performance model: counts, formula, fits, predictions, and the machines that it reads.

Truth comes from loops over blocks and particles, and from synthetic machines whose costs are known.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import math
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import support
from figure_faults import faults
from test_study_report import Canned

from miniapps import apps, kernels
from miniapps.devices.backend import get
from miniapps.drivers.hosts import hosts as parsed
from miniapps.loads import Loads
from miniapps.parameters import InputError
from miniapps.pic.distribution import Distribution
from miniapps.stencil3d.problem import load_factor
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.model import (
    campaigns,
    check,
    command,
    errors,
    fitting,
    formula,
    machine,
    measure,
    overlay,
    predict,
    published,
)
from miniapps.workbench.model.campaigns import Cell
from miniapps.workbench.model.formula import Situation
from miniapps.workbench.model.machine import Machine
from miniapps.workbench.run.cases import Case
from miniapps.workbench.show import model_figure
from miniapps.workbench.study import figures, plan
from miniapps.workbench.study.analysis import Result
from miniapps.workbench.study.cells import number, with_bounds
from miniapps.workbench.study.overlay import NOTE, Overlay
from miniapps.workbench.study.report import read_study
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.table import Table

RESULTS = support.ROOT / "docs" / "results"
UNKNOWN = {f"{name}.jsonl" for name in ("amr-lb", "cg-strong", "transpose-strong")}  # no loads
STUDIES = sorted({path.name for path in RESULTS.glob("*.jsonl")} - UNKNOWN)


def known(**changes: Any) -> Machine:
    """A machine of round costs."""
    found = machine.read("two-cores")
    changed = {name: Interval(value, value / 2, value * 2) for name, value in changes.items()}
    return dataclasses.replace(found, costs={**found.costs, **changed})


def problem_of(app: str, **values: Any) -> Any:
    return apps.load(app).Problem(**values)


# Counts ------------------------------------------------------------------------------------------

GRIDS = [
    ("jacobi2d", {"size": (23, 17), "time_tile": 1}, (2, 2), 2),
    ("jacobi2d", {"size": (40, 31), "time_tile": 3}, (3, 1), 2),
    ("jacobi2d", {"size": (24, 18), "time_tile": 2, "boundary": "periodic"}, (2, 2), 1),
    ("stencil3d", {"size": (13, 9, 11), "time_tile": 2}, (2, 1, 2), 2),
    ("stencil3d", {"size": (12, 9, 7), "time_tile": 1, "boundary": "zero"}, (1, 2, 1), 1),
]


@pytest.mark.parametrize(("app", "values", "grid", "odf"), GRIDS)
def test_faces_are_those_that_blocks_send(app, values, grid, odf):
    """Catches a wrong length of a message, or a message that no block sends."""
    layout = support.layout_of(problem_of(app, **values), grid, odf)
    problem = problem_of(app, **values)
    loads = apps.load(app).loads(problem, layout)
    for index in layout.indices():
        block = apps.load(app).Block(problem, layout, index, get("cpu"))
        sent = {edge: face.nbytes for edge, face in block.faces().items()}
        counted = {flow.edge: float(flow.bytes[index]) for flow in loads.flows if flow.edge in sent}
        assert counted == sent
        assert {flow.edge for flow in loads.flows} >= set(sent)
    assert {flow.per_step for flow in loads.flows} == {1 / problem.time_tile}


@pytest.mark.parametrize(("app", "values", "grid", "odf"), GRIDS)
def test_swept_cells_are_those_of_each_sweep(app, values, grid, odf):
    """Catches ghosts that are swept too often, or on a side without a neighbour."""
    problem = problem_of(app, **values)
    layout = support.layout_of(problem, grid, odf)
    cells = apps.load(app).loads(problem, layout).units["cells"]
    for index in layout.indices():
        around = layout.neighbors(index)
        total = 0
        for sweep in range(problem.time_tile):
            lengths = []
            for axis, (low, high) in enumerate(layout.bounds(index)):
                both = [tuple(s * (a == axis) for a in range(len(index))) for s in (-1, 1)]
                more = sum(edge in around for edge in both) * (problem.time_tile - 1 - sweep)
                lengths.append(high - low + more)
            total += math.prod(lengths)
        assert cells[index] == pytest.approx(total / problem.time_tile)


@pytest.mark.parametrize("step", [0, 3, 40])
@pytest.mark.parametrize("text", ["geometric:0.97", "linear:1,3", "sinusoidal", "patch:3,20,5,30"])
def test_particles_are_those_that_are_placed(text: str, step: int) -> None:
    """Catches particles in a wrong block, also after they have moved around the mesh."""
    size, k, m = 64, 1, -2
    problem = problem_of(
        "pic", size=size, particles=3000, k=k, m=m, distribution=Distribution.parse(text)
    )
    layout = support.layout_of(problem, (2, 2), 2)
    means = problem.distribution.means(problem.particles, size)
    kept = np.array(problem.distribution.kept(size))
    pic = kernels.load("pic", "cpu")
    counts = np.zeros(size, np.int64)
    own = np.array([0, size, 0, size])
    pic.count_columns(means, own, kept, size, counts)
    cells = np.empty(counts.sum(), np.int64)
    pic.place(means, own, kept, size, cells)
    x = (cells // size + (2 * k + 1) * step) % size
    y = (cells % size + m * step) % size
    found = apps.load("pic").loads(problem, layout, step).units["particles"]
    assert found.sum() == len(cells)
    for index in layout.indices():
        (x0, x1), (y0, y1) = layout.bounds(index)
        inside = (x0 <= x) & (x < x1) & (y0 <= y) & (y < y1)
        assert found[index] == inside.sum()


def test_expected_particles_are_near_the_drawn_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches another distribution where the mesh is too large to draw every number."""
    problem = problem_of("pic", size=400, particles=100_000)
    layout = support.layout_of(problem, (2, 2))
    loads, module = apps.load("pic").loads, importlib.import_module("miniapps.pic.loads")
    drawn = loads(problem, layout, 5).units["particles"]
    monkeypatch.setattr(module, "EXACT", 0)
    module.counted.cache_clear()
    expected = loads(problem, layout, 5).units["particles"]
    module.counted.cache_clear()
    np.testing.assert_allclose(expected, drawn, rtol=0.03)
    assert not np.array_equal(expected, drawn)


@pytest.mark.long
@pytest.mark.parametrize(
    "values",
    [{"lattice": (8, 8, 6)}, {"cells": (4, 4, 4), "per_cell": 20, "cutoff": 2.0, "skin": 0.3}],
)
def test_atoms_and_pairs_are_those_around_blocks(values: dict[str, Any]) -> None:
    """Catches ghosts that are missing, and pairs within a block that are counted twice."""
    problem = problem_of("leanmd", **values)
    layout = support.layout_of(problem, (2, 1, 1))
    found = apps.load("leanmd").loads(problem, layout)
    index = (1, 0, 0)
    low, high = problem.corners(layout, index)
    _, position = problem.sites(np.zeros(3), problem.box)
    mine = ((position >= low[:, None]) & (position < high[:, None])).all(0)
    images = np.array(list(itertools.product((-1, 0, 1), repeat=3))).T
    every = position[:, :, None] + (images * problem.box[:, None])[:, None, :]
    near = (every >= (low - problem.reach)[:, None, None]) & (
        every < (high + problem.reach)[:, None, None]
    )
    total = near.all(0).sum()
    assert found.units["atoms"][index] == pytest.approx(total, rel=0.07)
    own, all_near = position[:, mine], every[:, near.all(0)]
    distance2 = ((own[:, :, None] - all_near[:, None, :]) ** 2).sum(0)
    close = ((distance2 < problem.reach**2) & (distance2 > 0)).sum()
    inside = ((own[:, :, None] - own[:, None, :]) ** 2).sum(0)
    within = ((inside < problem.reach**2) & (inside > 0)).sum()
    pairs = close - within / 2  # those of two own atoms are computed once
    assert found.units["pairs"][index] == pytest.approx(pairs, rel=0.12)


def test_the_synthetic_load_is_that_of_the_blocks_part() -> None:
    """Catches a block with the load of another part, or of another step."""
    problem = problem_of("stencil3d", size=(12, 12, 12), imbalance="paper", time_tile=1)
    layout = support.layout_of(problem, (4, 1, 1), 2)
    for step in (0, 31, 200):
        cells = apps.load("stencil3d").loads(problem, layout, step).units["cells"]
        for index in layout.indices():
            low_high = layout.bounds(index)
            plain = math.prod(high - low for low, high in low_high)
            factor = load_factor(problem, layout.pe(index), 4, step)
            assert cells[index] == pytest.approx(plain * (1 + factor))


# Formula -----------------------------------------------------------------------------------------


def by_hand(known: Machine, asked: Situation, loads: Loads) -> float:
    """Seconds per step, by loops over the blocks of each PE; for a load that does not change."""
    layout, case = asked.layout, asked.case
    cost = {name: interval.value for name, interval in known.costs.items()}
    sharing = min(layout.pes, known.pes_per_host)
    compute, runtime, rounds = ([0.0] * layout.pes for _ in range(3))
    memory = [0.0] * layout.pes
    for index in layout.indices():
        memory[layout.pe(index)] += loads.memory[index]
    for index in layout.indices():
        pe = layout.pe(index)
        for kind, units in loads.units.items():
            slow = known.slowdown(asked.app, kind, np.array(memory[pe]), loads.sweeps, sharing)
            compute[pe] += units[index] * cost[f"kernel.{asked.app}.{kind}"] * float(slow)
        runtime[pe] += cost[f"driver.{case.driver}.block_s"]
        for flow in loads.flows:
            for peer in layout.peers(index, [flow.edge]).values():
                there = layout.pe(peer.block)
                apart = there // known.pes_per_host != pe // known.pes_per_host
                where = "hosts" if apart else "inside" if there == pe else "between"
                own = f"driver.{case.driver}"
                runtime[pe] += flow.per_step * cost[f"{own}.message_{where}_s"]
                runtime[pe] += flow.per_step * flow.bytes[index] * cost[f"{own}.byte_{where}_s"]
                latency = {"inside": 0.0, "between": cost[f"{own}.latency_s"]}
                latency["hosts"] = cost.get(f"{own}.latency_hosts_s", 0.0)
                rounds[pe] = max(rounds[pe], flow.per_step * latency[where])
    steps = [
        c + r + max(0.0, waits - c * (1 - 1 / case.odf))
        for c, r, waits in zip(compute, runtime, rounds, strict=True)
    ]
    return max(steps)


HOSTS = {
    "driver.charm.message_hosts_s": 2e-4,
    "driver.charm.byte_hosts_s": 3e-9,
    "driver.charm.latency_hosts_s": 2e-3,
    "driver.charm.latency_s": 4e-4,
}


@pytest.mark.parametrize(
    ("app", "values", "pes", "odf", "per_host"),
    [
        ("jacobi2d", {"size": (300, 200), "time_tile": 2}, 4, 1, 8),
        ("jacobi2d", {"size": (300, 200), "time_tile": 1, "boundary": "periodic"}, 6, 4, 2),
        ("stencil3d", {"size": (32, 28, 24), "time_tile": 2}, 8, 2, 4),
        ("leanmd", {"lattice": (12, 12, 12)}, 4, 2, 2),
        ("pic", {"size": 128, "particles": 5000, "time_tile": 1, "k": 0, "m": 0}, 4, 2, 2),
    ],
)
def test_the_formula_is_that_of_each_block(app, values, pes, odf, per_host):
    """Catches a message to a wrong place, a PE that is not the slowest, and what is hidden."""
    own = dataclasses.replace(known(**HOSTS), pes_per_host=per_host)
    asked = Situation(app, problem_of(app, **values), Case("charm", pes, odf), steps=1)
    loads = apps.load(app).loads(asked.problem, asked.layout, 0)
    assert formula.predicted(own, asked) == pytest.approx(by_hand(own, asked, loads), rel=1e-9)


@pytest.mark.parametrize("boundary", ["periodic", "zero"])
def test_each_pe_pays_for_the_messages_of_its_own_blocks(boundary: str) -> None:
    """Catches messages across an end of the domain, and PEs inside that send as those at an end."""
    own = dataclasses.replace(known(**HOSTS), pes_per_host=2)
    problem = problem_of("jacobi2d", size=(60, 60), time_tile=2, boundary=boundary)
    asked = Situation("jacobi2d", problem, Case("charm", 12, 2), pe_grid=(4, 3))
    layout, found = asked.layout, formula.counts(own, asked)
    flows = apps.load("jacobi2d").loads(problem, layout, 0).flows
    sent = dict.fromkeys(itertools.product(range(12), machine.WHERE), 0.0)
    for index in layout.indices():
        for flow in flows:
            for peer in layout.peers(index, [flow.edge]).values():
                pe, there = layout.pe(index), layout.pe(peer.block)
                where = "inside" if pe == there else "between" if pe // 2 == there // 2 else "hosts"
                sent[pe, where] += flow.per_step
    for (pe, where), messages in sent.items():
        name = found.names.index(f"driver.charm.message_{where}_s")
        assert found.runtime[0, pe, name] == messages, (pe, where)


@pytest.mark.parametrize(("parts", "grid"), [(4, None), (6, (2, 3))])
def test_a_driver_with_one_pe_has_every_part_as_a_block(parts, grid):
    """Catches a serial run that pays for fewer or more blocks than its parts, or for PEs."""
    asked = Situation("jacobi2d", problem_of("jacobi2d"), Case("serial", parts=parts), pe_grid=grid)
    found = formula.counts(known(), asked)
    runtime = found.runtime[0, :, found.names.index("driver.serial.block_s")]
    assert (runtime.tolist(), found.odf) == ([parts], parts)


def test_an_app_without_loads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a traceback where the app of a user does not say what its blocks compute."""
    monkeypatch.delattr(apps.load("echo"), "loads")
    with pytest.raises(InputError, match="APP echo: has no loads, which the model needs"):
        formula.counts(known(), Situation("echo", problem_of("echo"), Case("serial")))


# Loads that change -------------------------------------------------------------------------------

SAMPLED = [15, 25, 35, 45, 55, 65, 75, 85]  # of 80 steps after 10 of warm-up


def multiply_loads(monkeypatch: pytest.MonkeyPatch, app: str, by: dict[int, float]) -> list[int]:
    """Multiply the work of an app in some steps; returns the steps asked for, as they come."""
    module, asked = apps.load(app), []
    plain = module.loads

    def loads(problem: Any, layout: Any, step: int) -> Loads:
        asked.append(step)
        found = plain(problem, layout, step)
        units = {kind: units * by.get(step, 1.0) for kind, units in found.units.items()}
        return dataclasses.replace(found, units=units)

    monkeypatch.setattr(module, "loads", loads)
    return asked


def test_loads_are_taken_in_the_middle_of_equal_parts_of_the_run(monkeypatch):
    """Catches loads of the warm-up, or of steps after the end."""
    asked = multiply_loads(monkeypatch, "jacobi2d", {})
    problem = problem_of("jacobi2d", size=(200, 200))
    formula.counts(known(), Situation("jacobi2d", problem, Case("serial"), 80, 10))
    assert asked == SAMPLED


@pytest.mark.parametrize("step", SAMPLED)
def test_a_load_that_differs_in_a_part_of_the_run_counts_for_that_part(step, monkeypatch):
    """Catches a change that is not seen because the first and the last step are alike."""
    problem = problem_of("jacobi2d", size=(200, 200))
    asked = Situation("jacobi2d", problem, Case("serial"), 80, 10)
    plain = formula.predicted(known(), asked)
    work = formula.counts(known(), asked)
    compute = float((work.compute @ formula.values(known(), work.names))[0, 0])
    multiply_loads(monkeypatch, "jacobi2d", {step: 3.0})
    more = formula.predicted(known(), asked) - plain
    assert more == pytest.approx(2 * compute / 8, rel=1e-9)


def test_a_load_before_the_first_load_balancing_step_is_not_balanced(monkeypatch):
    """Catches balancing in the step before its first, or not in its first, when loads change."""
    own = known(**{"balancing.kept": 1e-9, "balancing.Greedy": 1e-12})

    def seconds(first: int, balancer: str | None = "Greedy") -> float:
        problem = problem_of("leanmd", cells=(8, 8, 8), gradient=_gradient())
        case = Case("charm", 2, 8, balancer, 200 if balancer else 0)
        return formula.predicted(own, Situation("leanmd", problem, case, 80, 10, first))

    plain, even = seconds(11, None), seconds(11)
    assert plain > 1.1 * even
    for first, before in [(11, 0), (15, 0), (16, 1), (55, 4), (56, 5), (86, 8)]:
        expected = (before * plain + (8 - before) * even) / 8
        assert seconds(first) == pytest.approx(expected, rel=1e-9), first
    multiply_loads(monkeypatch, "leanmd", dict.fromkeys(SAMPLED, 3.0))
    heavy = seconds(11, None)
    monkeypatch.undo()
    multiply_loads(monkeypatch, "leanmd", {15: 3.0, 25: 3.0})
    assert seconds(30) == pytest.approx((2 * heavy + 6 * even) / 8, rel=1e-9)


# Hidden latency, and load balancing --------------------------------------------------------------


def test_over_decomposition_hides_latency_until_blocks_cost_more() -> None:
    """Catches latency that is hidden by one block, by too much, or by nothing."""
    own = known(**HOSTS | {"driver.charm.latency_s": 2e-3})
    problem = problem_of("jacobi2d", size=(4000, 4000), time_tile=1)
    times = {
        odf: formula.predicted(own, Situation("jacobi2d", problem, Case("charm", 2, odf)))
        for odf in (1, 2, 4, 64)
    }
    assert times[2] < times[1] - 1.9e-3 and times[2] < times[64]
    quick = formula.predicted(known(), Situation("jacobi2d", problem, Case("charm", 2, 1)))
    assert times[1] - quick == pytest.approx(2e-3 - 1e-5, rel=1e-6)


def test_memory_is_shared_by_the_pes_of_a_host() -> None:
    """Catches PEs that each have the bandwidth of the whole host, and caches that do not help."""
    own = known()
    memory = np.array([1e5, 1e9])
    alone = own.slowdown("jacobi2d", "cells", memory, 1, 1)
    many = own.slowdown("jacobi2d", "cells", memory, 1, 64)
    assert alone[0] == many[0] == 1 and 2 < alone[1] < many[1]
    assert many[1] == pytest.approx(24 * 64 / 54.9e9 / 2.7e-10, rel=0.02)
    assert own.slowdown("jacobi2d", "cells", memory, 16, 1)[1] < 1.1
    assert own.slowdown("pic", "particles", memory, 1, 64).tolist() == [1, 1]


def test_an_asynchronous_device_hides_the_host() -> None:
    """Catches the host's time added to that of a device that runs beside it."""
    own = dataclasses.replace(known(), asynchronous=True)
    asked = Situation("jacobi2d", problem_of("jacobi2d", size=(4000, 4000)), Case("serial"))
    found = formula.counts(own, asked)
    costs = formula.values(own, found.names)
    parts = float((found.compute @ costs).max()), float((found.runtime @ costs).max())
    assert float(found.seconds(costs)) == pytest.approx(sum(p**4 for p in parts) ** 0.25)


def balanced(own: Machine, period: int, steps: int = 100, first: int | None = None) -> float:
    """Seconds per step of an uneven problem, balanced."""
    problem = problem_of("leanmd", cells=(8, 8, 8), gradient=_gradient())
    case = Case("charm", 2, 8, "Greedy", period)
    return formula.predicted(own, Situation("leanmd", problem, case, steps, lb_first=first))


def _gradient() -> Any:
    return next(
        field.metadata["parse"]("100,250")
        for field in dataclasses.fields(apps.load("leanmd").Problem)
        if field.name == "gradient"
    )


def test_balancing_evens_out_and_is_paid() -> None:
    """Catches balancing that is free, that works before its first step, or keeps nothing."""
    free = {"balancing.kept": 1e-9, "balancing.Greedy": 1e-12}
    problem = problem_of("leanmd", cells=(8, 8, 8), gradient=_gradient())
    asked = Situation("leanmd", problem, Case("charm", 2, 8))
    own = known(**free)
    plain = formula.predicted(own, asked)
    found = formula.counts(own, asked)
    compute = (found.compute @ formula.values(own, found.names))[0]
    ideal = compute.max() - compute.mean()
    assert plain - balanced(own, 1000, 100, first=0 + 1) == pytest.approx(ideal, rel=0.2)
    kept = known(**free | {"balancing.kept": 0.5})
    whole, half = (plain - balanced(m, 10, first=1) for m in (own, kept))
    assert half == pytest.approx(whole / 2, rel=1e-6)
    assert balanced(own, 50) == pytest.approx((plain + balanced(own, 1, first=1)) / 2, rel=0.07)
    paid = known(**free | {"balancing.Greedy": 1e-3})
    assert balanced(paid, 10) - balanced(own, 10) == pytest.approx(8e-3 / 10 * 7 / 8, rel=0.05)
    assert balanced(own, 100_000) == pytest.approx(plain)


def test_balancing_in_each_step_is_paid_in_each_step() -> None:
    """Catches a shortest period of more than one step."""
    free, paid = (known(**{"balancing.Greedy": cost}) for cost in (1e-12, 1e-3))
    cost = balanced(paid, 1, first=1) - balanced(free, 1, first=1)
    assert cost == pytest.approx(8e-3, rel=1e-6)  # 8 blocks of a PE


def test_a_balancer_that_keeps_everything_loses_only_its_cost() -> None:
    """Catches a draw of the costs by which balancing makes loads worse than they were."""
    problem = problem_of("leanmd", cells=(8, 8, 8), gradient=_gradient())
    own = known(**{"balancing.kept": 3.0, "balancing.Greedy": 1e-3})
    plain = formula.predicted(own, Situation("leanmd", problem, Case("charm", 2, 8)))
    assert balanced(own, 10, first=1) == pytest.approx(plain + 8e-3 / 10, rel=1e-6)


def test_balancing_does_not_hide_the_longest_wait() -> None:
    """Catches a balanced step in which all PEs wait as short as the one without another host."""
    own = dataclasses.replace(known(**HOSTS | {"balancing.Greedy": 1e-12}), pes_per_host=2)
    problem = problem_of("jacobi2d", size=(400, 100), time_tile=1)
    plain, moved = (
        formula.predicted(own, Situation("jacobi2d", problem, case, lb_first=1, pe_grid=(4, 1)))
        for case in (Case("charm", 4, 1), Case("charm", 4, 1, "Greedy", 5))
    )
    assert moved == pytest.approx(plain, rel=1e-6)


def test_balancing_cannot_split_a_block() -> None:
    """Catches a gain beyond the heaviest block: one block per PE has nothing to move."""
    own = known(**{"balancing.kept": 1e-9, "balancing.Greedy": 1e-12})
    problem = problem_of("leanmd", cells=(8, 8, 8), gradient=_gradient())
    plain, moved = (
        formula.predicted(own, Situation("leanmd", problem, case, lb_first=1))
        for case in (Case("charm", 2, 1), Case("charm", 2, 1, "Greedy", 5))
    )
    assert moved == pytest.approx(plain, rel=1e-6)


def test_a_cost_that_is_missing_is_named() -> None:
    """Catches a message between hosts that costs nothing because it was never measured."""
    asked = Situation("jacobi2d", problem_of("jacobi2d"), Case("mpi", 8))
    with pytest.raises(InputError, match="has no cost driver.mpi.message_hosts_s"):
        formula.counts(known(), asked)


# Fits to synthetic machines ----------------------------------------------------------------------

TRUTH = {
    "kernel.jacobi2d.cells": 4.1e-10,
    "kernel.jacobi2d.blocks": 1.7e-5,
    "driver.charm.block_s": 1.1e-5,
    "driver.charm.message_between_s": 4.4e-5,
    "driver.mpi.message_between_s": 0.9e-5,
}


def cells_of(true: Machine, noise: float, seed: int, power: float = 1.0) -> list[Cell]:
    """A campaign on a machine of known costs: jacobi2d in sizes from small to large."""
    random = np.random.default_rng(seed)
    made = []
    sizes = [(64, 64), (256, 256), (512, 512), (1024, 1024), (2048, 2048)]
    cases = [Case("mpi", 2), Case("charm", 2, 1), Case("charm", 2, 4), Case("mpi", 1)]
    for index, (size, case) in enumerate(itertools.product(sizes, cases)):
        problem = problem_of("jacobi2d", size=size, time_tile=1)
        counts = formula.counts(true, Situation("jacobi2d", problem, case))
        seconds = float(counts.seconds(formula.values(true, counts.names))) ** power
        times = seconds * np.exp(random.normal(0, noise, 5))
        record = {"wall_s": 1.0, "steps": 1, "oversubscribed": False}
        records = tuple(record | {"wall_s": float(time)} for time in times)
        made.append(Cell(Result(index, case, problem.parameters(), records), counts))
    return made


def test_a_fit_finds_the_costs_that_the_campaign_shows() -> None:
    """Catches a fit that stays at the machine's costs, or weighs long runs only."""
    cells = cells_of(known(**TRUTH), 0.01, 1)
    found = fitting.corrected(known(), cells)
    for name in ("kernel.jacobi2d.cells", "driver.charm.message_between_s"):
        assert found.costs[name].value == pytest.approx(TRUTH[name], rel=0.15), name
    both = sum(TRUTH[name] for name in ("kernel.jacobi2d.blocks", "driver.charm.block_s"))
    fitted = (found.costs[n].value for n in ("kernel.jacobi2d.blocks", "driver.charm.block_s"))
    assert sum(fitted) == pytest.approx(both, rel=0.1)


def test_a_fit_may_begin_far_away() -> None:
    """Catches a bootstrap that ends by an error because the best costs are far from a draw's."""
    own, name = known(), "kernel.jacobi2d.cells"
    value = own.cost(name).value
    counts = SimpleNamespace(names=(name,), seconds=lambda costs: costs[0])
    cell: Any = SimpleNamespace(counts=counts, times=np.array([value]))
    for far in (1e-9, 1e9):
        start = fitting.with_costs(own, {name: value * far})
        found = fitting._solve(own, [name], [cell], cell.times, start)
        assert found == {name: pytest.approx(value, rel=1e-3)}


@pytest.mark.long
def test_errors_of_left_out_cells_are_those_of_the_noise() -> None:
    """Catches a cell that helps to predict itself, and a formula that is wrong but well fitted."""
    right = fitting.leave_one_out(known(), cells_of(known(**TRUTH), 0.01, 2))
    assert errors.mean_error(right) < 0.03
    assert all(one.error == one.predicted_s / one.measured_s - 1 for one in right)
    wrong = fitting.leave_one_out(known(), cells_of(known(**TRUTH), 0.01, 2, power=1.3))
    assert errors.mean_error(wrong) > 0.2


@pytest.mark.long
def test_a_left_out_cell_does_not_predict_itself() -> None:
    """Catches leaving out another cell than the one that is predicted, or none.

    A single cell shows what a message of Charm4Py costs, so without it the machine's cost is left.
    """
    true = known(**{"driver.charm.message_between_s": 3e-4})
    several = cells_of(true, 0.0, 3)
    alone = next(cell for cell in several if cell.result.case == Case("charm", 2, 1))
    cells = [cell for cell in several if cell.result.case.driver == "mpi"] + [alone]
    *_, last = fitting.leave_one_out(known(), cells)
    seconds = float(alone.counts.seconds(formula.values(known(), alone.counts.names)))
    assert last.predicted_s == pytest.approx(seconds, rel=0.1) and last.error < -0.5


def test_each_cell_is_predicted_from_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a neighbour that is left out, too, and a fit to no cell at all."""
    own, name = known(), "kernel.jacobi2d.cells"
    counts = SimpleNamespace(names=(name,), seconds=lambda costs: costs[0])
    cells: Any = [SimpleNamespace(counts=counts, times=np.array([s])) for s in (1.0, 2.0, 4.0)]
    monkeypatch.setattr(fitting, "corrected", lambda _, others: fitting.with_costs(
        own, {name: sum(cell.times[0] for cell in others)}))  # fmt: skip
    found = fitting.leave_one_out(own, cells)
    assert [one.predicted_s for one in found] == pytest.approx([6.0, 5.0, 3.0])
    (alone,) = fitting.leave_one_out(own, cells[:1])
    assert alone.predicted_s == own.cost(name).value


@pytest.mark.slow
def test_intervals_contain_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches intervals without the scatter of trials, of the machine's costs, or of the model."""
    monkeypatch.setattr(fitting, "DRAWS", 60)
    true, inside = known(**TRUTH), 0
    asked = Situation("jacobi2d", problem_of("jacobi2d", size=(700, 700)), Case("charm", 2, 8))
    seconds = formula.predicted(true, asked)
    for seed in range(3):
        fitted = fitting.fit(known(), cells_of(true, 0.03, 10 + seed)[:12])
        step, _ = fitted.predict(formula.counts(known(), asked))
        inside += step.low <= seconds <= step.high
        assert step.low < step.value < step.high < 2 * step.low
    assert inside == 3
    unfitted, _ = fitting.from_machine(known()).predict(formula.counts(known(), asked))
    assert unfitted.low < seconds < unfitted.high and unfitted.high > 1.5 * unfitted.low


def test_draws_follow_the_machines_intervals() -> None:
    """Catches draws that are too narrow or too wide: 99 % of them belong into the interval."""
    own = machine.read("two-cores")
    drawn = fitting.from_machine(own).draws
    cost = own.costs["kernel.pic.particles"]
    spread = np.log(drawn["kernel.pic.particles"]).std()
    assert spread == pytest.approx(math.log(cost.high / cost.low) / 5.15, rel=0.25)


def test_many_pes_need_no_memory_for_every_draw() -> None:
    """Catches arrays of all draws x PEs, for which 10^6 PEs needed more than 20 GB."""
    pes = np.ones((formula.SAMPLES, 1000, 1))
    name = "kernel.jacobi2d.cells"
    counts = formula.Counts((name,), 1, pes, pes, pes, pes[:, :0], np.zeros(8, bool), None, 1)
    tracemalloc.start()
    try:
        step, drawn = fitting.from_machine(known()).predict(counts)
        assert tracemalloc.get_traced_memory()[1] < 20 * pes.nbytes
    finally:
        tracemalloc.stop()
    assert step.value == pytest.approx(3 * known().cost(name).value) and drawn.size == 200


# Predictions -------------------------------------------------------------------------------------


def predictions(own: Machine, cases: list[Case], **values: Any) -> list[predict.Prediction]:
    fitted = fitting.from_machine(own)
    problem = problem_of("leanmd", **values)
    asked = [Situation("leanmd", problem, case, 100) for case in cases]
    return [predict.prediction(fitted, one) for one in asked]


def test_the_best_odf_is_the_shortest() -> None:
    """Catches an ODF that is not the fastest, votes of others, and a line over the wrong axis."""
    own = known(**{"driver.charm.latency_s": 5e-3})
    found = predictions(own, [Case("charm", 2, odf) for odf in (1, 2, 8)], lattice=(20, 20, 20))
    best = min(found, key=lambda one: one.step.value)
    _, table = predict.tables("odf", found)
    ((_, pes, odf, votes, gain),) = table.rows
    assert (pes, odf) == ("2", str(best.case.odf)) and odf != "1"
    assert gain == f"{found[0].step.value / best.step.value:.2f}"
    assert float(votes.rstrip("%")) >= 50
    steps = [one.step for one in found]
    assert predict.lines("odf", found) == {"charm, 2 PEs": [*zip((1, 2, 8), steps, strict=True)]}
    by_pes = {f"charm ODF {n}": [(2, step)] for n, step in zip((1, 2, 8), steps, strict=True)}
    assert predict.lines("strong", found) == by_pes


@pytest.mark.parametrize(
    ("cost", "result"), [(1e-7, predict.PAYS), (1e-1, predict.LOSES), (8e-3, predict.UNSURE)]
)
def test_balancing_pays_if_its_gain_is_above_one(cost: float, result: str) -> None:
    """Catches a result against the interval of the gain."""
    own = known(**{"balancing.Greedy": cost})
    cases = [Case("charm", 2, 8), Case("charm", 2, 8, "Greedy", 5)]
    found = predictions(own, cases, cells=(8, 8, 8), gradient=_gradient())
    _, table = predict.tables("lb", found)
    ((_, _, imbalance, _, period, said),) = table.rows
    assert said == result and 1.3 < float(imbalance) < 1.5
    gained, paid = found[1].counts.balance(found[1].costs)
    assert period == number(paid / gained.mean(), 2)
    assert imbalance == f"{predict.imbalance(found[1]):.2f}"
    assert paid == pytest.approx(8 * cost)


def two_steps(pes: int, ms: float) -> predict.Prediction:
    """A prediction of two sampled steps, in which PEs compute 3 and 1 ms, then 1 and 1."""
    name, own = "kernel.pic.particles", (machine.balancing(machine.KEPT), "balancing.Greedy")
    compute, none = np.zeros((2, 2, 3)), np.zeros((2, 2, 3))
    compute[..., 0] = [[3, 1], [1, 1]]
    counts = formula.Counts(
        (name, *own), 1, compute, none, none, none, np.zeros(2, bool), "Greedy", 5
    )
    problem = problem_of("pic", size=64, particles=100)
    asked = Situation("pic", problem, Case("mpi", pes))
    step = Interval(ms * 1e-3, ms * 1e-3, ms * 1e-3)
    return predict.Prediction(asked, counts, step, np.ones(1), np.array([1e-3, 0.5, 0.01]))


@pytest.mark.parametrize(("kind", "shares"), [("strong", ["-", "80.0%"]), ("weak", ["-", "320.0%"]),
                                              ("lb", ["-", "-"])])  # fmt: skip
def test_efficiencies_are_those_of_the_kind(kind: str, shares: list[str]) -> None:
    """Catches weak scaling that is told as strong, and a share of the mean PE or of all samples."""
    found = [two_steps(2, 8.0), two_steps(8, 2.5)]
    rows = predict.tables(kind, found)[0].rows
    assert [row[-1] for row in rows] == shares
    assert [row[-2] for row in rows] == ["25.0%", "80.0%"]  # 2 of 8 and of 2.5 ms
    assert rows[1][3] == "2.500 [2.500, 2.500]"
    assert predict.imbalance(found[0]) == pytest.approx(4 / 3)
    assert predict.least_period(found[0]) == pytest.approx(0.01 / 0.25e-3)
    kept = dataclasses.replace(found[0], costs=np.array([1e-3, 1.0, 0.01]))  # nothing is gained
    with np.errstate(divide="raise"):
        assert predict.least_period(kept) == math.inf


@pytest.mark.parametrize(
    ("plain", "ms", "bounds", "said"),
    [
        (np.linspace(0.5, 1.5, 1001), 8.0, (2.0, 1.01, 2.99), predict.PAYS),
        (np.full(1001, 0.5), 4.0, (1.0, 1.0, 1.0), predict.UNSURE),
    ],
)
def test_the_interval_of_a_gain_has_99_percent_of_the_draws(plain, ms, bounds, said):
    """Catches 90 % of the draws, a gain upside down, and a run as long as without balancing."""
    found = []
    for case, length, draws in (
        (Case("charm", 2, 8), ms, plain),
        (Case("charm", 2, 8, "Greedy", 5), 4.0, np.full(1001, 0.5)),
    ):
        one = two_steps(2, length)
        asked = dataclasses.replace(one.situation, case=case)
        found.append(dataclasses.replace(one, situation=asked, drawn=draws))
    ((*_, gain, _, result),) = predict.balancing_table(found).rows
    assert (gain, result) == (with_bounds(Interval(*bounds)), said)


def test_predicted_interval_and_noise() -> None:
    """Catches another level, errors of cells left out that widen nothing, and trials as means."""
    own = machine.read("two-cores")
    name = "kernel.jacobi2d.cells"
    counts: Any = SimpleNamespace(names=(name,), seconds=lambda costs: costs[0])
    step, _ = fitting.Fitted(own, {name: np.arange(1001.0) - 500}).predict(counts)
    value = own.costs[name].value
    assert (step.low, step.value, step.high) == (-495, value, 495)
    missed = [fitting.LeftOut(None, 1.0, seconds) for seconds in (1 / 1.1, 1.1)]  # type: ignore[arg-type]
    step, _ = fitting.Fitted(own, {name: np.full(50, value)}, missed).predict(counts)
    wide = 1.1**2.5758  # standard deviations of a normal distribution have 99 % of it inside
    assert (step.low, step.high) == pytest.approx((value / wide, value * wide), rel=0.02)
    scatter = math.sqrt(2) / 2 / math.sqrt(2)  # of two trials: the mean is 2
    assert fitting._noise(np.array([1.0, 3.0])) == pytest.approx(math.hypot(0.03, scatter))


# Published tables and our own campaigns ----------------------------------------------------------


@pytest.mark.parametrize(
    ("predicted_s", "error"), [(0.5, -0.5), (1.5, 0.0), (3.0, 0.0), (8.0, 1.0)]
)
def test_errors_are_those_to_the_published_interval(predicted_s: float, error: float) -> None:
    """Catches a prediction within a published interval that counts as wrong."""
    row: Any = SimpleNamespace(published_s=2.0, low_s=1.0, high_s=4.0)
    assert check.Checked(row, predicted_s, 0.5).error == error
    assert check.Checked(row, predicted_s, 0.5).holds == (predicted_s < 8)


def checked(bounds_ms: tuple[float, float], ms: float, fitted: bool = True) -> check.Checked:
    """A published interval, the middle of which is what is published, and a prediction."""
    low, high = (bound * 1e-3 for bound in bounds_ms)
    row = published.Row("mpi", 2, None, (low + high) / 2, low, high, fitted)  # type: ignore[arg-type]
    return check.Checked(row, ms * 1e-3, 0.1)


TEN, WIDE, BESIDE = (10.0, 10.0), (8.0, 9.96), "not fitted: "
CHECKED: list[tuple[tuple[str, ...], str | None, dict[Any, tuple[str, ...]], float, int]] = [
    (  # costs that are fitted; their reason why it fails; rows and cells; largest error in %
        ("a", "b"), None, {
            checked(TEN, 10.5): ("10.00", "10.50", "+5.0%", check.HOLDS),
            checked(TEN, 9.2): ("10.00", "9.200", "-8.0%", check.HOLDS),
            checked(TEN, 20, False): ("10.00", "20.00", "+100.0%", BESIDE + check.FAILS),
            checked(TEN, 10, False): ("10.00", "10.00", "+0.0%", BESIDE + check.HOLDS),
            checked(WIDE, 7.6, False): ("8.00 to 9.96", "7.600", "-5.0%", BESIDE + check.HOLDS),
            checked(WIDE, 9, False):
                ("8.00 to 9.96", "9.000", "+0.0%", f"{BESIDE}within the published interval"),
        }, 8, VALID,
    ),
    (("a",), None, {checked(TEN, 12): ("10.00", "12.00", "+20.0%", check.FAILS)}, 20, WRONG),
    ((), "waits", {checked(TEN, 12, False): ("10.00", "12.00", "+20.0%", check.FAILS)}, 20, VALID),
    ((), "waits", {checked(TEN, 10, False): ("10.00", "10.00", "+0.0%", check.HOLDS)}, 0, WRONG),
]  # fmt: skip


@pytest.mark.parametrize(("free", "fails", "rows", "largest", "status"), CHECKED)
def test_what_the_check_says(free, fails, rows, largest, status, monkeypatch, tmp_path):
    """Catches a table that fails unseen, rows that count and do not, and numbers in s."""
    table = published.Published("t", "f", "m", free, 0.1, "Note.", fails=fails)
    monkeypatch.setattr(check, "TABLES", [table])
    monkeypatch.setattr(check, "machine_of", lambda _: None)
    monkeypatch.setattr(published.Published, "rows", lambda *_: [])
    monkeypatch.setattr(check, "predictions", lambda *_: [*rows])
    shown: list[Table] = []
    drawn: list[Any] = []
    monkeypatch.setattr(check, "show", shown.extend)
    monkeypatch.setattr(model_figure, "checked_figure", drawn.append)
    monkeypatch.setattr(check, "write", lambda _, path: drawn.append(path))
    figure = tmp_path / "x.png"
    assert check.check(figure) == status
    assert drawn == [{"t": [(one.row, one.predicted_s) for one in rows]}, figure]
    (found,) = shown
    assert found.rows == tuple(("mpi", *cells) for cells in rows.values())
    word = check.HOLDS if largest < 10 else check.FAILS
    reasons = [f"Why it fails: {fails}"] if fails else []
    assert found.notes == (f"{word}: largest error {largest:.1f}%, limit 10%", "Note.", *reasons)
    fitted = f"; m, fitted: {', '.join(free)}, each row from the others)" if free else "; m)"
    assert found.title == f"t (studies/published/f.json{fitted}"


@pytest.mark.long
@pytest.mark.parametrize("table", published.TABLES, ids=lambda table: table.title)
def test_published_tables(table: Any) -> None:
    """Catches a model that no longer predicts what others have published.

    Also a reason for a failure that is none any more.
    """
    own = check.machine_of(table)
    found = check.predictions(table, table.rows(own), own)
    validated = [one for one in found if one.row.fitted or not table.free]
    assert validated and all(one.holds for one in validated) == (table.fails is None)


@pytest.mark.long
def test_a_wrong_distribution_of_particles_is_seen() -> None:
    """Catches a check of PIC that passes for any tiles: with L = 2998 it does not."""
    table = next(table for table in published.TABLES if table.title == published.PIC)
    own = machine.read(table.machine)
    cells = []
    for row, pes in zip(table.rows(own)[1:], (48, 96, 192, 384, 768), strict=True):
        problem = problem_of(
            "pic", size=2998, particles=600_000, distribution=Distribution("geometric", (0.999,))
        )
        counts = formula.counts(own, Situation("pic", problem, Case("mpi", pes), steps=1))
        cells.append(dataclasses.replace(row, counts=counts))
    assert not all(one.holds for one in check.predictions(table, cells, own))


@pytest.mark.long
def test_a_published_value_is_predicted_from_the_others() -> None:
    """Catches a constant that is fitted to the value that it then predicts."""
    table = next(table for table in published.TABLES if table.title == published.STRONG)
    own = machine.read(table.machine)
    rows = table.rows(own)
    before = check.predictions(table, rows, own)[3]
    rows[3] = dataclasses.replace(rows[3], published_s=2 * rows[3].published_s)
    assert check.predictions(table, rows, own)[3].predicted_s == before.predicted_s


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_errors_of_our_own_campaigns(name: str) -> None:
    """Catches a model whose mean error on a campaign of docs/results is above 15 %."""
    own = machine.read("two-cores")
    cells = campaigns.cells(own, read_study(RESULTS / name))
    found = fitting.leave_one_out(own, cells)
    assert errors.mean_error(found) <= errors.LIMIT
    assert len(found) == len(cells) > 3


# Machines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", machine.shipped())
def test_machines_can_be_read_and_written(name: str, tmp_path: Path) -> None:
    """Catches a machine that says not where its costs are from, or is another after writing."""
    found = machine.read(name)
    assert found.sources and all(found.sources)
    path = tmp_path / "again.toml"
    path.write_text(machine.text_of(found))
    again = machine.read(path)
    assert again.costs.keys() == found.costs.keys() and again.moved == found.moved | again.moved
    for cost, other in zip(found.costs.values(), again.costs.values(), strict=True):
        assert dataclasses.astuple(other) == pytest.approx(dataclasses.astuple(cost), rel=1e-5)
    same = dataclasses.replace(again, costs=found.costs, memory=found.memory, moved=found.moved)
    assert same == found


BROKEN = [
    ("name = ", "is no TOML"),
    ("pes_per_host = 0", "pes_per_host must be an integer of 1 or more"),
    ("strange = 1", "unknown keys 'strange'"),
    ("\nstream = 1e9", "unknown keys 'memory.stream'"),
    ("[kernel]\njacobi2d = 3", "must be a table"),
    ("[kernel.pic.particles]\nseconds = [3, 1]", "must be [value, low, high]"),
    ("[kernel.pic.particles]\nseconds = [3, 4, 5]", "low first"),
    ("[kernel.pic.particles]\nseconds = [1, 0, 5]", "numbers above 0"),
    ("[kernel.pic.particles]\nseconds = [1, 1, inf]", "numbers above 0"),
    ("[kernel.pic.particles]\nbytes = 3", "kernel.pic.particles.seconds"),
    ("[driver.mpi]\nspeed = [1, 1, 1]", "driver.mpi has 'speed', no cost"),
    ("[balancing]\n'a b' = [1, 1, 1]", "no balancer"),
    ("[[balancing]]\n", "balancing must be a table"),
    ("[kernel.pic.particles]\nseconds = [1, 1, 1]\nbytes = -8", "a finite number of 0 or more"),
    ("memory = 3", "the file.memory must be an object"),
]


@pytest.mark.long
@pytest.mark.parametrize(("text", "words"), BROKEN)
def test_broken_machines_are_refused_in_one_line(text: str, words: str, tmp_path: Path) -> None:
    """Catches a traceback, or a cost that is taken without a look."""
    whole = {
        "name": 'name = "m"', "sources": 'sources = ["s"]', "pes_per_host": "pes_per_host = 2",
        "memory": "[memory]\n" + "\n".join(f"{key} = 1e9" for key in machine.MEMORY),
    }  # fmt: skip
    key = text.split(" ")[0].strip("[]")
    lines = [line for own, line in whole.items() if own != key]
    path = tmp_path / "m.toml"
    path.write_text("\n".join([text, *lines] if "\n" not in text else [*lines, text]))
    error = support.refused(["model", "errors", RESULTS / "pic-lb.jsonl", "--machine", path])
    assert words in error, error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["strong", "jacobi2d", "--machine", "cray"], "none of cray-xc40"),
        (["strong", "jacobi2d", "--machine", "two-cores", "--pes", "4"], "no cost driver.mpi"),
        (["errors", "nothing.jsonl", "--machine", "two-cores"], "nothing.jsonl: cannot be read"),
        (["strong", "jacobi2d", "--pes", "0", "--machine", "two-cores"], "--pes 0"),
        (["errors", "nothing.jsonl"], "nothing.jsonl: cannot be read"),
        (["strong", "jacobi2d", "--fit", "nothing.jsonl"], "nothing.jsonl: cannot be read"),
        (["strong", "jacobi2d", "--fit", f"{RESULTS}/pic-lb.jsonl"], "lb.jsonl: has runs of pic"),
        (["check", "--figure", "/nowhere/x.png"], "--figure /nowhere/x.png"),
        (["check", "--figure", "x.xyz"], "--figure x.xyz: must end in .png, .svg, .pdf"),
        (["strong", "jacobi2d", "--machine", "two-cores", "--figure", "x"], "x: must end in .png"),
        (["lb", "jacobi2d", "--machine", "two-cores", "--drivers", "mpi"], "--drivers mpi"),
        (["strong", "jacobi2d", "--machine", "two-cores", "--dtype", "float32"], "must be float64"),
        (["odf", "jacobi2d", "--machine", "two-cores", "--tolerance", "1e-3"], "not counted"),
        (
            ["lb", "pic", "--machine", "two-cores", "--odf", "2", "--event", "inject:5:9:0,4,0,4"],
            "model pic: has no --event",
        ),
        *((["strong", app], f"APP {app}: has no loads") for app in ("cg", "transpose", "amr")),
        (["measure", "--hosts", "a:2"], "--hosts a:2: must be two hosts or more"),
    ],
)
def test_bad_input(words, said, monkeypatch, tmp_path):
    """Catches bad input that is no single line, or is seen after this machine was measured."""
    monkeypatch.setattr(measure, "measured", lambda *_: pytest.fail("measures this machine"))
    monkeypatch.setattr(measure, "own_file", lambda: tmp_path / "this.toml")
    assert said in support.refused(["model", *words])


# Measuring ---------------------------------------------------------------------------------------


def synthetic_records(true: Machine) -> Any:
    """Makes records as a machine of known costs would."""

    def record_of(run: measure.Run) -> dict[str, Any]:
        problem = apps.load(run.app).Problem(**run.problem)
        own = dataclasses.replace(true, pes_per_host=1) if run.hosts else true
        asked = Situation(run.app, problem, run.case, run.steps)
        seconds = formula.predicted(own, asked)
        layout = asked.layout
        return {
            "wall_s": seconds * run.steps,
            "steps": run.steps,
            "warmup": 0,
            "problem": problem.parameters(),
            "pe_grid": list(layout.pe_grid),
            "host": {"system": "Linux", "processor": "Abacus", "cores": 2, "memory_bytes": 2**33},
            "rate": {"value": problem.work() / seconds, "unit": "points/s"},
        }

    return record_of


@pytest.mark.long
def test_a_synthetic_machine_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Catches a measurement that does not see a cost, or takes it for another."""
    hosts = {f"driver.{name}.{cost}": value for name in ("mpi", "charm") for cost, value in (
        ("message_hosts_s", 7e-5), ("byte_hosts_s", 2e-9), ("latency_hosts_s", 1e-6)
    )}  # fmt: skip
    wanted = {
        "kernel.jacobi2d.cells": 5e-10, "kernel.jacobi2d.blocks": 4e-5,
        "kernel.stencil3d.cells": 9e-10, "kernel.pic.particles": 2e-8,
        "driver.mpi.message_between_s": 3e-5, "driver.charm.byte_between_s": 9e-10, **hosts,
    }  # fmt: skip
    true = known(**wanted)
    monkeypatch.setattr(measure, "record_of", synthetic_records(true))
    monkeypatch.setattr(measure, "CACHES", tmp_path)
    monkeypatch.setattr(measure.environment, "cores", lambda: 2)
    monkeypatch.setattr(fitting, "DRAWS", 3)
    start = known()  # of one host
    monkeypatch.setattr(measure.machine, "read", lambda name: start)
    found = measure.measured(parsed("a:2,b:2"))
    for name in ("jacobi2d", "stencil3d"):
        cells = f"kernel.{name}.cells"
        assert found.costs[cells].value == pytest.approx(wanted[cells], rel=0.25), cells
    particles = found.costs["kernel.pic.particles"].value
    assert particles == pytest.approx(2e-8, rel=0.05)
    asked = Situation("echo", problem_of("echo", bytes=4096), Case("charm", 2, 4))
    assert formula.predicted(found, asked) == pytest.approx(
        formula.predicted(true, asked), rel=0.15
    )
    apart = dataclasses.replace(found, pes_per_host=1), dataclasses.replace(true, pes_per_host=1)
    for case in (Case("mpi", 2), Case("charm", 2)):
        here, there = (
            formula.predicted(one, Situation("echo", problem_of("echo"), case)) for one in apart
        )
        assert here == pytest.approx(there, rel=0.15), case
    assert found.pes_per_host == 2 and "Abacus" in found.name


@pytest.mark.parametrize("pes", [1, 2])
def test_bandwidth_is_that_of_all_pes_together(pes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches the bandwidth of one PE taken for that of a host, and the slowest of the trials."""
    own, name = known(), "kernel.jacobi2d.cells"
    in_cache, per_pe = own.cost(name).value, 4e9  # B/s, the limit of a PE
    seconds = (in_cache**4 + (own.moved["jacobi2d.cells"] / per_pe) ** 4) ** 0.25  # of a cell
    rates = itertools.cycle(pes / seconds * slower for slower in (0.5, 1.0, 0.7))
    monkeypatch.setattr(measure, "record_of", lambda _: {"rate": {"value": next(rates)}})
    case = Case("mpi", pes)
    assert measure.bandwidth(own, (64, 64), case, 9) == pytest.approx(pes * per_pe)


def test_caches_are_those_of_the_system(tmp_path: Path) -> None:
    """Catches a cache of instructions, of the first level, or one that is counted for every PE."""
    for index, level, size, shared in ((0, 1, "32K", "0"), (2, 2, "1024K", "0"),
                                       (3, 3, "16384K", "0-3,8")):  # fmt: skip
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("level", level), ("size", size), ("shared_cpu_list", shared)):
            (folder / name).write_text(f"{text}\n")
    found = measure.caches(tmp_path, 4)
    assert found == {"cache_bytes": 2**20, "last_cache_bytes": 2**24 / 4}
    assert measure.caches(tmp_path / "none", 4) == {}
    assert measure.caches(tmp_path, 64)["last_cache_bytes"] == 2**24 / 5


# Figures and the command -------------------------------------------------------------------------


def crosses(axes: Any) -> list[tuple[float, float]]:
    """The places of predictions in a figure of a study."""
    found = [line for line in axes.get_lines() if line.get_marker() == "x"]
    return sorted((float(x), float(y)) for line in found for x, y in line.get_xydata())


@pytest.mark.long
def test_predictions_are_drawn_over_the_points_of_a_study() -> None:
    """Catches a cross at another point's place, in s, or an efficiency that is its inverse."""
    canned = Canned("strong")
    for pes, times in ((1, [8.0, 8.0]), (2, [5.0, 5.0])):
        canned.point("mpi", pes, times)
    values = {0: Interval(7e-3, 6e-3, 9e-3), 1: Interval(4e-3, 3e-3, 5e-3)}
    drawn = figures.figures(canned.campaign(), Overlay(values, Table("", (), ())))
    assert crosses(drawn["step-time"].axes[0]) == [(1, pytest.approx(7)), (2, pytest.approx(4))]
    assert crosses(drawn["speed-up"].axes[0]) == [(2, pytest.approx(8 / 4))]
    assert crosses(drawn["efficiency"].axes[0]) == [(2, pytest.approx(8 / 4 / 2))]
    assert NOTE.split(":")[0] in drawn["step-time"].get_suptitle()
    assert crosses(figures.figures(canned.campaign())["step-time"].axes[0]) == []


def test_intervals_over_a_figure_are_those_of_the_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an interval that is not of 99 %, which is 2.58 standard deviations to each side."""
    cell = SimpleNamespace(result=SimpleNamespace(number=7))
    found = [fitting.LeftOut(cell, 1.0, seconds) for seconds in (1 / 1.1, 1.1)]
    monkeypatch.setattr(overlay, "leave_one_out", lambda *_: found)
    monkeypatch.setattr(overlay, "errors_table", lambda *_: None)
    monkeypatch.setattr(campaigns, "cells", lambda *_: [])
    made = overlay.overlay(known(), None).predicted[7]
    wide = 1.1**2.5758
    assert dataclasses.astuple(made) == pytest.approx((1.1, 1.1 / wide, 1.1 * wide))


def test_predicted_gains_are_those_of_the_bars() -> None:
    """Catches a gain beside another bar, or that of the balanced run over itself."""
    canned = Canned("lb")
    canned.point("charm", 2, [8.0, 8.2], odf=4, imbalance=1.5)
    canned.point("charm", 2, [5.0, 5.1], odf=4, balancer="Greedy")
    values = {0: Interval(9e-3, 8e-3, 1e-2), 1: Interval(6e-3, 5e-3, 7e-3)}
    drawn = figures.figures(canned.campaign(), Overlay(values, Table("", (), ())))
    assert crosses(drawn["gain"].axes[0]) == [(pytest.approx(1.5), pytest.approx(-0.19))]


@pytest.mark.long
def test_figures_of_predictions() -> None:
    """Catches a band that is not the interval, times in s, and texts that overlap."""
    lines = {"mpi": [(1, Interval(4e-3, 3e-3, 6e-3)), (2, Interval(2e-3, 1e-3, 3e-3))]}
    problem = problem_of("jacobi2d")
    drawn = model_figure.figure_of("strong", "a machine", "jacobi2d", [problem], lines)
    (axes,) = drawn.axes
    (line,) = (line for line in axes.get_lines() if line.get_label() == "mpi")
    assert line.get_xydata().tolist() == [[1, 4], [2, 2]]
    (band,) = axes.collections
    ys = {(x, y) for x, y in band.get_paths()[0].vertices.tolist()}
    assert {(1, 3), (1, 6), (2, 1), (2, 3)} <= ys
    assert faults(drawn, ["jacobi2d", "a machine", "mpi"]) == []


@pytest.mark.long
def test_the_figure_of_the_check() -> None:
    """Catches predicted and published values exchanged, or one table's values in another panel."""
    table = next(table for table in published.TABLES if table.title == published.GPU)
    own = machine.read(table.machine)
    rows = [(row, 2 * row.published_s) for row in table.rows(own)]
    drawn = model_figure.checked_figure({table.title: rows, "alone": rows[:1]})
    (axes,) = drawn.axes
    predicted = crosses(axes)
    assert predicted == [(row.place, pytest.approx(2e3 * row.published_s)) for row, _ in rows]
    assert [place for place, _ in predicted] == [1, 2, 4, 8] and axes.get_title() == table.title
    assert faults(drawn, ["published", "predicted"]) == []


def test_kinds_of_prediction_say_what_is_predicted() -> None:
    """Catches a help that says which runs a study makes, where nothing runs."""
    assert {*command.KINDS} == {*plan.KINDS} - {"granularity"}
    assert not {*command.KINDS.values()} & {*plan.KINDS.values()}


@pytest.mark.long
def test_a_prediction_from_the_command_line(tmp_path: Path) -> None:
    """Catches a command that ends badly, a figure that is not written, and a table without rows."""
    figure = tmp_path / "scaling.png"
    words = ["--size", "2000x2000", "--machine", "cray-xc40", "--pes", "64,512", "--odf", "1,2"]
    done = support.in_process("model", "strong", "jacobi2d", *words, "--figure", figure, check=True)
    rows = [line.split() for line in done.stdout.splitlines() if "2000x2000" in line]
    assert [row[0] for row in rows] == ["mpi", "charm", "charm"] * 2
    assert figure.stat().st_size > 1000 and "machine: KNL nodes" in done.stdout
