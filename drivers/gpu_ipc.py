"""Messages between processes that share a GPU: what travels says where the message lies there.

Such a *loan* takes the message's way through the driver's transport. The receiver copies the
message on the GPU. The sender keeps the memory until it learns that the receiver has copied it.

Where the messages of an edge come in order (`Loans`), each loan says how many loans of the other
direction have been copied. Where many have not, as along an edge whose messages go one way,
messages take the way through the hosts. Where they come in any order, as blocks migrate (`Ledger`),
loans have numbers, which the receiver tells their owner some at a time.
"""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import count
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from miniapps.contract import MessageError
from miniapps.devices.backend import Backend
from miniapps.devices.messages import DeviceMessage, packed
from miniapps.drivers import links
from miniapps.drivers.headers import NO_AXES

LOAN = Struct("<72sqB7s4q")  # place; a number of the lender's; axes, dtype, shape
LOAN_TYPE = np.dtype(f"V{LOAN.size}")  # of no other message
MOST_LENT = 8  # messages of an edge that the receiver may not have copied
TOLD = 8  # messages of an owner that a receiver has copied, when it tells the owner


class Offer(NamedTuple):
    """The memory that a process lets others open: of which host and GPU, and a place in it."""

    host: str
    gpu: bytes
    place: bytes


class Sharers(NamedTuple):
    """The processes that share a GPU with this one; whether any two of all do so, or all."""

    ranks: frozenset[int] = frozenset()
    some: bool = False
    all: bool = False

    @classmethod
    def of(cls, rank: int, answers: Sequence[set[int]]) -> Sharers:
        """Those of a process; ``answers``: whose memory each process has opened."""
        mutual = [
            {other for other in seen if rank in answers[other]} for rank, seen in enumerate(answers)
        ]
        pairs, size = sum(map(len, mutual)), len(answers)
        return cls(frozenset(mutual[rank]), pairs > 0, pairs == size * (size - 1) > 0)

    def path(self, path: str, why: str) -> tuple[str, str]:
        """The path of messages on GPUs, and the reason, from those where none share a GPU."""
        if self.all:
            return "ipc", "all processes share a GPU"
        return path, f"{why}; ipc between processes that share a GPU" if self.some else why


def offered(backend: Backend) -> Offer | None:
    """The memory that this process offers for a try; None if others cannot open any."""
    offer = backend.offer()
    return None if offer is None else Offer(os.uname().nodename, *offer)


def opened(rank: int, offers: Sequence[Offer | None], backend: Backend) -> set[int]:
    """Try to open the memory of all others on this process's GPU; returns whose could be opened."""
    own = offers[rank]
    return {
        number
        for number, other in enumerate(offers)
        if number != rank and own and other and other[:2] == own[:2]
        if backend.opens(other.place)
    }


def sharers(group: Any, backend: Backend) -> Sharers:
    """Find who shares this rank's GPU, by a try to open memory; all ranks call it together."""
    offers = group.allgather(offered(backend))
    return Sharers.of(group.rank, group.allgather(opened(group.rank, offers, backend)))


class Loan(NamedTuple):
    """A message that is lent: where it lies, a number of the lender's, and what it is."""

    place: bytes
    number: int
    shape: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def read(cls, loan: bytes) -> Loan:
        """The loan that has come."""
        place, number, axes, name, *shape = LOAN.unpack(loan)
        return cls(place, number, tuple(shape[:axes]), np.dtype(name.rstrip(b"\0").decode()))

    def fetched(self, device: Any, edge: Any) -> DeviceMessage:
        """Begin to copy the message; returns the copy, for the block with this device."""
        copy: DeviceMessage = device.fetch(edge, self.shape, self.dtype, self.place)
        return copy


def loan_of(message: DeviceMessage, place: bytes, number: int) -> bytes:
    """What travels in place of a message; `Loan.read` reads it."""
    shape, name = message.shape, message.dtype.str.encode()
    return LOAN.pack(place, number, len(shape), name, *shape, *NO_AXES[len(shape) :])


