"""Faults of the engine, where all blocks are in one process."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.faults import ACTED, in_place_of

INBOX = "miniapps.drivers.inbox:Inbox"


@in_place_of(f"{INBOX}.deliver")
def delivered_twice(right: Any, self: Any, *message: Any) -> None:
    """Every message is put into its inbox twice."""
    right(self, *message)
    right(self, *message)


@in_place_of(f"{INBOX}.deliver", conditional=True)
def delivered_to_the_opposite_edge(
    right: Any, self: Any, step: int, phase: str, edge: Any, sender: Any, array: Any
) -> None:
    """Messages are put at the opposite edge of their receiver, where there is one."""
    opposite = tuple(-d for d in edge)
    if opposite in self.senders:
        ACTED.now()
    right(self, step, phase, opposite if opposite in self.senders else edge, sender, array)


@in_place_of(f"{INBOX}.take", conditional=True)
def taken_before_all_have_come(right: Any, self: Any, request: Any) -> Any:
    """A block that waits for messages is answered as if the first to come were all."""
    answer = right(self, request)
    came = self.waiting.get((self.step, request.phase))
    if answer is None and came:
        ACTED.now()
        zeros = np.zeros_like(next(iter(came.values())))
        return {edge: came.get(edge, zeros) for edge in request.edges}
    return answer


@in_place_of("miniapps.drivers.reduction:reduce", conditional=True)
def reduction_of_the_first(right: Any, operation: Any, values: Any, *start: Any) -> Any:
    """A reduction is the value of the first block."""
    total = right(operation, values, *start)
    if np.asarray(total).tobytes() != np.asarray(values[0]).tobytes():
        ACTED.now()
    return values[0]
