"""Fixtures, and a switch that turns silent skips into failures.

Tests of the mpi and the charm driver start real launches and never ask first whether mpi4py or
charm4py is there: where one is missing, they fail (`test_parallel.py` checks that too).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
import support

# No deadline: the first example of a test may compile a kernel.
hypothesis.settings.register_profile("project", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("project")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer --no-skips, for machines on which everything must run."""
    parser.addoption("--no-skips", action="store_true", help="a skipped test counts as failed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Make a skip a failure where asked."""
    report = yield
    if item.config.getoption("--no-skips") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under --no-skips: {report.longrepr}"
    return report


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither read nor write what runs of the user have measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _no_launcher_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test take the launcher of the test run itself, if there is one, for its own."""
    for name in list(os.environ):
        if name.startswith(support.LAUNCHER_VARIABLES):
            monkeypatch.delenv(name)


@pytest.fixture
def miniapps() -> Callable[..., Any]:
    """The command ``miniapps``: ``miniapps(*args, timeout=120, env=None)``, a CompletedProcess."""
    return support.miniapps


@pytest.fixture
def run_record() -> Callable[..., dict[str, Any]]:
    """``run_record(*args)``: the record of a run that must end with status 0."""
    return support.run_record
