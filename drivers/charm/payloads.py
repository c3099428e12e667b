"""Long messages between PEs of one host lie in shared memory; what Charm4Py sends is their handle.

Charm4Py's netlrts layer sends datagrams even within a host. A message is then copied five times
between packing and unpacking, and what does not fit into the first window of datagrams waits while
the receiver computes. A handle is one short datagram.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from miniapps.devices.messages import Allocate, plain_envelope
from miniapps.drivers.charm import MOST_BYTES
from miniapps.drivers.job import RunError
from miniapps.drivers.shared_memory import Handle, Offer, Pool, PoolView, unusable

PIECE = 16 << 20  # bytes of a block that migrates in one slot
# Bytes of a pool where blocks migrate from GPU to GPU: those of all that leave at once.
MOVING = 4 << 30


def require_countable(what: str, nbytes: int) -> None:
    """Raise RunError for more bytes than Charm4Py sends at once; it would send others."""
    if nbytes > MOST_BYTES:
        raise RunError(f"{what}: {nbytes} bytes, Charm4Py sends at most {MOST_BYTES} at once")


class Payloads:
    """The pool of a PE, and the pools of the other PEs of its host as this PE reads them."""

    def __init__(self, pe: int, least: int, nbytes: int | None = None) -> None:
        """``least``: bytes of the shortest message that goes through shared memory.

        ``nbytes``: of the pool, if not as usual.
        """
        self.pe, self.least, self.nbytes = pe, least, nbytes
        self.pool: Pool | None = None
        self.views: dict[int, PoolView] = {}  # by PE
        self.readers: set[int] = set()  # the PEs that read the pool of this one
        self.everyone = False  # whether all do
        self.why: str | None = None  # messages that were to go through shared memory do not

    @property
    def allocate(self) -> Allocate:
        """What gives blocks of this PE the memory of their messages."""
        return plain_envelope if self.pool is None else self.pool.envelope

    def offer(self) -> Offer | None:
        """Create this PE's pool; returns what others need to open it, None if there is none."""
        self.why = unusable()
        if self.why is not None:
            return None
        try:
            self.pool = Pool(self.pe, self.least, self.nbytes)
        except OSError as error:  # messages go by datagrams
            self.why = f"shared memory: {error}"
            return None
        return self.pool.offer()

    def open(self, offers: Mapping[int, Offer]) -> None:
        """Open the pools of PEs of this host."""
        for pe, offer in offers.items():
            try:
                self.views[pe] = PoolView(offer, self.pe)
            except OSError as error:
                self.why = f"shared memory of PE {pe}: {error}"

    def begin(self, pes: int) -> None:
        """Find out which of all PEs have opened this PE's pool; without readers it is not used."""
        if self.pool is None:
            return
        self.readers = {pe for pe in range(pes) if self.pool.is_read_by(pe)}
        self.everyone = len(self.readers) == pes
        self.pool.close()
        if self.readers <= {self.pe}:
            self.pool = None

    def sent(self, message: Any, pe: int | None) -> Any:
        """What Charm4Py is to send to a PE: a handle, or the message if that PE cannot read it.

        A loan of a message on a GPU, which is ``bytes``, is sent as it is.

        ``pe`` is None if it is not known where the receiver is. The handle is a plain tuple, which
        is pickled in a fifth of the time.
        """
        if self.pool is None or type(message) is bytes:
            return message
        if not (self.everyone or pe in self.readers):
            return message
        handle = self.pool.lend(message)
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
        return [self._opened(Handle(*one)) if type(one) is tuple else one for one in came]

    def _opened(self, handle: Handle) -> np.ndarray:
        return self.views[handle.owner].open(handle)

    def end(self) -> None:
        """Raise MessageError if a slot was used again while its message was in use here."""
        for view in self.views.values():
            view.check()
