"""Lets messages to students' chares arrive in another order: Charm4Py keeps none.

A message to a chare may be sent again, once or several times, to the same chare. So others overtake
it. How often depends on the case and on the messages before it, not on the time. The runtime knows
of messages that are on their way again: it does not take them for the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Any

from charm4py import charm

TIMES = (0, 0, 1, 3, 9)  # how often a message is sent again
LEFT = b"lesson_left"  # in the header of a message: how often it will be
OF_A_MESSAGE = {b"dcopy", b"custom_reducer"}  # how it was packed; made anew
Invoke = Callable[..., None]


class Order:
    """Draws how often messages are sent again."""

    def __init__(self) -> None:
        self.random = Random()

    def begin(self, case: str) -> None:
        """Begin a new case."""
        self.random = Random(f"{case} {charm.myPe()}")

    def changed(self, invoke: Invoke, methods: Mapping[type, Collection[str]]) -> Invoke:
        """What Charm4Py calls to invoke a method, with messages to ``methods`` in another order."""

        def invoked(obj: Any, ep: int, header: dict[Any, Any], args: Any, **more: Any) -> None:
            method = charm.entryMethods[ep]
            left = header.get(LEFT)
            if left is None and method.name in methods.get(method.C, ()):
                left = self.random.choice(TIMES)
            if left:
                kept = {key: what for key, what in header.items() if key not in OF_A_MESSAGE}
                message = charm.packMsg(None, args, kept | {LEFT: left - 1})
                charm.CkArraySend(obj.thisProxy.aid, obj.thisIndex, ep, message)
            else:
                invoke(obj, ep, header, args, **more)

        return invoked


ORDER = Order()
