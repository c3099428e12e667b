"""What a message costs the host under the mpi driver, part by part, and how long ranks wait for it.

    python -m benchmarks.messages.parts          all
    python -m benchmarks.messages.parts BYTES    the parts of one message size, printed as JSON
    mpiexec -n 2 python -m benchmarks.messages.parts BYTES    the waits

*Parts*: one process whose block has links to itself along axis 0, as a rank of two has links to the
other, so nothing waits. Rounds that contain more and more are timed; the cost of a part is the
difference that it makes to the time outside the block. A time is the first decile of the rounds, in
the fastest of several turns, which other programs disturb least. What a message between ranks
consists of is timed alone, so there is a rest: the driver's own lines, and caches that are colder
than in a short loop.

*Waits*: two ranks run echo. The time outside the block, and the part of it in which a rank is in
``Wait``, per message; means and medians over rounds. Half of echo's messages stay on their rank.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
from mpi4py import MPI

from benchmarks.common import in_turn, median, printed, save
from miniapps.audit import AuditPlan
from miniapps.contract import Collect, Edge, Place, Post, checked_message
from miniapps.decomposition import Layout
from miniapps.devices.messages import HEADER_BYTES, packed
from miniapps.drivers.audits import Auditor
from miniapps.drivers.engine import Engine, Phase, Runner
from miniapps.drivers.headers import HEAD, enveloped, kind_of, read_kind
from miniapps.drivers.job import Job
from miniapps.drivers.mpi import DRIVER, RankOptions
from miniapps.drivers.mpi.driver import Ranks
from miniapps.drivers.mpi.links import Link
from miniapps.drivers.timing import PELog
from miniapps.echo.problem import PHASES, EchoProblem

ROUNDS, TURNS, TRIALS = 1000, 10, 5
BYTES = (64, 1024, 32768)
EDGES = 4  # of a block of echo
INT64 = np.dtype(np.int64)


class Looped(Ranks):
    """The transport of one rank whose edges along axis 0 are links to itself."""

    def connect(self, runners: dict[Place, Runner]) -> None:
        """Post the receives of the links."""
        self.places = runners
        (runner,) = runners.values()
        for edge, peer in runner.block.neighbors.items():
            if edge[0]:
                self.links[edge] = Link(self.comm, edge, peer, self.comm.rank)


class Timed:
    """Rounds of one rank's block, and the seconds outside the block in each."""

    def __init__(self, size: int, comm: MPI.Comm, transport: type[Ranks]) -> None:
        problem = EchoProblem(bytes=size)
        layout = Layout.create(problem.size, (True, True), comm.size)
        plan = AuditPlan(8, 0, 1)
        job = Job("echo", problem, layout, 10**9, options=RankOptions(), audit=plan)
        job.take_device(0)
        self.block = job.build(layout.indices()[comm.rank])
        self.transport = transport(comm, job)
        self.engine = Engine([self.block], False, self.transport, Auditor.of(job)).setup()
        self.log, self.done = PELog(comm.rank), 0

    def outside(self) -> np.ndarray:
        """Make `ROUNDS` rounds; the seconds outside the block in each."""
        ends = [perf_counter()]

        def ended(runner: Runner, this: Any) -> None:
            self.log.add(0, this.number, runner.stepper)
            ends.append(perf_counter())

        self.log.start()
        phase = Phase(self.done, self.done + ROUNDS, lambda step: 1)
        self.done = self.engine.play(phase, lambda runner, this: None, ended)
        return np.diff(ends) - self.log.tables()["blocks"]["compute_s"]

    def close(self) -> None:
        """End the run."""
        self.engine.close(self.done)


def steps(edges: tuple[Edge, ...], words: int) -> Callable[[int], Iterator[Any]]:
    """The ``step`` of a block that posts and collects on some edges, in two phases."""

    def step(count: int) -> Iterator[Any]:
        for phase in PHASES:
            yield Post(phase, {edge: packed(np.zeros(words, INT64)) for edge in edges})
            yield Collect(phase, edges)

    return step


def nothing(count: int) -> Iterator[Any]:
    """The ``step`` of a block that asks for nothing."""
    yield from ()


