"""What a rank does in one iteration of a benchmark, as a runtime states it.

The shared code turns actions into functions without arguments, with or without touching the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from miniapps.communication.buffers import Data, as_bytes
from miniapps.communication.movement import ACK

SEND, RECEIVE, BOTH, NEITHER = "send", "receive", "both", "neither"
NONE, SENDER = "none", "sender"  # of --touch, and BOTH
TOUCHES = (NONE, SENDER, BOTH)

Function = Callable[[], Any]


@dataclass(frozen=True)
class Call:
    """One call that returns when its buffers may be used again.

    ``moves``: whether it sends, receives or does both; ``gives``: it returns the received objects,
    one or a list in the order of the blocks; else they are in the buffers of the data.
    """

    run: Function
    moves: str = NEITHER
    gives: bool = False


@dataclass(frozen=True)
class Window:
    """Messages of which many are under way at once.

    ``posts`` and then ``sends`` are called, one for each message; ``finish`` gets the list of what
    they returned and waits for all messages.
    """

    sends: Sequence[Function]
    finish: Callable[[list[Any]], Any]
    posts: Sequence[Function] = ()
    moves: str = NEITHER
    gives: bool = False


@dataclass(frozen=True)
class Split:
    """A call that starts communication, and one that waits for what it returned."""

    start: Function
    wait: Callable[[Any], Any]
    moves: str = BOTH
    gives: bool = False


Action = Call | Window | Split


def moves_of(data: Data) -> str:
    """Whether a collective's call sends, receives, does both or neither."""
    if data.sends and data.receives:
        return BOTH
    if data.receives:
        return RECEIVE
    return SEND if data.sends else NEITHER


def listed(received: Any) -> list[Any]:
    """What an action gives, as a list."""
    if received is None:
        return []
    return list(received) if isinstance(received, list | tuple) else [received]


def plain(action: Action) -> Function:
    """An action as one function."""
    if isinstance(action, Call):
        return action.run
    if isinstance(action, Split):
        start, wait = action.start, action.wait
        return lambda: wait(start())
    functions, finish = [*action.posts, *action.sends], action.finish
    return lambda: finish([function() for function in functions])


class Touch:
    """Writes buffers before they are sent and reads what was received, as programs do.

    Every write changes every byte. ``mode``: SENDER or BOTH; ``spent_s``: seconds that touching has
    taken so far. It is timed where it happens: what a message leaves in the caches, and takes from
    them, makes it slower than touching the same buffers again and again.
    """

    def __init__(self, data: Data, mode: str) -> None:
        self.reads = mode == BOTH
        moved, kind = data.movement, data.kind
        self.sent = _views(kind, data.sends, moved.sends)
        self.received = _views(kind, data.receives, moved.receives)
        self.value = 0
        self.spent_s = 0.0

    def write_all(self) -> None:
        """Write all buffers that are sent."""
        begin = perf_counter()
        for view in self.sent:
            self.value = (self.value + 1) & 0xFF
            view.fill(self.value)
        self.spent_s += perf_counter() - begin

    def read_all(self) -> None:
        """Read all buffers that have been received."""
        if self.reads:
            self._read(self.received)

    def read(self, received: Any) -> None:
        """Read received objects."""
        if self.reads:
            self._read([as_bytes(one) for one in listed(received)])

    def _read(self, views: Sequence[np.ndarray]) -> None:
        begin = perf_counter()
        for view in views:
            view.max(initial=0)
        self.spent_s += perf_counter() - begin

    def around(self, action: Action) -> list[Function]:
        """An action as functions, of which some touch its data."""
        run = plain(action)
        before: list[Function] = [self.write_all] if action.moves in (SEND, BOTH) else []
        if action.moves not in (RECEIVE, BOTH):
            return [*before, run]
        if action.gives:
            return [*before, lambda: self.read(run())]
        return [*before, run, self.read_all]

    def alone(self) -> list[Function]:
        """The functions that touch the data of an iteration, without the communication."""
        return [self.write_all, self.read_all]


def _views(kind: Any, parts: Sequence[Any], blocks: Sequence[Any]) -> list[np.ndarray]:
    """The bytes of blocks, as views; short answers are never touched."""
    return [kind.read(part) for part, block in zip(parts, blocks, strict=True) if block.slot != ACK]
