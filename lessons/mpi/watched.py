"""A communicator that notes what a program does: which call it is in, and what it has sent."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from miniapps.lessons.log import LOG

SENDS = ["Send", "Ssend", "Bsend", "Rsend"]
SOURCE = {"Recv": 1, "Sendrecv": 4, "Sendrecv_replace": 3}  # which argument says whence
BOTH = ["Sendrecv", "Sendrecv_replace"]
NOTHING = ["Recv", "Probe", "Mprobe"]  # is given to MPI
COLLECTIVES = ["Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather"]
COLLECTIVES += ["Allgatherv", "Alltoall", "Alltoallv", "Alltoallw", "Reduce", "Allreduce", "Scan"]
COLLECTIVES += ["Exscan", "Reduce_scatter", "Reduce_scatter_block", "Neighbor_allgather"]
COLLECTIVES += ["Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv"]
COLLECTIVES += ["Neighbor_alltoallw"]
MAKERS = ["Dup", "Clone", "Split", "Split_type", "Create", "Create_group", "Create_cart", "Sub"]
MAKERS += ["Create_graph", "Create_dist_graph", "Create_dist_graph_adjacent"]
ALL_WAIT = ["Barrier", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Allreduce"]  # for all
SEVERAL = [f"{does}{which}" for does in ("Wait", "Test") for which in ("all", "any", "some")]
SEVERAL += [name.lower() for name in SEVERAL]
WORLD = MPI.COMM_WORLD
Request = MPI.Request  # themselves: `take_part` replaces the names in mpi4py
Prequest = MPI.Prequest
NAMES = [  # in each form: blocking, not blocking, persistent
    form
    for name in (*SENDS, *BOTH, "Recv", *COLLECTIVES)
    for form in (name, f"I{name.lower()}", f"{name}_init")
]
NAMES += ["Probe", "Mprobe"]
NAMES += [name.lower() for name in NAMES]


def _during(name: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Make a call; while it lasts, the log has its name."""
    LOG.doing = name
    found = call(*arguments, **named)
    LOG.doing = ""
    return found


def size_of(name: str, given: Any) -> int:
    """The bytes of what a call gives to MPI: an array, one with its type, or any object."""
    typed = name[0].isupper() and isinstance(given, list | tuple)
    if typed and given and isinstance(given[0], np.ndarray):
        given = given[0]
    return given.nbytes if isinstance(given, np.ndarray) else len(pickle.dumps(given))


def meet(comm: Any) -> None:
    """Let the simulated clocks of all processes show when the last one came."""
    ticks = np.array([LOG.ticks])
    MPI.Intracomm.Allreduce(comm, MPI.IN_PLACE, ticks, MPI.MAX)
    LOG.ticks = int(ticks[0])


def plain(name: str) -> str:
    """The name of the blocking form of a call for arrays."""
    return name.capitalize().removeprefix("I").removesuffix("_init").capitalize()


def travelling(comm: Any, name: str, given: Any, to: Sequence[Any]) -> int:
    """The bytes of what a call gives to MPI, without what a process sends to itself."""
    if name == "alltoall":
        return sum(size_of(name, part) for other, part in enumerate(given) if other != comm.rank)
    if plain(name) == "Alltoallv":
        counts = given[1][0] if isinstance(given[1], tuple) else given[1]
        every = int(sum(counts))
        return size_of(name, given) * (every - int(counts[comm.rank])) // max(1, every)
    return 0 if to == [comm.rank] else size_of(name, given)


def partners(
    comm: Any, name: str, arguments: Sequence[Any], named: dict[str, Any]
) -> tuple[list[Any], int]:
    """To whom a call sends, and how many messages it receives; of collectives, those of graphs."""

    def said(what: str, at: int) -> Any:
        return named.get(what, arguments[at] if len(arguments) > at else None)

    kind = plain(name)
    if kind.startswith("Neighbor"):
        sources, receivers = comm.inoutedges
        return [*receivers], sum(source != MPI.PROC_NULL for source in sources)
    comes = kind in SOURCE and said("source", SOURCE[kind]) != MPI.PROC_NULL
    return [said("dest", 1)] if kind in (*SENDS, *BOTH) else [], int(comes)


def in_world(comm: Any, to: Any) -> Any:
    """The rank among all processes of one of a communicator; as it is if it is none."""
    if not isinstance(to, int | np.integer) or not 0 <= to < comm.size:
        return to
    return MPI.Group.Translate_ranks(comm.Get_group(), [int(to)], WORLD.Get_group())[0]


