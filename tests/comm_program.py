"""Makes every communication benchmark tiny, and wrong ones, in one launch of a few ranks.

``mpiexec -n 2 python tests/comm_program.py`` prints a line of JSON for each: its name, the fault
that was made ("" for none), and the error that the check has found (null for none). With arguments,
kinds of buffer on a GPU, it makes some benchmarks with these and no others.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mpi4py import MPI

from communication.actions import Action, Call, Split, Window
from communication.buffers import Data, as_bytes
from communication.catalogue import CATALOGUE, WORD, Benchmark
from communication.mpi import RUNTIME
from communication.mpi.world import Ranks
from communication.session import Session, WrongData
from communication.settings import IN_BAND, OUT_OF_BAND, Settings, Span

TINY = Settings(span=Span(12, 24), iterations=2, warmups=1, trials=1, window=3)
LAST = 3  # calls of the check: two iterations, and one more where something is timed
ON_DEVICE = ("latency", "bw", "allreduce", "alltoallv", "ibcast", "put_latency", "acc_latency")
Wrong = Callable[["Faulty", Data, list[Action]], list[Action]]


@dataclass(frozen=True)
class Fault:
    """One mistake in a program: what makes the actions of a benchmark wrong."""

    name: str
    benchmark: str
    wrong: Wrong
    ranks: int = 2  # with fewer it changes nothing


class Faulty:
    """Ranks whose actions have a fault."""

    def __init__(self, ranks: Ranks, fault: Fault) -> None:
        self.ranks_right, self.fault = ranks, fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ranks_right, name)

    def actions(self, benchmark: Benchmark, data: Data) -> list[Action]:
        """The right actions, made wrong."""
        return self.fault.wrong(self, data, self.ranks_right.actions(benchmark, data))


def after(action: Action, act: Callable[[], None]) -> Action:
    """An action that then does something else, too."""

    def then(run: Callable[..., Any]) -> Callable[..., Any]:
        def both(*arguments: Any) -> Any:
            result = run(*arguments)
            act()
            return result

        return both

    if isinstance(action, Call):
        return replace(action, run=then(action.run))
    if isinstance(action, Split):
        return replace(action, wait=then(action.wait))
    return replace(action, finish=then(action.finish))


def flipped(world: Faulty, data: Data, actions: list[Action], calls: int = 0) -> list[Action]:
    """One bit of the last received byte is changed, from some call on."""
    made = [0]

    def flip() -> None:
        made[0] += 1
        if data.receives and made[0] > calls:
            as_bytes(data.receives[-1])[-1] ^= 1

    return [*actions[:-1], after(actions[-1], flip)] if actions else []


def short(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """One byte too few is sent."""
    other, part = 1 - world.rank, data.sends[0]
    send = Call(partial(world.comm.Send, [part, len(part) - 1, MPI.BYTE], other, 1), "send")
    return [send if action.moves == "send" else action for action in actions]


def stale(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """What was sent first is sent again and again."""
    first: list[Any] = []

    def send() -> None:
        first[:] = first or [as_bytes(data.sends[0]).copy()]
        world.comm.Send([first[0], MPI.BYTE], 1 - world.rank, 1)

    return [Call(send, "send") if action.moves == "send" else action for action in actions]


def swapped(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """Two messages of a window are sent in the wrong order."""
    first = actions[0] if actions else None
    if not isinstance(first, Window) or len(first.sends) < 2:
        return actions
    return [replace(first, sends=[first.sends[1], first.sends[0], *first.sends[2:]]), *actions[1:]]


def lost(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """The last access of a window is forgotten."""
    first = actions[0] if actions else None
    return [replace(first, sends=first.sends[:-1])] if isinstance(first, Window) else []


def wrong_root(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """Rank 1 broadcasts instead of rank 0."""
    buffer = data.sending if world.rank == 0 else data.receiving
    return [Call(partial(world.comm.Bcast, [buffer, MPI.BYTE], 1), actions[0].moves)]


def gathered_elsewhere(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """The last rank gathers instead of rank 0."""
    spare = bytearray(len(data.sending) * world.ranks)
    gather = partial(world.comm.Gather, [data.sending, MPI.BYTE], [spare, MPI.BYTE])
    return [Call(partial(gather, world.ranks - 1), actions[0].moves)]


def rank_missing(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """The last rank contributes nothing to a sum."""
    nothing = bytearray(len(as_bytes(data.sending)))
    last = world.rank == world.ranks - 1
    given = [nothing if last else data.sending, MPI.UINT32_T]
    if data.benchmark.name == "reduce":
        total = [data.receiving, MPI.UINT32_T] if world.rank == 0 else None
        return [Call(partial(world.comm.Reduce, given, total, MPI.SUM, 0))]
    total = [data.receiving, MPI.UINT32_T]
    return [Call(partial(world.comm.Allreduce, given, total, MPI.SUM))]


def largest_only(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """A reduction takes the largest number instead of the sum."""
    given, total = ([part, MPI.UINT32_T] for part in (data.sending, data.receiving))
    return [Call(partial(world.comm.Allreduce, given, total, MPI.MAX))]


def shifted(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """The parts of a received buffer are in the places of their successors."""

    def shift() -> None:
        whole = as_bytes(data.receiving)
        whole[:] = list(whole[-data.movement.receives[0].size :]) + list(
            whole[: -data.movement.receives[0].size]
        )

    return [after(actions[0], shift)]


def not_moved(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """Nothing is communicated at all."""
    return [Call(lambda: None, action.moves) for action in actions]


def put_instead(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """Numbers are doubled before they are added to those of the other rank."""
    if not actions:
        return []

    def double() -> None:
        as_bytes(data.sends[0]).view(f"u{WORD}")[:] *= 2

    return [Call(double), *actions]


def later(world: Faulty, data: Data, actions: list[Action]) -> list[Action]:
    """The mistake is made only while iterations are timed."""
    return flipped(world, data, actions, calls=LAST - 1)


def faults() -> Iterator[Fault]:
    """All faults, each in benchmarks in which it can be made."""
    for name in ("latency", "bw", "bibw", "allgather", "iallreduce", "gatherv_persistent"):
        yield Fault("flipped byte", name, flipped)
    yield Fault("flipped byte while timed", "latency", later)
    yield Fault("short message", "latency", short)
    yield Fault("stale buffer", "latency", stale)
    for name in ("bw", "mbw_mr"):
        yield Fault("swapped messages", name, swapped)
    for name in ("put_bw", "get_bw"):
        yield Fault("lost access", name, lost)
    yield Fault("wrong root", "bcast", wrong_root)
    yield Fault("wrong root", "gather", gathered_elsewhere)
    for name in ("allreduce", "reduce"):
        yield Fault("missing rank", name, rank_missing)
    yield Fault("another reduction", "allreduce", largest_only)
    for name in ("allgatherv", "alltoall", "alltoallv"):
        yield Fault("shifted parts", name, shifted)
    yield Fault("shifted parts", "neighbor_alltoall", shifted, ranks=3)
    for name in ("put_latency", "get_latency", "acc_latency", "scatter", "ibcast"):
        yield Fault("nothing moved", name, not_moved)
    yield Fault("added twice", "acc_latency", put_instead)


def faults_on(ranks: int) -> list[Fault]:
    """The faults that can be made on some ranks."""
    return [
        fault
        for fault in faults()
        if CATALOGUE[fault.benchmark].refuses(ranks) is None and fault.ranks <= ranks
    ]


def variants(name: str, ranks: int) -> Iterator[Settings]:
    """The settings with which a benchmark is made; more of them on two ranks."""
    yield TINY
    if ranks > 2:
        return
    yield replace(TINY, buffer="bytearray", span=Span(8, 8))
    if CATALOGUE[name].sized:
        yield replace(TINY, touch="both", span=Span(8, 8))
    if name in RUNTIME.pickles:
        yield replace(TINY, pickle=IN_BAND, span=Span(8, 8))
    if name in RUNTIME.out_of_band:
        yield replace(TINY, pickle=OUT_OF_BAND, touch="both", span=Span(8, 8))


def main(buffers: list[str]) -> None:
    """Make all benchmarks that this number of ranks can make, and all faults; or those on a GPU."""
    worlds = {pickle: Ranks(replace(TINY, pickle=pickle)) for pickle in (None, "in", "out")}
    ranks = MPI.COMM_WORLD.size
    made: list[tuple[str, Fault | None, Settings]] = [
        (name, None, replace(TINY, buffer=buffer)) for buffer in buffers for name in ON_DEVICE
    ]
    if not buffers:
        made += [
            (name, None, settings)
            for name, benchmark in CATALOGUE.items()
            if benchmark.refuses(ranks) is None
            for settings in variants(name, ranks)
        ]
        made += [(fault.benchmark, fault, TINY) for fault in faults_on(ranks)]
    for name, fault, settings in made:
        ranks_right = worlds[settings.pickle]
        world: Any = ranks_right if fault is None else Faulty(ranks_right, fault)
        found: dict[str, Any] = {}
        error = None
        try:
            found = Session(world, CATALOGUE[name], settings, lambda *_: None).run()
        except WrongData as caught:
            error = str(caught)
        if MPI.COMM_WORLD.rank == 0:
            line = {"name": name, "fault": fault.name if fault else "", "error": error}
            values = [trial["value"] for trial in found.get("measured", ())]
            kind = {"pickle": settings.pickle, "touch": settings.touch, "buffer": settings.buffer}
            print(json.dumps(line | {"values": values} | kind), flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Exception:
        traceback.print_exc()
        MPI.COMM_WORLD.Abort(1)  # the other ranks may wait for this one
