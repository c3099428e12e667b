"""docs/results/communication.md: what its command would write, and no claim is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from canned_comm import PUBLISHED, TWO, record_of, replaced
from support import ROOT

from benchmarks.messages import claims
from miniapps.workbench.cli import main
from miniapps.workbench.comm.spec import CommSpec
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.study.comm import holding
from miniapps.workbench.study.comm.claims import Wanted
from miniapps.workbench.study.comm.holding import FAILS, HOLDS, OPEN
from miniapps.workbench.study.options import table_of
from miniapps.workbench.study.statistics import Interval

WRITTEN = """
kind = "comm"
trials = 3
[[claims]]
name = "latency"
title = "Latency"
benchmark = "latency"
driver = ["mpi", "charm"]
touch = ["none", "both"]
sizes = "65536:1048576:16"
[[claims]]
name = "bandwidth"
title = "Bandwidth"
benchmark = "bw"
driver = ["mpi"]
touch = ["none", "both"]
sizes = "65536:65536"
"""


def written_of(spec: CommSpec, trial: int) -> dict[str, Any]:
    """A launch: writing makes mpi 4 times as slow, and charm, 8 times mpi's time, not slower."""
    us = 8.0 if spec.driver == "charm" else 4.0 if spec.settings.touch == "both" else 1.0
    value = 1 / us if spec.benchmark.name == "bw" else us
    sizes = spec.settings.sizes(spec.benchmark)
    values = [{"trial": 0, "size": size, "value": value} for size in sizes]
    return record_of(spec, trial, measured=values)


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """As `canned_comm.replaced`."""
    return replaced(monkeypatch, tmp_path)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """``page(name, text, stated)``: a page of one study; its launches are canned."""

    def written(name: str, text: str, stated: dict[str, str]) -> str:
        studies = tmp_path / "studies"
        studies.mkdir()
        (studies / f"{name}.toml").write_text(text)
        (studies / "values.json").write_text(json.dumps(PUBLISHED))
        command = ["study", "comm", f"studies/{name}.toml", "--campaign", name]
        assert main(command) == VALID
        monkeypatch.setattr(claims, "ROOT", tmp_path)
        monkeypatch.setattr(claims, "STUDIES", {name: ("a minute", stated)})
        return claims.page(tmp_path)

    return written


@pytest.mark.slow
def test_the_page_is_the_one_that_the_command_writes() -> None:
    """Catches numbers edited by hand, and a page that is older than its studies or campaigns."""
    assert claims.PAGE.read_text() == claims.page(), "run `python benchmarks/messages/claims.py`"


def test_every_claim_says_what_two_cores_can_test() -> None:
    """Catches a study or a claim that the page leaves out, and one that is no more."""
    files = (ROOT / "studies").glob("*.toml")
    studies = {path.stem for path in files if table_of(path).get("kind") == "comm"}
    assert set(claims.STUDIES) == studies
    for study, (_, known) in claims.STUDIES.items():
        path = ROOT / f"studies/{study}.toml"
        assert {claim["name"] for claim in table_of(path)["claims"]} == set(known)
        for claim in Wanted.read(path).claims:
            assert claims.what_two_cores_test(study, claim) in known.values()


def test_a_campaign_fills_its_column(canned: Any, page: Any, tmp_path: Path) -> None:
    """Catches values of another claim, published numbers that are lost, and no campaign at all."""
    canned()
    text = page("two", TWO, {"touch": "yes", "rate": "no: one core"})
    row = "| Written buffers | not published | yes | touch sender: 3.00 to 4.00 times touch none"
    assert row in text and "| Bandwidth | - | no: one core | mpi: 2.01 MB/s | - |" in text
    assert "--max-noise 2%" in text
    wrong = "| difference | 64 | 1.25 | 12.0"
    assert wrong in text and text.partition(wrong)[2].partition("\n")[0].endswith(
        "| does not hold |"
    )
    assert "| does not hold (3 of 4 values hold) |" in text
    assert "the largest size makes the largest part" in " ".join(text.split())
    assert "Abacus" in text and "| what writing adds |" in text.replace("Written buffers | ", "")
    assert "Not measured yet" not in text
    assert "[The report](two/report.html)" in " ".join(text.split())
    text = claims.page(tmp_path / "nonesuch")
    assert "Not measured yet. An estimate of the time: a minute" in text
    assert "| Bandwidth | - | no: one core | - | - |" in text