def parts(size: int) -> dict[str, float]:
    """Microseconds of the host for each part of a step."""
    timed = Timed(size, MPI.COMM_SELF.Dup(), Looped)
    linked = tuple(timed.transport.links)
    own = tuple(edge for edge in timed.block.neighbors if edge not in linked)
    bodies = {
        "nothing": nothing,
        "requests": steps((), 0),
        "own": steps(own, size // 8),
        "linked": steps(linked, size // 8),
    }
    found = dict.fromkeys(bodies, math.inf)
    alone: dict[str, float] = {}
    for _ in range(TURNS):
        for name, body in bodies.items():
            timed.block.step = body
            found[name] = min(found[name], 1e6 * float(np.quantile(timed.outside(), 0.1)))
        for name, value in pieces(size).items():
            alone[name] = min(alone.get(name, math.inf), value)
    timed.close()
    each = len(PHASES) * EDGES // 2  # messages of a kind per round, and requests
    message = (found["linked"] - found["requests"]) / each
    return {
        "a round": found["nothing"],
        "a request": (found["requests"] - found["nothing"]) / each,
        "a message of the block to itself": (found["own"] - found["requests"]) / each,
        "a message between ranks": message,
        **{f"of which {name}": value for name, value in alone.items()},
        "of which the rest": message - sum(alone.values()),
    }


def pieces(size: int) -> dict[str, float]:
    """Microseconds of what a message between ranks consists of, each timed alone."""
    comm, words = MPI.COMM_SELF, size // 8
    target, head = np.empty(size + HEADER_BYTES, np.uint8), bytearray(HEADER_BYTES)
    receive = comm.Recv_init(target, comm.rank, 1)
    HEAD.pack_into(head, 0, 1, kind_of(1, 0, 0, (words,), INT64))

    def header(array: np.ndarray) -> None:
        HEAD.pack_into(enveloped(array), 0, 1, kind_of(1, 0, 0, array.shape, array.dtype))  # type: ignore[arg-type]
        read_kind(HEAD.unpack_from(head)[1])

    def mpi(array: np.ndarray) -> None:
        receive.Start()
        sent = comm.Isend(array.base, comm.rank, 1)
        receive.Wait()
        sent.Test()

    calls: dict[str, Callable[[np.ndarray], Any]] = {
        "MPI: Start, Isend, Wait, Test": mpi,
        "the contract's checks": lambda array: checked_message((1, 0), array),
        "header": header,
        "the array around the received bytes": lambda _: np.ndarray(
            (words,), INT64, target, HEADER_BYTES
        ),
    }
    found = {name: least(call, words) for name, call in calls.items()}
    receive.Free()
    return found


def least(call: Callable[[np.ndarray], Any], words: int, count: int = 50) -> float:
    """Microseconds of a call with a new message, in the fastest of many loops."""
    found = []
    for _ in range(100):
        messages = [packed(np.zeros(words, INT64)) for _ in range(count)]
        before = perf_counter()
        for message in messages:
            call(message)
        found.append((perf_counter() - before) / count)
    return 1e6 * min(found)


class ClockedRequest:
    """A receive whose ``Wait`` is timed."""

    def __init__(self, request: MPI.Prequest, seconds: list[float]) -> None:
        self.request, self.seconds = request, seconds

    def Wait(self, *status: MPI.Status) -> None:  # noqa: N802 - as mpi4py names it
        """Wait for the message."""
        before = perf_counter()
        self.request.Wait(*status)
        self.seconds.append(perf_counter() - before)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.request, name)


def waits(size: int, comm: MPI.Comm) -> dict[str, Any]:
    """Microseconds per message outside the blocks, and in ``Wait``, averaged over two ranks."""
    timed = Timed(size, comm.Dup(), Ranks)
    timed.outside()  # now the links' buffers are as long as the messages
    seconds: list[float] = []
    links: Any = timed.transport.links
    for link in links.values():
        link.receives = [
            receive._replace(request=ClockedRequest(receive.request, seconds))
            for receive in link.receives
        ]
    comm.Barrier()
    outside = timed.outside()
    waited = np.reshape(seconds, (ROUNDS, -1))
    timed.close()
    per_message = len(PHASES) * EDGES
    deciles = np.quantile(waited, np.arange(1, 10) / 10)
    mine = {
        "outside_mean_us": outside.mean() / per_message,
        "outside_median_us": np.median(outside) / per_message,
        "wait_mean_us": waited.sum(axis=1).mean() / per_message,
        "wait_median_us": np.median(waited.sum(axis=1)) / per_message,
    }
    both = comm.allgather({name: 1e6 * float(value) for name, value in mine.items()})
    found: dict[str, Any] = {name: statistics.fmean(r[name] for r in both) for name in mine}
    return found | {"one_wait_deciles_us": [round(1e6 * float(d), 3) for d in deciles]}


def main() -> None:
    """Measure all message sizes, in processes of their own."""
    me = [sys.executable, "-m", "benchmarks.messages.parts"]
    calls: dict[str, Callable[[], dict[str, Any]]] = {}
    for size in BYTES:
        ranks = [DRIVER.launcher_path(None), "-n", 2, *me, size]
        calls[f"parts, {size} B"] = lambda size=size: printed([*me, size])
        calls[f"waits, {size} B"] = lambda ranks=ranks: printed(ranks)
    save(
        "message_parts",
        {
            case: {
                name: [median(r[name][n] for r in trials) for n in range(len(value))]
                if isinstance(value, list)
                else median(r[name] for r in trials)
                for name, value in trials[0].items()
            }
            for case, trials in in_turn(calls, TRIALS).items()
        },
    )


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        world = MPI.COMM_WORLD
        result = parts(int(sys.argv[1])) if world.size == 1 else waits(int(sys.argv[1]), world)
        if world.rank == 0:
            print(json.dumps(result), flush=True)
