"""Messages through Charm++ without Charm4Py around it.

Charm4Py's compiled module gives every message to a group to ``charm.recvGroupMsg``, which unpacks
it and calls the entry method. Here a function of this module takes its place for the messages of
one entry method, and may send the next one at once. So a message costs what Charm++ takes for it,
the compiled module's call into Python, and a function of a few lines.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from charm4py import charm

from miniapps.communication.charm.chare import PE, Mail

Packed = tuple[bytes, Any]  # what `charm.packMsg` gives
Read = Callable[[Any, int], Any]  # gets a message that came, and where its arrays begin


class Core:
    """A ping-pong with another PE, or messages that a PE sends to itself.

    Both PEs make the same calls. While it is open, messages to `PE.probe` come here.
    """

    def __init__(self, pe: PE, other: int) -> None:
        self.pe, self.other, self.mail = pe, other, Mail()
        self.alone, self.leads = other == pe.thisIndex, pe.thisIndex <= other
        self.group, self.method = pe.thisProxy.gid, pe.thisProxy.probe.ep
        self.usual = charm.recvGroupMsg
        self.left, self.ended, self.number = 0, 0.0, 0
        self.make: Callable[[], Packed] = lambda: (b"", None)
        self.read: Read = nothing
        self.came: Any = None  # what `read` gave for the last message
        charm.recvGroupMsg = self._take

    def close(self) -> None:
        """Let Charm4Py take all messages again."""
        charm.recvGroupMsg = self.usual

    def seconds(self, make: Callable[[], Packed], read: Read, times: int) -> float:
        """Seconds per message of ``times`` round trips, or of ``times`` messages to the own PE.

        ``make`` gives each message that is sent, and ``read`` gets each that came.
        """
        self.make, self.read, self.left = make, read, times
        if not self.alone:
            self.pe.allreduce().get()  # until the other PE has set what it makes, too
        begin = perf_counter()
        if self.leads:
            self._send()
        self.mail.get()
        return (self.ended - begin) / (times if self.alone else 2 * times)

    def _send(self) -> None:
        charm.CkGroupSend(self.group, self.other, self.method, self.make())

    def _take(self, group: int, method: int, message: Any, start: int) -> None:
        """Take a message, and answer it or send the next one."""
        if method != self.method:
            self.usual(group, method, message, start)
            return
        self.came = self.read(message, start)
        self.left -= 1
        if self.left or not self.leads:
            self._send()
        if not self.left:
            self.ended = perf_counter()
            self.mail.put(self.number, None)
            self.number += 1


class Sides(Core):
    """Messages to the own PE, of which packing and sending, and unpacking are timed apart."""

    def each(self, make: Callable[[], Packed], times: int) -> tuple[float, float]:
        """Seconds per message of either side."""
        self.sent_s = self.read_s = 0.0
        self.seconds(make, self._unpacked, times)
        return self.sent_s / times, self.read_s / times

    def _send(self) -> None:
        begin = perf_counter()
        super()._send()
        self.sent_s += perf_counter() - begin

    def _unpacked(self, message: Any, start: int) -> Any:
        begin = perf_counter()
        found = unpacked(message, start)
        self.read_s += perf_counter() - begin
        return found


def nothing(message: Any, start: int) -> None:
    """Leave a message as it is."""


def copied(message: Any, start: int) -> np.ndarray:
    """The bytes of a message, which are gone when the next one comes."""
    return np.frombuffer(message, np.uint8).copy()


def unpacked(message: Any, start: int) -> Any:
    """The arguments of a message, as Charm4Py reads them."""
    return charm.unpackMsg(message, start, None)[1]
