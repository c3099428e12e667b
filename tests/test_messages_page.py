"""docs/messages.md: its tables are those of the committed results, and ratios have intervals."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.messages import page
from benchmarks.messages.polled_slot import RUNS, passed, results
from benchmarks.messages.shared_memory import compared


def test_the_tables_are_those_of_the_results() -> None:
    """Catches numbers edited by hand, and results that the page does not have yet."""
    text = page.PAGE.read_text()
    assert text == page.page(text), "run `python -m benchmarks.messages.page`"


def test_a_changed_number_is_written_again() -> None:
    """Catches a table that is not found, and one that is left out of the page."""
    text = page.PAGE.read_text()
    for _, columns, _ in page.TABLES:
        head = f"| {' | '.join(columns)} |\n"
        assert page.page(text.replace(head, f"{head}| 1 |\n")) == text
        with pytest.raises(ValueError, match="has 0 tables"):
            page.page(text.replace(head, ""))


def record_of(seconds: float, **more: Any) -> dict[str, Any]:
    """A run of ten steps."""
    disturbance = {"waited": 0.01, "steal": 0.0, "load_average": 1.0}
    return {"wall_s": seconds, "steps": 10, "state_hash": "a", "disturbance": disturbance} | more


def test_apps_are_compared_run_by_run() -> None:
    """Catches a ratio of medians, bounds of another path, and a disturbance that is lost."""
    worse = {"waited": 0.2, "steal": None}
    records = {
        "mpi": [record_of(1.0), record_of(2.0), record_of(4.0)],
        "ODF 1, datagrams": [record_of(2.0), record_of(2.0), record_of(2.0)],
        "ODF 8, datagrams": [record_of(3.0), record_of(2.0), record_of(8.0, disturbance=worse)],
    }
    found = compared("an app", records)
    assert found["mpi_step_ms"] == {"median": 200, "low": 100, "high": 400}
    assert found["ODF 1, datagrams over mpi"] == {"median": 1, "low": 0.5, "high": 2}
    assert found["ODF 8, datagrams over mpi"] == {"median": 2, "low": 1, "high": 3}
    assert found["disturbance"] == {"waited": 0.2, "steal": 0.0}
    runs = ("mpi, nothing shared", "ODF 1, shared memory", "ODF 8, shared memory")
    known = found | {f"{run} over mpi": 1.5 for run in runs}
    row = "| an app | 200.0 [100.0, 400.0] | 1.50 | 8 | 2.00 [1.00, 3.00] | 1.50 | 20% |"
    assert row in page.apps_table({"apps": {"an app": known}})
    records["mpi"][1]["state_hash"] = "b"
    with pytest.raises(RuntimeError, match="an app: the runs ended in different states"):
        compared("an app", records)


def test_tried_options_stand_beside_each_other() -> None:
    """Catches a ratio in the column of another app, and one that only one app has."""
    first, second = ({"median": n, "low": n, "high": n} for n in (1.0, 2.0))
    found = {"one": {"ODF 8": first}, "other": {"ODF 8": second, "skin": first}}
    text = page.tried_table({"tried": found})
    assert "| ODF 8 | 1.00 [1.00, 1.00] | 2.00 [2.00, 2.00] |" in text
    assert "| skin | - | 1.00 [1.00, 1.00] |" in text


def test_a_way_counts_each_number_once() -> None:
    """Catches the time of a round trip for one way, and a ratio that is upside down."""
    run = {"seconds": 0.002, "came": 100, "works": 400, "looks": 20}
    found = results({name: [run] for name in RUNS})
    assert found["one way: slot, busy, us"]["median"] == 10
    assert found["a look, idle, us"]["median"] == 100
    assert found["the same with looks, us"]["median"] == 5
    assert found["such calls per look"]["median"] == 20
    row = "| one way, nothing else to do | 10.0 [10.0, 10.0] | 10.0 [10.0, 10.0] |"
    assert row in page.polled_table(found)


@pytest.mark.launch
@pytest.mark.parametrize("way", ["slot", "message"])
def test_numbers_pass_between_two_pes(way: str) -> None:
    """Catches a word that the other PE does not see, and a program that does not end."""
    found = passed(way, "0", 5)
    assert found["came"] == 5 and found["works"] > 0 and (found["looks"] > 0) == (way == "slot")
