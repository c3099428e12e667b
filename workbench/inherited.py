"""What a process inherits from its caller, made what this program relies on.

A signal that the caller ignores stays ignored, as under ``nohup``: SIGHUP, SIGINT, SIGQUIT and
SIGTERM. The caller cannot have meant the rest: signals that are blocked, a SIGCHLD that is ignored,
with which no child's exit status can be known, standard files that are closed, and a umask that
takes from new files the rights of their own user.
"""

from __future__ import annotations

import io
import os
import resource
import signal
import sys
from typing import Any, TextIO

NAMES = "stdin", "stdout", "stderr"


def prepare() -> None:
    """Change it for this process, before others are started. Ctrl-C waits until it is let in."""
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGINT})
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, ignore)
    os.umask(os.umask(0o077) & 0o077)
    os.environ.pop("MPLBACKEND", None)  # figures are files; an unknown name would end matplotlib
    open_standard_files()
    write_whole_bytecode()


def write_whole_bytecode() -> None:
    """Write no bytecode where files are limited in size: Python keeps what fits of a module's.

    Each later import of the module would fail, in any process.
    """
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        sys.dont_write_bytecode = True


def ignore(*_: Any) -> None:
    """Ignore a signal in this process, not in those it starts: by SIGTERM it ends them."""


def open_standard_files() -> None:
    """Open /dev/null as each of the standard files that the caller has closed, as by ``>&-``.

    Else Python has none, so printing fails, and a file that is opened later takes its number.
    """
    for number, name in enumerate(NAMES):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest free one, which is the missing one
            os.set_inheritable(null, True)
        if name != "stdin":
            setattr(sys, name, output(number, getattr(sys, name)))
        elif sys.stdin is None:
            sys.stdin = open(number, encoding="utf-8")


class OutputError(OSError):
    """What a command prints cannot be written."""


class Output(io.FileIO):
    """A file to which writing succeeds even after its reader has left.

    So the exit status of a command does not depend on who reads what it prints.
    """

    def write(self, data: Any) -> Any:
        """Write as much as is taken now; if nobody reads any more, let all go nowhere.

        Raises OutputError, as for a full disk; standard error raises nothing, for nobody could be
        told.
        """
        try:
            return super().write(data)
        except BrokenPipeError:
            with open(os.devnull, "wb") as null:
                os.dup2(null.fileno(), self.fileno())
        except OSError as error:
            if self.fileno() != 2:
                raise OutputError(error.errno, error.strerror) from None
        return len(data)


def output(number: int, like: TextIO | None = None) -> TextIO:
    """A text file for standard output or standard error, by the number that is open for it.

    Characters that its encoding, that of ``like``, does not have are printed as escapes.
    """
    buffer = io.BufferedWriter(Output(number, "w", closefd=False))
    if not isinstance(like, io.TextIOWrapper):
        return io.TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=number == 2)
    # With PYTHONUNBUFFERED it writes through to no buffer; here lines must leave theirs.
    lines = number == 2 or like.line_buffering or like.write_through
    # Not the errors of ``like`` either: in the locale C an umlaut would still be one.
    return io.TextIOWrapper(buffer, like.encoding, "backslashreplace", None, lines)
