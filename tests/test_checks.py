"""That `make quick` is what it says, what a day makes, and that workers share what is made once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import of_day
import pytest
import support


@pytest.mark.slow
def test_quick_leaves_out_what_launches() -> None:
    """Catches a quick run that starts a launcher, and one that runs nothing."""
    names = ("cli", "progress_file", "tiling")
    files = [support.ROOT / "tests" / f"test_{name}.py" for name in names]
    options = ["--quick", "-q", "-rs", "-p", "no:cacheprovider", *files]
    done = support.execute([sys.executable, "-m", "pytest", "--collect-only", *options])
    left = [line for line in done.stdout.splitlines() if "::" in line]
    assert done.returncode == 0 and "deselected" in done.stdout
    assert len(left) > 20


def test_nothing_starts_a_process_under_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a test that starts a process by itself and is run all the same."""
    monkeypatch.setattr("subprocess.Popen.__init__", support.refuse_process)
    for start in (lambda: support.miniapps("--help"), lambda: subprocess.run(["true"])):
        with pytest.raises(pytest.skip.Exception, match="--quick leaves out"):
            start()


@pytest.mark.long
def test_rounds_under_load_end_with_the_day_that_fails(tmp_path: Path) -> None:
    """Catches a failure that is passed over, rounds of one day, and load that is missing or stays.

    The command fails on the third day. The children of its parent are the load and itself.
    """
    body = "echo $TEST_DAY $(cat /proc/$PPID/task/$PPID/children) >> days; test $TEST_DAY != 7"
    program = [sys.executable, support.ROOT / "tests/under_load.py", "9", "2", "5", "sh", "-c"]
    done = subprocess.run([*program, body], cwd=tmp_path, capture_output=True, text=True)
    lines = (tmp_path / "days").read_text().splitlines()
    days, *children = zip(*map(str.split, lines), strict=True)
    assert days == ("5", "6", "7") and len(children) == 3
    assert done.returncode == 1 and done.stdout.splitlines()[2].startswith("TEST_DAY=7 failed")
    assert not any(Path("/proc", one[0]).exists() for one in children)


@pytest.mark.parametrize("cases", [1, 2, 3, 7])
def test_every_case_has_its_day(cases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a case that is never made, and a day on which a test has none."""
    every = list(range(cases))
    made = []
    for day in range(20782, 20782 + of_day.DAYS):
        monkeypatch.setenv(of_day.DAY, str(day))
        made.append(of_day.share(every))
    assert all(made) and sorted({case for day in made for case in day}) == every
    assert max(map(len, made)) <= -(-cases // of_day.DAYS)
    monkeypatch.setenv(of_day.DAY, of_day.ALL)
    assert of_day.share(every) == every
    monkeypatch.delenv(of_day.DAY)
    assert of_day.share(every) == every


def test_every_slow_test_meets_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches kernels for a GPU that a test made once in eleven days never has."""
    met = set()
    for day in range(of_day.DAYS * len(of_day.KERNELS)):
        monkeypatch.setenv(of_day.DAY, str(day))
        met.add((day % of_day.DAYS, *of_day.with_kernels()))
    assert len(met) == of_day.DAYS * len(of_day.KERNELS)


class Item:
    """A test as pytest collects it."""

    def __init__(self, nodeid: str, mark: str = "", fixture: str = "") -> None:
        self.nodeid, self.path, self.fixturenames = (
            nodeid,
            Path(nodeid.partition("::")[0]),
            [fixture],
        )
        self.marks = {mark}

    def get_closest_marker(self, name: str) -> str | None:
        """A mark, if it has it."""
        return name if name in self.marks else None

    def add_marker(self, mark: Any) -> None:
        """Mark it."""
        self.marks.add(mark.name)


def test_a_day_makes_a_share_of_slow_cases_only(pytestconfig, monkeypatch):
    """Catches cases left out of tests that are quick, and slow ones that are all made."""
    monkeypatch.setenv(of_day.DAY, "5")
    slow = [Item(f"test_a.py::test_slow[{n}]", "slow") for n in range(4)]
    launching = [Item(f"test_a.py::test_runs[{n}]", fixture="miniapps") for n in range(2)]
    together = [Item(f"test_a.py::test_of_one[{n}]", fixture="restarts") for n in range(3)]
    quick = [Item(f"test_a.py::test_quick[{n}]") for n in range(3)]
    left_out: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
    config: Any = SimpleNamespace(getoption=lambda name: False, hook=hook)
    single = [Item(f"test_b.py::test_{n}", "slow") for n in range(3)]
    alone = Item("test_b.py::test_alone", "launch")
    items: Any = [*slow, *launching, *together, *quick, *single, alone]
    conftest: Any = pytestconfig.pluginmanager.get_plugin(
        str(Path(__file__).parent / "conftest.py")
    )
    conftest.pytest_collection_modifyitems(config, items)
    assert items == [launching[1], *together, *quick, alone]
    assert left_out == [*slow, launching[0], *single]


class Root:
    """A factory of temporary folders, as a worker has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def getbasetemp(self) -> Path:
        """The folder of this worker."""
        return self.folder


def test_workers_share_what_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a second worker that makes all of it again, or sees it half made."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    made: list[Path] = []

    def fail(folder: Path) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        support.made_once(Root(tmp_path / "gw0"), "runs", fail)
    for worker in ("gw0", "gw1"):
        (tmp_path / worker).mkdir()
        support.made_once(Root(tmp_path / worker), "runs", made.append)
    assert made == [tmp_path / "runs"]