def through_host(device: Any, message: DeviceMessage) -> np.ndarray:
    """A copy of a message on the host."""
    device.stage([message])
    return message.on_host()


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
        return packed(np.frombuffer(loan_of(message, place, self.borrowed), LOAN_TYPE))

    def synchronize(self) -> None:
        """Wait for the copies that go on. The last one ends last, as they are in one stream."""
        if self.last is not None:
            self.last.in_place()
            self.last = None

    def borrow(self, loan: np.ndarray) -> DeviceMessage:
        """The copy of a message that was lent. Raises MessageError if it acknowledges too many."""
        lent = Loan.read(loan.tobytes())
        copied = lent.number
        if not self.given_back <= copied <= self.given_back + len(self.lent):
            text = f"{copied} loans given back of {self.given_back + len(self.lent)}"
            raise MessageError(f"edge {self.edge}: {text}, {self.given_back} of them before")
        while self.given_back < copied:
            self.lent.popleft()
            self.given_back += 1
        self.last = lent.fetched(self.device, self.edge)
        self.borrowed += 1
        return self.last


class Ledger:
    """The messages that a process has lent to others, or borrowed from them, in any order.

    The numbers of loans are those of their owner modulo the number of processes.
    """

    def __init__(self, process: int, processes: int) -> None:
        self.numbers, self.processes = count(process, processes), processes
        self.lent: dict[int, DeviceMessage] = {}  # so that their memory is not used again
        self.borrowed: dict[int, list[tuple[int, Any]]] = defaultdict(list)  # copies, by owner

    def lend(self, message: DeviceMessage) -> bytes | None:
        """A loan of a message, once it is written; None if it must go through the hosts."""
        place = message.place()
        if place is None:
            return None
        number = next(self.numbers)
        self.lent[number] = message
        return loan_of(message, place, number)

    def borrow(self, device: Any, edge: Any, loan: bytes) -> DeviceMessage:
        """The copy of a message that was lent, for the block with this device."""
        lent = Loan.read(loan)
        copy = lent.fetched(device, edge)
        self.note(lent.number, copy)
        return copy

    def note(self, number: int, copy: Any) -> None:
        """Note a copy of what was lent: a DeviceMessage, or what says as it whether it is made."""
        self.borrowed[number % self.processes].append((number, copy))

    def copied(self) -> dict[int, list[int]]:
        """By owner, loans that may be given back: nothing reads them any more. Each only once."""
        found = {}
        for owner, loans in self.borrowed.items():
            if len(loans) >= TOLD:
                going_on = [loan for loan in loans if not loan[1].is_written()]
                left = {number for number, _ in going_on}
                found[owner] = [number for number, _ in loans if number not in left]
                self.borrowed[owner] = going_on
        return found

    def give_back(self, numbers: Iterable[int]) -> None:
        """Let the memory of loans be used again. Raises MessageError if one is not lent."""
        for number in numbers:
            if self.lent.pop(number, None) is None:
                raise MessageError(f"loan {number} was given back, but is not lent")

    def synchronize(self) -> None:
        """Wait for all copies that go on."""
        for loans in self.borrowed.values():
            for _, copy in loans:
                copy.in_place()


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
            message = through_host(self.loans.device, message) if loan is None else loan
        super().send(step, code, message)

    def _body(self, nbytes: int, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        """The message that has arrived: of a loan, the copy on the device."""
        body = super()._body(nbytes, shape, dtype)
        return self.loans.borrow(body) if dtype == LOAN_TYPE else body

    def _kept(self, message: Any) -> Any:
        """An early message, which later ones do not overwrite: of a loan, a copy on the host."""
        if isinstance(message, DeviceMessage):
            return through_host(self.loans.device, message)
        return super()._kept(message)

    def close(self) -> None:
        """End all communication; all copies from the other process have ended."""
        super().close()
        self.loans.synchronize()
