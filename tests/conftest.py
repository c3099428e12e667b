"""Fixtures, switches that turn silent skips into failures, and a count of what GPUs would test.

Tests of the mpi and the charm driver start real launches and never ask first whether mpi4py or
charm4py is there: where one is missing, they fail (`test_parallel.py` checks that too).
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import of_day
import profiles  # noqa: F401 - which it loads
import pytest
import skips
import support

from miniapps import drivers
from miniapps.workbench.run import launch
from miniapps.workbench.study import statistics

gc.set_threshold(200_000, 10, 10)  # as rare as in the program; full ones still come

# These files begin first, so that none is left last.
LONG = {"test_gpu_layers", "test_gpu_races", "test_gpu_stub", "test_install"}
# What a file makes once.
ONCE = {"on_stub", "traced_runs", "trajectories", "restarts", "installed", "tree"}
LAUNCHING = ONCE | {"records", "miniapps", "run_record", "browser_page"}  # fixtures that do


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that launch, put the longest files first, and choose those of --quick."""
    for item in items:
        if LAUNCHING & _fixtures(item):
            item.add_marker(pytest.mark.launch)
    items.sort(key=lambda item: item.path.stem not in LONG)
    if config.getoption("--quick"):
        of_day.leave_out(items, [i for i in items if not _is_quick(i)], config)
    of_day.keep_share(items, [i for i in items if _is_slow(i) or _launches_cases(i)], config)


def pytest_collection_finish() -> None:
    """Leave what has been imported out of garbage collections, which took a few per cent."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Leave all else out of pytest's last collections, which took a second of each worker."""
    gc.freeze()


def _fixtures(item: pytest.Item) -> set[str]:
    """The names of the fixtures that a test has."""
    return set(item.fixturenames)  # type: ignore[attr-defined]


def _launches(item: pytest.Item) -> bool:
    """Whether a test starts processes."""
    return item.get_closest_marker("launch") is not None


def _launches_cases(item: pytest.Item) -> bool:
    """Whether each case of a test starts processes of its own."""
    return _launches(item) and "[" in item.nodeid and not ONCE & _fixtures(item)


def _is_quick(item: pytest.Item) -> bool:
    """Whether a test starts no process, needs no GPU, and takes a tenth of a second at most."""
    on_gpu = item.path.parent.name == "gpu"
    return not (on_gpu or _launches(item) or _is_slow(item) or item.get_closest_marker("long"))


