"""Measures on two PEs what the ways to send a message by Charm4Py consist of.

The parts are differences of messages that a PE sends to itself: they pass Charm++'s scheduler, but
no other process. They are packed and unpacked by Charm4Py's own functions, at full speed.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from charm4py import charm

from miniapps.communication.anatomy import BUFFERS, COPIES, HEADER, LIBRARY, OWN, PICKLING, PYTHON
from miniapps.communication.charm import (
    CHANNEL,
    CHANNEL_PICKLED,
    CORE,
    OWN_CALL,
    OWN_CHANNEL,
    OWN_FUTURE,
    OWN_PROXY,
    PROXY,
    PROXY_PICKLED,
    RUNTIME,
    SENT,
    SENT_PICKLED,
    TAKEN,
    TAKEN_PICKLED,
)
from miniapps.communication.charm.core import Core, Sides, copied, nothing, unpacked
from miniapps.communication.charm.lines import LINES
from miniapps.communication.pairs import Line, Listed
from miniapps.communication.parts import (
    LOOPS,
    US,
    Anatomy,
    MessagePath,
    Parts,
    PingPong,
    Seconds,
    calls_of,
    fastest,
    fastest_loop,
)
from miniapps.communication.pattern import difference
from miniapps.communication.progress import Progress
from miniapps.communication.settings import Settings
from miniapps.communication.timing import cost_of
from miniapps.drivers.job import RunError

NOTES = (
    "library: messages that are packed already, from process to process; it contains Charm++'s "
    "scheduler, its copy into memory of its own, sockets and waiting, which cannot be timed apart "
    "without a program in C++, and Charm4Py is installed without what compiling one needs",
    "copies: into new memory on the receiving side; of lists into the pickle and out of it",
)


class CharmAnatomy(Anatomy):
    """The measurements of one PE of two; ``ranks``: a `communication.charm.world.Ranks`."""

    names = RUNTIME.anatomy

    def __init__(self, ranks: Any, settings: Settings, progress: Progress) -> None:
        super().__init__(ranks, settings, progress)
        self.pe, self.versions = ranks.pe, ranks.versions
        self.lines = {name: ranks.line(name) for name in (CHANNEL, PROXY)}
        self.own = {name: LINES[name](self.pe, self.pe.thisIndex) for name in (CHANNEL, PROXY)}

    def measured(self) -> dict[str, Any]:
        """Check and time all sizes; what `communication.anatomy.rows` takes.

        Raises WrongData on all ranks if a rank has received a wrong byte.
        """
        self.sides: dict[str, dict[str, list[float]]] = {}
        found = super().measured() | {"sides": self.sides}
        self.begin("calls of nothing")
        whole, alone = self.own_calls()
        self.world.barrier()
        found["whole"][OWN], found["alone"][OWN] = whole, alone
        return found | {
            "without_c": None,
            "library": f"Charm++ {self.versions['charm']}",
            "provided_level": None,
            "notes": NOTES,
        }

    def ping_pongs(self, data: np.ndarray, stack: ExitStack) -> dict[str, PingPong]:
        """All paths for an array of bytes."""
        core = stack.enter_context(closing(Core(self.pe, self.other)))
        ready = data.tobytes(), None

        def exchange() -> np.ndarray:
            core.seconds(lambda: ready, copied, 1)
            return np.asarray(core.came)

        found = {CORE: PingPong(exchange, partial(core.seconds, lambda: ready, nothing))}
        for line, pickled, name in (
            (CHANNEL, False, CHANNEL),
            (CHANNEL, True, CHANNEL_PICKLED),
            (PROXY, False, PROXY),
            (PROXY, True, PROXY_PICKLED),
        ):
            made: Line = Listed(self.lines[line]) if pickled else self.lines[line]
            found[name] = self.ping_pong(MessagePath(partial(made.send, data), made.recv))
        return found

    def alone(self, data: np.ndarray) -> Parts:
        """Microseconds of the parts of each path but the library, a send and a receive together."""
        small, size = data[:1].copy(), data.nbytes
        with closing(Core(self.pe, self.pe.thisIndex)) as core:
            self._agree_own(core, data)
            empty, one, pickled = (made(core, (0, 0, given), 1) for given in (None, small, [small]))
            ready = sent(core, small)
            header, buffers, pickling = empty - ready, one - empty, pickled - empty
            # Charm++ copies messages to the own PE, too, which is a part of the library.
            longer = sent(core, data) - ready
            copies = made(core, (0, 0, data), size) - one - longer
            copies_in_pickle = made(core, (0, 0, [data]), size) - pickled - longer
        found: Parts = {}
        for line, pickled_path in ((CHANNEL, CHANNEL_PICKLED), (PROXY, PROXY_PICKLED)):
            same = {PYTHON: fastest(partial(passed, self.own[line]), 1) - empty, HEADER: header}
            found[line] = same | {BUFFERS: buffers, COPIES: copies}
            found[pickled_path] = same | {PICKLING: pickling, COPIES: copies_in_pickle}
        self.sides[str(size)] = self._sides_of(data)
        return found

    def _sides_of(self, data: np.ndarray) -> dict[str, list[float]]:
        """Microseconds of what a PE does for a message to itself, by side and trial."""
        found: dict[str, list[float]] = {name: [] for name in RUNTIME.sides}
        count = calls_of(data.nbytes)
        paths = (data, (SENT, TAKEN)), ([data], (SENT_PICKLED, TAKEN_PICKLED))
        with closing(Sides(self.pe, self.pe.thisIndex)) as core:
            for _ in range(self.settings.trials):
                for given, sides in paths:
                    make = partial(packed, (0, 0, given))
                    loops = [core.each(make, count) for _ in range(LOOPS)]
                    for side, seconds in zip(sides, zip(*loops, strict=True), strict=True):
                        found[side].append(US * min(seconds))
        return found

    def _agree_own(self, core: Core, data: np.ndarray) -> None:
        """Raise WrongData on all PEs unless one's messages to itself come back as they were."""
        wrong: dict[str, str | None] = {}
        for name, given in ((CHANNEL, data), (CHANNEL_PICKLED, [data])):
            core.seconds(partial(packed, (0, 0, given)), unpacked, 1)
            (came,) = core.came[2:] if name == CHANNEL else core.came[2]
            wrong[name] = difference(came, data)
        self.agree(data.nbytes, wrong)

    def own_calls(self) -> tuple[dict[str, list[float]], Parts]:
        """The whole times of calls of nothing by trial, and their parts."""
        calls: dict[str, tuple[tuple[Any, ...], Seconds]] = {
            OWN_CALL: ((), self._calls),
            OWN_PROXY: ((0, 0, None), partial(cost_of, partial(passed, self.own[PROXY]))),
            OWN_CHANNEL: ((0, 0, None), partial(cost_of, partial(passed, self.own[CHANNEL]))),
            OWN_FUTURE: ((0, None), partial(cost_of, future)),
        }  # by name, the arguments and the seconds of calls
        with closing(Core(self.pe, self.pe.thisIndex)) as core:
            ready = sent(core, np.empty(1, np.uint8))
            both = {name: made(core, given, 1) for name, (given, _) in calls.items()}
        alone, trials = {}, range(self.settings.trials)
        for name, (_, seconds) in calls.items():
            python = fastest_loop(seconds, 1) - both[name]
            alone[name] = {LIBRARY: ready, HEADER: both[name] - ready, PYTHON: python}
        whole = {name: [fastest_loop(one, 1) for _ in trials] for name, (_, one) in calls.items()}
        return whole, alone

    def _calls(self, times: int) -> float:
        """Seconds of a call of an entry method of this PE; only the last one is waited for.

        Raises RunError unless all were made.
        """
        proxy, line = self.pe.thisProxy[self.pe.thisIndex], self.own[PROXY]
        self.pe.calls = 0
        begin = perf_counter()
        for _ in range(times):
            proxy.count()
        passed(line)
        seconds = perf_counter() - begin
        if self.pe.calls != times:
            raise RunError(f"{self.pe.calls} of {times} calls were made")
        return seconds / (times + 1)


def sent(core: Core, data: np.ndarray) -> float:
    """Microseconds of a message to the own PE that is packed already."""
    ready = data.tobytes(), None
    return fastest_loop(partial(core.seconds, lambda: ready, nothing), data.nbytes)


def made(core: Core, arguments: tuple[Any, ...], nbytes: int) -> float:
    """The same, with Charm4Py's packing and unpacking of an entry method's arguments."""
    return fastest_loop(partial(core.seconds, partial(packed, arguments), unpacked), nbytes)


def packed(arguments: tuple[Any, ...]) -> tuple[bytes, Any]:
    """A message as Charm4Py packs it."""
    message: tuple[bytes, Any] = charm.packMsg(None, arguments, {})
    return message


def passed(line: Line) -> None:
    """Pass nothing through a line to the own PE."""
    line.send(None)
    line.recv()


def future() -> None:
    """Make a future, send it nothing, and get that."""
    made = charm.Future()
    made.send(None)
    made.get()
