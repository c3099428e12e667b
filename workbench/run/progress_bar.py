"""A progress bar on the terminal for runs that take longer than a moment."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from miniapps.workbench.run.launched import Launched
from miniapps.workbench.run.progress_file import ProgressFile

PATIENCE_S = 2.0  # shorter runs show nothing
REFRESH_S = 0.2


class ProgressBar:
    """A bar over the steps of a run, drawn on stderr if that is a terminal."""

    def __init__(self, title: str, steps: int) -> None:
        self.title, self.steps = title, steps
        self.begun = time.monotonic()
        self.bar: Any = None

    @classmethod
    def of_run(cls, spec: Launched) -> ProgressBar:
        """A bar over all steps of a run, warm-up included."""
        return cls(f"{spec.app}, {spec.driver}", spec.warmup + spec.steps)

    def update(self, step: int) -> None:
        """Show how many steps are done."""
        if self.bar is None and sys.stderr.isatty() and time.monotonic() - self.begun > PATIENCE_S:
            self._open()
        if self.bar is not None:
            self.bar.update(self.task, completed=step)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self.bar = Progress(console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(self.title, total=self.steps)
        self.bar.start()

    def close(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.stop()


@contextmanager
def drawn(bar: ProgressBar, progress: ProgressFile) -> Iterator[None]:
    """Draw the progress of a run in this process by a thread, which reads its progress file."""
    over = threading.Event()

    def draw() -> None:
        while not over.wait(REFRESH_S):
            bar.update(progress.slot(0).step)
        bar.close()

    thread = threading.Thread(target=draw, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
