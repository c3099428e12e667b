"""How messages leave a chare: by reference on its own PE, and to other PEs as few as can be.

Where all blocks are of one kind, all messages of a block to one neighbour travel in one call of
that chare's entry method, which goes on with the block at once. Where there are several kinds, one
block sends the same array to many and is sent many to add up: then each PE gets one message, which
fans out there by reference, and one with the sum of what its blocks have to say. Only that needs to
know on which PE a chare is; `charm_pe.PE` learns it anew after each balancing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from charm4py import charm

from miniapps.block import Place, Post, checked_messages


class Target(NamedTuple):
    """A block of another PE, its edge, and which of the message's arrays is for it."""

    place: Place
    edge: Any
    array: int


class Mail:
    """What a PE's chares send."""

    def __init__(self, pe: Any) -> None:
        self.pe = pe
        # Sums on their way to blocks of other PEs, by (step, phase, place): their edges and total.
        self.sums: dict[tuple[int, str, Place], tuple[list[Any], np.ndarray]] = {}
        self.senders: dict[tuple[str, Place], int] = {}  # edges of local blocks that lead there

    def relearn(self) -> None:
        """Count, for each kind of block here, by how many edges it reaches each block elsewhere."""
        self.senders = {}
        for chare in self.pe.chares():
            for peer in chare.block.neighbors.values():
                key = chare.place[0], peer.place
                self.senders[key] = self.senders.get(key, 0) + 1

    def post(self, chare: Any, request: Post) -> None:
        """Send a block's messages."""
        step, neighbors = chare.inbox.step, chare.block.neighbors
        away: list[tuple[Any, np.ndarray]] = []
        for edge, message in checked_messages(request).items():
            peer = neighbors[edge]
            other = self.pe.find(peer.place)
            if other is None:
                away.append((peer, message))
            elif request.combine:
                other.put_sum(step, request.phase, (peer.edge,), message)
            elif other.put(step, request.phase, peer.edge, chare.place, message):
                other.wake_up()
        if not away:
            return
        if request.combine:
            self._add_up(step, request.phase, chare.place[0], away)
        elif self.pe.places:
            self._send_to_pes(step, request.phase, chare.place, away)
        else:
            self._send_to_blocks(step, request.phase, chare.place, away)

    def _send_to_blocks(self, step: int, phase: str, sender: Place, away: list[Any]) -> None:
        """One call for each block."""
        blocks: dict[Place, list[tuple[Any, np.ndarray]]] = {}
        for peer, message in away:
            blocks.setdefault(peer.place, []).append((peer.edge, message))
        for place, messages in blocks.items():
            edges, arrays = zip(*messages, strict=True)
            self.pe.proxy(place).deliver(step, phase, sender, edges, *arrays)

    def _send_to_pes(self, step: int, phase: str, sender: Place, away: list[Any]) -> None:
        """One call for each PE, in which each array travels once."""
        targets: dict[int, list[Target]] = {}
        arrays: dict[int, dict[int, np.ndarray]] = {}
        for peer, message in away:
            pe = self.pe.places[peer.place]
            mine = arrays.setdefault(pe, {})
            mine.setdefault(id(message), message)
            number = list(mine).index(id(message))
            targets.setdefault(pe, []).append(Target(peer.place, peer.edge, number))
        for pe, there in targets.items():
            self.pe.thisProxy[pe].fan_out(step, phase, sender, there, *arrays[pe].values())

    def _add_up(self, step: int, phase: str, kind: str, away: list[Any]) -> None:
        """Add messages to sums, and send those to which every block here has contributed."""
        for peer, message in away:
            key = step, phase, peer.place
            if key not in self.sums:
                self.sums[key] = [], np.zeros_like(message)
            edges, total = self.sums[key]
            edges.append(peer.edge)
            np.add(total, message, out=total)
            if len(edges) == self.senders[kind, peer.place]:
                del self.sums[key]
                pe = self.pe.places[peer.place]
                self.pe.thisProxy[pe].take_sum(step, phase, peer.place, edges, total)


def local_chares(arrays: dict[str, Any]) -> dict[str, dict[Any, Any]]:
    """The chares of each kind that are on this PE now, by index; the runtime's own tables."""
    return {kind: charm.arrays[array.aid] for kind, array in arrays.items()}
