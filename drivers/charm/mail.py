"""Sends messages of chares: by reference on the same PE, and in few messages to other PEs.

If all blocks are of one kind, all messages of a block to one neighbour are sent in one call of that
chare's entry method, which resumes the block at once; each message of a PostSum is sent in a call
of its own. Short messages to several blocks of a PE are sent in one call of that PE, if no block
migrates: a call costs more than they do. If there are several kinds, a block may post the same
array to many blocks and collect the sum of many. Then each PE gets one message with the array,
which it distributes by reference, and sends one message with the sum over its blocks. Only calls of
a PE need the PE of each chare, which `pe.PE` updates after each load-balancing step.

Messages on a GPU are passed by reference too. Messages for PEs on the same GPU are lent
(`drivers.gpu_ipc`). Other messages for other PEs, and complete sums for them, are copied to the
host. The chare is called again after other chares have run, and sends them then.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from miniapps.contract import AllReduce, Collect, Place, Post, PostSum, checked_messages
from miniapps.devices.messages import Allocate, DeviceMessage, plain_envelope
from miniapps.drivers.gpu_ipc import Ledger, Sharers, through_host

SHORT_BYTES = 1 << 16  # of a message, on average, below which a call costs more
Route = tuple[str, int, Any]  # an edge's other end: kind and number of the block, its edge


class Mail:
    """Sends the messages of a PE's chares; the transport of their runners."""

    sharers = Sharers()
    ledger: Ledger

    def __init__(self, pe: Any) -> None:
        self.pe = pe
        # Sums for blocks of other PEs, by (step, phase, number): edges that they see, and total.
        self.sums: dict[tuple[int, str, int], tuple[list[Any], Any]] = {}
        self.senders: dict[tuple[str, int], int] = {}  # edges that lead from blocks here to others

    def begin_reduction(self, runner: Any, reduction: AllReduce) -> bool:
        """Leave it to the chare."""
        return False

    def relearn(self) -> None:
        """Count by how many edges the blocks here, of each kind, reach each block of another PE."""
        self.senders = {}
        for chare in self.pe.chares():
            for _, number, _ in chare.runner.routes.values():
                key = chare.place[0], number
                self.senders[key] = self.senders.get(key, 0) + 1

    def equip(self, runner: Any) -> None:
        """Let a block pack messages to other PEs in shared memory; needed again after a move."""
        runner.block.device.allocator = partial(self._allocator, runner.routes)

    def _allocator(self, routes: dict[Any, Route], edge: Any) -> Allocate:
        """What allocates a message along an edge; a message within a PE lies in its own memory."""
        if edge in routes:
            kind, number, _ = routes[edge]
            if (number,) in self.pe.here[kind]:
                return plain_envelope
        return self.pe.payloads.allocate

    def post(self, runner: Any, request: Post | PostSum) -> None:
        """Send a block's messages, or begin to copy from the device what goes to other PEs."""
        step, phase, here = runner.inbox.step, request.phase, self.pe.here
        summed = type(request) is PostSum
        away: list[tuple[Route, Any]] = []
        for edge, message in checked_messages(request).items():
            kind, number, its_edge = route = runner.routes[edge]
            other = here[kind].get((number,))
            if other is None:
                away.append((route, message))
            elif summed:
                other.put_sum(step, phase, (its_edge,), message)
            elif other.put(step, phase, its_edge, runner.place, message):
                other.wake_up()
        if summed and len(here) > 1:
            away = self._add_up(step, phase, runner.place[0], away)
        if not away:
            return
        if not any(isinstance(message, DeviceMessage) for _, message in away):
            self._send(runner, step, phase, summed, away)
            return
        for lent in (False, True):
            some = [pair for pair in away if self._is_lent(pair) is lent]
            if some:
                runner.stage(request, some, not lent)

    def _is_lent(self, pair: tuple[Route, Any]) -> bool:
        """Whether a message lies on the GPU of its receiver, and is copied there."""
        (_, number, _), message = pair
        if not self.sharers.some or not isinstance(message, DeviceMessage):
            return False
        pe = self.pe.location(number)
        return self.sharers.all if pe is None else pe in self.sharers.ranks

    def collect(self, runner: Any, request: Any) -> Any:
        """The answer to a Collect; None if messages are missing, which wake the chare later."""
        answer = runner.inbox.take(request)
        if answer is None or not self.sharers.some or type(request) is not Collect:
            return answer
        device, ledger = runner.block.device, self.ledger
        answer = {
            edge: ledger.borrow(device, edge, came) if type(came) is bytes else came
            for edge, came in answer.items()
        }
        for owner, numbers in ledger.copied().items():
            self.pe.thisProxy[owner].give_back(numbers)
        return answer

    def flush(self, runner: Any) -> None:
        """Do nothing: `send_staged` sends these messages after other chares have run."""

    def send_staged(self, runner: Any) -> None:
        """Send a block's messages from the device; waits until they are written, or copied."""
        for departure in runner.departures():
            lent = self._is_lent(departure.messages[0])
            away = self._loans(runner, departure.messages) if lent else departure.on_host()
            self._send(runner, departure.step, departure.phase, False, away)

    def _loans(self, runner: Any, messages: list[tuple[Route, Any]]) -> list[tuple[Route, Any]]:
        """Messages as they are lent; each receiver gets a loan of its own, as it gives it back."""
        return [
            (route, self.ledger.lend(message) or through_host(runner.block.device, message))
            for route, message in messages
        ]

    def _send(self, runner: Any, step: int, phase: str, summed: bool, away: list[Any]) -> None:
        """Send messages, or sums of messages, to other PEs."""
        several_kinds = len(self.pe.here) > 1
        if summed and several_kinds:
            for (to, number, edges), total in away:
                pe = int(self.pe.where[number])
                (sent,) = self.pe.payloads.sent_at_once([total], pe)
                self.pe.thisProxy[pe].take_sum(step, phase, to, number, edges, sent)
        elif summed:
            for (to, number, edge), message in away:
                (sent,) = self.pe.payloads.sent_at_once([message], self.pe.location(number))
                self.pe.arrays[to][number].deliver_sum(step, phase, (edge,), sent)
        elif several_kinds or self._share_pes(away):
            self._send_to_pes(step, phase, runner.place, away)
        else:
            self._send_to_blocks(step, phase, runner.place, away)

    def _share_pes(self, away: list[Any]) -> bool:
        """Whether these messages are short, go to fewer PEs than blocks, and it is known which."""
        blocks = {number for (_, number, _), _ in away}
        pes = {self.pe.location(number) for number in blocks}
        nbytes = sum(0 if type(message) is bytes else message.nbytes for _, message in away)
        short = nbytes <= SHORT_BYTES * len(away)
        return short and len(pes) < len(blocks) and None not in pes

    def _send_to_blocks(self, step: int, phase: str, sender: Place, away: list[Any]) -> None:
        """One call for each block."""
        blocks: dict[tuple[str, int], list[tuple[Any, np.ndarray]]] = {}
        for (kind, number, edge), message in away:
            blocks.setdefault((kind, number), []).append((edge, message))
        for (kind, number), messages in blocks.items():
            edges, arrays = zip(*messages, strict=True)
            sent = self.pe.payloads.sent_at_once(arrays, self.pe.location(number))
            self.pe.arrays[kind][number].deliver(step, phase, sender, edges, *sent)

    def _send_to_pes(self, step: int, phase: str, sender: Place, away: list[Any]) -> None:
        """One call for each PE, in which each array travels once."""
        calls: dict[int, tuple[list[Any], dict[int, np.ndarray]]] = {}
        for route, message in away:
            targets, arrays = calls.setdefault(int(self.pe.where[route[1]]), ([], {}))
            arrays.setdefault(id(message), message)
            targets.append((*route, list(arrays).index(id(message))))
        for pe, (targets, arrays) in calls.items():
            sent = self.pe.payloads.sent_at_once(arrays.values(), pe)
            self.pe.thisProxy[pe].fan_out(step, phase, sender, targets, *sent)

    def _add_up(self, step: int, phase: str, kind: str, away: list[Any]) -> list[Any]:
        """Add messages to sums; returns those to which every block here has contributed."""
        complete: list[tuple[Route, Any]] = []
        for (to, number, edge), message in away:
            key = step, phase, number
            edges, total = self.sums.pop(key, ([], None))
            if total is None:
                total = message.copy()
            else:
                total += message
            edges.append(edge)
            if len(edges) == self.senders[kind, number]:
                complete.append(((to, number, edges), total))
            else:
                self.sums[key] = edges, total
        return complete
