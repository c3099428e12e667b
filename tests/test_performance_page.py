"""docs/performance.md and a section of docs/results/README.md, which scripts write."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import report
from benchmarks.gpu import check, section
from benchmarks.gpu.bench import compared

CHECKED = {"revision": "abc1234", "device": {"name": "A GPU"}}


def test_the_page_has_what_the_results_say() -> None:
    """Catches results without their numbers on the page, and numbers that were written by hand."""
    assert report.PAGE.read_text() == report.page()


def test_the_section_on_a_gpu_has_what_the_results_say() -> None:
    """Catches rates on GPUs that were written by hand, and results that the page does not show."""
    written = section.PAGE.read_text()
    assert written == section.page() and section.TITLE in written


def validated(**failures: str) -> dict[str, Any]:
    """A validation of which all passed, or not these steps."""
    found = check.Findings(
        tests={"passed": 57},
        runs={
            "cg cpu": {},
            **{
                name: {"same_state": True} for name in ("cg serial", "pic charm", "pic float32 mpi")
            },
        },
        sanitizer={"memcheck cg": "0 errors", "synccheck pic": "0 errors"},
        failures={name.replace("_", " "): why for name, why in failures.items()},
    )
    return check.document(CHECKED, found, True)


def test_what_a_validation_says() -> None:
    """Catches a page that cannot be made of a validation that passed, or tells of old failures."""
    said = " ".join(section.checked(validated()).split())
    assert "57 of 57 tests passed; 3 large runs of cg and pic under serial, charm and mpi" in said
    assert "in float64 and float32, had the" in said
    assert said.endswith("2 runs under memcheck and synccheck had no error.")
    failed = {"tests": "status 1: x", "pic_charm": f"status 3: {check.FORKED}"}
    late = {"memcheck_pic": check.NO_TIME, "memcheck_cg": check.CUT_OFF, "pic_mpi": check.NO_TIME}
    said = " ".join(section.checked(validated(**failed, **late)).split())
    assert "The 0 tests and 1 runs that failed" in said and "no GPU has run it since" in said
    assert said.endswith("Not run, for lack of time: 2 of memcheck and 1 of runs.")
    said = " ".join(section.checked(validated(tests="status 1: x")).split())
    assert said.endswith("had no error. Failed: tests (status 1: x).")


def test_a_validation_that_has_only_begun() -> None:
    """Catches a page that cannot be made before all was tried."""
    begun = check.document(CHECKED, check.Findings(), False)
    said = section.checked(begun)
    assert "nothing has passed." in said and said.endswith("did not run to its end.\n")


@pytest.mark.parametrize("lost", ["sizes", "blocks"])
def test_the_section_needs_not_all_of_a_benchmark(lost, monkeypatch):
    """Catches a benchmark whose time was up, and which then fails as its page cannot be made."""
    last, first, _ = section.loaded()
    del last[lost]
    monkeypatch.setattr(section, "loaded", lambda: (last, first, validated()))
    assert section.NOT in section.section()


@pytest.mark.parametrize(
    "results", [{"copy_bytes_per_s": 4e12}, {"rates": {"jacobi2d": {"float64": 2e11}}}]
)
def test_the_page_needs_not_all_of_a_benchmark(results, monkeypatch):
    """Catches a benchmark whose time was up, and which then fails as its page cannot be made."""
    begun = {"device": "A GPU", **results, "kernels": compared(results)}
    load = report.load
    monkeypatch.setattr(report, "load", lambda n: {"results": begun} if n == "gpu" else load(n))
    rate = "200" if "rates" in results else report.NOT
    assert f"| jacobi2d | A GPU | {rate} |" in report.page()


def test_what_a_gpu_says_of_newer_apps():
    """Catches a kernel that was measured and is said not to be, and rates of different units."""
    rates = {"copy_bytes_per_s": 4e12, "rates": {"cg operator, 27 points": {"float64": 2e11}}}
    rows = report.on_gpu({"kernels": compared(rates)})
    assert rows["cg"] == ["", "", "", "operator: 0.80 of a copy"]
    assert rows["amr"] == [report.NOT, "", "", ""]
