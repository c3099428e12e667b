"""What stops a student's program, as a sentence with the line of the program."""

from __future__ import annotations

import traceback
from collections.abc import Collection
from pathlib import Path

from miniapps.drivers.job import RunError


def placed(error: BaseException, programs: Collection[Path]) -> Exception:
    """The error with the last line of a program that led to it; as it is if there is none."""
    files = {str(program) for program in programs}
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
    if isinstance(error, SystemExit):
        what = "it ends the process, by exit or quit"
    elif isinstance(error, MemoryError):
        what = "out of memory"
    else:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if not frames:
        return error if isinstance(error, Exception) else RunError(what)
    place = frames[-1]
    inside = "" if place.name == "<module>" else f", in {place.name}"
    notes = "".join(f"{note}: " for note in getattr(error, "__notes__", ()))
    return RunError(f"{notes}line {place.lineno}{inside}: {what}")
