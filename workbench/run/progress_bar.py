"""A progress bar on the terminal for runs that take longer than a moment."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Self

from miniapps.workbench.run.progress_file import ProgressFile

PATIENCE_S = 2.0  # shorter runs show nothing
REFRESH_S = 0.2


class ProgressBar:
    """A bar over the steps of a run, drawn on stderr if that is a terminal."""

    def __init__(self, title: str, steps: int) -> None:
        self.title, self.steps = title, steps
        self.begun = time.monotonic()
        self.bar: Any = None

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


class ProgressBarThread:
    """A thread that draws the progress of a run in this process, read from its progress file."""

    def __init__(self, bar: ProgressBar, progress: ProgressFile) -> None:
        self.bar, self.progress = bar, progress
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._draw, daemon=True)

    def _draw(self) -> None:
        while not self.over.wait(REFRESH_S):
            self.bar.update(self.progress.slot(0).step)
        self.bar.close()

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.thread.join()
