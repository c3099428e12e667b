"""Standard output, which an app may close, and which may be a file on a full disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from miniapps.workbench.inherited import output

NAMES, NUMBERS = ("stdout", "stderr"), (1, 2)


def end() -> None:
    """Write out what has been printed. Raises OSError, now and not again, if that is impossible."""
    try:
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "wb") as null:  # what is left goes there when Python ends
            os.dup2(null.fileno(), sys.stdout.fileno())
        raise


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
            setattr(sys, name, output(number) if files[name].closed else files[name])
            os.dup2(copy, number)

    try:
        yield restore
    finally:
        restore()
        for copy in copies:
            os.close(copy)
