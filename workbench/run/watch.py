"""Watches a run in this process from a forked process, which no kernel of the run can hold up."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from workbench.exit_status import FAILED
from workbench.run.processes import process_state
from workbench.run.progress_file import ProgressFile
from workbench.run.stall import Stall

POLL_S = 0.1  # between two checks
GRACE_S = 1.0  # for the run's process to end
ENDING = signal.SIGQUIT  # ends it, with its number as exit status
assert ENDING == FAILED


@contextmanager
def watched(
    progress: ProgressFile, limit_s: float | None, clear: Callable[[], None]
) -> Iterator[None]:
    """End this process with status 3 and a line if its run makes no progress for ``limit_s``.

    Does nothing if that is None. ``clear`` removes the run's temporary files. A thread could not do
    this: compiled kernels keep Python's lock, and a process that is killed has no status 3. So the
    C library's ``_exit`` becomes the handler of a signal whose number is the status.
    """
    if limit_s is None:
        yield
        return
    library = ctypes.CDLL(None)
    library.signal(int(ENDING), ctypes.cast(library._exit, ctypes.c_void_p))
    run = os.getpid()
    watcher = os.fork()
    if not watcher:
        _watch(Stall(progress, limit_s), run, clear)
    try:
        yield
    finally:
        os.kill(watcher, signal.SIGKILL)
        os.waitpid(watcher, 0)
        signal.signal(ENDING, signal.SIG_DFL)


def _watch(stall: Stall, run: int, clear: Callable[[], None]) -> NoReturn:
    """Wait until the run ends or makes no progress; then end it."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run itself ends by Ctrl-C
        while os.getppid() == run:
            trouble = stall.check(time.time(), stall.progress.slots())
            if trouble is not None:
                sys.stderr.write(f"miniapps: run failed: {trouble}\n")
                sys.stderr.flush()
                os.kill(run, ENDING)
                time.sleep(GRACE_S * (process_state(run) not in "XZ"))
                clear()
                shutil.rmtree(stall.progress.path.parent)
                break
            time.sleep(POLL_S)
    finally:
        os._exit(0)
