"""The communication benchmarks by Charm4Py."""

from __future__ import annotations

from collections.abc import Mapping

from miniapps.communication import Runtime
from miniapps.communication.catalogue import CATALOGUE, MESSAGES, NEIGHBORS

CHANNEL, PROXY, FUTURE, GROUP, SECTION = "channel", "proxy", "future", "group", "section"
CORE, CHANNEL_PICKLED, PROXY_PICKLED = "core", "channel pickled", "proxy pickled"
OWN_CALL, OWN_PROXY, OWN_CHANNEL, OWN_FUTURE = "own call", "own proxy", "own channel", "own future"
SENT, SENT_PICKLED, TAKEN, TAKEN_PICKLED = "sent", "sent pickled", "taken", "taken pickled"
ANSWERED = frozenset({"latency", "multi_lat"})
BLOCKING = frozenset({"allgather", "allreduce", "barrier", "bcast", "gather", "reduce"})
COLLECTIVES = BLOCKING | {f"i{name}" for name in BLOCKING}


def _lacks() -> Mapping[str, str]:
    """The benchmarks that have no counterpart in Charm4Py, each with the reason."""
    found = {}
    for name, made in CATALOGUE.items():
        if name in MESSAGES | COLLECTIVES:
            continue
        if made.one_sided:
            found[name] = "Charm4Py has no access to the memory of another PE"
        elif name.endswith("_persistent"):
            found[name] = "Charm4Py has no persistent collectives"
        elif made.movement in NEIGHBORS:
            found[name] = "Charm4Py has no collectives of neighbours"
        elif made.movement in ("allgatherv", "gatherv"):
            found[name] = "Charm4Py has one gather, for parts of any length"
        else:
            found[name] = "Charm4Py has no such collective: programs send each part by itself"
    return found


RUNTIME = Runtime(
    driver="charm",
    title="Charm4Py",
    file="miniapps.communication.charm.runtime",
    buffers=("numpy",),
    buffers_why="Charm4Py copies NumPy arrays, but no bytearrays; its wheel takes no GPU's memory",
    lacks=_lacks(),
    pickles=MESSAGES | {"bcast", "ibcast"},
    methods={
        CHANNEL: MESSAGES,
        PROXY: MESSAGES,
        FUTURE: ANSWERED,
        GROUP: COLLECTIVES,
        SECTION: COLLECTIVES,
    },
    anatomy={
        CORE: "Charm++ alone",
        CHANNEL: "channel.send(a)",
        CHANNEL_PICKLED: "channel.send([a])",
        PROXY: "proxy.take(a)",
        PROXY_PICKLED: "proxy.take([a])",
    },
    own_calls={
        OWN_CALL: "proxy.count()",
        OWN_PROXY: "proxy.take(None)",
        OWN_CHANNEL: "channel.send(None)",
        OWN_FUTURE: "Future().send()",
    },
    sides={
        SENT: "sending a",
        SENT_PICKLED: "sending [a]",
        TAKEN: "receiving a",
        TAKEN_PICKLED: "receiving [a]",
    },
)
