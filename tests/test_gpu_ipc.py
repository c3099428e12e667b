"""Messages that are lent between processes of one GPU: who shares one, and when memory is free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from miniapps.contract import MessageError
from miniapps.devices.messages import DeviceMessage, packed
from miniapps.drivers.gpu_ipc import (
    LOAN_TYPE,
    MOST_LENT,
    TOLD,
    Ledger,
    Loans,
    SharedLink,
    Sharers,
    sharers,
)
from miniapps.drivers.links import Link

EDGE = (1, 0)
PLACE = bytes(range(72))


class Message(DeviceMessage):
    """A message that waits are counted of."""

    def __init__(self, where: bytes | None = PLACE, dtype: str = "f8") -> None:
        self.where, self.shape, self.dtype, self.waits = where, (2, 3), np.dtype(dtype), 0
        self.written = True

    def place(self) -> bytes | None:
        return self.where

    def in_place(self) -> Any:
        self.waits += 1

    def is_written(self) -> bool:
        return self.written

    def on_host(self) -> np.ndarray:
        return packed(np.ones(self.shape))


class Device:
    """A device that notes what it fetches and stages."""

    def __init__(self) -> None:
        self.fetched: list[Any] = []
        self.staged = 0

    def fetch(self, *what: Any) -> Message:
        self.fetched.append(what)
        return Message()

    def stage(self, messages: list[Any]) -> None:
        self.staged += len(messages)


class Carrier(Link):
    """A link that keeps what is sent."""

    def __init__(self) -> None:
        self.edge, self.sent = EDGE, list[Any]()

    def send(self, step: int, code: int, array: Any) -> None:
        self.sent.append(array)

    def _body(self, nbytes: int, shape: tuple[int, ...], dtype: Any) -> Any:
        return self.sent.pop(0)

    def _kept(self, message: Any) -> Any:
        return message

    def close(self) -> None:
        """Nothing is open."""


class Shared(SharedLink, Carrier):
    """The same on a GPU."""


def come(link: Any, array: Any) -> Any:
    """What a link makes of what has come."""
    link.sent[:0] = [array]
    return link._body(array.nbytes, array.shape, array.dtype)


def test_a_message_is_kept_until_the_other_side_says_that_it_has_copied_it() -> None:
    """Catches memory that is packed again too early, and memory that is never free again."""
    here, there = Loans(Device(), EDGE), Loans(Device(), EDGE)
    first, second = Message(), Message()
    loans = [here.lend(first), here.lend(second)]
    assert list(here.lent) == [first, second]
    copies: Any = [there.borrow(loan) for loan in loans if loan is not None]
    assert there.device.fetched == [(EDGE, (2, 3), np.dtype("f8"), PLACE)] * 2
    assert copies[1].waits == 0
    answer = there.lend(Message())
    assert copies[1].waits == 1  # the copies have ended before this is said
    assert answer is not None and not here.borrow(answer).waits
    assert not here.lent and here.given_back == 2


@pytest.mark.parametrize(("given_back", "lent", "copied"), [(0, 2, -1), (0, 2, 3), (2, 0, 1)])
def test_a_wrong_number_of_copies_is_refused(given_back: int, lent: int, copied: int) -> None:
    """Catches loans that are mixed up: memory would be freed that is in use."""
    here, there = Loans(Device(), EDGE), Loans(Device(), EDGE)
    here.lent.extend(Message() for _ in range(lent))
    here.given_back, there.borrowed = given_back, copied
    loan = there.lend(Message())
    assert loan is not None
    with pytest.raises(MessageError, match=f"edge .*: {copied} loans given back of 2"):
        here.borrow(loan)


def test_without_answers_messages_go_through_hosts() -> None:
    """Catches memory that grows without end where messages go one way, and a lost message."""
    link = Shared(Device())
    for _ in range(MOST_LENT + 2):
        link.send(0, 0, Message())
    assert [m.dtype == LOAN_TYPE for m in link.sent] == [True] * MOST_LENT + [False] * 2
    assert link.loans.device.staged == 2 and len(link.loans.lent) == MOST_LENT
    link.sent.clear()
    link.send(0, 0, Message(where=None))
    assert np.array_equal(link.sent[0], np.ones((2, 3)))


def test_a_link_takes_messages_of_both_kinds() -> None:
    """Catches a message on the host that is taken for a loan, and a copy that is overwritten."""
    link, plain = Shared(Device()), packed(np.arange(3))
    link.send(0, 0, plain)
    assert link.sent.pop() is plain and come(link, plain) is plain and link._kept(plain) is plain
    loan = Loans(Device(), EDGE).lend(Message())
    copy = come(link, loan)
    assert isinstance(copy, Message)
    assert isinstance(link._kept(copy), np.ndarray) and link.loans.device.staged == 1
    link.close()
    assert copy.waits == 1  # nothing reads memory of others any more


def test_loans_are_given_back_to_their_owners_once_they_are_copied() -> None:
    """Catches memory that is used again while it is read, and loans of others or given back twice.

    Loans come in any order, to any process.
    """
    first, second, here = Ledger(0, 3), Ledger(1, 3), Ledger(2, 3)
    message, device = Message(), Device()
    of_first = [first.lend(message) for _ in range(TOLD)]
    of_second = [second.lend(message) for _ in range(TOLD - 1)]
    copies = [here.borrow(device, EDGE, loan) for loan in (*of_first[::-1], *of_second) if loan]
    assert device.fetched == [(EDGE, (2, 3), np.dtype("f8"), PLACE)] * (2 * TOLD - 1)
    copies[1].written = False  # type: ignore[attr-defined]
    found = here.copied()
    assert list(found) == [0] and len(found[0]) == TOLD - 1  # few of the second
    first.give_back(found[0])
    (left,) = first.lent
    assert left not in found[0] and here.copied() == {}
    with pytest.raises(MessageError, match=f"loan {found[0][0]} was given back, but is not lent"):
        first.give_back(found[0][:1])
    here.synchronize()
    assert copies[1].waits == 1  # type: ignore[attr-defined]
    assert first.lend(Message(where=None)) is None and list(first.lent) == [left]


class Rank:
    """A rank: its GPU, and whose memory it cannot open. Ranks call `sharers` in turn."""

    def __init__(self, rank: int, gpu: str | None, closed: tuple[int, ...] = ()) -> None:
        self.rank, self.gpu, self.closed = rank, gpu, closed

    def offer(self) -> tuple[bytes, bytes] | None:
        return None if self.gpu is None else (self.gpu.encode(), bytes([self.rank]))

    def opens(self, place: bytes) -> bool:
        assert place[0] != self.rank
        return place[0] not in self.closed


class Told(Exception):
    """A rank has told all others something."""


def found(ranks: list[Rank]) -> list[Sharers]:
    """What the ranks find; each is asked again once all have told what it waits for."""
    rounds: list[list[Any]] = []

    def group(rank: int, upto: int) -> Any:
        calls = iter(range(upto + 1))

        class Group:
            size = len(ranks)

            def allgather(self, given: Any) -> Any:
                number = next(calls)
                if number < upto:
                    return rounds[number]
                raise Told(given)

        Group.rank = rank  # type: ignore[attr-defined]
        return Group()

    for number in range(2):
        told = []
        for one in ranks:
            with pytest.raises(Told) as given:
                sharers(group(one.rank, number), one)  # type: ignore[arg-type]
            told.append(given.value.args[0])
        rounds.append(told)
    return [sharers(group(one.rank, 2), one) for one in ranks]  # type: ignore[arg-type]


NOBODY = Sharers()
CASES: list[tuple[Callable[[], list[Rank]], list[Sharers]]] = [
    (
        lambda: [Rank(0, "a"), Rank(1, "a")],
        [Sharers(frozenset({1}), True, True), Sharers(frozenset({0}), True, True)],
    ),
    (lambda: [Rank(0, "a"), Rank(1, "b")], [NOBODY] * 2),
    (lambda: [Rank(0, None), Rank(1, None)], [NOBODY] * 2),
    (lambda: [Rank(0, "a")], [NOBODY]),
    (
        lambda: [Rank(0, "a"), Rank(1, "a"), Rank(2, None)],
        [
            Sharers(frozenset({1}), True, False),
            Sharers(frozenset({0}), True, False),
            Sharers(frozenset(), True, False),
        ],
    ),
]


@pytest.mark.parametrize(("ranks", "wanted"), CASES)
def test_ranks_that_share_a_gpu_find_each_other(ranks, wanted):
    """Catches messages that are lent to a rank on another GPU, and a rank that is left out."""
    assert found(ranks()) == wanted


def test_one_side_that_cannot_open_memory_is_enough() -> None:
    """Catches a rank that lends messages to one that cannot read them."""
    for one in found([Rank(0, "a"), Rank(1, "a", closed=(0,))]):
        assert one == NOBODY
