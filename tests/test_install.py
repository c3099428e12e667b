"""Installing: which Python the Makefile takes, and what it says where that is too old."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import support

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
