"""Opens the HDF5 file of a run, which others may have edited or damaged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from miniapps.hdf5 import Unreadable, damage, require_own_data, require_readable
from miniapps.parameters import InputError, require, require_no_device, require_permission

ROWS = 1 << 12  # of a dataset, read at a time


@contextmanager
def opened(source: Path) -> Iterator[Any]:
    """Open a run's file. Raises InputError if it is missing or not written by --output."""
    import h5py

    try:
        with h5py.File(source) as file:
            require_own_data(file)
            yield file
    except InputError:
        raise
    except Exception as error:  # h5py raises almost any of them for a damaged file
        what = f"must be written by --output ({damage(error)})"
        raise InputError("FILE.h5", source, what) from None


def require_survivable(source: Path, read: Callable[[], object]) -> None:
    """Call ``read`` in a child process first, because a damaged file may end or stop its reader.

    Raises InputError if it does, or if there is no such file.
    """
    require_no_device("FILE.h5", source)
    require(os.path.lexists(source), "FILE.h5", source, "there is no such file")
    require_permission("FILE.h5", source)
    try:
        require_readable(source, read)
    except (OSError, Unreadable) as error:
        raise InputError("FILE.h5", source, f"must be written by --output ({error})") from None


def read_rows(*datasets: Any) -> None:
    """Read datasets, some rows at a time, and their attributes."""
    for data in datasets:
        dict(data.attrs)
        for first in range(0, len(data), ROWS):
            data[first : first + ROWS]
