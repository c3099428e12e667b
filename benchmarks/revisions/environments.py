"""Environments with the packages of the running one, and another copy of the project."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

OWN = ("__editable__", "__pycache__", "parallel_miniapps")  # this project, as pip installed it
# MPI's launcher and libraries, which a run searches for in the environment of its Python.
PROGRAMS = ("bin/mpi*", "bin/hydra*", "lib/libmpi*", "lib/mpich")


def make(folder: Path, without: tuple[str, ...] = ()) -> Path:
    """Create an environment that links to the packages of this one; returns its Python.

    It lacks the project itself and all packages whose names begin with one of ``without``.
    """
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
    packages = Path(sysconfig.get_path("purelib"))
    prefix = Path(sys.prefix)
    for package in packages.iterdir():
        if not package.name.startswith((*OWN, *without)):
            (folder / packages.relative_to(prefix) / package.name).symlink_to(package)
    for pattern in PROGRAMS:
        for file in prefix.glob(pattern):
            (folder / file.relative_to(prefix)).symlink_to(file)
    return folder / "bin" / "python"


def add_tree(folder: Path, tree: Path, entry: str) -> None:
    """Let an environment import the project from a tree, and run ``entry`` as ``miniapps``.

    ``entry`` is a module and a function, such as ``workbench.cli:main``.
    """
    packages = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (folder / packages / "tree.pth").write_text(f"{tree}\n")
    module, _, function = entry.partition(":")
    script = folder / "bin" / "miniapps"
    lines = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    script.write_text(f"#!{folder / 'bin' / 'python'}\n{lines}")
    script.chmod(0o755)
