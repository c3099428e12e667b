"""Errors that end a run or a command: one line for each, the same under every driver."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from miniapps.contract import CheckpointError, MessageError, StepError
from miniapps.devices import system
from miniapps.drivers.crashes import Crash
from miniapps.drivers.exits import AppExit
from miniapps.drivers.job import RunError

LOG = "MINIAPPS_LOG"  # environment variable: also show tracebacks, and what launchers print
TRACEBACK = f"{LOG}=1 shows the traceback"


def explained(error: Exception) -> str:
    """The error in one line, which begins with its notes: the block and the step that raised it.

    An unexpected error is named with the file and line that raised it. Its traceback is printed to
    stderr if the environment asks for it.
    """
    if isinstance(error, Crash | RunError | MessageError | StepError | CheckpointError | OSError):
        what = str(error)
    elif isinstance(error, AppExit):
        what = _unexpected(error.__cause__ or error)
    elif isinstance(error, MemoryError):
        what = f"out of memory: {error}"
    else:
        what = _unexpected(error)
    notes = () if isinstance(error, StepError) else getattr(error, "__notes__", ())
    where = "".join(f"{note}: " for note in notes)
    return " ".join(f"{where}{what}{system.low_limits()}".split())


def _unexpected(error: BaseException) -> str:
    """An error that only a mistake in a program raises, with the last line of Python before it."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if os.environ.get(LOG):
        traceback.print_exception(error)
        return what
    frames = [*traceback.extract_tb(error.__traceback__)]
    frames = [frame for frame in frames if not frame.filename.endswith(".pyx")] or frames
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}; " if frames else ""
    return f"{what} ({place}{TRACEBACK})"


def tell(reason: str) -> None:
    """Print why a run failed."""
    print(f"miniapps: run failed: {reason}", file=sys.stderr)
