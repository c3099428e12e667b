"""Garbage collections in the steps of a run are rare, and would find nothing, nor after it."""

from __future__ import annotations

import faulthandler
import gc
import sys
import time
from typing import Any

import pytest

from miniapps import workbench
from miniapps.drivers import garbage, timing
from miniapps.drivers.engine import Engine, Runner
from miniapps.workbench import cli
from miniapps.workbench.cli import spec_of
from miniapps.workbench.run.batch import solve_all

RUNS = (
    "jacobi2d --preset tiny --pe-grid 2x2",
    "stencil3d --preset tiny --pe-grid 2x2x1",
    "pic --preset tiny --pe-grid 2x2",
    "leanmd --preset tiny --pe-grid 2x1x1",
    "leanmd --preset tiny --decomposition pairs",
    "echo --preset tiny --pe-grid 2x2",
    "cg --preset tiny --preconditioner sgs --pe-grid 2x1x1",
    "cg --preset tiny --pipelined --pe-grid 2x1x1",
    "transpose --preset tiny --pe-grid 3x1",
    "transpose --preset fft-tiny --pe-grid 2x2x1",
    "amr --preset tiny --pe-grid 2x1",
)


def seen(words: str, look: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What ``look`` returns, called with a function that makes the rounds of a phase, for each."""
    found, play = [], Engine.play

    def looked(*arguments: Any) -> int:
        result, steps = look(lambda: play(*arguments))
        found.append(result)
        return int(steps)

    monkeypatch.setattr(Engine, "play", looked)
    (record,) = solve_all([spec_of(["run", *words.split(), "--steps", "20"])])
    assert record["valid"] is True  # type: ignore[index]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("words", RUNS)
def test_steps_make_no_garbage(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches cycles of objects that steps leave: they would stay, as collections are rare."""

    def collected(play: Any) -> tuple[int, int]:
        gc.collect()
        gc.disable()
        try:
            steps = play()
            return gc.collect(), steps
        finally:
            gc.enable()

    assert set(seen(words, collected, monkeypatch)) == {0}


def there() -> int:
    """How many engines and runners there are that are not frozen."""
    return sum(isinstance(one, Engine | Runner) for one in gc.get_objects())


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("driver", ["serial", "sim"])
@pytest.mark.parametrize("app", ["cg", "amr"])
def test_no_blocks_stay_after_a_run(app, driver, fails, monkeypatch):
    """Catches cycles that keep blocks: many runs in one process need the memory of all of them."""

    def fail(*_: Any) -> None:
        raise ValueError("a block fails")

    if fails:
        monkeypatch.setattr(timing.Stepper, "resume", fail)
    monkeypatch.setattr(faulthandler, "is_enabled", lambda: False)  # crashes are watched, then
    spec = spec_of(["run", app, "--preset", "minimal", "--driver", driver])
    gc.freeze()  # so that few objects are to be looked at
    gc.disable()
    try:
        late = time.monotonic() + 5.0
        (record,) = solve_all([spec])
        assert isinstance(record, str) == fails
        while there() and time.monotonic() < late:
            time.sleep(0.05)  # until the thread has ended that answers what blocks wait for
        assert not there()
    finally:
        gc.enable()


def test_collections_are_rare_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches full collections in steps: 170 ms each, every few rounds of hundreds of blocks."""
    before = gc.get_threshold()
    during = seen(RUNS[0], lambda play: (gc.get_threshold(), play()), monkeypatch)
    assert set(during) == {garbage.RARELY} != {before}
    assert gc.get_threshold() == before


def test_collections_are_rare_in_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches collections of Numba's objects at its start and end, a quarter of a small run."""
    seen: list[Any] = []
    monkeypatch.setattr(sys, "argv", ["miniapps", "list"])
    monkeypatch.setattr(workbench.inherited, "prepare", lambda: None)  # it blocks Ctrl-C
    monkeypatch.setattr(gc, "set_threshold", lambda *how: seen.append(how))
    monkeypatch.setattr(cli, "main", lambda: seen.append("runs") or 5)
    monkeypatch.setattr(gc, "freeze", lambda: seen.append("frozen"))
    assert workbench.main() == 5
    assert seen == [garbage.RARELY, "runs", "frozen"]
