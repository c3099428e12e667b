"""Says in one line which signal ends a process whose compiled code crashes, and where."""

from __future__ import annotations

import ctypes
import faulthandler
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from devices.cpu import host_memory
from drivers.exits import end_at_once
from drivers.timing import Stepper
from drivers.waits import step_name

CRASHES = (
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGSYS,
    signal.SIGXCPU,
)
FAILED = 3  # exit status
LAST_S = 5.0  # for a report, before another signal ends this process
HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)


class Crash(Exception):
    """A signal ends this process; the message names it, and the code that was called."""


def crash(number: int, frame: FrameType | None) -> Crash:
    """The error that ends a process by a signal in code that was called from a Python frame."""
    what = f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    error = Crash(f"{what}{_place(frame)}{_cause(number)}")
    stepper = _stepper(frame)
    if stepper is not None:
        error.add_note(f"block {stepper.block.index}, {step_name(stepper.step)}")
    return error


def _place(frame: FrameType | None) -> str:
    return f" at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""


def _cause(number: int) -> str:
    """A bus error is what touching a page of shared memory gives where none is left."""
    if number != signal.SIGBUS:
        return ""
    return f"; shared memory: {host_memory.shared_words()}"


def _stepper(frame: FrameType | None) -> Stepper | None:
    """What runs the block that called the code, if one did."""
    while frame is not None:
        found = frame.f_locals.get("self")
        if isinstance(found, Stepper):
            return found
        frame = frame.f_back
    return None


class Crashes:
    """Calls ``fail`` with the error if this process crashes, which then ends with status 3.

    Python's own handlers of signals run later, when the code that has crashed returns, which it
    never does. So the handler is a C function that calls Python at once. If Python's data are
    damaged too, a second signal ends the process.
    """

    def __init__(self, fail: Callable[[Exception], None]) -> None:
        self.fail = fail
        self.handler = HANDLER(self.crashed)
        self.library: Any = ctypes.CDLL(None)
        self.library.signal.restype = ctypes.c_void_p
        self.before: dict[signal.Signals, Any] = {}

    def crashed(self, number: int) -> None:
        """Report, and end this process."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, LAST_S)
        try:
            self.fail(crash(number, sys._getframe(1)))
            sys.stderr.flush()
        finally:
            end_at_once(FAILED)

    def begin(self) -> None:
        """Watch from now on."""
        self.before = {n: self.library.signal(int(n), self.handler) for n in CRASHES}

    def end(self) -> None:
        """Restore what was there before."""
        for number, before in self.before.items():
            self.library.signal(int(number), ctypes.c_void_p(before))


def watch_crashes(fail: Callable[[Exception], None]) -> Crashes | None:
    """Call ``fail`` if code crashes from now on, as long as the result is kept.

    None, and nothing is changed, if the user has asked Python to write its stack then.
    """
    if faulthandler.is_enabled():
        return None
    crashes = Crashes(fail)
    crashes.begin()
    return crashes


@contextmanager
def crashes_told(fail: Callable[[Exception], None]) -> Iterator[None]:
    """Call ``fail`` if code inside crashes."""
    crashes = watch_crashes(fail)
    try:
        yield
    finally:
        if crashes is not None:
            crashes.end()
