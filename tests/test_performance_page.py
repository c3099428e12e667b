"""docs/performance.md and a section of docs/results/README.md, which scripts write."""

from __future__ import annotations

from benchmarks import report
from benchmarks.gpu import section


def test_the_page_has_what_the_results_say() -> None:
    """Catches results without their numbers on the page, and numbers that were written by hand."""
    assert report.PAGE.read_text() == report.page()


def test_the_section_on_a_gpu_has_what_the_results_say() -> None:
    """Catches rates on GPUs that were written by hand, and results that the page does not show."""
    written = section.PAGE.read_text()
    assert written == section.page() and section.TITLE in written
