"""A communicator that notes what a program does: which call it is in, and what it has sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

SENDS = ["Send", "Isend", "Ssend", "Issend", "Bsend", "Ibsend", "Rsend", "Irsend"]
BOTH = ["Sendrecv", "Sendrecv_replace"]
RECEIVES = ["Recv", "Irecv", "Probe", "Mprobe"]
COLLECTIVES = ["Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather"]
COLLECTIVES += ["Allgatherv", "Alltoall", "Alltoallv", "Reduce", "Allreduce", "Scan", "Exscan"]
COLLECTIVES += ["Reduce_scatter", "Reduce_scatter_block", "Neighbor_allgather"]
COLLECTIVES += ["Neighbor_alltoall"]
NAMES = [name for known in (SENDS, BOTH, RECEIVES, COLLECTIVES) for name in known]
NAMES += [name.lower() for name in NAMES if hasattr(MPI.Intracomm, name.lower())]


class Log:
    """What this process does at the moment, and how many messages it has sent to each process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin a new case."""
        self.doing = ""  # the call that has not returned yet
        self.sent: Counter[int] = Counter()


LOG = Log()


def _noted(name: str) -> Callable[..., Any]:
    """A method that notes the call ``name`` of the communicator below."""
    sends = name.capitalize() in SENDS + BOTH

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if sends:
            to = named.get("dest", arguments[1] if len(arguments) > 1 else None)
            if isinstance(to, int) and to != MPI.PROC_NULL:
                LOG.sent[to] += 1
        LOG.doing = name
        found = getattr(super(type(self), self), name)(*arguments, **named)
        LOG.doing = ""
        return WatchedRequest(found) if type(found) is MPI.Request else found

    method.__name__ = name
    return method


METHODS = {name: _noted(name) for name in NAMES}


class WatchedRequest(MPI.Request):
    """A request that notes that this process waits for it."""

    def Wait(self, *arguments: Any, **named: Any) -> Any:  # noqa: N802
        """As in MPI."""
        LOG.doing = "Wait"
        found = super().Wait(*arguments, **named)
        LOG.doing = ""
        return found

    def wait(self, *arguments: Any, **named: Any) -> Any:
        """As in mpi4py."""
        LOG.doing = "wait"
        found = super().wait(*arguments, **named)
        LOG.doing = ""
        return found

    @classmethod
    def Waitall(cls, *arguments: Any, **named: Any) -> Any:  # noqa: N802
        """As in MPI."""
        LOG.doing = "Waitall"
        found = MPI.Request.Waitall(*arguments, **named)
        LOG.doing = ""
        return found


Watched = type("Watched", (MPI.Intracomm,), METHODS)
WatchedCart = type("WatchedCart", (MPI.Cartcomm,), METHODS)


def create_cart(self: Any, *arguments: Any, **named: Any) -> Any:
    """A Cartesian communicator that notes calls too."""
    return WatchedCart(MPI.Intracomm.Create_cart(self, *arguments, **named))


Watched.Create_cart = create_cart  # type: ignore[attr-defined]
