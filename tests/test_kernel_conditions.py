"""The kernels run as plain Python: tests evaluate every condition, with both outcomes."""

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType
from typing import Any

import conditions
import numpy as np
import pytest
import support
import test_pic
from placed_atoms import Placed

from miniapps import apps, kernels
from miniapps.contract import MessageError
from miniapps.devices.cpu import plain
from miniapps.leanmd.atoms import Lists
from miniapps.leanmd.domain import Explosion
from miniapps.pic import faults
from miniapps.pic.block import PicBlock
from miniapps.pic.distribution import Distribution

PIC = [
    "miniapps.kernels.pic.initial",
    *(f"miniapps.kernels.pic.cpu.{name}" for name in ("diagnostics", "migrate", "push", "sort")),
    "miniapps.kernels.pic.cpu",
]
LEANMD = [
    "miniapps.kernels.state_hash.cpu",
    *(f"miniapps.kernels.leanmd.cpu.{name}" for name in ("exchange", "interactions", "motion")),
    *(f"miniapps.kernels.leanmd.cpu.{name}" for name in ("neighbours", "single", "pairs")),
    "miniapps.kernels.leanmd.cpu",
]
# LeanMD's masks of all lanes
ALWAYS = "numbers() != broadcast(-1)", "numbers_of_j() != broadcast_line(np.int32(-1))"


def one_sided(outcomes: conditions.Outcomes) -> set[str]:
    """The conditions that were never true, or never false."""
    return {name for name, seen in outcomes.items() if len(seen) < 2}


def test_conditions_are_noted() -> None:
    """Catches a chained comparison that counts as one, and conditions that are not noted."""
    source = "def f(a, b):\n    while a:\n        return (2 if b else 1) + (0 <= b < 9)\n"
    module, outcomes = ModuleType("m"), {}  # type: ModuleType, conditions.Outcomes
    conditions.execute(source, "m.py", module, outcomes)
    assert [module.f(1, b) for b in (-1, 0, 9)] == [2, 2, 2] and module.f(0, 0) is None
    assert outcomes == {
        name: {True, False} for name in ("m f: a", "m f: b", "m f: 0 <= b", "m f: b < 9")
    }
    module, outcomes = ModuleType("m"), {}
    conditions.execute(source, "m.py", module, outcomes)
    module.f(1, 5)
    assert one_sided(outcomes) == set(outcomes)


def solve_pic(grid: tuple[int, int], steps: int, **values: Any) -> set[str]:
    """The failed checks of a small problem."""
    return support.solve("pic", test_pic.problem_of(**values), grid, steps).failed


class Scattered(PicBlock):
    """Particles are hurled, and what comes is elsewhere: in all directions."""

    def store_immigrants(self, left: int, came: Any) -> None:
        """Take in what came, in other places; hurl all."""
        size, far = self.problem.size, np.array([(-2, 0), (3, 0), (0, -2), (0, 3)])
        elsewhere = {edge: message.copy() for edge, message in came.items()}
        for message in elsewhere.values():
            message[:, :2] += 0.5 * size * np.resize(far, (len(message), 2))
        super().store_immigrants(left, elsewhere)
        mine, count = self.particles, self.particles.count
        mine.vx[:count], mine.vy[:count] = size * np.resize(far, (count, 2)).T


