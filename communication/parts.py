"""Measures on two ranks what the paths of a message consist of; each runtime has its own.

Every path is checked before it is timed: each rank compares every byte of a message of the other.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from miniapps.communication.catalogue import ANATOMY, LARGE
from miniapps.communication.movement import Block
from miniapps.communication.pattern import difference, sent
from miniapps.communication.progress import ALL, Progress, with_rank
from miniapps.communication.session import World, WrongData
from miniapps.communication.settings import Settings
from miniapps.communication.timing import cost_of

# Of a whole call and of a part alone, the fastest loop counts, as only disturbances differ.
TRIPS, LOOPS = 20, 15  # round trips per loop; loops of a part alone
US = 1e6
Function = Callable[[], Any]
Seconds = Callable[[int], float]  # seconds per message of so many round trips, or calls
Parts = dict[str, dict[str, float]]  # us per message, by path and part


@dataclass(frozen=True)
class MessagePath:
    """A path: two functions, of which the second may return what was received."""

    send: Function
    receive: Function
    received: np.ndarray | None = None  # where it is if the second returns nothing

    def got(self) -> np.ndarray:
        """Receive; the bytes that came."""
        if self.received is not None:
            self.received[:] = 0
        came = self.receive()
        return np.asarray(came if self.received is None else self.received)


@dataclass(frozen=True)
class PingPong:
    """A path as a ping-pong; ``exchange`` makes one round trip and returns the bytes that came."""

    exchange: Callable[[], np.ndarray]
    seconds: Seconds


class Anatomy(ABC):
    """The measurements of one rank of two; ``names``: of the paths, in the order of the table."""

    names: Mapping[str, str]

    def __init__(self, world: World, settings: Settings, progress: Progress) -> None:
        self.world, self.settings = world, settings
        self.progress, self.part = progress, 0
        self.other, self.leads = 1 - world.rank, world.rank == 0

    @abstractmethod
    def ping_pongs(self, data: np.ndarray, stack: ExitStack) -> dict[str, PingPong]:
        """All paths for an array of bytes; ``stack`` closes what they have opened."""

    @abstractmethod
    def alone(self, data: np.ndarray) -> Parts:
        """Microseconds of the parts of each path but the library, a send and a receive together."""

    def measured(self) -> dict[str, Any]:
        """Check and time all sizes; a part of what `communication.anatomy.rows` takes.

        Raises WrongData on all ranks if a rank has received a wrong byte.
        """
        sizes = {str(size): self._size(size) for size in self.settings.sizes(ANATOMY)}
        return {
            "whole": {size: whole for size, (whole, _) in sizes.items()},
            "alone": {size: alone for size, (_, alone) in sizes.items()},
        }

    def _size(self, size: int) -> tuple[dict[str, list[float]], Parts]:
        """The times of one size: whole calls by path and trial, and parts alone by path."""
        rank, other = self.world.rank, self.other
        data = sent(rank, Block((rank,), other, size), 0).copy()
        right = sent(other, Block((other,), rank, size), 0)
        with ExitStack() as stack:
            paths = self.ping_pongs(data, stack)
            self.begin(f"check of {size} B")
            with self.exchanging():
                came = {name: path.exchange() for name, path in paths.items()}
            self.agree(size, {name: difference(found, right) for name, found in came.items()})
            loops = -(-self.settings.iterations_of(ANATOMY, size) // TRIPS)
            whole: dict[str, list[float]] = {name: [] for name in self.names if name in paths}
            order = random.Random(self.settings.seed)
            for trial in range(self.settings.trials):
                self.begin(f"{size} B in trial {trial + 1}")
                for name in order.sample(list(whole), len(whole)):
                    with self.exchanging():
                        self.world.barrier()
                        times = [paths[name].seconds(TRIPS) for _ in range(loops)]
                    whole[name].append(US * min(times))
            self.begin(f"parts of {size} B")
            alone = self.alone(data)
            with self.progress.doing(ALL):
                self.world.barrier()
        return whole, alone

    def exchanging(self) -> AbstractContextManager[None]:
        """Say meanwhile that this rank waits for messages."""
        return self.progress.doing(with_rank(self.other))

    def begin(self, doing: str) -> None:
        """Report that the next part of the benchmark begins."""
        self.part += 1
        self.progress(self.part, doing)

    def agree(self, size: int, wrong: Mapping[str, str | None]) -> None:
        """Raise WrongData on all ranks if one has got a wrong byte; ``wrong``: words, by path."""
        mine = [
            f"anatomy, {size} B: rank {self.world.rank}, {self.names[name]}: the message {words}"
            for name, words in wrong.items()
            if words is not None
        ]
        with self.progress.doing(ALL):
            found = self.world.gather(mine)
            first = self.world.share(found and next((words[0] for words in found if words), None))
        if first is not None:
            raise WrongData(first)

    def ping_pong(self, path: MessagePath) -> PingPong:
        """The ping-pong of a path."""
        return PingPong(partial(self._exchanged, path), partial(self._seconds, path))

    def _exchanged(self, path: MessagePath) -> np.ndarray:
        """The bytes of the other rank that come in one round trip."""
        if self.leads:
            path.send()
        came = path.got()
        if not self.leads:
            path.send()
        return came

    def _seconds(self, path: MessagePath, times: int) -> float:
        """Seconds per message of ``times`` round trips."""
        first, second = (path.send, path.receive) if self.leads else (path.receive, path.send)
        begin = perf_counter()
        for _ in range(times):
            first()
            second()
        return (perf_counter() - begin) / (2 * times)


def fastest(function: Function, nbytes: int) -> float:
    """Microseconds of a call, in the fastest of `LOOPS` loops; fewer calls for many bytes."""
    return fastest_loop(partial(cost_of, function), nbytes)


def fastest_loop(seconds: Seconds, nbytes: int) -> float:
    """Microseconds of what ``seconds`` measures, in the fastest of `LOOPS` loops."""
    return US * min(seconds(calls_of(nbytes)) for _ in range(LOOPS))


def calls_of(nbytes: int) -> int:
    """How many calls a loop of a part makes; fewer for many bytes."""
    return 200 if nbytes <= LARGE else 10
