"""A communicator that notes what a program does: which call it is in, and what it has sent."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

from lessons.log import LOG

SENDS = ["Send", "Isend", "Ssend", "Issend", "Bsend", "Ibsend", "Rsend", "Irsend"]
BOTH = ["Sendrecv", "Sendrecv_replace"]
LATER = ["Send_init", "Ssend_init", "Bsend_init", "Rsend_init"]  # sent with each Start
RECEIVES = ["Recv", "Irecv", "Recv_init", "Probe", "Mprobe"]
COLLECTIVES = ["Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather"]
COLLECTIVES += ["Allgatherv", "Alltoall", "Alltoallv", "Reduce", "Allreduce", "Scan", "Exscan"]
COLLECTIVES += ["Reduce_scatter", "Reduce_scatter_block", "Neighbor_allgather"]
COLLECTIVES += ["Neighbor_alltoall"]
ALL_WAIT = ["Barrier", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Allreduce"]  # for all
Request = MPI.Request  # themselves: `take_part` replaces the names in mpi4py
Prequest = MPI.Prequest
NAMES = [name for known in (SENDS, BOTH, LATER, RECEIVES, COLLECTIVES) for name in known]
NAMES += [name.lower() for name in NAMES if hasattr(MPI.Intracomm, name.lower())]


def _during(name: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Make a call; while it lasts, the log has its name."""
    LOG.doing = name
    found = call(*arguments, **named)
    LOG.doing = ""
    return found


def size_of(given: Any) -> int:
    """The bytes of what a program gives to MPI: an array, one with its type, or any object."""
    if isinstance(given, list | tuple) and given and isinstance(given[0], np.ndarray):
        given = given[0]
    return given.nbytes if isinstance(given, np.ndarray) else len(pickle.dumps(given))


def meet(comm: Any) -> None:
    """Let the simulated clocks of all processes show when the last one came."""
    ticks = np.array([LOG.ticks])
    MPI.Intracomm.Allreduce(comm, MPI.IN_PLACE, ticks, MPI.MAX)
    LOG.ticks = int(ticks[0])


def travelling(comm: Any, name: str, given: Any, to: Any) -> int:
    """The bytes of what a call gives to MPI, without what a process sends to itself."""
    if name == "alltoall":
        return sum(size_of(part) for other, part in enumerate(given) if other != comm.rank)
    if name == "Alltoallv":
        counts = given[1][0] if isinstance(given[1], tuple) else given[1]
        return size_of(given) * int(sum(counts) - counts[comm.rank]) // max(1, int(sum(counts)))
    return 0 if to == comm.rank else size_of(given)


def note_sent(to: Any, size: int) -> None:
    """Note a message to a process, if it is one, and what was given to MPI."""
    if isinstance(to, int | np.integer) and to != MPI.PROC_NULL:
        LOG.sent[int(to)] += 1
    LOG.handed += size


def _noted(name: str) -> Callable[..., Any]:
    """A method that notes the call ``name`` of the communicator below."""
    sends, later = name.capitalize() in SENDS + BOTH, name in LATER
    hands = name.capitalize() not in RECEIVES
    all_wait = name.capitalize() in ALL_WAIT

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        to, size = None, 0
        if sends or later:
            to = named.get("dest", arguments[1] if len(arguments) > 1 else None)
        if hands and (arguments or named):
            given = arguments[0] if arguments else next(iter(named.values()))
            size = travelling(self, name, given, to)
        if not later:
            note_sent(to, size)
        found = _during(name, getattr(super(type(self), self), name), *arguments, **named)
        if all_wait:
            _during(name, meet, self)
        if type(found) is Prequest:
            return WatchedPrequest.of(found, to, size)
        return WatchedRequest(found) if type(found) is Request else found

    method.__name__ = name
    return method


METHODS = {name: _noted(name) for name in NAMES}


class Watching:
    """What requests note: that this process waits for them, and when they are complete."""

    open = False

    def begin(self) -> None:
        """Note that the message is under way."""
        self.open = True
        LOG.under_way += 1

    def complete(self) -> None:
        """Note, once, that the message is not under way any more."""
        LOG.under_way -= self.open
        self.open = False

    def Wait(self, *arguments: Any, **named: Any) -> Any:  # noqa: N802
        """As in MPI."""
        return self._waited("Wait", super().Wait, *arguments, **named)  # type: ignore[misc]

    def wait(self, *arguments: Any, **named: Any) -> Any:
        """As in mpi4py."""
        return self._waited("wait", super().wait, *arguments, **named)  # type: ignore[misc]

    def _waited(self, name: str, wait: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        found = _during(name, wait, *arguments, **named)
        self.complete()
        return found

    def Test(self, *arguments: Any, **named: Any) -> Any:  # noqa: N802
        """As in MPI."""
        found = super().Test(*arguments, **named)  # type: ignore[misc]
        if found:
            self.complete()
        return found

    @classmethod
    def Waitall(cls, requests: Any, *arguments: Any, **named: Any) -> Any:  # noqa: N802
        """As in MPI."""
        found = _during("Waitall", Request.Waitall, requests, *arguments, **named)
        for request in requests:
            if isinstance(request, Watching):
                request.complete()
        return found


class WatchedRequest(Watching, Request):
    """The request of one message."""

    def __init__(self, request: Any = None) -> None:
        super().__init__()
        self.begin()


class WatchedPrequest(Watching, Prequest):
    """A persistent request, whose message is sent or received with each Start."""

    to: Any = None
    size = 0

    @classmethod
    def of(cls, request: Any, to: Any, size: int) -> WatchedPrequest:
        """The same request, which notes a message of ``size`` bytes whenever it starts."""
        made = cls(request)
        made.to, made.size = to, size
        return made

    def Start(self) -> Any:  # noqa: N802
        """As in MPI."""
        note_sent(self.to, self.size)
        self.begin()
        return super().Start()

    @classmethod
    def Startall(cls, requests: Any) -> Any:  # noqa: N802
        """As in MPI."""
        for request in requests:
            request.Start()


Watched = type("Watched", (MPI.Intracomm,), METHODS)
WatchedCart = type("WatchedCart", (MPI.Cartcomm,), METHODS)


def create_cart(self: Any, *arguments: Any, **named: Any) -> Any:
    """A Cartesian communicator that notes calls too."""
    return WatchedCart(MPI.Intracomm.Create_cart(self, *arguments, **named))


Watched.Create_cart = create_cart  # type: ignore[attr-defined]
