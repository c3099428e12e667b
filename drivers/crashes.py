"""Says in one line which signal ends a process whose compiled code crashes, and where."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from miniapps.devices.cpu import host_memory
from miniapps.drivers.exits import end_at_once
from miniapps.drivers.timing import Stepper
from miniapps.drivers.waits import step_name

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
HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
WITH_ADDRESS, ON_OWN_STACK, RESTART = 4, 0x08000000, 0x10000000  # flags of sigaction(2)
ADDRESS_AT = 16  # bytes before the address in siginfo_t
STACK_BYTES = 1 << 20  # of a report
GAP_BYTES = 1 << 20  # below the stack, which the kernel leaves free


class Action(ctypes.Structure):
    """What Linux's C libraries call ``struct sigaction``."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_byte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class Stack(ctypes.Structure):
    """What they call ``stack_t``."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("size", ctypes.c_size_t),
    )


class Crash(Exception):
    """A signal ends this process; the message names it, and the code that was called."""


def crash(number: int, frame: FrameType | None, address: int = 0) -> Crash:
    """The error that ends a process by a signal in code that was called from a Python frame.

    ``address``: of the memory that the code has accessed, if that is the reason.
    """
    what = f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    error = Crash(f"{what}{_place(frame)}{_cause(number, address)}")
    stepper = _stepper(frame)
    if stepper is not None:
        error.add_note(f"block {stepper.block.index}, {step_name(stepper.step)}")
    return error


def _place(frame: FrameType | None) -> str:
    return f" at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""


def _cause(number: int, address: int) -> str:
    """A bus error is what touching a page of shared memory gives where none is left."""
    if number == signal.SIGBUS:
        return f"; shared memory: {host_memory.shared_words()}"
    if number == signal.SIGSEGV and _is_below_stack(address):
        most, _ = resource.getrlimit(resource.RLIMIT_STACK)
        return f"; the stack is full, of {most / 1e6:.1f} MB (ulimit -s): a recursion is too deep"
    return ""


def _is_below_stack(address: int) -> bool:
    """Whether an address is where the stack of the main thread would grow next."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    lows = [int(line.partition("-")[0], 16) for line in maps if line.endswith("[stack]")]
    return any(low - GAP_BYTES <= address < low + mmap.PAGESIZE for low in lows)


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
    never does. So the handler is a C function that calls Python at once. It has a stack of its
    own, as that of the code may be full. If Python's data are damaged too, a second signal ends the
    process.
    """

    def __init__(self, fail: Callable[[Exception], None]) -> None:
        self.fail = fail
        self.handler = HANDLER(self.crashed)
        self.library: Any = ctypes.CDLL(None)
        self.before: dict[signal.Signals, Action] = {}
        self.memory = mmap.mmap(-1, STACK_BYTES)
        self.stack = Stack(ctypes.addressof(ctypes.c_byte.from_buffer(self.memory)), 0, STACK_BYTES)
        self.stack_before = Stack()

    def crashed(self, number: int, info: int, _: int) -> None:
        """Report, and end this process; ``info``: the address of the signal's siginfo_t."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, LAST_S)
        try:
            address = ctypes.c_uint64.from_address(info + ADDRESS_AT).value
            self.fail(crash(number, sys._getframe(1), address))
            sys.stderr.flush()
        finally:
            end_at_once(FAILED)

    def begin(self) -> None:
        """Watch from now on."""
        self.library.sigaltstack(ctypes.byref(self.stack), ctypes.byref(self.stack_before))
        handler = ctypes.c_void_p.from_buffer(self.handler).value  # `cast` makes a cycle
        action = Action(handler, flags=WITH_ADDRESS | ON_OWN_STACK | RESTART)
        for number in CRASHES:
            before = self.before[number] = Action()
            self.library.sigaction(int(number), ctypes.byref(action), ctypes.byref(before))

    def end(self) -> None:
        """Restore what was there before."""
        for number, before in self.before.items():
            self.library.sigaction(int(number), ctypes.byref(before), None)
        self.library.sigaltstack(ctypes.byref(self.stack_before), None)
        del self.handler  # it refers to this object: `fail`, and all blocks, would stay


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
