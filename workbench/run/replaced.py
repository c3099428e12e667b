"""Files that are written beside the old ones, and replace them when they are whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_NAME = 200  # bytes of a name, to which more can be added


def aside(path: Path) -> Path:
    """The temporary path of a file that is not yet complete: a name that only this program uses."""
    name = path.name
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return path.with_name(f".miniapps-{name}.part")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The temporary path of a file, which gets its own name if all is well.

    Raises OSError that names the file, and leaves no part of it, if it cannot be written.
    """
    part = aside(path)
    try:
        yield part
        os.replace(part, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from None
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically. Raises OSError that names it, and leaves no part of it."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
