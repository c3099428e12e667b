"""Files on a disk that may be full, also those that libhdf5 writes.

libhdf5 crashes, or prints tracebacks, if a write fails while it closes a dataset or a file. So it
writes to a `DiskFile`, which never fails, and `hdf5_file` raises the error when it is closed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from miniapps.drivers.job import RunError

MODES = {"r+": "r+b", "w": "w+b"}


class DiskFile(io.FileIO):
    """An unbuffered file that keeps the first error of a write instead of raising it."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all bytes, unless an error has come before."""
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and self.error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        return size

    def readinto(self, data: Any) -> int:
        """Read; what was not written is zero."""
        got = super().readinto(data) or 0
        rest = memoryview(data).cast("B")[got:]
        rest[:] = bytes(len(rest))
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        """Set the size, unless an error has come before."""
        try:
            if self.error is None:
                return super().truncate(size)
        except OSError as error:
            self.error = error
        return size or 0


@contextmanager
def told(option: str, path: Path) -> Iterator[None]:
    """Raise RunError with the system's reason if the file of an option cannot be written."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        reason = os.strerror(error.errno)
        raise RunError(f"{option} {path} cannot be written: {reason}") from None


@contextmanager
def hdf5_file(path: Path, mode: str) -> Iterator[Any]:
    """An open HDF5 file, ``mode`` "r+" or "w". Raises OSError if it could not be written."""
    import h5py

    with DiskFile(path, MODES[mode]) as disk:
        try:
            with h5py.File(disk, mode) as file:
                yield file
        except Exception:
            if disk.error is None:
                raise
        if disk.error is not None:
            raise OSError(disk.error.errno, disk.error.strerror, str(path))
