"""docs/verification.md: it is what its command would write."""

from __future__ import annotations

import json
import re

import pytest
import support
import verification


@pytest.mark.long
def test_the_page_is_the_one_that_the_command_writes() -> None:
    """Catches numbers edited by hand, and a page that is older than the results it reports."""
    assert verification.PAGE.read_text() == verification.page(), "run `make verification`"


def test_the_readme_has_as_many_faults_as_the_page() -> None:
    """Catches a number of faults that stays behind when some are added."""
    readme, page = (
        (support.ROOT / name).read_text() for name in ("README.md", "docs/verification.md")
    )
    for here, there in (
        (r"detect (\d+) known mistakes", r"(\d+) different mistakes\s+act"),
        (r"mistakes, and (\d+) in times", r"also\s+changes (\d+) single\s+lines"),
    ):
        (shown,) = re.findall(here, readme)
        assert [shown] == re.findall(there, page)


def test_the_tests_that_saw_faults_of_numbers_exist() -> None:
    """Catches results that name a test which was renamed or deleted since."""
    rows = map(json.loads, verification.SELFTEST.read_text().splitlines())
    seen = {row["caught"] for row in rows if row["caught"].startswith("test_")}
    named = {tuple(re.split(r"::|\[", caught)[:2]) for caught in seen}
    texts = {file: (support.ROOT / "tests" / file).read_text() for file, _ in named}
    assert len(named) > 100
    assert [f"{file}::{name}" for file, name in named if f"def {name}(" not in texts[file]] == []


def test_trials_beside_a_wrong_program_do_not_count() -> None:
    """Catches faults that count as caught where the right program fails too."""
    trial = {"preset": "small", "app": "a", "driver": "d", "acted": True, "caught": "ends: slow"}
    lines = [json.dumps(trial | {"fault": "f"}), json.dumps(trial | {"fault": None})]
    assert verification.trials(lines) == []
    again = json.dumps(trial | {"fault": None, "caught": ""})
    assert [found["fault"] for found in verification.trials([*lines, again])] == ["f"]


def test_a_run_that_ran_out_of_time_does_not_count() -> None:
    """Catches a slow machine that counts as a check; a deadlock is the fault's effect."""
    trial = {"fault": "f", "app": "a", "driver": "d", "preset": "small", "acted": True}
    late, stuck = (
        trial | {"allowed": "", "caught": f"ends: no progress for 20 s{idle}; PE 0 is behind"}
        for idle in ("", ", and no block computes")
    )
    right = json.dumps(trial | {"fault": None, "caught": ""})
    (one,) = verification.trials([json.dumps(late), right])
    assert "| f | a | small | **ran out of time** |" in verification.not_seen([one])
    (one,) = verification.trials([json.dumps(stuck), right])
    assert verification.not_seen([one]) == "No fault survives.\n"
    (kind,) = verification.kinds_of(one)
    assert "deadlock" in kind


def test_faults_that_survive_are_shown() -> None:
    """Catches a page that leaves out what nothing has caught."""
    trial = {"fault": "f", "app": "a", "preset": "small", "caught": "", "allowed": ""}
    assert "**survives**" in verification.not_seen([trial])
    assert "No fault survives" in verification.not_seen([trial | {"caught": "mode"}])
