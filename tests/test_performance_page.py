"""docs/performance.md, which `benchmarks/report.py` writes."""

from __future__ import annotations

import pytest
import support


def test_the_page_has_what_the_results_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches results without their numbers on the page, and numbers that were written by hand."""
    monkeypatch.syspath_prepend(support.ROOT / "benchmarks")
    import report

    assert report.PAGE.read_text() == report.page()
