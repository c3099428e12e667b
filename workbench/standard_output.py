"""Standard output, whose reader may leave before all is written, and which an app may close."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

NAMES, NUMBERS = ("stdout", "stderr"), (1, 2)


def write(text: str) -> None:
    """Print some lines; nothing, now and later, if nobody reads them any more."""
    try:
        print(text)
    except BrokenPipeError:
        _close()
    end()


def end() -> None:
    """Write out what has been printed, unless its reader has left."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _close()


@contextmanager
def kept() -> Iterator[Callable[[], None]]:
    """Yields a function that undoes what code inside has done to the standard files.

    A block that closes or replaces them would take the run's result with it.
    """
    files = {name: getattr(sys, name) for name in NAMES}
    copies = [os.dup(number) for number in NUMBERS]

    def restore() -> None:
        for name, number, copy in zip(NAMES, NUMBERS, copies, strict=True):
            # A file that has replaced it, as Charm4Py's does, closes the number when it is dropped.
            setattr(sys, name, _opened(files[name], number))
            os.dup2(copy, number)

    try:
        yield restore
    finally:
        restore()
        for copy in copies:
            os.close(copy)


def _opened(file: TextIO, number: int) -> TextIO:
    """A file, or another one in its place if it was closed."""
    return open(number, "w", closefd=False) if file.closed else file


def _close() -> None:
    """Let what is printed from now on go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
