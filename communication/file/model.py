"""What broadcast and gather by files cost on more ranks than there are here: a model.

A rank handles one message at a time, and a message of n bytes takes ``message_s(n)`` seconds, as in
a ping-pong between two ranks. It is assumed that ranks do not disturb each other, so each has a
core, and the folder serves all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from miniapps.communication.file.collectives import branch
from miniapps.communication.movement import ROOT

MessageCost = Callable[[int], float]


class Line(NamedTuple):
    """The seconds of a message as a fixed part, and one for each byte."""

    fixed_s: float
    byte_s: float

    @classmethod
    def through(cls, small: tuple[int, float], large: tuple[int, float]) -> Line:
        """The line through two points: bytes and seconds."""
        byte_s = (large[1] - small[1]) / (large[0] - small[0])
        return cls(small[1] - byte_s * small[0], byte_s)

    def __call__(self, nbytes: int) -> float:
        """Seconds of a message."""
        return self.fixed_s + self.byte_s * nbytes


def broadcast_s(ranks: int, method: str, nbytes: int, message_s: MessageCost) -> float:
    """Seconds until the last rank has the root's bytes."""
    one = message_s(nbytes)
    had = {ROOT: 0.0}
    waiting = [ROOT]
    while waiting:
        rank = waiting.pop()
        for number, child in enumerate(reversed(branch(rank, ranks, method).children), 1):
            had[child] = had[rank] + number * one
            waiting.append(child)
    return max(had.values())


def gather_s(ranks: int, method: str, nbytes: int, message_s: MessageCost) -> float:
    """Seconds until the root has the bytes of all ranks, ``nbytes`` from each."""

    def joined(rank: int) -> tuple[float, int]:
        """When a rank has what is below it, and how many ranks that are, with itself."""
        done, count = 0.0, 1
        for child in branch(rank, ranks, method).children:
            ready, below = joined(child)
            done = max(done, ready) + message_s(nbytes * below)
            count += below
        return done, count

    return joined(ROOT)[0]
