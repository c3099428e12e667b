"""Messages between processes that share a GPU: what travels says where the message lies there.

Such a *loan* takes the message's way through the driver's transport. The receiver copies the
message on the GPU. The sender keeps the memory until the receiver has copied it: each loan says how
many loans of the other direction have been copied. Where many have not, as along an edge whose
messages go one way, messages take the way through the hosts.
"""

from __future__ import annotations

import os
from collections import deque
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from miniapps.contract import MessageError
from miniapps.devices.backend import Backend
from miniapps.devices.messages import DeviceMessage, packed
from miniapps.drivers import links
from miniapps.drivers.headers import NO_AXES

LOAN = Struct("<72sqB7s4q")  # place; loans of the receiver copied here; axes, dtype, shape
LOAN_TYPE = np.dtype(f"V{LOAN.size}")  # of no other message
MOST_LENT = 8  # messages of an edge that the receiver may not have copied


class Offer(NamedTuple):
    """The memory that a process lets others open: of which host and GPU, and a place in it."""

    host: str
    gpu: bytes
    place: bytes


class Sharers(NamedTuple):
    """The ranks with which this one exchanges messages on a GPU; whether any two, or all, do so."""

    ranks: frozenset[int] = frozenset()
    some: bool = False
    all: bool = False


def sharers(group: Any, backend: Backend) -> Sharers:
    """Find who shares this rank's GPU, by a try to open memory; all ranks call it together."""
    offered = backend.offer()
    own = None if offered is None else Offer(os.uname().nodename, *offered)
    offers = group.allgather(own)
    opened = {
        rank
        for rank, other in enumerate(offers)
        if rank != group.rank and own and other and other[:2] == own[:2]
        if backend.opens(other.place)
    }
    answers = group.allgather(opened)
    mutual = [
        {other for other in seen if rank in answers[other]} for rank, seen in enumerate(answers)
    ]
    pairs = sum(map(len, mutual))
    return Sharers(
        frozenset(mutual[group.rank]), pairs > 0, pairs == group.size * (group.size - 1) > 0
    )


class Loans:
    """The messages of one edge that are lent to the other process, or borrowed from it."""

    def __init__(self, device: Any, edge: Any) -> None:
        self.device, self.edge = device, edge
        self.lent: deque[DeviceMessage] = deque()  # so that their memory is not used again
        self.given_back = 0  # of all that were lent
        self.borrowed = 0
        self.last: DeviceMessage | None = None  # borrowed, its copy may be going on

    def lend(self, message: DeviceMessage) -> np.ndarray | None:
        """A loan of a message, once it is written; None if it must go through the hosts."""
        place = None if len(self.lent) == MOST_LENT else message.place()
        if place is None:
            return None
        self.synchronize()
        self.lent.append(message)
        shape, name = message.shape, message.dtype.str.encode()
        words = place, self.borrowed, len(shape), name, *shape, *NO_AXES[len(shape) :]
        return packed(np.frombuffer(LOAN.pack(*words), LOAN_TYPE))

    def synchronize(self) -> None:
        """Wait for the copies that go on. The last one ends last, as they are in one stream."""
        if self.last is not None:
            self.last.in_place()
            self.last = None

    def borrow(self, loan: np.ndarray) -> DeviceMessage:
        """The copy of a message that was lent. Raises MessageError if it acknowledges too many."""
        place, copied, axes, name, *shape = LOAN.unpack(loan.tobytes())
        if not self.given_back <= copied <= self.given_back + len(self.lent):
            text = f"{copied} loans given back of {self.given_back + len(self.lent)}"
            raise MessageError(f"edge {self.edge}: {text}, {self.given_back} of them before")
        while self.given_back < copied:
            self.lent.popleft()
            self.given_back += 1
        dtype = np.dtype(name.rstrip(b"\0").decode())
        self.last = self.device.fetch(self.edge, tuple(shape[:axes]), dtype, place)
        self.borrowed += 1
        return self.last


class SharedLink(links.Link):
    """A link to a rank on the same GPU; before a driver's own link among the base classes."""

    takes_device = True

    def __init__(self, device: Any, *of_link: Any) -> None:
        super().__init__(*of_link)
        self.loans = Loans(device, self.edge)

    def send(self, step: int, code: int, message: Any) -> None:
        """Send a loan of a message on the device, and a message on the host as it is."""
        if isinstance(message, DeviceMessage):
            loan = self.loans.lend(message)
            message = self._through_host(message) if loan is None else loan
        super().send(step, code, message)

    def _body(self, nbytes: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """The message that has arrived: of a loan, the copy on the device."""
        body = super()._body(nbytes, shape, dtype)
        return self.loans.borrow(body) if dtype == LOAN_TYPE else body

    def _kept(self, message: Any) -> Any:
        """An early message, which later ones do not overwrite: of a loan, a copy on the host."""
        if isinstance(message, DeviceMessage):
            return self._through_host(message)
        return super()._kept(message)

    def close(self) -> None:
        """End all communication; all copies from the other process have ended."""
        super().close()
        self.loans.synchronize()

    def _through_host(self, message: DeviceMessage) -> np.ndarray:
        """A copy of a message on the host."""
        self.loans.device.stage([message])
        return message.on_host()
