"""Standard output whose reader, such as `head`, may leave before all is written."""

from __future__ import annotations

import os
import sys


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


def _close() -> None:
    """Let what is printed from now on go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
