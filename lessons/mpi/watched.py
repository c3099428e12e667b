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
RECEIVES = ["Recv", "Irecv", "Probe", "Mprobe"]
COLLECTIVES = ["Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather"]
COLLECTIVES += ["Allgatherv", "Alltoall", "Alltoallv", "Reduce", "Allreduce", "Scan", "Exscan"]
COLLECTIVES += ["Reduce_scatter", "Reduce_scatter_block", "Neighbor_allgather"]
COLLECTIVES += ["Neighbor_alltoall"]
Request = MPI.Request  # itself: `take_part` replaces the name in mpi4py
NAMES = [name for known in (SENDS, BOTH, RECEIVES, COLLECTIVES) for name in known]
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


def _noted(name: str) -> Callable[..., Any]:
    """A method that notes the call ``name`` of the communicator below."""
    sends = name.capitalize() in SENDS + BOTH
    hands = name.capitalize() not in RECEIVES

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if sends:
            to = named.get("dest", arguments[1] if len(arguments) > 1 else None)
            if isinstance(to, int) and to != MPI.PROC_NULL:
                LOG.sent[to] += 1
        if hands and (arguments or named):
            LOG.handed += size_of(arguments[0] if arguments else next(iter(named.values())))
        found = _during(name, getattr(super(type(self), self), name), *arguments, **named)
        return WatchedRequest(found) if type(found) is Request else found

    method.__name__ = name
    return method


METHODS = {name: _noted(name) for name in NAMES}


class WatchedRequest(Request):
    """A request that notes that this process waits for it, and when it is complete."""

    def __init__(self, request: Any = None) -> None:
        super().__init__()
        self.open = True
        LOG.under_way += 1

    def complete(self) -> None:
        """Note, once, that the message is not under way any more."""
        LOG.under_way -= self.open
        self.open = False

    def Wait(self, *arguments: Any, **named: Any) -> Any:  # noqa: N802
        """As in MPI."""
        return self._waited("Wait", super().Wait, *arguments, **named)

    def wait(self, *arguments: Any, **named: Any) -> Any:
        """As in mpi4py."""
        return self._waited("wait", super().wait, *arguments, **named)

    def _waited(self, name: str, wait: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        found = _during(name, wait, *arguments, **named)
        self.complete()
        return found

    def Test(self, *arguments: Any, **named: Any) -> Any:  # noqa: N802
        """As in MPI."""
        found = super().Test(*arguments, **named)
        if found:
            self.complete()
        return found

    @classmethod
    def Waitall(cls, requests: Any, *arguments: Any, **named: Any) -> Any:  # noqa: N802
        """As in MPI."""
        found = _during("Waitall", super().Waitall, requests, *arguments, **named)
        for request in requests:
            if isinstance(request, WatchedRequest):
                request.complete()
        return found


Watched = type("Watched", (MPI.Intracomm,), METHODS)
WatchedCart = type("WatchedCart", (MPI.Cartcomm,), METHODS)


def create_cart(self: Any, *arguments: Any, **named: Any) -> Any:
    """A Cartesian communicator that notes calls too."""
    return WatchedCart(MPI.Intracomm.Create_cart(self, *arguments, **named))


Watched.Create_cart = create_cart  # type: ignore[attr-defined]
