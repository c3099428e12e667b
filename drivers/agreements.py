"""How the PEs of a run agree to write a checkpoint, or to stop, after the same round.

A signal may reach one PE only, and clocks differ between PEs. So in a run that writes checkpoints
all PEs combine what they want by one reduction, after about a second's worth of rounds. Which
rounds they make does not depend on it. If they agree to stop, they make one more round, the last,
which is audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from time import monotonic
from typing import NamedTuple

import numpy as np

from miniapps.devices import system
from miniapps.drivers.job import Job, Segment

APART_S = 1.0  # between two agreements, about
GROWTH = 10  # of the number of rounds between them, at most: later rounds may be slower


class Wish(IntEnum):
    """What a PE wants after a round; the highest of all PEs happens."""

    NOTHING = 0
    CHECKPOINT = 1
    TIME_LIMIT = 2  # a checkpoint, and to stop, as --time-limit is over
    SIGNAL = 3  # the same, as the run was sent a signal

    @property
    def stops(self) -> bool:
        """Whether the run ends after the checkpoint."""
        return self >= Wish.TIME_LIMIT


class End(NamedTuple):
    """The end of a run: the number of steps made, and the wish that ended it earlier, if any."""

    step: int
    wish: Wish = Wish.NOTHING


class Agreements:
    """When a PE agrees with others, and on what; without checkpoints never.

    ``signalled``: whether a signal asks the run to stop.
    """

    def __init__(self, job: Job, signalled: Callable[[], bool]) -> None:
        self.job, self.signalled = job, signalled
        self.used = job.checkpoint_writer is not None
        self.end = job.warmup + job.steps
        self.made, self.rounds = 0, 1  # of the current segment: so far, and at most
        self.begun = self.written = monotonic()  # the current segment, and the last checkpoint
        self.stopping = Wish.NOTHING  # after the next round
        self.stopped = Wish.NOTHING

    def segments(self, start: int, end: int) -> Iterator[Segment]:
        """The segments of a phase, cut also where the PEs agree; none after they have stopped."""
        if self.stopped:
            return
        for segment in self.job.segments(start, end, self._is_long if self.used else None):
            self.begun = monotonic()
            yield segment
            if self.stopped:
                return

    def _is_long(self, rounds: int) -> bool:
        """Whether a segment of so many rounds is cut here."""
        self.made = rounds
        return rounds >= self.rounds

    def due(self, segment: Segment) -> bool:
        """Whether the PEs agree after a segment: not where no step was made, or the run ends."""
        return self.used and segment.start < segment.stop < self.end

    def wish(self) -> np.ndarray:
        """What this PE wants after a segment, and the seconds that the segment took: (2,)."""
        now, limit_s, every_s = monotonic(), self.job.time_limit_s, self.job.checkpoint_every_s
        wish = Wish.NOTHING
        if self.signalled():
            wish = Wish.SIGNAL
        elif limit_s and (system.age_s() or 0.0) >= limit_s:
            wish = Wish.TIME_LIMIT
        elif every_s and now - self.written >= every_s:
            wish = Wish.CHECKPOINT
        return np.array([float(wish), now - self.begun])

    def agree(self, most: np.ndarray) -> Wish:
        """What all PEs want. ``most``: the largest of their `wish`, from which the pace follows."""
        wish, seconds = Wish(int(most[0])), float(most[1])
        paced = int(self.made * APART_S / max(seconds, 1e-9))
        self.rounds = max(1, min(paced, GROWTH * self.made))
        if wish.stops:
            self.stopping, self.rounds = wish, 1
        return wish

    def after(
        self,
        segment: Segment,
        most: Callable[[np.ndarray], np.ndarray],
        end_after: Callable[[int], None],
    ) -> bool:
        """Agree after a segment, if it is time; returns whether to write a checkpoint now.

        ``most`` returns the largest of all PEs' wishes, of which it gets this one's;
        ``end_after(step)`` is called if the round at that step becomes the last one.
        """
        if not self.due(segment):
            return False
        if self.stopping:
            self.stopped = self.stopping
            return True
        wish = self.agree(most(self.wish()))
        if wish.stops:
            end_after(segment.stop)
        return wish == Wish.CHECKPOINT

    def wrote(self) -> None:
        """Note that a checkpoint has been written now."""
        self.written = monotonic()
