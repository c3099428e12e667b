"""Messages that have arrived for one block, checked against what it may receive."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.block import Collect, Edge, MessageError


class Inbox:
    """Keeps messages by (step, phase) and edge until the block collects them.

    A neighbour may run ahead, so messages of a later step wait; one of an earlier
    step, a second one on the same edge, or one from a block that is no neighbour on that edge is
    an error of the driver or the block, and raises MessageError.
    """

    def __init__(self, block: Any) -> None:
        self.block = block
        self.step = 0
        self.waiting: dict[tuple[int, str], dict[Edge, np.ndarray]] = {}

    def deliver(
        self, step: int, phase: str, edge: Edge, sender: tuple[Any, ...], array: np.ndarray
    ) -> None:
        """Take in a message that the block sees on its ``edge``."""
        peer = self.block.neighbors.get(edge)
        if peer is None or tuple(peer.block) != tuple(sender):
            raise self._error(step, phase, edge, f"sent by {sender}, which is not that neighbour")
        if step < self.step:
            raise self._error(step, phase, edge, f"late: the block is at step {self.step}")
        messages = self.waiting.setdefault((step, phase), {})
        if edge in messages:
            raise self._error(step, phase, edge, "arrived twice")
        messages[edge] = array

    def has(self, request: Collect) -> bool:
        """Whether every message that the block waits for is there."""
        messages = self.waiting.get((self.step, request.phase), {})
        return len(messages) >= len(request.edges) and all(e in messages for e in request.edges)

    def take(self, request: Collect) -> dict[Edge, np.ndarray]:
        """Hand over the messages of a Collect for which `has` holds."""
        if not request.edges:
            return {}
        messages = self.waiting[self.step, request.phase]
        taken = {edge: messages.pop(edge) for edge in request.edges}
        if not messages:
            del self.waiting[self.step, request.phase]
        return taken

    def advance(self, step: int) -> None:
        """Begin the round at ``step``; nothing of an earlier one may be left."""
        self.step = step
        for old, phase in self.waiting:
            if old < step:
                edges = tuple(self.waiting[old, phase])
                raise self._error(old, phase, edges, "never collected")

    def _error(self, step: int, phase: str, edge: Any, what: str) -> MessageError:
        where = f"step {step}, phase {phase!r}, edge {edge}"
        return MessageError(f"block {self.block.index}: message of {where}: {what}")
