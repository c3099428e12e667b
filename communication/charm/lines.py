"""The ways in which Charm4Py sends a message to another PE, each a `communication.pairs.Line`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from charm4py import Channel, charm

from miniapps.communication.charm import CHANNEL, FUTURE, PROXY
from miniapps.communication.charm.chare import PE
from miniapps.communication.movement import leads
from miniapps.communication.pairs import Line


class Proxy:
    """Calls of an entry method, which puts each message into the receiver's mail."""

    def __init__(self, pe: PE, other: int) -> None:
        self.pe, self.proxy, self.numbers = pe, pe.thisProxy[other], pe.numbers[other]
        self.recv = pe.mail[other].get

    def send(self, message: Any) -> None:
        """Send a message."""
        self.proxy.take(self.pe.thisIndex, next(self.numbers), message)


class Question:
    """The first PE of a pair calls an entry method with a future, to which the answer is sent."""

    def __init__(self, pe: PE, other: int) -> None:
        self.pe, self.proxy, self.numbers = pe, pe.thisProxy[other], pe.numbers[other]
        self.future: Any = None

    def send(self, message: Any) -> None:
        """Ask."""
        self.future = charm.Future()
        self.proxy.ask(self.pe.thisIndex, next(self.numbers), self.future, message)

    def recv(self) -> Any:
        """Wait for the answer."""
        return self.future.get()


class Answer:
    """The other end of a `Question`."""

    def __init__(self, pe: PE, other: int) -> None:
        self.mail = pe.mail[other]
        self.future: Any = None

    def recv(self) -> Any:
        """Wait for a question."""
        self.future, message = self.mail.get()
        return message

    def send(self, message: Any) -> None:
        """Answer it."""
        self.future.send(message)


def question(pe: PE, other: int) -> Line:
    """The end of this PE of a line of questions and answers."""
    asks = leads(pe.thisIndex, charm.numPes())
    return Question(pe, other) if asks else Answer(pe, other)


def channel(pe: PE, other: int) -> Line:
    """Charm4Py's channel, which has the methods of a line."""
    made: Line = Channel(pe, remote=pe.thisProxy[other])
    return made


LINES: Mapping[str, Callable[[PE, int], Line]] = {CHANNEL: channel, PROXY: Proxy, FUTURE: question}
