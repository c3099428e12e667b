"""The chare of a PE, which receives the messages of the others for one coroutine that waits."""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from typing import Any

from charm4py import Chare
from charm4py.threads import LocalFuture

# In place of the sender of mail: what a PE sends to all, and what a reduction gives.
BROADCAST, TOTAL = "broadcast", "total"


class Mail:
    """Messages of one sender, in the order of their numbers; the runtime may change their order."""

    def __init__(self) -> None:
        self.early: dict[int, Any] = {}  # messages that nobody has waited for, by number
        self.next = 0  # number
        self.waiting: Any = None

    def put(self, number: int, message: Any) -> None:
        """Store a message, or resume the coroutine that waits for it."""
        if self.waiting is None or number != self.next:
            self.early[number] = message
            return
        waiting, self.waiting = self.waiting, None
        waiting.send(message)

    def get(self) -> Any:
        """The next message; waits for it."""
        if self.next in self.early:
            message = self.early.pop(self.next)
        else:
            self.waiting = LocalFuture()
            message = self.waiting.get()
        self.next += 1
        return message


class PE(Chare):
    """One PE in the group of all; every method is an entry method."""

    def __init__(self) -> None:
        super().__init__()
        self.mail: dict[Any, Mail] = defaultdict(Mail)  # by sender
        self.numbers: dict[Any, Any] = defaultdict(count)  # of messages from here, by receiver
        self.lines: dict[Any, Any] = {}  # to other PEs, and the section of all PEs
        self.calls = 0  # of `count`

    def take(self, sender: int, number: int, message: Any) -> None:
        """Take a message."""
        self.mail[sender].put(number, message)

    def take_broadcast(self, root: int, number: int, message: Any) -> None:
        """Take what a PE has sent to all, itself included."""
        if self.thisIndex != root:
            self.mail[BROADCAST, root].put(number, message)

    def ask(self, sender: int, number: int, future: Any, message: Any) -> None:
        """Take a message, and the future to which the answer goes."""
        self.mail[sender].put(number, (future, message))

    def take_total(self, total: Any) -> None:
        """Take what a reduction gives."""
        self.mail[TOTAL].put(next(self.numbers[TOTAL]), total)

    def count(self) -> None:
        """Count this call: as little as can be checked."""
        self.calls += 1

    def probe(self) -> None:
        """Do nothing: messages to this method are taken by `communication.charm.core.Core`."""
