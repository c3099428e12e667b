"""Collectives by Charm4Py: broadcasts and reductions of a group of chares, or of a section of it.

All of them are started by a call that returns at once. What they give comes by a future, or by an
entry method of the root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from charm4py import Reducer, charm

from miniapps.communication.actions import Action, Call, Split, moves_of
from miniapps.communication.buffers import Data
from miniapps.communication.catalogue import OVERLAP, Benchmark
from miniapps.communication.charm import SECTION
from miniapps.communication.charm.chare import BROADCAST, PE, TOTAL
from miniapps.communication.movement import ROOT

Ends = tuple[Callable[[], Any], Callable[[Any], Any]]  # to start, and to wait for what that gave


def sum_of_words(contributions: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of arrays, of their type; Charm4Py's own makes 64 bits of 32 in a section."""
    return np.add.reduce(contributions, dtype=contributions[0].dtype)


def array_of(total: Any, like: Any) -> Any:
    """A reduction's result as an array; the runtime gives a number if the arrays have only one."""
    if isinstance(like, np.ndarray) and isinstance(total, int):
        return np.array([total], like.dtype)
    return total


class Scope(NamedTuple):
    """The chares that take part: their proxy, the section if it is one, and how they add."""

    proxy: Any
    section: Any
    adds: Any


Maker = Callable[[PE, Scope, Any], Ends]


def scope_of(pe: PE, method: str) -> Scope:
    """All PEs, as the group or as a section of it, which PE 0 makes once."""
    if method != SECTION:
        return Scope(pe.thisProxy, None, Reducer.sum)
    if SECTION not in pe.lines:
        made = None
        if pe.thisIndex == ROOT:
            (made,) = charm.split(pe.thisProxy, 1, elems=[list(range(charm.numPes()))])
        pe.lines[SECTION] = pe.allreduce([made], Reducer.gather).get()[ROOT][0]
    proxy = pe.lines[SECTION]
    return Scope(proxy, proxy, Reducer.sum_of_words)


def make(pe: PE, method: str, benchmark: Benchmark, data: Data, pickled: bool) -> list[Action]:
    """The action of a collective."""
    moves, gives = moves_of(data), bool(data.receives)
    given: Any = data.sends[0] if data.sends else None
    maker = MAKERS[benchmark.movement]
    start, wait = maker(pe, scope_of(pe, method), [given] if pickled else given)
    if benchmark.measures == OVERLAP:
        return [Split(start, wait, moves, gives)]
    return [Call(lambda: wait(start()), moves, gives)]


def _all(reducer: Any) -> Maker:
    """A reduction whose result all PEs get."""

    def made(pe: PE, scope: Scope, data: Any) -> Ends:
        start = partial(pe.allreduce, data, reducer(scope), scope.section)
        return start, lambda future: array_of(future.get(), data)

    return made


def _rooted(reducer: Any) -> Maker:
    """A reduction whose result the root gets."""

    def made(pe: PE, scope: Scope, data: Any) -> Ends:
        target = pe.thisProxy[ROOT].take_total
        start = partial(pe.reduce, target, data, reducer(scope), scope.section)
        if pe.thisIndex != ROOT:
            return start, _nothing
        receive = _received(pe, TOTAL)
        return start, lambda started: array_of(receive(started), data)

    return made


def _broadcast(pe: PE, scope: Scope, data: Any) -> Ends:
    """A call of an entry method of all PEs."""
    if pe.thisIndex != ROOT:
        return lambda: None, _received(pe, (BROADCAST, ROOT))
    root, numbers = ROOT, pe.numbers[BROADCAST]
    return lambda: scope.proxy.take_broadcast(root, next(numbers), data), _nothing


def _nothing(started: Any) -> None:
    """Wait for nothing."""


def _received(pe: PE, sender: Any) -> Callable[[Any], Any]:
    """A function that waits for mail."""
    mail = pe.mail[sender]
    return lambda _: mail.get()


MAKERS: Mapping[str, Maker] = {
    "allgather": _all(lambda scope: Reducer.gather),
    "allreduce": _all(lambda scope: scope.adds),
    "barrier": _all(lambda scope: None),
    "bcast": _broadcast,
    "gather": _rooted(lambda scope: Reducer.gather),
    "reduce": _rooted(lambda scope: scope.adds),
}
Reducer.addReducer(sum_of_words)