def note_sent(to: Iterable[Any], size: int) -> None:
    """Note messages to processes, if they are any, and what was given to MPI."""
    for one in to:
        if isinstance(one, int | np.integer) and one != MPI.PROC_NULL:
            LOG.sent[int(one)] += 1
    LOG.handed += size


def _noted(name: str) -> Callable[..., Any]:
    """A method that notes the call ``name`` of the communicator below."""
    later, hands = name.endswith("_init"), plain(name) not in NOTHING
    all_wait = name.capitalize() in ALL_WAIT

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        to, comes = partners(self, name, arguments, named)
        size = 0
        if hands and (arguments or named):
            given = arguments[0] if arguments else next(iter(named.values()))
            size = travelling(self, name, given, to)
        to = [in_world(self, one) for one in to]
        if not later:
            note_sent(to, size)
        found = _during(name, getattr(super(type(self), self), name), *arguments, **named)
        if all_wait:
            _during(name, meet, self)
        if type(found) is Prequest:
            return WatchedPrequest.of(found, to, size, comes)
        if type(found) is Request:
            return WatchedRequest.of(found, comes)
        LOG.received += comes
        return found

    method.__name__ = name
    return method


METHODS = {name: _noted(name) for name in NAMES}


class Watching:
    """What requests note: that this process waits for them, and when they are complete.

    ``comes``: how many messages are received by then.
    """

    open, comes, swept = False, 0, 0

    def begin(self) -> None:
        """Note that the message is under way."""
        self.open, self.swept = True, LOG.swept
        LOG.under_way += 1

    def complete(self, tested: bool = False) -> None:
        """Note, once, that the message is not under way any more.

        ``tested``: what a program receives by a test between cells that it computes is none that it
        waits for, however early it came.
        """
        LOG.under_way -= self.open
        if self.open and not (tested and LOG.swept > self.swept):
            LOG.received += self.comes
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
            self.complete(tested=True)
        return found


def _of_several(name: str) -> Any:
    """The method ``name`` of requests, which notes those that are complete."""
    call = getattr(Request, name)

    def method(cls: Any, requests: Any, *arguments: Any, **named: Any) -> Any:
        """As in MPI."""
        waits = name.capitalize().startswith("Wait")
        if waits:
            found = _during(name, call, requests, *arguments, **named)
        else:
            found = call(requests, *arguments, **named)
        for at in done(name, found, len(requests)):
            if isinstance(requests[at], Watching):
                requests[at].complete(tested=not waits)
        return found

    return classmethod(method)


def done(name: str, found: Any, count: int) -> Iterable[int]:
    """Which of several requests are complete, from what a call has returned for them."""
    first = found[0] if isinstance(found, tuple) else found
    match name.lower():
        case "waitall":
            return range(count)
        case "testall":
            return range(count if first else 0)
        case "waitany" | "testany":
            return [first] if 0 <= first < count else []
    return first or []  # some


for _name in SEVERAL:
    setattr(Watching, _name, _of_several(_name))


class WatchedRequest(Watching, Request):
    """The request of one message."""

    def __init__(self, request: Any = None) -> None:
        super().__init__()
        self.begin()

    @classmethod
    def of(cls, request: Any, comes: int) -> WatchedRequest:
        """The same request, which notes what it receives."""
        made = cls(request)
        made.comes = comes
        return made


class WatchedPrequest(Watching, Prequest):
    """A persistent request, whose message is sent or received with each Start."""

    to: Sequence[Any] = ()
    size = 0

    @classmethod
    def of(cls, request: Any, to: Sequence[Any], size: int, comes: int) -> WatchedPrequest:
        """The same request, which notes messages of ``size`` bytes whenever it starts."""
        made = cls(request)
        made.to, made.size, made.comes = to, size, comes
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


def _making(name: str) -> Callable[..., Any]:
    """The method ``name``, which makes a communicator; the new one notes calls too."""

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        found = getattr(super(type(self), self), name)(*arguments, **named)
        made = next((kind for kind in KINDS if type(found) in kind.__bases__), type(found))
        return found if type(found) is made else made(found)

    method.__name__ = name
    return method


def _watched(name: str, base: Any) -> Any:
    """The class of communicators that note calls."""
    made = METHODS | {name: _making(name) for name in MAKERS}
    return type(name, (base,), {name: one for name, one in made.items() if hasattr(base, name)})


Watched = _watched("Watched", MPI.Intracomm)
WatchedCart = _watched("WatchedCart", MPI.Cartcomm)
KINDS = [Watched, WatchedCart]
KINDS += [_watched("WatchedGraph", MPI.Graphcomm), _watched("WatchedDistgraph", MPI.Distgraphcomm)]
