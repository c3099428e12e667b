"""Apps outside the source tree: found, written by ``miniapps new``, installed, and drawn."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import support

import miniapps
from miniapps import apps
from miniapps.parameters import InputError
from miniapps.workbench import new, verify
from miniapps.workbench.cli import main
from miniapps.workbench.exit_status import FAILED, VALID
from miniapps.workbench.show.animation import animation
from miniapps.workbench.show.plots import run_figure
from miniapps.workbench.show.saved import SavedRun

PAGE = (support.ROOT / "docs" / "adding-an-app.md").read_text()
CODE = dict(re.findall(r"```python\n# miniapps/advect/(\S+\.py)\n(.*?)```", PAGE, re.DOTALL))
(PROJECT,) = re.findall(r"```toml\n# pyproject.toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the new app heat."""
    new.write("heat", tmp_path / "apps")
    return tmp_path / "apps"


def test_page_and_skeleton_are_the_same() -> None:
    """Catches a skeleton that is no longer the app of the page docs/adding-an-app.md."""
    skeleton = {file.name: file.read_text() for file in new.SKELETON.glob("*.py")}
    assert skeleton == CODE


@pytest.mark.slow
def test_new_app_passes_its_tests(folder: Path) -> None:
    """Catches a skeleton that does not run under every driver, or keeps its old name."""
    assert not [f for f in (folder / "heat").iterdir() if "advect" in f.read_text().lower()]
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", folder, folder / "heat"]
    done = support.execute(command, timeout=280)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout


def test_what_is_next_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a new app that is not found, because nobody said which variable to set."""
    monkeypatch.chdir(tmp_path)
    *_, run, verify, tests = new.new("heat_wave", None)
    assert (run.strip(), verify.strip(), tests.strip()) == (
        "miniapps run heat_wave --preset tiny",
        "miniapps verify heat_wave",
        "pytest apps/heat_wave",
    )
    assert f"  export MINIAPPS_PATH={tmp_path}/apps" in new.new("other", Path("apps"))
    assert "HeatWaveProblem" in (tmp_path / "apps" / "heat_wave" / "problem.py").read_text()
    monkeypatch.setattr(miniapps, "__path__", [apps.HERE, str(tmp_path / "mine")])
    (tmp_path / "mine").mkdir()
    assert new.new("third", None)[-4:-3] == ["now try:"]
    assert (tmp_path / "mine" / "third" / "block.py").exists()


@pytest.mark.parametrize(
    "name", ["grid", "pic", "class", "Heat", "two words", "heat", "../x", "é", "__init__"]
)
def test_names_that_an_app_cannot_have(folder: Path, name: str) -> None:
    """Catches an app that overwrites another, hides a module, or cannot be imported."""
    with pytest.raises(InputError, match=f"NAME {re.escape(name)}: "):
        new.write(name, folder)


def test_a_folder_that_cannot_be_made_is_told() -> None:
    """Catches the words of the system, and the status of a run that failed."""
    with pytest.raises(InputError, match="--folder /dev/null/x: cannot be written: Not a dir"):
        new.write("other", Path("/dev/null/x"))


def test_names_of_this_program_are_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an own app that is silently ignored, because the program has one of its name."""
    monkeypatch.setattr(miniapps, "__path__", [apps.HERE, str(folder), apps.HERE])
    assert "heat" in apps.names()
    (folder / "pic").mkdir()
    (folder / "pic" / "__init__.py").touch()
    with pytest.raises(InputError, match="MINIAPPS_PATH .*: an app must not be called pic"):
        apps.names()


@pytest.mark.slow
def test_installed_app_runs(folder: Path, tmp_path: Path) -> None:
    """Catches an app that only runs if it is imported as miniapps.NAME."""
    (folder / "pyproject.toml").write_text(PROJECT)
    words = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    command = [sys.executable, "-m", "pip", "install", *words, tmp_path / "site", folder]
    support.execute(command, check=True)
    env = {"PYTHONPATH": str(tmp_path / "site")}
    lines = (
        "heat --preset tiny",
        "heat --preset tiny --driver sim --pe-grid 3",
    )  # sim pickles blocks
    records = support.records_of(lines, env=env)
    assert all(record["valid"] for record in records)
    assert len({record["state_hash"] for record in records}) == 1


