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
        self.received = 0  # messages
        self.under_way = 0  # messages that were begun, and not waited for
        self.swept = 0  # cells computed by a lesson's sweep
        self.overlapped = 0  # those computed while messages were under way
        self.computed: list[tuple[int, int]] = []  # blocks computed, and in which step
        self.ticks = 0  # of a lesson's simulated clock

    def note_swept(self, cells: int) -> None:
        """Count cells that were computed.

        In an exchange a process sends as many messages as it receives. So if it has sent more than
        it has received, messages travel.
        """
        self.swept += cells
        self.overlapped += cells if self.sent.total() > self.received else 0


LOG = Log()
