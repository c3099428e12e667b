"""What commands print for people: in words instead of keys, with the right plurals."""

from __future__ import annotations

from typing import Any

import pytest
import support

from miniapps.lessons.checking.command import list_lessons
from miniapps.workbench.doctor import driver_works
from miniapps.workbench.run.cases import Case
from miniapps.workbench.run.record import summary
from miniapps.workbench.study.command import print_studies

MOVED = {"step": 50, "imbalance_before": 1.7718, "imbalance_after": 1.0744, "seconds": 0.00923}


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    """The record of a small serial run, whose steps are all in one round."""
    return support.run_record(*"jacobi2d --preset tiny --warmup 0 --time-tile 20".split())


def test_a_run_in_words(record: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches "after 0 of warm-up", and a median and a spread of a single value."""
    monkeypatch.setenv("COLUMNS", "80")
    assert len(record["rounds"]["first"]) == 1
    shown = summary(record)
    step_ms = f"{record['step_time_s']['median'] * 1e3:.4g} ms"
    assert "\n  20 steps without warm-up\n" in shown
    assert f"\n  step {step_ms} mean (all steps in one round), " in shown
    two = {"first": [2, 4], "count": [2, 18]}
    shown = summary(record | {"warmup": 2, "steps": 1, "rounds": two})
    assert "\n  1 step after 2 of warm-up\n" in shown
    assert f"\n  step {step_ms} median ({step_ms.split()[0]} to " in shown


@pytest.mark.parametrize(
    ("entry", "moved", "saved"),
    [
        ({"moved": 5, "paid_after": 3}, "5 blocks", "; saved more than that within 3 steps"),
        ({"moved": 1, "paid_after": 1}, "1 block", "; saved more than that within 1 step"),
        ({"moved": 2, "paid_after": None}, "2 blocks", "; saved less than that"),
        ({"moved": 0, "paid_after": None}, "no block", ""),
    ],
)
def test_what_balancing_has_brought(entry, moved, saved, record, monkeypatch):
    """Catches numbers that do not say what they count, and a cost that nobody can interpret."""
    monkeypatch.setenv("COLUMNS", "200")
    lines = summary(record | {"lb": [MOVED | entry]}).splitlines()
    said = f"moved {moved} in 9.23 ms, imbalance 1.772 -> 1.074{saved}"
    assert f"  balanced before step 50: {said}" in lines
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, summary(record | {"lb": [MOVED | entry]}).splitlines())) <= 80


def test_studies_without_a_source_say_what_they_measure(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches keys of a file, such as "kind lb, app pic"."""
    print_studies()
    shown = capsys.readouterr().out
    for line in (
        "pic-lb               Load balancing of pic",
        "pic-strong           Strong scaling",
    ):
        assert f"workstation/{line}" in shown
    assert " kind " not in shown


def test_the_list_of_lessons_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    """Catches names in brackets that nothing explains."""
    list_lessons()
    *_, runtimes, begin = capsys.readouterr().out.splitlines()
    assert runtimes == "in brackets: the values of --for, the default first"
    assert begin.endswith("miniapps lesson start ring")


def test_a_library_is_one_line_without_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches the blanks and line breaks that MPICH puts into its version."""
    record = {"versions": {"mpi": "MPICH Version:      5.0.2\nMore"}, "valid": True}
    monkeypatch.setattr("miniapps.workbench.doctor.solve", lambda *_: record)
    found = driver_works(Case("mpi").can)
    assert found.found.endswith("messages arrive; MPICH Version: 5.0.2 More")


def test_a_configuration_says_what_it_counts() -> None:
    """Catches "Greedy every 20", and a blank where nothing is balanced."""
    balanced = Case("charm", 2, 4, "Greedy", 20)
    assert balanced.configuration == "charm ODF 4 Greedy, every 20 steps"
    assert str(balanced) == "charm ODF 4 Greedy, every 20 steps, 2 PEs"
    assert Case("charm", 2, 4, "Greedy", 1).configuration.endswith("every 1 step")
    assert Case("charm", 2, 4).configuration == "charm ODF 4" and Case("charm").balancing == ""
