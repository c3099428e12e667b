"""Checks, before a run, that the files it is to write can be written."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from miniapps.parameters import InputError, require

FIGURES = ".png", ".svg", ".pdf"


def check_writable(option: str, path: Path | None) -> None:
    """Raise InputError unless a regular file can be created, or replaced, at the path.

    A device or FIFO would be replaced by a file, or waited for until somebody reads it.
    """
    if path is None:
        return
    try:
        require(not path.is_dir(), option, path, "is a directory")
        folder = Path(os.path.realpath(path)).parent
        require(folder.is_dir(), option, path, f"there is no directory {folder}")
        special = os.path.exists(path) and not stat.S_ISREG(path.stat().st_mode)
        require(not special, option, path, "is there, and is no regular file")
        loop = path.is_symlink() and os.path.islink(os.path.realpath(path))
        require(not loop, option, path, "is a symbolic link to itself")
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(option, path, f"cannot be written: {error.strerror}") from None


def make_folder(option: str, folder: Path) -> None:
    """Make a folder, unless it is there. Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(option, folder, f"cannot be made: {error.strerror}") from None


def check_figure(path: Path | None) -> None:
    """Raise InputError unless a figure can be written to a path."""
    check_writable("--figure", path)
    drawn = path is None or path.suffix in FIGURES
    require(drawn, "--figure", path, f"must end in {', '.join(FIGURES)}")


def require_apart(files: Mapping[str, Path | None]) -> None:
    """Raise InputError if two options name one file, of which one would replace the other's."""
    options: dict[str, str] = {}
    for option, path in files.items():
        if path is not None:
            real = os.path.realpath(path)
            require(real not in options, option, path, f"is the file of {options.get(real)}")
            options[real] = option
