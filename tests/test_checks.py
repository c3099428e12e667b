"""That `make quick` is what it says, and that workers share what is made once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import support


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
