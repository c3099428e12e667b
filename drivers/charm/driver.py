"""The charm driver: one chare per block, several per PE, moved by the runtime's load balancers.

Between chares of one PE, a plain call puts a message into the receiver's inbox by reference, and an
empty message wakes a chare whose Collect has become complete. A message to another PE is a call of
an entry method. So every block computes inside a message addressed to its own chare, and Charm++
measures that time as the chare's load. docs/messages.md has the measurements behind these choices.

`chare` contains the chare, `pe` the data that a PE keeps for its chares, `mail` sends messages,
`moves` blocks that migrate.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from charm4py import Array, Future, Group, charm

from miniapps.contract import SETUP
from miniapps.drivers import outcome
from miniapps.drivers.agreements import Agreements, End, Wish
from miniapps.drivers.charm import CharmOptions, output
from miniapps.drivers.charm.chare import BlockChare
from miniapps.drivers.charm.pe import FAILED, PE, fail
from miniapps.drivers.checkpoints import Checkpoints, require_state
from miniapps.drivers.exits import error_of
from miniapps.drivers.gpu_ipc import Sharers
from miniapps.drivers.job import Job, RunError, Segment, Watcher
from miniapps.drivers.outcome import Outcome, Report
from miniapps.drivers.shares import Share
from miniapps.kernels.state_hash import WORDS

__all__ = ["fail", "run_all"]


# How messages that lie on a GPU travel.
PATH = "staged", "Charm4Py takes no device memory; between blocks of a PE by reference"


def run_all(runs: Iterable[tuple[Job[CharmOptions], Report]], watcher: Watcher) -> int:
    """Run jobs one after the other, as the runtime starts only once per process; from PE 0 only.

    PE 0 reports the outcomes. Ends the process with the highest exit status; the first job that
    raises is the last.
    """

    def main(_: list[str]) -> None:
        status, earlier = 0, list[Any]()
        try:
            for job, report in runs:
                status = max(status, report(_execute(job, watcher, earlier)))
        except BaseException as raised:
            watcher.fail(error_of(raised))
            status = FAILED
        charm.exit(status)

    output.keep()
    # Charm4Py encodes all arguments, also paths whose bytes are no UTF-8; it needs only its own.
    sys.argv[:] = [word.encode(errors="replace").decode() for word in sys.argv]
    charm.start(main, modules=["miniapps.drivers.charm.pe", "miniapps.drivers.charm.chare"])
    return 0


def _execute(job: Job[CharmOptions], watcher: Watcher, earlier: list[Any]) -> Outcome:
    """On PE 0: create the chares, run warm-up and timed steps, and gather what was measured.

    ``earlier``: the groups of PEs of earlier runs; the group of this run is added to it.
    """
    layout, balanced = job.layout, job.options.lb_period > 0
    if charm.numPes() != layout.pes:
        raise RunError(f"asked for {layout.pes} PEs, started on {charm.numPes()}")
    pes = Group(PE, args=[job, watcher, list(earlier)])
    charm.awaitCreation(pes)
    pes.prepare(local_ranks(pes, job), awaitable=True).get()
    why, path = share_memory(pes, job), share_gpus(pes, job)
    arrays = {kind: Array(BlockChare, ndims=1) for kind in layout.families()}
    pes.introduce(arrays, awaitable=True).get()
    for place, number in layout.numbers.items():
        home = layout.home(*place)
        arrays[place[0]].ckInsert(number, [pes, place], onPE=home, useAtSync=balanced)
    for blocks in arrays.values():
        blocks.ckDoneInserting()
    # No steps: returns once all chares have been created.
    _advance(arrays, Segment(SETUP, SETUP, SETUP))
    pes.store_placement(awaitable=True).get()
    charm.thisProxy.LBTurnInstrumentOff(awaitable=True).get()
    _advance(arrays, job.setup())
    if job.resumed is not None:
        asked = [pes[pe].words(ret=True) for pe in range(layout.pes)]
        require_state(job, sum((words.get() for words in asked), np.zeros(WORDS, np.uint64)))
    _take_snapshot(job, pes, job.setup())
    warmup, timed = job.phases()
    agreements = Agreements(job, watcher.signalled)
    team = CharmTeam(pes, layout.pes)
    checkpoints = Checkpoints(team)
    make = partial(_make, agreements, checkpoints, team, arrays)
    done = make(*warmup, timed=False)
    charm.thisProxy.LBTurnInstrumentOn(awaitable=True).get()
    pes.start_log(awaitable=True).get()
    if not agreements.stopped:
        done = make(*timed, timed=True)
    pes.stop_log(awaitable=True).get()
    team.waiting_s += checkpoints.complete()
    pes.note_checkpoints(team.agreeing_s, team.waiting_s, awaitable=True).get()
    made = False
    for pe in range(layout.pes if job.store else 0):
        made = pes[pe].store(job.store, made, ret=True).get()
    parts = [pes[pe].part(ret=True).get() for pe in range(layout.pes)]
    pes.retire(awaitable=True).get()
    earlier.append(pes)
    end = End(done, agreements.stopped)
    return outcome.joined(
        job, parts, end, {"charm": "netlrts"}, path, None if why is None else ("datagrams", why)
    )


def local_ranks(pes: Any, job: Job) -> list[int]:
    """The number of each PE among those of its host; all zero on the CPU, which ignores them."""
    count = job.layout.pes
    if job.device == "cpu":
        return [0] * count
    hosts = [pes[pe].host(ret=True).get() for pe in range(count)]
    return [hosts[:pe].count(host) for pe, host in enumerate(hosts)]


def share_memory(pes: Any, job: Job[CharmOptions]) -> str | None:
    """Let the PEs of each host read messages in each other's memory; returns why some cannot."""
    if job.layout.pes == 1 or not job.options.shortest_shared:
        return None
    offers = [pes[pe].offer(ret=True).get() for pe in range(job.layout.pes)]
    pes.open(offers, awaitable=True).get()
    whys = [pes[pe].begin_sharing(ret=True).get() for pe in range(job.layout.pes)]
    return next(filter(None, whys), None)


