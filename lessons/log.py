"""What this process has done in a case: in which call it is, what it has sent and computed."""

from __future__ import annotations

from collections import Counter


class Log:
    """Notes on one case."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin a new case."""
        self.doing = ""  # the call that has not returned yet
        self.sent: Counter[int] = Counter()  # messages, by receiver
        self.handed = 0  # bytes given to MPI for other processes
        self.under_way = 0  # messages that were begun, and not waited for
        self.swept = 0  # cells computed by a lesson's sweep
        self.overlapped = 0  # those computed while messages were under way
        self.computed: list[tuple[int, int]] = []  # blocks computed, and in which step
        self.ticks = 0  # of a lesson's simulated clock

    def note_swept(self, cells: int) -> None:
        """Count cells that were computed."""
        self.swept += cells
        self.overlapped += cells if self.under_way else 0


LOG = Log()
