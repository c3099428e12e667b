"""What a rank does at this moment, for the report of a benchmark that makes no progress.

It is stored before and after a loop, never inside one that is timed. So of a rank in a loop of
iterations it says with whom it exchanges messages, not in which call it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

COMPUTES = "computes"
ALL = "waits for all ranks"


class Progress:
    """The progress of one rank; ``heartbeat`` is called with the number of a part that begins."""

    def __init__(self, heartbeat: Callable[[int], None]) -> None:
        self.heartbeat = heartbeat
        self.part, self.words = 0, "start"
        self.does = COMPUTES

    def __call__(self, part: int, words: str) -> None:
        """Report that a part begins or goes on; ``words``: which."""
        self.part, self.words = part, words
        self.heartbeat(part)

    @contextmanager
    def doing(self, does: str) -> Iterator[None]:
        """Say meanwhile that the rank does this, rather than computes."""
        before, self.does = self.does, does
        try:
            yield
        finally:
            self.does = before


def with_rank(other: int) -> str:
    """What a rank does that exchanges messages with one other."""
    return f"waits for messages to or from rank {other}"


def in_collective(name: str) -> str:
    """What a rank does that takes part in a collective."""
    return f"waits for the other ranks in {name}"