def test_a_claim_that_two_cores_cannot_test_stays_open(canned: Any, page: Any) -> None:
    """Catches a result by ranks of one host of what a paper has measured between hosts."""
    canned()
    text = page("two", TWO, {"touch": "no: between hosts", "rate": "yes"})
    assert "times touch none (published 3.00 to 4.50) | cannot be tested here |" in text


@pytest.mark.parametrize(
    ("published", "take", "value", "word"),
    [
        (1.0, "difference", (0.9, 0.5, 2.0), HOLDS),
        (1.0, "difference", (0.9, 0.49, 2.0), OPEN),
        (1.0, "difference", (9.0, 2.01, 20.0), FAILS),
        (1.2, "ratio", (1.3, 1.1, 1.4), HOLDS),  # the effect is 0.2, so 1.1 to 1.4
        (1.2, "ratio", (1.0, 0.9, 1.09), FAILS),
        (0.8, "ratio", (0.7, 0.6, 0.9), HOLDS),
        (0.8, "ratio", (1.2, 1.1, 1.3), FAILS),
        ([0.95, 1.86], "ratio", (0.95, 0.9, 2.72), HOLDS),
        ([0.95, 1.86], "ratio", (0.8, 0.7, 0.89), FAILS),
        (1.0, "value", (1.0, float("nan"), float("nan")), OPEN),
    ],
)
def test_a_result_follows_from_the_interval(
    published: Any, take: str, value: tuple[float, float, float], word: str
) -> None:
    """Catches a result by the mean alone, a ratio near 1 that always holds, and one trial."""
    limits = holding.allowed(published, take)
    assert limits is not None
    rounded = tuple(round(limit, 9) for limit in limits)
    assert holding.compared(Interval(*value), rounded) == word
    assert holding.compared(None, limits) == OPEN


def test_words_are_no_published_number() -> None:
    """Catches a result of a claim that has no number, and one that counts only the best value."""
    assert holding.allowed(None, "value") is None and holding.allowed([], "ratio") is None
    assert holding.combined([HOLDS, OPEN]) == OPEN
    assert holding.combined([OPEN, FAILS, HOLDS]) == FAILS
    assert holding.combined([HOLDS, HOLDS]) == HOLDS


def test_the_page_says_what_writing_buffers_does(canned: Any, page: Any) -> None:
    """Catches rates whose ratio is upside down, and runtimes compared by unchanged buffers only."""
    canned(written_of)
    text = page("own", WRITTEN, {"latency": "yes", "bandwidth": "yes"})
    rows = [line.split(" | ") for line in text.splitlines()]
    numbers = {
        tuple(row[:3]): [cell.partition(" ")[0] for cell in row[3:]] for row in rows if len(row) > 4
    }
    assert numbers["| latency", "mpi", "-"] == ["4.000", "4.000", "-"]
    assert numbers["| latency", "charm", "-"] == ["1.000", "1.000", "-"]
    assert numbers["| bw", "mpi", "-"] == ["4.000", "-", "-"]
    assert numbers["| latency", "charm", "64 KiB"] == ["8.000", "2.000"]
    assert numbers["| latency", "charm", "1 MiB"] == ["8.000", "2.000"]
    words = " ".join(text.split())
    assert "Of 5 cases, written buffers take longer in 3 and less time in 0" in words
    assert "charm does better with written buffers in 2 of 2 cases and worse in 0" in words