def _is_slow(item: pytest.Item) -> bool:
    """Whether a test computes for seconds."""
    return item.get_closest_marker("slow") is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer --no-skips, and to count tests that need a browser or a GPU among those that run."""
    parser.addoption("--no-skips", action="store_true", help="a skipped test counts as failed")
    words = "leave out tests that start processes, and those of more than a tenth of a second"
    parser.addoption("--quick", action="store_true", help=words)
    parser.addoption("--require-browser", action="store_true", help="also where no browser is")
    parser.addoption("--require-hosts", action="store_true", help="also without virtual hosts")
    for layer in skips.LAYERS:
        words = f"fail where kernels for a GPU cannot be checked {layer.does}"
        parser.addoption(f"--require-{layer.name}", action="store_true", help=words)


def revalidated(report: Any, option: Callable[[str], Any]) -> Any:
    """A report of a test or of a file of tests, with a skip made a failure where asked."""
    skips.skip_without_wheel(report)
    if report.skipped and not hasattr(report, "wasxfail"):
        switch = skips.must_fail(str(report.longrepr), option)
        if switch:
            report.outcome = "failed"
            report.longrepr = f"skipped under {switch}: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Make the skip of a test a failure where asked."""
    return revalidated((yield), item.config.getoption)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Make the skip of a whole file a failure where asked."""
    return revalidated((yield), collector.config.getoption)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say at the end of a test run what was not checked for want of a GPU or its tools."""
    reports = terminalreporter.stats.get("skipped", [])
    why = [str(report.longrepr) for report in reports]
    for line in skips.without_charm(why):
        terminalreporter.write_line(line)
    lines = skips.unchecked(why)
    if lines:
        terminalreporter.section("kernels for a GPU")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither read nor write what runs of the user have measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _quick(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start no process under --quick, however a test or a fixture would do it."""
    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("--quick"):
            patch.setattr("subprocess.Popen.__init__", support.refuse_process)
        yield


@pytest.fixture(autouse=True)
def _no_launcher_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test take the launcher of the test run itself, if there is one, for its own."""
    for name in list(os.environ):
        if support.of_a_launcher(name):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def few_resamples() -> Iterator[None]:
    """Have bootstraps draw a fiftieth of their samples, for tests of what is made of intervals.

    Of a report's time, they take nine tenths; test_statistics.py tests them as they are.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "RESAMPLES", 199)
        yield


@pytest.fixture(scope="module")
def intervals_by_hand() -> Iterator[None]:
    """Intervals from the least to the largest trial, as values by hand have them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_bca", support.between_trials)
        yield


@pytest.fixture
def forked() -> Iterator[None]:
    """Launchers have PEs forked, which costs a tenth of starting them."""
    with launch.pes_started_by(support.warm_program()):
        yield


@pytest.fixture
def miniapps() -> Callable[..., Any]:
    """The command ``miniapps``: ``miniapps(*args, env=None)``, a CompletedProcess."""
    return support.miniapps


@pytest.fixture
def run_record() -> Callable[..., dict[str, Any]]:
    """``run_record(*args)``: the record of a run that must end with status 0."""
    return support.run_record


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """``refused(*args)``: `support.refused` of a command that must not start anything."""
    popen = subprocess.Popen

    def started(*arguments: Any, **more: Any) -> Any:
        if "ldconfig" in arguments[0][0]:  # by which numba-cuda looks for libraries
            return popen(*arguments, **more)
        raise AssertionError(f"started: {arguments}")

    monkeypatch.setattr(drivers, "load", started)
    monkeypatch.setattr(launch, "launch", started)
    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(support, "pes_forked", lambda used: nullcontext())
    return lambda *words: support.refused(words)


PIC = "pic --preset tiny --snapshot-every 4 --trace"
TRACED = {
    "serial": "--pe-grid 2x2",
    "mpi": "--driver mpi -n 2",
    "charm": "--driver charm -n 2 --odf 4 --balancer Rotate --lb-period 6",
}


@pytest.fixture(scope="session")
def traced_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """HDF5 files of one problem under each driver, with thumbnails and slices, by driver."""

    def run(folder: Path) -> None:
        for driver, words in TRACED.items():
            words_of_run = f"{PIC} {words}".split()
            support.run_record(*words_of_run, "--output", folder / f"{driver}.h5")

    folder = support.made_once(tmp_path_factory, "traced", run)
    return {driver: folder / f"{driver}.h5" for driver in TRACED}


@pytest.fixture
def execute_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, Path], None]:
    """``execute_cells(book, folder)`` runs all cells of a notebook there, which get outputs."""
    from nbclient import NotebookClient

    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PATH", f"{support.BIN}{os.pathsep}{os.environ['PATH']}")

    def execute(book: Any, folder: Path) -> None:
        where = {"metadata": {"path": str(folder)}}
        waits = {"timeout": support.PATIENCE_S, "startup_timeout": support.PATIENCE_S}
        NotebookClient(book, **waits, kernel_name="python3", resources=where).execute()

    return execute


@pytest.fixture
def browser_page() -> Iterator[Callable[[Path], tuple[Any, list[str]]]]:
    """``browser_page(file)``: a page of headless Chromium that shows a file, and its complaints.

    The page is one of Playwright. Complaints grow: what came to the console, what was raised, and
    requests for anything but the file.
    """
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip(skips.NO_BROWSER)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])

        def show(file: Path) -> tuple[Any, list[str]]:
            address, complaints = file.resolve().as_uri(), []
            page = browser.new_page(viewport={"width": 1400, "height": 1250})
            page.on("console", lambda message: complaints.append(f"console: {message.text}"))
            page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
            page.on(
                "request",
                lambda request: (
                    request.url == address or complaints.append(f"asked: {request.url}")
                ),
            )
            page.goto(address)
            return page, complaints

        yield show
        browser.close()
