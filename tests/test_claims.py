"""docs/results/communication.md: what its command would write, and no claim is left out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from canned_comm import replaced
from support import ROOT

from workbench.cli import main
from workbench.exit_status import VALID
from workbench.study.comm.claims import Wanted
from workbench.study.options import table_of


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, from the folder of benchmarks."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import claims

    yield claims
    sys.modules.pop("claims")


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """As `canned_comm.replaced`."""
    return replaced(monkeypatch, tmp_path)


def test_the_page_is_the_one_that_the_command_writes(claims: ModuleType) -> None:
    """Catches numbers edited by hand, and a page that is older than its studies or campaigns."""
    assert claims.PAGE.read_text() == claims.page(), "run `python benchmarks/claims.py`"


def test_every_claim_says_what_two_cores_can_test(claims: ModuleType) -> None:
    """Catches a study or a claim that the page leaves out, and one that is no more."""
    files = (ROOT / "studies").glob("*.toml")
    studies = {path.stem for path in files if table_of(path).get("kind") == "comm"}
    assert set(claims.STUDIES) == studies
    for study, (_, known) in claims.STUDIES.items():
        path = ROOT / f"studies/{study}.toml"
        assert {claim["name"] for claim in table_of(path)["claims"]} == set(known)
        for claim in Wanted.read(path).claims:
            assert claims.what_two_cores_test(study, claim) in known.values()


def test_a_campaign_fills_its_column(
    claims: ModuleType, canned: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches values of another claim, published numbers that are lost, and no campaign at all."""
    canned()
    assert main(["study", "comm", "two.toml"]) == VALID
    (tmp_path / "studies").mkdir()
    for name in ("two.toml", "values.json"):
        (tmp_path / name).rename(tmp_path / "studies" / name)
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    stated = {"touch": "yes", "rate": "no: one core"}
    monkeypatch.setattr(claims, "STUDIES", {"two": ("a minute", stated)})
    page = claims.page(tmp_path)
    row = "| Written buffers | not published | yes | touch sender: 3.00 to 4.00 times touch none"
    assert row in page and "| Bandwidth | - | no: one core | mpi: 2.01 MB/s |" in page
    assert "Abacus" in page and "| what writing adds |" in page.replace("Written buffers | ", "")
    assert "Not measured yet" not in page and "[The report](two/report.html)" in page
    page = claims.page(tmp_path / "nonesuch")
    assert "Not measured yet. An estimate of the time: a minute" in page
    assert "| Bandwidth | - | no: one core | - |" in page
