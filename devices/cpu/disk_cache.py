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

from miniapps.devices.cpu import own_folder

SUM_BYTES = hashlib.sha256().digest_size


class Damaged(Exception):
    """A file does not end with the checksum of its contents."""


def checked(base: Any, sources: Any = None) -> Any:
    """Return a class of index and data files of a function, which end with checksums.

    ``base``: numba's own class. ``sources``: a stamp of further files from which the function is
    compiled; if another one was written, the function is compiled anew.
    """

    class CheckedFiles(base):
        """Their names differ from numba's, so files without checksums do not count as damaged."""

        def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
            stamp = source_stamp if sources is None else (source_stamp, sources)
            super().__init__(cache_path, f"{filename_base}.checked", stamp)

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

    return CheckedFiles


def check(path: str) -> None:
    """Raise Damaged if a file does not end with its checksum; nothing if there is no file."""
    try:
        contents = Path(path).read_bytes()
    except FileNotFoundError:
        return
    if hashlib.sha256(contents[:-SUM_BYTES]).digest() != contents[-SUM_BYTES:]:
        raise Damaged(path)


def last_locator(caching: Any) -> Any:
    """Return where a caching module of numba's keeps code if it can write to none of its folders.

    Numba itself would refuse to compile. What is loaded from this folder is executed, so it is used
    only if nobody else can write to it; else nothing is kept, which costs every start some seconds.
    """
    name = "UserWideCacheLocator"
    base: Any = getattr(caching, name, None) or getattr(caching, f"_{name}")

    class LastLocator(base):
        def __init__(self, py_func: Any, py_file: str) -> None:
            super().__init__(py_func, py_file)
            kept = own_folder.last_folder() / self.get_suitable_cache_subpath(py_file)
            self._cache_path = str(kept)

        def ensure_cache_path(self) -> None:
            own_folder.require_own(own_folder.LAST)
            super().ensure_cache_path()

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            return cls(py_func, py_file) if Path(py_file).exists() else None

    return LastLocator


@contextmanager
def tolerant(self: Any) -> Iterator[None]:
    """Go on without the cache if its files cannot be read or written."""
    try:
        yield
    except OSError as error:
        tell(f"compiled kernels are not cached on disk: {error.strerror or error}")


@cache
def tell(text: str) -> None:
    """Report something to the user, once per process."""
    logging.getLogger("miniapps").warning("miniapps: %s", text)


def use_checked_files(caching: Any = caching, sources: Any = None) -> None:
    """Let a caching module of numba's keep compiled functions in `checked` files."""
    caching.IndexDataCacheFile = checked(caching.IndexDataCacheFile, sources)
    caching.Cache._guard_against_spurious_io_errors = tolerant
    locators = getattr(caching, "CacheImpl", None) or caching._CacheImpl
    usual, last = locators._locator_classes, last_locator(caching)
    if own_folder.home() is None:
        # without a home, numba would load code from a folder "~" of the current directory
        usual = [one for one in usual if one is not last.__base__]
    locators._locator_classes = [*usual, last]
