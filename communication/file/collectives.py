"""Collectives by files: a barrier, an allreduce, and trees for broadcast and gather.

In a *tree* (binomial) every rank that has the data passes them on, so P ranks need ceil(log2 P)
messages one after the other; in a *flat* one the root sends or receives all P - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from miniapps.communication.actions import Call, moves_of
from miniapps.communication.buffers import Data, as_bytes
from miniapps.communication.catalogue import WORD, Benchmark
from miniapps.communication.file import TREE
from miniapps.communication.movement import ROOT
from miniapps.drivers.file.group import Group


class Branch(NamedTuple):
    """A rank's place in a tree: its parent, None for the root; its children, near ones first."""

    parent: int | None
    children: tuple[int, ...]


def branch(rank: int, ranks: int, method: str | None) -> Branch:
    """The place of a rank. The subtree of a child has as many ranks as those before it and one."""
    if method != TREE:
        return Branch(ROOT, ()) if rank else Branch(None, tuple(range(1, ranks)))
    lowest = rank & -rank or 1 << ranks.bit_length()
    steps = [1 << power for power in range(ranks.bit_length()) if 1 << power < lowest]
    children = tuple(rank + step for step in steps if rank + step < ranks)
    return Branch(rank - lowest if rank else None, children)


def broadcast(group: Group, place: Branch, given: np.ndarray | None) -> np.ndarray:
    """The root's array; the child with the largest subtree gets it first."""
    if place.parent is not None:
        given = group.get(place.parent).copy()
    assert given is not None
    for child in reversed(place.children):
        group.put(given, child)
    return given


def gather(group: Group, place: Branch, given: np.ndarray) -> np.ndarray:
    """The arrays of this rank and of those below it, joined in their order from the root on."""
    parts = [given, *(group.get(child).copy() for child in place.children)]
    joined = np.concatenate(parts)
    if place.parent is not None:
        group.put(joined, place.parent)
    return joined


def make(group: Group, method: str | None, benchmark: Benchmark, data: Data) -> Call:
    """The action of a collective."""
    place = branch(group.rank, group.size, method)
    run = MAKERS[benchmark.movement](group, place, data)
    return Call(run, moves_of(data), gives=bool(data.receives))


def _broadcast(group: Group, place: Branch, data: Data) -> Callable[[], Any]:
    return partial(broadcast, group, place, as_bytes(data.sending) if data.sends else None)


def _gather(group: Group, place: Branch, data: Data) -> Callable[[], Any]:
    given = as_bytes(data.sending)

    def parts() -> Any:
        """On the root the arrays in the order of their ranks, elsewhere nothing."""
        joined = gather(group, place, given)
        return np.split(joined, group.size) if place.parent is None else None

    return parts


def _allreduce(group: Group, place: Branch, data: Data) -> Callable[[], Any]:
    numbers = as_bytes(data.sending).view(f"u{WORD}")
    return partial(group.all_reduce, numbers, "sum")


Maker = Callable[[Group, Branch, Data], Callable[[], Any]]
MAKERS: Mapping[str, Maker] = {
    "allreduce": _allreduce,
    "barrier": lambda group, place, data: group.Barrier,
    "bcast": _broadcast,
    "gather": _gather,
}