def share_gpus(pes: Any, job: Job[CharmOptions]) -> tuple[str, str]:
    """Let PEs of one GPU lend each other messages; returns the path of messages, and why.

    If only the runtime knows where blocks are, as they migrate, all PEs must share the GPU.
    """
    sharers, count = Sharers(), job.layout.pes
    if job.device != "cpu" and job.options.gpu_ipc == "auto":
        offers = [pes[pe].offer_gpu(ret=True).get() for pe in range(count)]
        answers = [pes[pe].try_offers(offers, ret=True).get() for pe in range(count)]
        found = Sharers.of(0, answers)
        if found.all or not job.options.lb_period or len(job.layout.families()) > 1:
            sharers = found
            pes.share_gpu(answers, awaitable=True).get()
    return sharers.path(*PATH)


def _make(
    agreements: Agreements,
    checkpoints: Checkpoints,
    team: CharmTeam,
    arrays: dict[str, Any],
    start: int,
    end: int,
    timed: bool,
) -> int:
    """Make the rounds and the snapshots of a phase; returns the step that the blocks reached."""
    job, pes, done = agreements.job, team.pes, start

    def most(wish: np.ndarray) -> np.ndarray:
        before = perf_counter()
        checkpoints.proceed()
        team.agreeing_s += perf_counter() - before
        return wish  # PE 0 decides for all, as it leads them

    def end_after(step: int) -> None:
        pes.end_after(step, awaitable=True).get()

    for segment in agreements.segments(start, end):
        done = _advance(arrays, segment, timed)
        if done < segment.stop:
            break
        _take_snapshot(job, pes, segment)
        agreed = agreements.after(segment, most, end_after)
        if agreed or job.ends_with_checkpoint(segment):
            behind = job.checkpoint_async and done < agreements.end and not agreements.stopped
            finished = _take_checkpoint(checkpoints, team, done, timed, behind)
            agreements.wrote()
            if finished:  # the run ends itself, after the next look at its blocks
                agreements.stopped = agreements.stopping = Wish.NOTHING
    return done


def _take_snapshot(job: Job, pes: Any, segment: Segment) -> None:
    """Store a snapshot of all blocks, if one is due after a segment; the clock stands still."""
    if segment.last is not None and job.wants_snapshot(segment.last, segment.stop):
        latest = Future()
        pes.keep(segment, latest)
        pes.go_on(latest.get(), False, awaitable=True).get()


class CharmTeam:
    """The PEs of a run, as PE 0 leads them; a `drivers.checkpoints.Team`."""

    def __init__(self, pes: Any, count: int) -> None:
        self.pes, self.count = pes, count
        self.agreeing_s = self.waiting_s = 0.0

    def all(self, task: str) -> None:
        """Let every PE begin a task."""
        self.pes.do_for_checkpoint(task, (), awaitable=True).get()

    def first(self, task: str, *given: Any) -> None:
        """Let PE 0 begin a task."""
        self.pes[0].do_for_checkpoint(task, given, awaitable=True).get()

    def shares(self) -> list[Share]:
        """What all PEs will write."""
        return self.asked("share")

    def ready(self, wait: bool) -> bool:
        """Whether no PE has a task to do; ``wait``: until it is so."""
        return all(self.asked("ready_for_checkpoint", wait))

    def asked(self, method: str, *given: Any) -> list[Any]:
        """What all PEs return."""
        asked = [getattr(self.pes[pe], method)(*given, ret=True) for pe in range(self.count)]
        return [found.get() for found in asked]


def _take_checkpoint(
    checkpoints: Checkpoints, team: CharmTeam, step: int, timed: bool, behind: bool
) -> bool:
    """Write a checkpoint of all blocks; the clock stands still.

    ``behind``: whether blocks go on when they have been copied. Returns whether they say that the
    run is finished, which counts in timed steps only.
    """
    latest = Future()
    team.pes.rest(step, latest)
    end_s = latest.get()
    team.waiting_s += checkpoints.complete()
    finished = any(team.asked("take_checkpoint", behind)) and timed
    checkpoints.begin(step, finished)
    if not behind:
        checkpoints.complete()
    team.pes.go_on(end_s, True, awaitable=True).get()
    return finished


def _advance(arrays: dict[str, Any], segment: Segment, timed: bool = False) -> int:
    """Let all blocks make the rounds of a segment; returns the step that they reached.

    Raises RunError if blocks reduce while others have ended.
    """
    came = []
    for blocks in arrays.values():
        came.append(Future())
        blocks.start(segment, timed, came[-1])
    steps = [done.get() for done in came]
    if any(np.ndim(step) for step in steps):  # the runtime mixed them with an AllReduce
        raise RunError("some blocks have made their steps, others wait for an AllReduce")
    return int(max(steps))
