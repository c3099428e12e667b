"""Messages between the two ranks of a pair, by mpi4py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mpi4py import MPI

from miniapps.communication.actions import BOTH, RECEIVE, SEND, Action, Call, Window
from miniapps.communication.buffers import Data
from miniapps.communication.catalogue import Benchmark
from miniapps.communication.movement import leads, partner

TAG, ACK_TAG = 1, 2


def ping_pong(ranks: Any, benchmark: Benchmark, data: Data) -> list[Action]:
    """The first rank of a pair sends and receives, the other receives and sends back."""
    other = partner(ranks.rank, ranks.ranks)
    (sent,), (received,) = data.sends, data.receives
    if ranks.pickled:
        send: Action = Call(partial(ranks.objects.send, sent, other, TAG), SEND)
        receive: Action = Call(partial(ranks.objects.recv, None, other, TAG), RECEIVE, gives=True)
    else:
        send = Call(partial(ranks.comm.Send, [sent, MPI.BYTE], other, TAG), SEND)
        receive = Call(partial(ranks.comm.Recv, [received, MPI.BYTE], other, TAG), RECEIVE)
    return [send, receive] if leads(ranks.rank, ranks.ranks) else [receive, send]


def stream(ranks: Any, benchmark: Benchmark, data: Data) -> list[Action]:
    """The first rank of a pair sends a window of messages, and waits for a short answer."""
    other = partner(ranks.rank, ranks.ranks)
    if leads(ranks.rank, ranks.ranks):
        (answer,) = data.receives
        ack = Call(partial(ranks.comm.Recv, [answer, MPI.BYTE], other, ACK_TAG))
        return [Window(_sends(ranks, data, other), _wait_all(ranks), moves=SEND), ack]
    (answer,) = data.sends
    ack = Call(partial(ranks.comm.Send, [answer, MPI.BYTE], other, ACK_TAG))
    if ranks.pickled:
        receive = _objects(ranks, data, other)
        return [Window((), receive, moves=RECEIVE, gives=True), ack]
    posts = _posts(ranks, data, other)
    return [Window((), _wait_all(ranks), posts, RECEIVE), ack]


def both_ways(ranks: Any, benchmark: Benchmark, data: Data) -> list[Action]:
    """Both ranks of a pair send a window of messages at once."""
    other = partner(ranks.rank, ranks.ranks)
    sends = _sends(ranks, data, other)
    if not ranks.pickled:
        return [Window(sends, _wait_all(ranks), _posts(ranks, data, other), BOTH)]
    receive, wait_all = _objects(ranks, data, other), _wait_all(ranks)

    def finish(requests: list[Any]) -> list[Any]:
        received = receive(requests)
        wait_all(requests)
        return received

    return [Window(sends, finish, moves=BOTH, gives=True)]


def _sends(ranks: Any, data: Data, other: int) -> list[Callable[[], Any]]:
    """Functions that begin to send the messages of a window."""
    if ranks.pickled:
        return [partial(ranks.objects.isend, part, other, TAG) for part in data.sends]
    return [partial(ranks.comm.Isend, [part, MPI.BYTE], other, TAG) for part in data.sends]


def _posts(ranks: Any, data: Data, other: int) -> list[Callable[[], Any]]:
    """Functions that post the receives of a window."""
    return [partial(ranks.comm.Irecv, [part, MPI.BYTE], other, TAG) for part in data.receives]


def _objects(ranks: Any, data: Data, other: int) -> Callable[[list[Any]], list[Any]]:
    """A function that receives the objects of a window."""
    count, receive = len(data.receives), partial(ranks.objects.recv, None, other, TAG)
    return lambda _: [receive() for _ in range(count)]


def _wait_all(ranks: Any) -> Callable[[list[Any]], Any]:
    """The function that waits for all requests of a window."""
    if not ranks.pickled:
        return MPI.Request.Waitall
    return lambda requests: type(requests[0]).waitall(requests)