@pytest.mark.slow
def test_every_condition_of_pic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a branch of a kernel that no test enters, where a mistake would go unnoticed."""
    outcomes, app = conditions.as_python(monkeypatch, PIC), apps.load("pic")
    with np.errstate(all="ignore"):
        tiny = support.small_problem(app)
        assert not support.solve("pic", tiny, (3, 3), 10).failed
        assert not solve_pic((2, 2), 2, distribution=Distribution("patch", (3, 9, 4, 20)))
        assert not solve_pic((1, 1), 2, size=6, particles=9, k=3)  # over the whole grid in a step
        assert not solve_pic((3, 1), 4, size=12, particles=99, k=2)  # over a whole block
        for wrong in ("wrong sign", "sent to another neighbour"):
            with support.with_fault("pic", f"pic: {wrong}"), pytest.raises(MessageError):
                solve_pic((3, 3), 8, time_tile=2)
        with support.with_fault("pic", "pic: nan position"):
            assert "position error" in solve_pic((1, 1), faults.MISTAKE_AT + 1, particles=9)
        monkeypatch.setattr(app, "Block", Scattered)
        with pytest.raises(MessageError):
            solve_pic((3, 3), 8, time_tile=2)
    assert one_sided(outcomes) == set()


def solve_atoms(apart: float, speed: float, **values: Any) -> None:
    """Two atoms in a box whose side is 8.4, for a step: along x so far apart and so fast."""
    at = np.array([[2.5, 2.5 + apart], [4.0, 4.0], [4.0, 4.0]])
    problem = Placed(cells=(3, 3, 3), at=at, speed=speed * np.eye(3, 2), **values)
    support.solve("leanmd", problem, (1, 1, 1), 1)


@pytest.mark.slow
def test_every_condition_of_leanmd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a branch of a kernel that neither the preset tiny nor a failing run enters."""
    kernels.load("leanmd", "cpu")  # compiled before the vectors are replaced
    for name in ("vectors", "quads"):
        monkeypatch.setitem(sys.modules, f"miniapps.devices.cpu.{name}", plain)
    outcomes, app = conditions.as_python(monkeypatch, LEANMD), apps.load("leanmd")
    begin = Lists.__init__

    def begin_without_room(lists: Lists, *given: Any, **named: Any) -> None:
        begin(lists, *given, **named)
        lists.neighbors = np.empty(1, np.uint32)

    monkeypatch.setattr(Lists, "__init__", begin_without_room)
    with np.errstate(all="ignore"):
        tiny = support.small_problem(app, rebuild=1)
        single = dataclasses.replace(tiny, dtype="float32")
        for problem in (tiny, single):
            assert not support.solve("leanmd", problem, (2, 1, 1), 1).failed
        failing: list[tuple[str, dict[str, Any]]] = [
            ("from another", {"apart": 0.6, "speed": 0.0}),
            ("from another", {"apart": 0.6, "speed": 0.0, "decomposition": "pairs"}),
            ("from another", {"apart": 0.6, "speed": 0.0, "dtype": "float32"}),
            (
                "from another",
                {"apart": 0.6, "speed": 0.0, "dtype": "float32", "decomposition": "pairs"},
            ),
            ("is faster", {"apart": 3.0, "speed": 2000.0}),
            ("flies too fast", {"apart": 3.0, "speed": 900.0, "dt": 0.03}),
            ("flies too fast", {"apart": 3.0, "speed": -900.0, "dt": 0.03}),
        ]
        for said, values in failing:
            with pytest.raises(Explosion, match=said):
                solve_atoms(**values)
    assert {name for name in one_sided(outcomes) if not name.endswith(ALWAYS)} == set()


def test_every_condition_of_amr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a branch of a sweep or a check that no run enters."""
    outcomes = conditions.as_python(monkeypatch, ["miniapps.kernels.amr.cpu"])
    with np.errstate(all="ignore"):
        tiny = support.small_problem(apps.load("amr"), initial="linear", size=(13, 12))
        assert not support.solve("amr", tiny, (2, 2), 4).failed
        for wrong in ("values stay", "last row left out"):
            with support.with_fault("amr", f"amr: {wrong}"):
                assert "points that are wrong" in support.solve("amr", tiny, (2, 2), 4).failed
    assert outcomes and one_sided(outcomes) == set()


def of_stencil(patch: pytest.MonkeyPatch, app: str) -> conditions.Outcomes:
    """A stencil's kernels as plain Python, in which 500 cells do not fit into the cache."""
    for name in ("vectors", "prefetch"):
        patch.setitem(sys.modules, f"miniapps.devices.cpu.{name}", plain)
    outcomes = conditions.as_python(patch, [f"miniapps.kernels.{app}.cpu"])
    patch.setattr(kernels.load(app, "cpu"), "IN_CACHE", 500)
    return outcomes


JACOBI = [
    ((2, 3), {"size": (31, 43), "time_tile": 2}),
    ((1, 1), {"size": (9, 510), "time_tile": 4}),  # a strip at the end has nothing to sweep
    ((1, 1), {"size": (15, 17), "time_tile": 1, "tolerance": 1e-9, "check_every": 2}),
    ((1, 1), {"size": (31, 43), "time_tile": 1}),
]
STENCIL3D = [
    ((2, 1, 2), {"size": (13, 9, 17), "time_tile": 2}),
    ((2, 1, 1), {"size": (13, 9, 17), "time_tile": 2, "boundary": "heated"}),
    ((1, 1, 1), {"size": (13, 9, 17), "time_tile": 1}),
    ((1, 1, 1), {"size": (5, 5, 17), "time_tile": 1}),
]


@pytest.mark.long
@pytest.mark.parametrize(("app", "cases"), [("jacobi2d", JACOBI), ("stencil3d", STENCIL3D)])
def test_every_condition_of_stencils(monkeypatch, app, cases):
    """Catches a branch of a sweep that no test enters."""
    outcomes, module = of_stencil(monkeypatch, app), apps.load(app)
    axes = len(cases[0][0])
    with np.errstate(all="ignore"):
        for grid, values in cases:
            problem = support.small_problem(module, **values)
            assert not support.solve(app, problem, grid, 4).failed
        old = np.arange(9.0**axes).reshape((9,) * axes)
        new, box = old.copy(), (1, 8) * axes
        kernels.load(app, "cpu").sweep_residual(old, new, *box)
    assert one_sided(outcomes) == set()
