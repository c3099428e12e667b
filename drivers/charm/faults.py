"""Faults of the charm driver."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.contract import SETUP
from miniapps.faults import ACTED, Fault, catalogue, fault, replaced, rounded

CHARE = "drivers.charm.chare:BlockChare"
MAIL = "drivers.charm.mail:Mail"
MISTAKE_AT = 4  # step


@fault("drivers.charm.driver:_execute")
def another_number_of_pes(right: Any) -> Any:
    """The run is made on fewer PEs than were asked for."""

    def execute(job: Any, *more: Any) -> Any:
        with replaced("drivers.charm.driver:charm.numPes", lambda numbers: lambda: 1):
            return right(job, *more)

    return execute


@fault("drivers.charm.driver:_advance")
def last_step_left_out(right: Any) -> Any:
    """The timed steps end one step early."""

    def advance(arrays: Any, segment: Any, timed: bool = False) -> int:
        short = segment._replace(stop=segment.stop - 1, end=segment.end - 1)
        return int(right(arrays, short if timed else segment, timed))

    return advance


@fault(f"{CHARE}.deliver", conditional=True)
def arrays_of_a_message_exchanged(right: Any) -> Any:
    """The arrays of a message for several edges are each put at the other's edge."""

    def deliver(self: Any, step: int, phase: str, sender: Any, edges: Any, *arrays: Any) -> None:
        if len(arrays) > 1 and arrays[0].tobytes() != arrays[-1].tobytes():
            ACTED.now()
        right(self, step, phase, sender, edges, *arrays[::-1])

    return deliver


@fault(f"{CHARE}.deliver")
def delivered_twice(right: Any) -> Any:
    """Messages of other PEs are put into their inbox twice."""

    def deliver(self: Any, *message: Any) -> None:
        right(self, *message)
        right(self, *message)

    return deliver


@fault(f"{CHARE}.put_sum")
def sum_added_twice(right: Any) -> Any:
    """A sum of messages is added twice."""

    def put_sum(self: Any, *message: Any) -> None:
        right(self, *message)
        right(self, *message)

    return put_sum


@fault("drivers.charm.mail:checked_messages", conditional=True)
def sent_in_single_precision(right: Any) -> Any:
    """Messages are rounded to float32 when the block has posted them."""

    def checked_messages(request: Any) -> Any:
        return {edge: rounded(message) for edge, message in right(request).items()}

    return checked_messages


@fault(f"{MAIL}._send")
def sent_as_of_the_next_step(right: Any) -> Any:
    """Messages to other PEs say that they are of the step after; not those of the setup."""

    def send(self: Any, runner: Any, step: int, *more: Any) -> None:
        right(self, runner, step if step == SETUP else step + 1, *more)

    return send


@fault("drivers.charm.chare:result_of", conditional=True)
def reduction_of_one_chare(right: Any) -> Any:
    """A reduction is the chare's own value."""

    def result_of(total: Any, value: Any, op: str) -> Any:
        result = right(total, value, op)
        if np.asarray(result).tobytes() != np.asarray(value).tobytes():
            ACTED.now()
        return value

    return result_of


@fault(f"{CHARE}.wake_up", conditional=True)
def lost_wake_up(right: Any) -> Any:
    """A chare that may continue is not woken up, once."""

    def wake_up(self: Any) -> None:
        if self.step == MISTAKE_AT and self.number == 0 and not vars(self).get("did"):
            self.did = True
            ACTED.now()
            return
        right(self)

    return wake_up


FAULTS: tuple[Fault, ...] = catalogue(list(globals().values()))
