"""Faults of the engine, where all blocks are in one process."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.faults import ACTED, Fault, catalogue, fault

INBOX = "miniapps.drivers.inbox:Inbox"


@fault(f"{INBOX}.deliver")
def delivered_twice(right: Any) -> Any:
    """Every message is put into its inbox twice."""

    def deliver(self: Any, *message: Any) -> None:
        right(self, *message)
        right(self, *message)

    return deliver


@fault(f"{INBOX}.deliver", conditional=True)
def delivered_to_the_opposite_edge(right: Any) -> Any:
    """Messages are put at the opposite edge of their receiver, where there is one."""

    def deliver(self: Any, step: int, phase: str, edge: Any, sender: Any, array: Any) -> None:
        opposite = tuple(-d for d in edge)
        if opposite in self.senders:
            ACTED.now()
        right(self, step, phase, opposite if opposite in self.senders else edge, sender, array)

    return deliver


@fault(f"{INBOX}.take", conditional=True)
def taken_before_all_have_come(right: Any) -> Any:
    """A block that waits for messages is answered as if the first to come were all."""

    def take(self: Any, request: Any) -> Any:
        answer = right(self, request)
        came = self.waiting.get((self.step, request.phase))
        if answer is None and came:
            ACTED.now()
            zeros = np.zeros_like(next(iter(came.values())))
            return {edge: came.get(edge, zeros) for edge in request.edges}
        return answer

    return take


@fault("miniapps.drivers.engine:reduce", conditional=True)
def reduction_of_the_first(right: Any) -> Any:
    """A reduction is the value of the first block."""

    def reduce(operation: Any, values: Any, *start: Any) -> Any:
        total = right(operation, values, *start)
        if np.asarray(total).tobytes() != np.asarray(values[0]).tobytes():
            ACTED.now()
        return values[0]

    return reduce


FAULTS: tuple[Fault, ...] = catalogue(list(globals().values()))
