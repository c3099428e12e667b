"""Messages that have arrived for one block, checked against what it may receive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from miniapps.contract import SETUP, Collect, CollectSum, Edge, MessageError, Place


class Sum(NamedTuple):
    """The sum of messages of one phase, and the edges along which they came."""

    edges: set[Edge]
    total: np.ndarray


class Inbox:
    """Keeps messages by (step, phase) and edge until the block collects them.

    A neighbour may be ahead, so messages of a later step are kept. An error of the driver or of a
    block raises MessageError: a message of an earlier step, a second message on the same edge, or a
    message from a block that is not the neighbour on that edge.
    """

    def __init__(self, block: Any) -> None:
        self.block = block
        self.senders = {edge: peer.place for edge, peer in block.neighbors.items()}
        self.step = SETUP
        self.waiting: dict[tuple[int, str], dict[Edge, np.ndarray]] = {}
        self.sums: dict[tuple[int, str], Sum] = {}

    def deliver(self, step: int, phase: str, edge: Edge, sender: Place, array: np.ndarray) -> None:
        """Store a message that arrived on the block's ``edge``."""
        if self.senders.get(edge) != sender:
            raise self._error(step, phase, edge, f"sent by {sender}, which is not that neighbour")
        if step < self.step:
            raise self._late(step, phase, edge)
        messages = self.waiting.get((step, phase))
        if messages is None:
            self.waiting[step, phase] = {edge: array}
        elif edge in messages:
            raise self._error(step, phase, edge, "arrived twice")
        else:
            messages[edge] = array

    def add(self, step: int, phase: str, edges: Sequence[Edge], array: np.ndarray) -> None:
        """Add a sum of messages that arrived on the block's ``edges``."""
        for edge in edges:
            if edge not in self.senders:
                raise self._error(step, phase, edges, "not all of these are edges of the block")
        if step < self.step:
            raise self._late(step, phase, edges)
        before = self.sums.get((step, phase))
        if before is None:
            self.sums[step, phase] = Sum(set(edges), array.copy())
            return
        if not before.edges.isdisjoint(edges):
            raise self._error(step, phase, edges, "arrived twice")
        total = before.total
        if total.shape != array.shape or total.dtype != array.dtype:
            what = f"of shape {array.shape} and type {array.dtype}, not as others"
            raise self._error(step, phase, edges, what)
        before.edges.update(edges)
        total += array

    def has(self, request: Collect | CollectSum) -> bool:
        """Whether all messages of a request have arrived."""
        key = self.step, request.phase
        if type(request) is CollectSum:
            return key in self.sums and len(self.sums[key].edges) >= len(request.edges)
        came = self.waiting.get(key, {})
        return len(came) >= len(request.edges) and came.keys() >= set(request.edges)

    def missing(self, request: Collect | CollectSum) -> list[Edge]:
        """The edges of a request whose messages have not arrived."""
        key = self.step, request.phase
        if type(request) is CollectSum:
            came = self.sums[key].edges if key in self.sums else set()
        else:
            came = set(self.waiting.get(key, ()))
        return [edge for edge in request.edges if edge not in came]

    def take(self, request: Collect | CollectSum) -> Any:
        """Remove and return the messages of a request; None if some have not arrived."""
        if type(request) is CollectSum:
            return self._take_sum(request)
        return self.pick(request.phase, request.edges)

    def pick(self, phase: str, edges: Sequence[Edge]) -> dict[Edge, np.ndarray] | None:
        """Remove and return this step's messages on some edges; None if some have not arrived."""
        if not edges:
            return {}
        key = self.step, phase
        messages = self.waiting.get(key)
        if messages is None:
            return None
        try:
            taken = {edge: messages[edge] for edge in edges}
        except KeyError:
            return None
        if len(taken) == len(messages):
            del self.waiting[key]
        else:
            for edge in taken:
                del messages[edge]
        return taken

    def _take_sum(self, request: CollectSum) -> np.ndarray | None:
        key = self.step, request.phase
        came = self.sums.get(key)
        if came is None or len(came.edges) < len(request.edges):
            return None
        if came.edges != set(request.edges):
            raise self._error(self.step, request.phase, came.edges, "not those waited for")
        del self.sums[key]
        return came.total

    def advance(self, step: int) -> None:
        """Begin the round at ``step``. Raises MessageError if an earlier message is left."""
        self.step = step
        for old, phase in (*self.waiting, *self.sums):
            if old < step:
                left = self.waiting.get((old, phase)) or self.sums[old, phase].edges
                raise self._error(old, phase, tuple(left), "never collected")

    def _late(self, step: int, phase: str, edge: Any) -> MessageError:
        return self._error(step, phase, edge, f"late: the block is at step {self.step}")

    def _error(self, step: int, phase: str, edge: Any, what: str) -> MessageError:
        where = f"step {step}, phase {phase!r}, edge {edge}"
        return MessageError(f"block {self.block.index}: message of {where}: {what}")
