"""Installing: which Python the Makefile takes, what a wheel holds, what runs without Charm4Py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import support

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(support.ROOT / "benchmarks")
    import environments

MAKE = shutil.which("make") or "make"
REAL = f'exec {sys.executable} "$@"'
NOT_THIS_ONE = "exit 127"  # what a version manager's link does where that version is not in use
WITHOUT_VENV = "exit 1"  # what Debian's Python says of ensurepip without its package for it


def made(folder: Path, programs: dict[str, str], *words: str) -> str:
    """What ``make -n install`` would do in a copy of the project where only these Pythons are."""
    for file in ("Makefile", "pyproject.toml"):
        shutil.copy(support.ROOT / file, folder)
    found = folder / "bin"
    found.mkdir()
    for tool in ("sh", "grep"):
        (found / tool).symlink_to(str(shutil.which(tool)))
    for name, text in programs.items():
        (found / name).write_text(f"#!/bin/sh\n{text}\n")
        (found / name).chmod(0o755)
    command = [MAKE, "--directory", folder, *words, "install"]
    done = support.execute(command, env={"PATH": str(found)})
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("programs", "chosen"),
    [
        ({"python3": REAL, "python3.11": REAL, "python3.12": REAL, "python3.13": REAL}, "3.13"),
        ({"python3": REAL, "python3.12": REAL, "python3.13": NOT_THIS_ONE}, "3.12"),
        ({"python3": REAL, "python3.11": REAL, "python3.13": WITHOUT_VENV}, "3.11"),
        ({"python3": REAL, "python3.14": REAL}, "3"),
    ],
)
def test_make_prefers_a_python_with_charm4py(programs, chosen, tmp_path):
    """Catches python3 taken where a version with Charm4Py is there, or one that cannot be used."""
    assert f"python{chosen} -m venv .venv" in made(tmp_path, programs, "-n")


def test_make_takes_the_python_that_is_named(tmp_path):
    """Catches a choice of the user's that the Makefile overrides."""
    said = made(tmp_path, {"python3": REAL, "python3.13": REAL}, "-n", "PYTHON=python3")
    assert "python3 -m venv .venv" in said


@pytest.mark.parametrize(("version", "anew"), [("3.9.1", True), (None, False)])
def test_make_replaces_the_environment_of_another_python(version, anew, tmp_path):
    """Catches PYTHON=... that does nothing, as an environment is there; and one made every time."""
    installed = tmp_path / ".venv" / "installed"
    installed.parent.mkdir()
    own = ".".join(map(str, sys.version_info[:3]))
    (installed.parent / "pyvenv.cfg").write_text(f"home = /usr\nversion = {version or own}\n")
    installed.touch()
    said = made(tmp_path, {"python3": REAL}, "-n", "--old-file=pyproject.toml", "PYTHON=python3")
    assert ("python3 -m venv .venv" in said) == anew


def test_make_refuses_an_old_python(tmp_path):
    """Catches an installation that fails in the middle of pip's output."""
    old = 'case "$*" in *version_info*) exit 1;; esac; echo Python 3.10.9'
    said = made(tmp_path, {"python3": old})
    assert "needs Python 3.11 or later, found Python 3.10.9; set PYTHON=..." in said
    assert not (tmp_path / ".venv").exists()


# An installed copy -------------------------------------------------------------------------------

PACKAGES = ("devices", "kernels", "miniapps", "drivers", "workbench", "studies")


def tracked() -> list[str]:
    """The project's files, as git names them."""
    listed = support.execute(["git", "-C", support.ROOT, "ls-files"])
    assert listed.returncode == 0, listed.stderr
    return [name for name in listed.stdout.splitlines() if (support.ROOT / name).exists()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built from a copy of what git knows."""
    copy = tmp_path_factory.mktemp("source")
    for name in tracked():
        if name.startswith(PACKAGES) or "/" not in name:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(support.ROOT / name, copy / name)
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", copy, copy]
    done = support.execute([sys.executable, "-m", "pip", *words])
    assert done.returncode == 0, done.stderr
    (built,) = copy.glob("*.whl")
    return built


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """``miniapps`` of the wheel in an environment of its own, where Charm4Py is not installed.

    It sees the packages of this environment but Charm4Py and the project itself, and runs in an
    empty folder.
    """
    folder = tmp_path_factory.mktemp("installed")
    python = environments.make(folder / "venv", without=("charm",))
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    done = support.execute([*pip, "--disable-pip-version-check", "--no-index", wheel])
    assert done.returncode == 0, done.stderr
    work = folder / "work"
    work.mkdir()
    before = Path.cwd()
    os.chdir(work)
    yield lambda *words: support.execute([python.with_name("miniapps"), *words])
    os.chdir(before)


def test_wheel_holds_every_file_of_the_packages(wheel):
    """Catches a template, balancer's table or study that only a source tree has."""
    expected = {name for name in tracked() if name.split("/")[0] in PACKAGES}
    assert {"workbench/study/report.html", "studies/published/charmpy.json"} <= expected
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_installed_copy_runs(installed):
    """Catches a package or a preset that is found in the source tree only."""
    assert installed("list").stdout.split()[0] == "echo"
    done = installed("run", "jacobi2d", "--preset", "tiny")
    assert done.returncode == 0, done.stderr
    state = "state 1887c5926d055c42b7682a59cd1879d8a4ca42aba354d9dd63771f404ca5b280"
    assert state in done.stdout


def test_installed_copy_has_the_studies(installed):
    """Catches a study that comes with the project and is not found where it is installed."""
    inside = installed("study", "studies/pic-lb.toml", "--quick", "--dry-run")
    assert inside.returncode == 0, inside.stderr
    assert "miniapps run pic --driver charm" in inside.stdout
    assert installed("study", "pic-lb.toml", "--quick", "--dry-run").stdout == inside.stdout
    assert "FILE.toml nowhere.toml: cannot be read" in installed("study", "nowhere.toml").stderr


def test_installed_copy_writes_a_report(installed):
    """Catches a report whose template is found in the source tree only."""
    study = "study strong jacobi2d --preset tiny --drivers serial --pes 1 --trials 1 --no-pin"
    done = installed(*study.split(), "--campaign", "small.jsonl")
    assert done.returncode == 0, done.stderr
    Path("small.html").unlink()
    assert installed("study", "report", "small.jsonl").returncode == 0
    assert "jacobi2d" in Path("small.html").read_text()
