"""The mutation tool: `tests/mutation` changes one thing at a time in kernels and blocks."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from typing import Any

import pytest
from mutation import by_file, numbers, problems, run
from mutation.files import NUMBERS, PHYSICS, ROOT, matching
from mutation.numbers import Reach
from mutation.operators import Mutant, functions, mutants_of

JACOBI = "kernels/jacobi2d/cpu.py"
GRID = "miniapps/grid_block.py"
FEW = problems.JACOBI2D[:2]


@pytest.mark.slow
def test_known_results() -> None:
    """Catches a kernel or block with other results, messages or errors than before.

    Runs of wrong programs end by an error of these two kinds; any other is a mistake here.
    If they are meant to change: ``PYTHONPATH=tests python -m mutation.run --known``.
    """
    known = problems.known()
    ended = {name: facts.partition(":")[0] for name, facts in known.items() if ":" in facts}
    assert not [name for name, by in ended.items() if by not in ("Explosion", "MessageError")]
    assert "error" not in known.values()
    before = json.loads(run.KNOWN.read_text())
    assert known.keys() == before.keys()
    assert [name for name, facts in known.items() if facts != before[name]] == []


def mutant(file: str, change: str) -> Mutant:
    """The mutant with this change."""
    (found,) = [one for one in mutants_of(file) if one.change == change]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "change", "by"),
    [
        (JACOBI, "_row: total = here - line(old, at - row) + line(old, at + row)", run.CHECKS),
        (JACOBI, "sweep: without _sweep(old, new, x0, x1, y0, y1, False)", run.CHECKS),
        (JACOBI, "_row: without prefetch(old, ahead)", run.SURVIVED),
        (GRID, "GridBlock._ghosts: " + "return self.problem.time_tile if "
         "self.grow[2 * axis + side] else 2", run.SURVIVED),
        (GRID, "GridBlock.__init__: self.neighbors = layout.neighbors(index, "
         "diagonals=problem.time_tile >= 1)", run.RESULTS),
    ],
)  # fmt: skip
def test_outcomes(file: str, change: str, by: str) -> None:
    """Catches a tool that changes nothing, and one that kills whatever it changes."""
    assert run.Trials(file, FEW, ()).outcome(mutant(file, change)).by == by


@pytest.mark.slow
def test_a_mutant_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a tool that waits for ever."""
    monkeypatch.setattr(run, "LEAST_S", 0.1)
    endless = mutant("kernels/pic/initial.py", "jump: without steps >>= np.uint64(1)")
    outcome = run.Trials(endless.file, problems.PIC[:1], ()).outcome(endless)
    assert outcome == (run.CHECKS, "ended by signal 26")


@pytest.mark.long
def test_a_function_with_a_cache_is_changed() -> None:
    """Catches a tool that leaves what such a function has returned before the change."""
    file = "miniapps/leanmd/domain.py"
    turned = mutant(
        file, "edge_of: return tuple(((2 + side - 1) * (axis == other) for other in AXES))"
    )
    assert run.Trials(file, problems.LEANMD[1:2], ()).outcome(turned).by == run.CHECKS


@pytest.mark.slow
def test_tests_kill_what_runs_do_not() -> None:
    """Catches a tool whose tests do not see the mutant."""
    file = "miniapps/stencil3d/block.py"
    lazy = mutant(file, "StencilBlock.bear_load: without self.repeat_sweep(factor)")
    trials = run.Trials(file, problems.STENCIL3D[:1], problems.tests_of(file)[1:])
    assert trials.outcome(lazy).by == run.TESTS


@pytest.mark.slow
def test_explanations(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a survivor without an explanation that ends with status 0."""
    file = "miniapps/jacobi2d/block.py"
    kept: list[Any] = []
    monkeypatch.setattr(run, "keep", lambda *found: kept.append(found))
    monkeypatch.setattr(run, "cases_of", lambda file: FEW)
    monkeypatch.setattr("sys.argv", ["run", file])
    assert run.main() == 1
    (_, found), said = kept[0], capsys.readouterr().out
    assert found["unexplained"] == said.count("survives: ") > 0
    sorted_out = found["killed"] + found["explained"] + found["unexplained"]
    assert sorted_out == found["mutants"]
    monkeypatch.setattr(run.Explained, "has", lambda self, mutant: True)
    assert run.main() == 0


@pytest.mark.long
def test_tests_kill_mutants_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches tests that are made without the mutant, or not those that reach it."""
    file = "drivers/timing.py"
    wrong = mutant(file, "imbalance: mean = compute.mean(axis=1).sum()")
    tree = dict(functions(ast.parse((ROOT / file).read_text())))["imbalance",]
    right = replace(wrong, after="the same", tree=tree)
    elsewhere = mutant(file, "PELog.stop: without self.closed = machine.reading()")
    monkeypatch.setattr(numbers, "warm_up", lambda: None)
    found: dict[Mutant, str] = {}
    trials = numbers.Trials([wrong, right, elsewhere], found.__setitem__, [file], None, 1)
    numbers.try_all(["test_timing.py"], trials)
    by = found.pop(wrong)  # which test is first depends on their times
    assert by.startswith("tests/test_timing.py::")
    assert found == {right: "", elsewhere: numbers.UNREACHED}


def test_what_files_of_tests_catch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches mutants that many other files reach, and a file that only repeats another one."""
    file = "drivers/timing.py"
    first, second = sorted({mutant.line for mutant in mutants_of(file)})[:2]
    a, b = "tests/test_a.py::test", "tests/test_b.py::test"
    reach = {a: Reach(1.0, {file: [first, second]}), b: Reach(1.0, {file: [first]})}
    (job,) = by_file.drawn(reach, ["tests/test_a.py"], 1)
    assert job[0] == "tests/test_a.py" and job[1].line == second
    jobs = list(by_file.drawn(reach, ["tests/test_a.py", "tests/test_b.py"], 2))
    assert [(where, one.line) for where, one in jobs] == [
        ("tests/test_a.py", second),
        ("tests/test_a.py", first),
        ("tests/test_b.py", first),
    ]
    monkeypatch.setattr(numbers, "killer", lambda items, some, mutant: next(iter(some), "none"))
    assert by_file.killers({}, reach, job) == (a, b)
    monkeypatch.setattr(numbers, "killer", lambda items, some, mutant: a if a in some else "")
    assert by_file.killers({}, reach, job) == (a, "")
    assert by_file.killers({}, reach, jobs[-1]) == ("", "")


def test_documented_results() -> None:
    """Catches counts in the documentation that are not those of the committed results."""
    page = (ROOT / "docs/checks.md").read_text()
    assert by_file.summary() in " ".join(page.split())
    assert set(json.loads(run.RESULT.read_text())) <= set(matching((*PHYSICS, *NUMBERS)))
