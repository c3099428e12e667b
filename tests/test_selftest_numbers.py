"""Faults of numbers in the selftest: a changed line of a file, which a run or a named test sees."""

from __future__ import annotations

from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import support
import verification

from miniapps import apps, drivers
from miniapps.parameters import InputError
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.selftest import altered, drawn, numbered
from miniapps.workbench.selftest.altered import RUN, Change, Tried, in_process
from miniapps.workbench.selftest.command import Asked, append
from miniapps.workbench.selftest.numbered import FAULTS

LEAST = 150
FILE = "drivers/outcome.py"
RIGHT, WRONG_SUM = "jit_s=max(part", "jit_s=min(part"
PARTS = "test_virtual_time.py::test_parts_of_two_pes"


def test_faults_of_numbers_are_those_of_the_sources() -> None:
    """Catches a fault whose line is no longer there, one with another's name, and a lost list."""
    broken = []
    for fault in FAULTS:
        try:
            compile(fault.source(), fault.file, "exec")
        except (ValueError, SyntaxError) as error:
            broken.append(f"{fault.name}: {error}")
        file, _, test = fault.seen_by.partition("::")
        if not fault.by_run and f"def {test}(" not in (support.ROOT / "tests" / file).read_text():
            broken.append(f"{fault.name}: no such test: {fault.seen_by}")
    assert broken == []
    assert [name for name, count in Counter(f.name for f in FAULTS).items() if count > 1] == []
    assert len(FAULTS) >= LEAST


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "found"),
    [
        (Change("seen", FILE, RIGHT, WRONG_SUM, PARTS), (True, PARTS, "")),
        (Change("survives", FILE, RIGHT, f" {RIGHT}", PARTS), (True, "", "")),
        (Change("elsewhere", "communication/file/model.py", '"""', '""""', ""), (True, "", "not")),
        (Change("run", FILE, RIGHT, RIGHT, f"{RUN}jacobi2d serial"), (True, "", "")),
    ],
    ids=lambda given: given.name if isinstance(given, Change) else "",
)
def test_a_changed_line_is_made_and_tried(change: Change, found: tuple[Any, ...]) -> None:
    """Catches a fault that is not made, a survivor that counts as seen, and the reverse."""
    acted, caught, error = found
    one = in_process(get_context("fork"), change)
    assert (one.acted, one.caught) == (acted, caught) and error in one.error, one


def test_what_is_said_of_faults_of_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches a good end although a fault survives, was not made, or the right program fails."""
    change, right = FAULTS[0], Change("none", "", "", "", FAULTS[0].seen_by)
    seen = Tried(change, True, "test_x")
    assert numbered.conclude([Tried(right, False, ""), seen]) == VALID
    assert capsys.readouterr().out == "1 fault of numbers; 1 caught\n"
    for bad, words in {
        Tried(change, True, ""): "survives",
        Tried(change, False, "test_x"): "changes nothing",
        Tried(change, True, "", "no such test"): "cannot be made: no such test",
        Tried(right, False, "test_x"): "the right program fails: test_x",
    }.items():
        assert numbered.conclude([seen, bad]) == WRONG
        assert words in capsys.readouterr().out


def test_faults_of_numbers_belong_to_no_app() -> None:
    """Catches a selftest of one app that makes them all, and one of all apps that makes none."""
    every, names = apps.names(), drivers.names()
    assert len(Asked(every, names).changes()) == len(FAULTS)
    assert len(Asked(every, names, numbers=7).changes()) == 7
    assert Asked(every, names, words="messages: lost").changes() == []
    for asked in (
        Asked(every[:1], names),
        Asked(every, names[:1]),
        Asked(every, names, preset="small"),
    ):
        assert asked.changes() == []
    only = Asked(every, names, words=FAULTS[0].key)
    assert only.changes() == [FAULTS[0]] and only.trials(Path("nowhere")) == []
    with pytest.raises(InputError, match="--numbers -1: must be 0 or more"):
        Asked(every, names, numbers=-1)


def test_a_report_of_faults_of_numbers_goes_on(tmp_path: Path) -> None:
    """Catches a fault that is made again, or is left out, and one that the page does not count."""
    report = tmp_path / "report.jsonl"
    for fault in FAULTS[:3]:
        append(report, numbered.key_of(fault), True, "test_x")
    asked = Asked(apps.names(), drivers.names(), report=report, resume=True)
    assert asked.changes() == list(FAULTS[3:])
    lines = report.read_text().splitlines()
    assert verification.trials(lines) == []
    assert "| all | 3 | 0 | 3 |" in verification.numbers(lines)
    report.unlink()
    append(report, numbered.key_of(FAULTS[0]), True, "")
    missed = verification.numbers(report.read_text().splitlines())
    assert "| all | 1 | 0 | 0 |" in missed
    assert f"Not caught: {FAULTS[0].key}." in " ".join(missed.split())


def test_a_part_of_the_faults_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a fault that has no day, or several, and a draw that is taken for a part."""
    faults, parts = list(range(10)), []
    for day in (7, 8, 9):
        monkeypatch.setattr(drawn, "time", lambda day=day: day * drawn.DAY_S + 5.0)
        parts.append(drawn.of_day(faults, drawn.part_or_number("1/3")))
    assert sorted(map(len, parts)) == [3, 3, 4] and sorted(sum(parts, [])) == faults
    assert len(drawn.of_day(faults, drawn.part_or_number("3"))) == 3
    assert drawn.of_day(faults, None) == drawn.of_day(faults, 20) == faults
    for wrong in ("1/x", "1/", "2/3", "half"):
        with pytest.raises(ValueError, match="an integer, or a part"):
            drawn.part_or_number(wrong)
    line = support.refused(["selftest", "--draw", "1/0"])
    assert line == "miniapps: --draw 1/0: must be 1 or more\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("pic --fault velocty", "--fault velocty: is in the name of no fault"),
        ("echo --fault numbers: --draw 3", "--fault numbers:: is in the name of no fault"),
        ("--json nowhere/trials", "--json nowhere/trials: there is no directory"),
    ],
)
def test_a_selftest_that_would_try_nothing_is_refused(words: str, said: str) -> None:
    """Catches a misspelt name of which no fault survives, and trials whose report is lost."""
    assert support.refused(["selftest", *words.split()]).startswith(f"miniapps: {said}")


def test_some_faults_of_numbers_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a draw that is always the same, and one that leaves faults out for ever."""
    tried = []
    for day in range(60):
        monkeypatch.setattr(drawn, "time", lambda day=day: day * drawn.DAY_S + 5.0)
        some = numbered.chosen("", len(FAULTS) // 4)
        assert len({*some}) == len(FAULTS) // 4
        tried.append(frozenset(some))
    assert len({*tried}) > 20 and frozenset().union(*tried) == {*FAULTS}
    assert numbered.chosen("", None) == list(FAULTS)
    assert numbered.chosen(FAULTS[0].name, 5) == [FAULTS[0]]
    monkeypatch.setattr(altered, "TESTS", support.ROOT / "nowhere")
    assert {fault.by_run for fault in numbered.chosen("", None)} == {True}