def test_package_that_is_no_app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a traceback for a package that exports no app, such as one of tests."""
    (folder / "helpers").mkdir()
    (folder / "helpers" / "__init__.py").write_text("Problem = 1")
    monkeypatch.setattr(miniapps, "__path__", [*miniapps.__path__, str(folder)])
    with pytest.raises(InputError, match="APP helpers: must export Block, reference, validate"):
        apps.load("helpers")


BROKEN = {
    "name": ("from .block import Block", "1 + nothing", "block.py:1: NameError: name 'nothing'"),
    "syntax": ("from .block import Block", "def (", "block.py:1: SyntaxError: invalid syntax"),
    "module": ("import no_such_module", "", "__init__.py:1: ModuleNotFoundError: No module named"),
    "deep": ("from .block import Block", "import json; json.loads('')", "block.py:1: JSONDecode"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BROKEN)
def test_an_app_whose_import_fails(folder: Path, what: str) -> None:
    """Catches a traceback, a line that does not say where, and other apps that go with it."""
    (folder / "ice").mkdir()
    first, block, said = BROKEN[what]
    (folder / "ice" / "__init__.py").write_text(first)
    (folder / "ice" / "block.py").write_text(block)
    env = {"MINIAPPS_PATH": str(folder)}
    done = support.miniapps("list", env=env)
    assert done.returncode == 0 and "heat" in done.stdout and "pic" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"left out: ice: import fails: {folder}/ice/") and said in line
    for words in ("run ice", "verify ice", "study strong ice", "selftest ice"):
        done = support.miniapps(*words.split(), env=env)
        (line,) = done.stderr.splitlines()
        assert done.returncode == 2 and said in line, line
    assert support.miniapps("run", "heat", "--preset", "tiny", env=env).returncode == 0


def test_all_apps_but_a_broken_one(folder, monkeypatch, capsys):
    """Catches verify, selftest and demo that end at a broken app, or count it as verified."""
    (folder / "ice").mkdir()
    (folder / "ice" / "__init__.py").write_text("1 / 0")
    monkeypatch.setattr(miniapps, "__path__", [*miniapps.__path__, str(folder)])
    seen: list[list[str]] = []
    monkeypatch.setattr(verify, "verify", lambda asked, full, device: seen.append(asked) or 0)
    others = [name for name in apps.names() if name != "ice"]
    assert main(["verify"]) == FAILED and seen == [others]
    assert "left out: ice: import fails: " in capsys.readouterr().err
    assert main(["verify", "heat"]) == VALID and capsys.readouterr().err == ""
    loaded, left_out = apps.load_all()
    assert list(loaded) == others and len(left_out) == 1 and "ZeroDivisionError" in left_out[0]


@pytest.fixture
def line_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a run on one axis."""
    words = "heat --size 3000 --pe-grid 3 --steps 20 --snapshot-every 5 --output".split()
    env = {"MINIAPPS_PATH": str(folder)}
    support.run_record(*words, tmp_path / "run.h5", env=env)
    with pytest.raises(InputError, match="app heat is unknown; is it in a folder of MINIAPPS_PATH"):
        SavedRun.read(tmp_path / "run.h5")
    monkeypatch.setattr(miniapps, "__path__", [apps.HERE, str(folder)])
    return tmp_path / "run.h5"


@pytest.mark.slow
def test_one_axis_is_drawn_as_a_line(line_run: Path) -> None:
    """Catches a traceback and a heat map where there is nothing to map."""
    with h5py.File(line_run) as file:
        u = file["state/u"][...]
        thumbnails = file["snapshots/thumbnail"][...]
    state = run_figure(line_run).axes[0]
    (line,) = state.lines
    assert (state.get_xlabel(), state.get_ylabel()) == ("x [cells]", "u (no unit)")
    off = np.abs(line.get_ydata() - u[line.get_xdata().astype(int)])
    assert np.median(off) < 1e-3 and np.count_nonzero(off > 0.05) < 30  # at the edges of the box
    assert 1000 < len(line.get_xdata()) < 3000 and not state.images

    assert thumbnails.shape == (7, 1024)
    figure = animation([SavedRun.read(line_run)])
    for frame in figure.frames:
        assert frame.data[1].type == "scatter" and frame.data[1].mode == "lines"
    last, axis = figure.frames[-1].data[1], figure.layout.yaxis2
    np.testing.assert_allclose(last.y, thumbnails[-1])
    assert last.x0 + last.dx * (len(last.y) - 0.5) == pytest.approx(3000)
    assert axis.range[0] < thumbnails.min() and axis.range[1] > thumbnails.max()
    assert axis.title.text == "u (no unit)"
