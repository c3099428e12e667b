"""Numba's cache on disk, made safe: damaged files are replaced, and a full disk only costs time.

Numba itself raises whatever it meets when it reads a damaged file, in every run and without the
file's name. A changed bit in machine code would even go unnoticed. So each file ends with a
checksum here, at 1 ms per MB, and a file that lacks it is written anew.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from numba.core import caching

SUM_BYTES = hashlib.sha256().digest_size


class Damaged(Exception):
    """A file does not end with the checksum of its contents."""


class CheckedFiles(caching.IndexDataCacheFile):
    """The index and data files of one function, which end with checksums.

    Their names differ from Numba's own, so that files without checksums are not taken for damaged.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
        super().__init__(cache_path, f"{filename_base}.checked", source_stamp)

    def load(self, key: Any) -> Any:
        """The entry with this key; None if there is none, or after removing damaged files."""
        try:
            return super().load(key)
        except Damaged as error:
            tell(f"{error} was damaged: its kernel is compiled again")
            self.flush()
            return None

    def _load_index(self) -> dict[Any, str]:
        check(self._index_path)
        return super()._load_index()

    def _load_data(self, name: str) -> Any:
        check(self._data_path(name))
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[BinaryIO]:
        """Collect the contents of a file in memory, and write them with their checksum."""
        contents = BytesIO()
        yield contents
        with super()._open_for_write(filepath) as file:
            file.write(contents.getvalue() + hashlib.sha256(contents.getvalue()).digest())


def check(path: str) -> None:
    """Raise Damaged if a file does not end with its checksum; nothing if there is no file."""
    try:
        contents = Path(path).read_bytes()
    except FileNotFoundError:
        return
    if hashlib.sha256(contents[:-SUM_BYTES]).digest() != contents[-SUM_BYTES:]:
        raise Damaged(path)


@contextmanager
def tolerant(self: caching.Cache) -> Iterator[None]:
    """Go on without the cache if its files cannot be read or written."""
    try:
        yield
    except OSError as error:
        tell(f"compiled kernels are not cached on disk: {error.strerror or error}")


@cache
def tell(text: str) -> None:
    """Report something to the user, once per process."""
    logging.getLogger("miniapps").warning("miniapps: %s", text)


def use_checked_files() -> None:
    """Let Numba keep compiled functions in `CheckedFiles`."""
    caching.IndexDataCacheFile = CheckedFiles  # type: ignore[misc]
    caching.Cache._guard_against_spurious_io_errors = tolerant  # type: ignore[method-assign]
