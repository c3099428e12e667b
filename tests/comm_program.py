"""Makes every communication benchmark of a runtime tiny, and wrong ones, in one launch.

``mpiexec -n 2 python tests/comm_program.py mpi`` prints a line of JSON for each: its name, how it
was made, the fault that was made ("" for none), and the error that the check has found (null for
none). With more arguments, kinds of buffer on a GPU, it makes some benchmarks with these and no
others.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any
from unittest import mock

from miniapps import communication, drivers
from miniapps.communication.actions import Action, Call, Split, Window, listed
from miniapps.communication.buffers import Data, as_bytes
from miniapps.communication.catalogue import CATALOGUE, WORD, Benchmark
from miniapps.communication.progress import Progress
from miniapps.communication.session import Session, WrongData
from miniapps.communication.settings import IN_BAND, OUT_OF_BAND, Settings, Span

TINY = Settings(span=Span(12, 24), iterations=2, warmups=1, trials=1, window=3)
LAST = 3  # calls of the check: two iterations, and one more where something is timed
ON_DEVICE = ("latency", "bw", "allreduce", "alltoallv", "ibcast", "put_latency", "acc_latency")
# In the module of a runtime's collectives: what holds the reductions, the sum and another one.
REDUCTIONS = {"mpi": ("MPI", "SUM", "MAX"), "charm": ("Reducer", "sum", "max")}
FAILED = 3
EVERY_METHOD = ("short message", "wrong root", "missing rank")  # others with the usual one only
Make = Callable[[], list[Action]]


@dataclass(frozen=True)
class Fault:
    """One mistake in a program: ``wrong`` makes the actions of a benchmark wrong."""

    name: str
    benchmark: str
    wrong: Callable[[Faulty, Data, Make], list[Action]]
    ranks: int = 2  # with fewer it changes nothing


class Faulty:
    """Ranks whose actions have a fault; ``driver``: of the runtime."""

    def __init__(self, world: Any, driver: str, fault: Fault) -> None:
        self.world, self.driver, self.fault = world, driver, fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    @property
    def collectives(self) -> Any:
        """The runtime's module of collectives."""
        return importlib.import_module(f"miniapps.communication.{self.driver}.collectives")

    def actions(self, benchmark: Benchmark, data: Data) -> list[Action]:
        """The right actions, made wrong."""
        return self.fault.wrong(self, data, lambda: self.world.actions(benchmark, data))


def before(action: Action, act: Callable[[], None]) -> list[Action]:
    """Something else, and then an action."""
    if isinstance(action, Split):

        def start() -> Any:
            act()
            return action.start()

        return [replace(action, start=start)]
    return [Call(act), action]


def after(action: Action, act: Callable[[Any], None]) -> Action:
    """An action that then does something else with its result, too."""

    def then(run: Callable[..., Any]) -> Callable[..., Any]:
        def both(*arguments: Any) -> Any:
            result = run(*arguments)
            act(result)
            return result

        return both

    if isinstance(action, Call):
        return replace(action, run=then(action.run))
    if isinstance(action, Split):
        return replace(action, wait=then(action.wait))
    return replace(action, finish=then(action.finish))


def after_last(actions: list[Action], act: Callable[[Any], None]) -> list[Action]:
    """Actions of which the one that gives objects, else the last, does something else, too."""
    if not actions:
        return []
    gives = [number for number, action in enumerate(actions) if action.gives]
    at = gives[-1] if gives else len(actions) - 1
    return [*actions[:at], after(actions[at], act), *actions[at + 1 :]]


def flipped(world: Faulty, data: Data, make: Make, calls: int = 0) -> list[Action]:
    """One bit of the last received byte is changed, from some call on."""
    made, actions = [0], make()
    gives = any(action.gives for action in actions)

    def flip(result: Any) -> None:
        made[0] += 1
        received = listed(result) if gives else data.receives
        if received and made[0] > calls:
            as_bytes(received[-1])[-1] ^= 1

    return after_last(actions, flip)


def later(world: Faulty, data: Data, make: Make) -> list[Action]:
    """The mistake is made only while iterations are timed."""
    return flipped(world, data, make, calls=LAST - 1)


@contextmanager
def instead(parts: list[Any], at: int, other: Any) -> Iterator[None]:
    """A list whose part is another one for a while."""
    parts[at], right = other, parts[at]
    yield
    parts[at] = right


def short(world: Faulty, data: Data, make: Make) -> list[Action]:
    """One byte too few is sent."""
    with instead(data.sends, 0, data.sends[0][:-1]):
        return make()


def swapped(world: Faulty, data: Data, make: Make) -> list[Action]:
    """Two messages of a window are sent in the wrong order."""
    if len(data.sends) < 2:
        return make()
    first, second, *_ = data.sends
    with instead(data.sends, 0, second), instead(data.sends, 1, first):
        return make()


