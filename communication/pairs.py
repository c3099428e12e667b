"""Messages between the two ranks of a pair, where a runtime gives what is received as objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from miniapps.communication.actions import BOTH, RECEIVE, SEND, Action, Call, Window
from miniapps.communication.buffers import Data


class Line(Protocol):
    """Messages between this rank and another one, which arrive in the order of sending."""

    def send(self, message: Any, /) -> Any:
        """Send a message, which may be changed as soon as this returns."""

    def recv(self) -> Any:
        """Wait for the next message."""


class Listed:
    """A line whose messages are in lists, so that a runtime pickles them."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def send(self, message: Any, /) -> Any:
        """Send a message."""
        return self.line.send([message])

    def recv(self) -> Any:
        """Wait for the next message."""
        (message,) = self.line.recv()
        return message


def ping_pong(line: Line, leads: bool, data: Data) -> list[Action]:
    """The first rank of a pair sends and receives, the other receives and sends back."""
    send = Call(partial(line.send, data.sends[0]), SEND)
    receive = Call(line.recv, RECEIVE, gives=True)
    return [send, receive] if leads else [receive, send]


def stream(line: Line, leads: bool, data: Data) -> list[Action]:
    """The first rank of a pair sends a window of messages, and waits for a short answer."""
    if leads:
        answer = Call(line.recv, gives=True)
        return [Window(_sends(line, data), lambda _: None, moves=SEND), answer]
    answer = Call(partial(line.send, data.sends[0]))
    return [Window((), _receives(line, data), moves=RECEIVE, gives=True), answer]


def both_ways(line: Line, leads: bool, data: Data) -> list[Action]:
    """Both ranks of a pair send a window of messages at once."""
    return [Window(_sends(line, data), _receives(line, data), moves=BOTH, gives=True)]


def _sends(line: Line, data: Data) -> list[Callable[[], Any]]:
    return [partial(line.send, part) for part in data.sends]


def _receives(line: Line, data: Data) -> Callable[[list[Any]], list[Any]]:
    """A function that receives all messages of a window."""
    count = range(len(data.receives))
    return lambda _: [line.recv() for _ in count]


MAKERS: Mapping[str, Callable[[Line, bool, Data], list[Action]]] = {
    "ping_pong": ping_pong,
    "stream": stream,
    "both_ways": both_ways,
}
