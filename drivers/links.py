"""The links of a rank's block to other ranks; what all transports of drivers with ranks share.

A message is one buffer: a header of 64 bytes (`drivers.headers`) followed by the bytes of the
array.
"""

from __future__ import annotations

import os
import time
from typing import Any

from miniapps.contract import Edge, MessageError, Peer
from miniapps.devices.messages import Allocate, plain_envelope
from miniapps.drivers.headers import HEAD, kind_of, read_kind, tag_of

# How long to look for a message without a pause; then pauses: a share of the time waited, at most.
SPIN_S, PAUSE, LONGEST_S = 1e-4, 0.1, 1e-3
Message = tuple[int, int]  # identifies a message on an edge: step and phase code


def pause(waited_s: float) -> None:
    """Let other processes run before the next look for a message that was waited for so long."""
    if waited_s < SPIN_S:
        os.sched_yield()
    else:
        time.sleep(min(PAUSE * waited_s, LONGEST_S))


class Link:
    """One edge of this rank's block: the messages to and from the neighbour there.

    Messages of an edge arrive in the order in which they were sent. A transport defines `arrived`,
    `ready`, `_body` and `_kept`, and sends. ``kinds``: numbers of the kinds of this block and of
    the neighbour, as a rank may have a block of each.
    """

    takes_device = False  # whether it sends messages in device memory
    allocate: Allocate = staticmethod(plain_envelope)  # for messages in host memory

    def __init__(
        self, own_rank: int, edge: Edge, peer: Peer, rank: int, kinds: tuple[int, int] = (0, 0)
    ) -> None:
        self.own_rank, self.edge, self.rank = own_rank, edge, rank
        own, other = kinds
        self.send_tag, self.receive_tag = tag_of(peer.edge, other), tag_of(edge, own)
        self.waits = False  # in `receive`; read by another thread
        self.early: dict[Message, Any] = {}  # came before the block asked for them

    def send(self, step: int, code: int, array: Any) -> None:
        """Send an array, which the block must not use any more."""
        raise NotImplementedError

    def arrived(self) -> Any:
        """Wait for the next message; returns memory that begins with its header."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether the next message has arrived, for which `arrived` need not wait."""
        raise NotImplementedError

    def has(self, step: int, code: int) -> bool:
        """Whether this edge's message of a step and phase has arrived. Raises as `receive`."""
        while (step, code) not in self.early and self.ready():
            came, body = self._next(step)
            self._keep(step, came, body)
        return (step, code) in self.early

    def _write_head(self, buffer: Any, step: int, code: int, message: Any) -> None:
        """Write the header of the message that follows it in the buffer."""
        kind = kind_of(code, self.own_rank, self.send_tag, message.shape, message.dtype)
        HEAD.pack_into(buffer, 0, step, kind)

    def receive(self, step: int, code: int) -> Any:
        """Wait for this edge's message of a step and phase; keeps other messages that come first.

        Raises MessageError if the neighbour has moved on to another step without posting it.
        """
        wanted = step, code
        while wanted not in self.early:
            self.waits = True
            came, body = self._next(step)
            if came == code:
                return body
            self._keep(step, came, body)
        return self.early.pop(wanted)

    def _next(self, step: int) -> tuple[int, Any]:
        """Wait for the next message, which must be of a step; returns its phase, and the array."""
        memory = self.arrived()
        self.waits = False
        came, packed = HEAD.unpack_from(memory)
        kind = read_kind(packed)
        if kind.rank != self.rank or came != step or kind.tag != self.receive_tag:
            self._refuse(step, came, kind.rank, kind.tag)
        return kind.code, self._body(kind.nbytes, kind.shape, kind.dtype)

    def _keep(self, step: int, code: int, body: Any) -> None:
        """Keep a message for later. Raises MessageError if there is one."""
        if (step, code) in self.early:
            raise MessageError(f"edge {self.edge}: a message of step {step} arrived twice")
        self.early[step, code] = self._kept(body)

    def _refuse(self, step: int, came: int, sender: int, tag: int) -> None:
        """Raise MessageError for a message that must not arrive before the expected one."""
        what = "never collected" if came < step else "another one must have come before it"
        if tag != self.receive_tag:
            what = "it belongs to another edge"
        raise MessageError(
            f"edge {self.edge}, step {step}: a message of step {came} from rank {sender}: {what}"
        )

    def _body(self, nbytes: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """The whole message that has arrived."""
        raise NotImplementedError

    def _kept(self, message: Any) -> Any:
        """An early message, which the next ones do not overwrite."""
        raise NotImplementedError

    def advance(self) -> None:
        """Begin a round. Raises MessageError if the block has not collected a message."""
        if self.early:
            step = min(self.early)[0]
            raise MessageError(f"edge {self.edge}: a message of step {step}: never collected")

    def close(self) -> None:
        """End all communication. Raises MessageError if a message was never collected."""
        raise NotImplementedError
