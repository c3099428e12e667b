"""Long messages between PEs of one host lie in shared memory; what Charm4Py sends is their handle.

Charm4Py's netlrts layer sends datagrams even within a host. A message is then copied five times
between packing and unpacking, and what does not fit into the first window of datagrams waits while
the receiver computes. A handle is one short datagram.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from miniapps.drivers.charm import MOST_BYTES
from miniapps.drivers.job import RunError
from miniapps.drivers.shared_memory import Handle, Pools

PIECE = 16 << 20  # bytes of a block that migrates in one slot
# Bytes of a pool where blocks migrate from GPU to GPU: those of all that leave at once.
MOVING = 4 << 30


def require_countable(what: str, nbytes: int) -> None:
    """Raise RunError for more bytes than Charm4Py sends at once; it would send others."""
    if nbytes > MOST_BYTES:
        raise RunError(f"{what}: {nbytes} bytes, Charm4Py sends at most {MOST_BYTES} at once")


class Payloads(Pools):
    """The pool of a PE, and the pools of the other PEs of its host as this PE reads them."""

    def sent(self, message: Any, pe: int | None) -> Any:
        """What Charm4Py is to send to a PE: a handle, or the message if that PE cannot read it.

        A loan of a message on a GPU, which is ``bytes``, is sent as it is.

        ``pe`` is None if it is not known where the receiver is. The handle is a plain tuple, which
        is pickled in a fifth of the time.
        """
        if type(message) is bytes:
            return message
        handle = self.lend(message, pe)
        return message if handle is None else tuple(handle)

    def sent_at_once(self, messages: Iterable[Any], pe: int | None) -> list[Any]:
        """What Charm4Py is to send to a PE in one call. Raises RunError if that is too long."""
        sent = [self.sent(message, pe) for message in messages]
        nbytes = sum([one.nbytes for one in sent if isinstance(one, np.ndarray)])
        require_countable("messages of a block to another", nbytes)
        return sent

    def in_pieces(self, arrays: np.ndarray) -> list[Any]:
        """What Charm4Py is to send of bytes that migrate: pieces, as `sent` returns them.

        A slot for all of them would be up to twice as long, and need as much in a row.
        """
        step = PIECE if self.pool is not None and self.everyone else max(1, arrays.size)
        return [self.sent(arrays[at : at + step], None) for at in range(0, arrays.size, step)]

    def received(self, came: Iterable[Any]) -> list[Any]:
        """The messages that came, those in shared memory in place. Raises MessageError."""
        return [self.borrow(Handle(*one)) if type(one) is tuple else one for one in came]
