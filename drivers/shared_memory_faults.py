"""Faults of drivers whose processes read messages in each other's memory."""

from __future__ import annotations

from functools import wraps
from typing import Any

from miniapps.drivers.shared_memory import READERS
from miniapps.faults import ACTED, fault

POOLS = "miniapps.drivers.shared_memory:Pools"
OFFER, LEND, BORROW = f"{POOLS}.offer", f"{POOLS}.lend", f"{POOLS}.borrow"
RECLAIM = "miniapps.drivers.shared_memory:Pool._reclaim"


def all_shared(wrong: Any) -> Any:
    """Make a mistake with messages in shared memory, where even the shortest lies then."""

    @wraps(wrong)
    def change(right: Any) -> Any:
        if right.__name__ != "offer":
            return wrong(right)

        def offer(self: Any) -> Any:
            self.least = 1
            return right(self)

        return offer

    return change


@fault(OFFER, BORROW, conditional=True)
@all_shared
def shared_slot_given_back_early(right: Any) -> Any:
    """A slot in shared memory is given back as soon as its message arrives."""

    def borrow(self: Any, handle: Any) -> Any:
        message = right(self, handle)
        self.views[handle.owner].give_back(handle)
        ACTED.now()
        return message

    return borrow


@fault(OFFER, RECLAIM, conditional=True)
@all_shared
def shared_slot_not_waited_for(right: Any) -> Any:
    """A slot in shared memory is used again while a reader may still read it."""

    def reclaim(self: Any) -> None:
        while self.lent:
            offset, size, readers = self.lent.popleft()
            if any(self.memory[offset + READERS : offset + READERS + readers]):
                ACTED.now()
            self.free[size].append(offset)

    return reclaim


@fault(OFFER, LEND, conditional=True)
@all_shared
def shared_slot_of_another_message(right: Any) -> Any:
    """The handle of a message says where the message before it is."""

    def lend(self: Any, message: Any, process: Any) -> Any:
        handle = right(self, message, process)
        if handle is None:
            return None
        before, self.before = vars(self).get("before", handle), handle
        if before.offset != handle.offset:
            ACTED.now()
        return handle._replace(offset=before.offset)

    return lend


@fault(OFFER, BORROW, conditional=True)
@all_shared
def shared_slot_with_the_message_before(right: Any) -> Any:
    """A message in shared memory is read as the last one of its shape from that process was."""

    def borrow(self: Any, handle: Any) -> Any:
        latest = vars(self).setdefault("latest", {})
        message = right(self, handle)
        key = handle.owner, handle.shape, handle.dtype
        now = message.copy()
        before, latest[key] = latest.get(key, now), now
        if before.tobytes() != now.tobytes():
            ACTED.now()
        return before

    return borrow
