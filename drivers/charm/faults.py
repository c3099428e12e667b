"""Faults of the charm driver."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.contract import SETUP
from miniapps.drivers.reduction import packed_value
from miniapps.drivers.shared_memory_faults import (  # noqa: F401  # faults of this driver, too
    shared_slot_given_back_early,
    shared_slot_not_waited_for,
    shared_slot_of_another_message,
    shared_slot_with_the_message_before,
)
from miniapps.faults import ACTED, in_place_of, replaced, rounded

CHARE = "miniapps.drivers.charm.chare:BlockChare"
MAIL = "miniapps.drivers.charm.mail:Mail"
MISTAKE_AT = 4  # step


@in_place_of("miniapps.drivers.charm.driver:_execute")
def another_number_of_pes(right: Any, job: Any, *more: Any) -> Any:
    """The run is made on fewer PEs than were asked for."""
    with replaced("miniapps.drivers.charm.driver:charm.numPes", lambda numbers: lambda: 1):
        return right(job, *more)


@in_place_of(f"{CHARE}.balance", migrating=True)
def never_balanced(right: Any, self: Any, pe: Any) -> None:
    """The load is never balanced: a public version ignores its period."""
    self.due = False
    self.begin(pe)
    self.wake_up()


@in_place_of("miniapps.drivers.charm.driver:_advance")
def last_step_left_out(right: Any, arrays: Any, segment: Any, timed: bool = False) -> int:
    """The timed steps end one step early."""
    short = segment._replace(stop=segment.stop - 1, end=segment.end - 1)
    return int(right(arrays, short if timed else segment, timed))


@in_place_of(f"{CHARE}.deliver", conditional=True)
def arrays_of_a_message_exchanged(
    right: Any, self: Any, step: int, phase: str, sender: Any, edges: Any, *arrays: Any
) -> None:
    """The arrays of a message for several edges are each put at the other's edge."""
    if len(arrays) > 1 and arrays[0].tobytes() != arrays[-1].tobytes():
        ACTED.now()
    right(self, step, phase, sender, edges, *arrays[::-1])


@in_place_of(f"{CHARE}.deliver")
def delivered_twice(right: Any, self: Any, *message: Any) -> None:
    """Messages of other PEs are put into their inbox twice."""
    right(self, *message)
    right(self, *message)


@in_place_of(f"{CHARE}.put_sum")
def sum_added_twice(right: Any, self: Any, *message: Any) -> None:
    """A sum of messages is added twice."""
    right(self, *message)
    right(self, *message)


@in_place_of("miniapps.drivers.charm.mail:checked_messages", conditional=True)
def sent_in_single_precision(right: Any, request: Any) -> Any:
    """Messages are rounded to float32 when the block has posted them."""
    return {edge: rounded(message) for edge, message in right(request).items()}


@in_place_of(f"{MAIL}._send")
def sent_as_of_the_next_step(right: Any, self: Any, runner: Any, step: int, *more: Any) -> None:
    """Messages to other PEs say that they are of the step after; not those of the setup."""
    right(self, runner, step if step == SETUP else step + 1, *more)


@in_place_of("miniapps.drivers.charm.chare:result_of", conditional=True)
def reduction_of_one_chare(right: Any, total: Any, value: Any, op: str) -> Any:
    """A reduction is the chare's own value."""
    result, own = right(total, value, op), right(packed_value(value, op), value, op)
    if np.asarray(result).tobytes() != np.asarray(own).tobytes():
        ACTED.now()
    return own


@in_place_of(f"{CHARE}.wake_up", conditional=True)
def lost_wake_up(right: Any, self: Any) -> None:
    """A chare that may continue is not woken up, once."""
    if self.step == MISTAKE_AT and self.number == 0 and not vars(self).get("did"):
        self.did = True
        ACTED.now()
        return
    right(self)
