"""What ends a process: a signal, or code of an app, such as `sys.exit` in a block: an error."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

end_at_once = os._exit


class Terminated(SystemExit):
    """A signal ends this process, with the exit status that is the argument."""

    code: int


class Interrupted(KeyboardInterrupt):
    """Ctrl-C."""


class AppExit(RuntimeError):
    """Code of an app would have ended this process, by the exception that is the cause."""


def error_of(raised: BaseException) -> Exception:
    """An exception as the error that ends a run; raises it again if a signal has caused it."""
    if isinstance(raised, Exception):
        return raised
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    by_signal = isinstance(raised, Terminated | Interrupted)
    if by_signal or (usual and isinstance(raised, KeyboardInterrupt)):
        raise raised
    error = AppExit(str(raised))
    error.__cause__ = raised
    return error


def interrupt(*_: Any) -> NoReturn:
    """Raise what Ctrl-C raises while apps run, so that it differs from what their code raises."""
    raise Interrupted


@contextmanager
def exits_are_errors() -> Iterator[None]:
    """Make `os._exit` raise what `sys.exit` raises, and Ctrl-C `Interrupted`.

    A serial run has no other process that could say how it ended. The C library's ``exit`` still
    ends it without a word. Processes that an app forks have the usual `os._exit`.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    usual = usual and threading.current_thread() is threading.main_thread()
    if usual:
        signal.signal(signal.SIGINT, interrupt)
    os._exit = sys.exit  # type: ignore[assignment]
    try:
        yield
    finally:
        _restore()
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _restore() -> None:
    os._exit = end_at_once


os.register_at_fork(after_in_child=_restore)
