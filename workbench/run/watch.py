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

from miniapps.workbench.errors import tell
from miniapps.workbench.exit_status import FAILED
from miniapps.workbench.run.processes import Stopped, process_state
from miniapps.workbench.run.progress_file import ProgressFile
from miniapps.workbench.run.stall import Stall

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
    library.signal.restype = ctypes.c_void_p
    before = library.signal(int(ENDING), ctypes.cast(library._exit, ctypes.c_void_p))
    run = os.getpid()
    watcher = os.fork()
    if not watcher:
        _watch(Stall(progress, limit_s), run, clear)
    try:
        yield
    finally:
        os.kill(watcher, signal.SIGKILL)
        os.waitpid(watcher, 0)
        library.signal(int(ENDING), ctypes.c_void_p(before))


def _watch(stall: Stall, run: int, clear: Callable[[], None]) -> NoReturn:
    """Wait until the run makes no progress, and end it; or until it was killed. Then clean up."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # they end the run itself
        stopped = Stopped()
        while os.getppid() == run:
            now = time.monotonic()
            trouble = stall.check(now, stall.progress.slots())
            if stopped.check(now, [run]):
                trouble = f"process {run} was stopped"
            if trouble is not None:
                tell(trouble)
                sys.stderr.flush()
                os.kill(run, ENDING)
                os.kill(run, signal.SIGCONT)
                time.sleep(GRACE_S * (process_state(run) not in "XZ"))
                break
            time.sleep(POLL_S)
        clear()
        shutil.rmtree(stall.progress.path.parent, ignore_errors=True)
    finally:
        os._exit(0)
