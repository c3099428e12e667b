"""Versions of what affects results and speed, for records and checkpoints."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from functools import cache
from hashlib import sha256
from pathlib import Path

PACKAGES = ("parallel-miniapps", "numpy", "numba", "mpi4py", "charm4py", "h5py")
FOLDER = Path(__file__).parents[2]  # of the program, as it is imported


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that affect results and speed."""
    found = {name: version(name) or "not installed" for name in PACKAGES}
    return {"python": platform.python_version()} | found


def software() -> dict[str, str]:
    """What must be the same on all hosts of a run, by name."""
    return versions() | {"source of parallel-miniapps": _source_digest()}


def _source_digest() -> str:
    """A hash of the source of this program, in 12 digits: checkouts of a version may differ."""
    found = sha256()
    for folder, folders, files in os.walk(FOLDER, followlinks=True):
        folders.sort()
        for file in sorted(files):
            if file.endswith(".py"):
                found.update(Path(folder, file).read_bytes())
    return found.hexdigest()[:12]


@cache
def version(package: str) -> str | None:
    """The version of a package, looked up once per process; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