def stale(world: Faulty, data: Data, make: Make) -> list[Action]:
    """What was sent first is sent again and again."""
    first: list[Any] = []

    def restore() -> None:
        first[:] = first or [as_bytes(data.sends[0]).copy()]
        as_bytes(data.sends[0])[:] = first[0]

    return [
        made
        for action in make()
        for made in (before(action, restore) if action.moves == "send" else [action])
    ]


def lost(world: Faulty, data: Data, make: Make) -> list[Action]:
    """The last access of a window is forgotten."""
    actions = make()
    first = actions[0] if actions else None
    return [replace(first, sends=first.sends[:-1])] if isinstance(first, Window) else []


def rooted(world: Faulty, root: int) -> Any:
    """A patch by which collectives are made with this rank as the root."""
    module = world.collectives
    if not hasattr(module, "branch"):
        return mock.patch.object(module, "ROOT", root)
    right = module.branch

    def branch(rank: int, ranks: int, method: str | None) -> Any:
        """A rank's place in the tree of ranks that are counted from the root on."""
        parent, children = right((rank - root) % ranks, ranks, method)
        above = None if parent is None else (parent + root) % ranks
        return module.Branch(above, tuple((child + root) % ranks for child in children))

    return mock.patch.object(module, "branch", branch)


def wrong_root(world: Faulty, data: Data, make: Make) -> list[Action]:
    """Rank 1 broadcasts instead of rank 0."""
    if world.rank <= 1:
        data.sends, data.receives = data.receives, data.sends
        data.sending, data.receiving = data.receiving, data.sending
    with rooted(world, 1):
        actions = make()
    if world.rank <= 1:
        data.sends, data.receives = data.receives, data.sends
        data.sending, data.receiving = data.receiving, data.sending
    return [replace(action, gives=False) for action in actions] if world.rank == 0 else actions


def gathered_elsewhere(world: Faulty, data: Data, make: Make) -> list[Action]:
    """The last rank gathers instead of rank 0."""
    last, right = world.ranks - 1, data.receiving
    if world.rank == last:
        data.receiving = data.kind.allocate(len(as_bytes(data.sending)) * world.ranks)
    with rooted(world, last):
        actions = make()
    data.receiving = right
    return actions


def rank_missing(world: Faulty, data: Data, make: Make) -> list[Action]:
    """The last rank contributes nothing to a sum."""
    (action,) = make()

    def clear() -> None:
        as_bytes(data.sending)[:] = 0

    return before(action, clear) if world.rank == world.ranks - 1 else [action]


def largest_only(world: Faulty, data: Data, make: Make) -> list[Action]:
    """A reduction takes the largest number instead of the sum."""
    holder, name, other = REDUCTIONS[world.driver]
    reductions = getattr(world.collectives, holder)
    with mock.patch.object(reductions, name, getattr(reductions, other)):
        return make()


def shifted(world: Faulty, data: Data, make: Make) -> list[Action]:
    """The parts that are received are in the places of their successors."""
    (action,) = make()

    def shift(result: Any) -> None:
        if action.gives:
            result.insert(0, result.pop())
            return
        whole = as_bytes(data.receiving)
        size = data.movement.receives[0].size if data.receives else 0
        whole[:] = list(whole[-size:]) + list(whole[:-size])

    return [after(action, shift)] if data.receives else [action]


def not_moved(world: Faulty, data: Data, make: Make) -> list[Action]:
    """Nothing is communicated at all."""
    return [Call(lambda: None, action.moves) for action in make()]


def put_instead(world: Faulty, data: Data, make: Make) -> list[Action]:
    """Numbers are doubled before they are added to those of the other rank."""
    actions = make()
    if not actions:
        return []

    def double() -> None:
        as_bytes(data.sends[0]).view(f"u{WORD}")[:] *= 2

    return [Call(double), *actions]


def faults() -> Iterator[Fault]:
    """All faults, each in benchmarks in which it can be made."""
    for name in ("latency", "bw", "bibw", "allgather", "iallreduce", "gatherv_persistent"):
        yield Fault("flipped byte", name, flipped)
    for name in ("bcast", "igather"):
        yield Fault("flipped byte", name, flipped)
    for name in ("latency", "allgather"):
        yield Fault("flipped byte while timed", name, later)
    yield Fault("short message", "latency", short)
    for name in ("latency", "ibcast"):
        yield Fault("stale buffer", name, stale)
    for name in ("bw", "mbw_mr"):
        yield Fault("swapped messages", name, swapped)
    for name in ("put_bw", "get_bw"):
        yield Fault("lost access", name, lost)
    yield Fault("wrong root", "bcast", wrong_root)
    yield Fault("wrong root", "gather", gathered_elsewhere)
    for name in ("allreduce", "reduce"):
        yield Fault("missing rank", name, rank_missing)
    yield Fault("another reduction", "allreduce", largest_only)
    for name in ("allgatherv", "alltoall", "alltoallv", "allgather", "gather"):
        yield Fault("shifted parts", name, shifted)
    yield Fault("shifted parts", "neighbor_alltoall", shifted, ranks=3)
    for name in ("put_latency", "get_latency", "acc_latency", "scatter", "ibcast"):
        yield Fault("nothing moved", name, not_moved)
    yield Fault("added twice", "acc_latency", put_instead)


