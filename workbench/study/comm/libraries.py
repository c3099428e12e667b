"""The MPI libraries that a campaign compares, each with its launcher."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from miniapps.parameters import InputError

# What MPI says that it is, by the name in a TOML file, and how its mpiexec starts as many ranks as
# asked for, by any user.
TITLES: Mapping[str, str] = {"mpich": "MPICH", "openmpi": "Open MPI"}
OPTIONS: Mapping[str, tuple[str, ...]] = {"openmpi": ("--oversubscribe",)}
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "openmpi": ("OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
}


@dataclass(frozen=True)
class Library:
    """An MPI library; ``folder``: where it is installed, None for that of this environment.

    Without a name it is whatever mpi4py loads.
    """

    name: str | None = None
    folder: Path | None = None

    @property
    def launcher(self) -> str | None:
        """Its mpiexec; None for that of this environment."""
        return None if self.folder is None else str(self.folder / "bin" / "mpiexec")

    @property
    def runtime(self) -> Sequence[str]:
        """The options of its mpiexec."""
        return OPTIONS.get(str(self.name), ())

    def command(self, words: Sequence[str]) -> list[str]:
        """A launch command with the environment that makes mpi4py load this library."""
        if self.folder is None:
            return list(words)
        file = max(_files(self.folder), key=lambda file: file.stat().st_size)
        return ["env", f"MPI4PY_LIBMPI={file}", *SETTINGS.get(str(self.name), ()), *words]

    def objection(self, loaded: str) -> str | None:
        """Why what MPI says that it is does not fit; None if it does."""
        title = TITLES.get(str(self.name), "")
        return None if loaded.startswith(title) else f"MPI was {loaded}, asked was {title}"


def _files(folder: Path) -> list[Path]:
    """The shared library of MPI in a folder; of its names, wheels may have empty files."""
    return sorted(folder.glob("lib*/libmpi.so*"))


def folders(texts: Sequence[str]) -> dict[str, Path]:
    """Read ``"openmpi=/opt/openmpi"``. Raises InputError."""
    found = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if name not in TITLES or not equals or not folder:
            allowed = f"must be NAME=FOLDER with a name of {', '.join(TITLES)}"
            raise InputError("--library", text, allowed)
        found[name] = Path(folder)
    return found


def library(name: str, given: Mapping[str, Path]) -> Library:
    """The library with a name: where it is said to be, beside this Python, or this Python's own.

    Raises InputError if it is not found.
    """
    if name not in TITLES:
        raise InputError("library", name, f"one of {', '.join(TITLES)}")
    beside = Path(sys.prefix) / name
    folder = given.get(name, beside if beside.is_dir() else None)
    if folder is not None:
        if not _files(folder) or shutil.which(folder / "bin" / "mpiexec") is None:
            allowed = "has no lib/libmpi.so or no bin/mpiexec"
            raise InputError("--library", f"{name}={folder}", allowed)
        return Library(name, folder)
    if name == "mpich":
        return Library(name)
    raise InputError("library", name, f"is not in {beside}; --library {name}=FOLDER names another")