def methods_of(runtime: communication.Runtime, name: str) -> list[str | None]:
    """The ways in which a runtime makes a benchmark, the usual one first."""
    return [way for way, names in runtime.methods.items() if name in names] or [None]


def faults_on(driver: str, ranks: int) -> Iterator[tuple[Fault, str | None]]:
    """The faults that can be made on some ranks, some of them with every method."""
    runtime = communication.get(driver)
    for fault in faults():
        allowed = CATALOGUE[fault.benchmark].refuses(ranks) is None and fault.ranks <= ranks
        allowed &= driver in REDUCTIONS or fault.wrong is not largest_only
        if allowed and runtime.makes(fault.benchmark):
            methods = methods_of(runtime, fault.benchmark)
            for method in methods if fault.name in EVERY_METHOD else methods[:1]:
                yield fault, method


def made_on(driver: str, ranks: int) -> list[str]:
    """The benchmarks that a runtime makes on some ranks."""
    makes = communication.get(driver).makes
    return [name for name, one in CATALOGUE.items() if makes(name) and one.refuses(ranks) is None]


def variants(runtime: communication.Runtime, name: str, ranks: int) -> Iterator[Settings]:
    """The settings with which a benchmark is made; more of them on two ranks."""
    for method in methods_of(runtime, name):
        yield replace(TINY, method=method)
    if ranks > 2:
        return
    size = WORD if CATALOGUE[name].reduces else 2 * WORD
    small = replace(TINY, span=Span(size, size))
    if "bytearray" in runtime.buffers:
        yield replace(small, buffer="bytearray")
    if CATALOGUE[name].sized:
        yield replace(small, touch="both")
    if name in runtime.pickles:
        yield replace(small, pickle=IN_BAND)
    if name in runtime.out_of_band:
        yield replace(small, pickle=OUT_OF_BAND, touch="both")


def everything(driver: str, ranks: int) -> Iterator[tuple[str, Fault | None, Settings]]:
    """All benchmarks that a runtime makes on some ranks, and all faults in them."""
    runtime = communication.get(driver)
    for name in made_on(driver, ranks):
        for settings in variants(runtime, name, ranks):
            yield name, None, settings
    for fault, method in faults_on(driver, ranks):
        yield fault.benchmark, fault, replace(TINY, method=method)


def with_settings(world: Any, driver: str, settings: Settings) -> Any:
    """The ranks with other settings."""
    of = {"charm": "pe", "file": "group"}
    given = [getattr(world, of[driver])] if driver in of else []
    return type(world)(*given, settings)


def main(driver: str, buffers: list[str]) -> int:
    """Make all benchmarks and faults, or some benchmarks on a GPU; returns the exit status."""
    runtime = communication.load(driver)

    def session(world: Any) -> int:
        try:
            return make_all(world)
        except Exception:
            traceback.print_exc()
            runtime.fail(FAILED)  # the other ranks may wait for this one
            return FAILED

    def make_all(world: Any) -> int:
        worlds: dict[Any, Any] = {}
        made = [(name, None, replace(TINY, buffer=one)) for one in buffers for name in ON_DEVICE]
        for name, fault, settings in made or everything(driver, world.ranks):
            key = settings.pickle, settings.method
            if key not in worlds:
                worlds[key] = with_settings(world, driver, settings)
            made_by = worlds[key] if fault is None else Faulty(worlds[key], driver, fault)
            found: dict[str, Any] = {}
            error = None
            try:
                session = Session(made_by, CATALOGUE[name], settings, Progress(lambda _: None))
                session.check()
                found = session.measure()
            except WrongData as caught:
                error = str(caught)
            if world.rank == 0:
                line = {"name": name, "fault": fault.name if fault else "", "error": error}
                values = [trial["value"] for trial in found.get("measured", ())]
                keys = ("pickle", "touch", "buffer", "method")
                kind = {key: getattr(settings, key) for key in keys}
                print(json.dumps(line | {"values": values} | kind), flush=True)
        return 0

    return int(runtime.run(TINY, drivers.get(driver).options(), session))


if __name__ == "__main__":
    words = list(takewhile("--".__ne__, sys.argv[1:]))  # after it are options of the runtime
    sys.exit(main(words[0], words[1:]))
