"""The result of a driver: timings, measures and state hash of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import numpy as np

from miniapps import audit
from miniapps.audit import AuditedRound, AuditPlan, BaseAudit
from miniapps.contract import Measure, combine
from miniapps.devices.backend import OPENED
from miniapps.devices.cpu import host_memory
from miniapps.drivers.agreements import End, Wish
from miniapps.drivers.engine import Runner
from miniapps.drivers.job import Job
from miniapps.drivers.machine import Disturbance
from miniapps.drivers.shares import hashed
from miniapps.drivers.sizes import pickled_bytes
from miniapps.drivers.timing import SIZE, PELog, balancing_summary, compute_per_pe, wall_of_rounds
from miniapps.kernels import state_hash
from miniapps.plain_hash import differences


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    pes: int
    rounds: list[tuple[int, int]]  # those that are timed: first step, number of steps
    wall_s: np.ndarray  # (rounds,), as `timing` defines it
    compute_s: np.ndarray  # (PEs, rounds), inside blocks
    blocks: np.ndarray  # a `timing.ROW` per block and round
    slices: np.ndarray  # of `timing.SLICE`; these three only where traced
    sent: np.ndarray  # of `timing.SENT`
    sizes: np.ndarray  # of `timing.SIZE`
    syncs: np.ndarray  # of `timing.SYNC`
    loads: np.ndarray  # of `timing.LOAD`: what a load balancer of the runtime saw
    measures: dict[str, Measure]  # joined over all blocks
    words: np.ndarray  # the state hash, joined over all blocks
    jit_s: float
    first_step_at: float  # seconds since the epoch
    # The timed part by two other clocks, without snapshots, on the PE where it was longest.
    passed_s: tuple[float, float]
    snapshots_s: float  # not part of `wall_s`, as checkpoints_s and audits_s are not
    checkpoints_s: float
    checkpoints_written_s: float  # by the slowest PE, perhaps while steps went on
    checkpoints_waited_s: float  # for earlier ones, by the slowest PE
    agreements_s: float  # on whether to write one: of the PE that came last, as others waited
    audits_s: float
    disturbance: Disturbance  # the largest of any PE in the timed steps
    peak_rss_bytes: int  # largest resident memory of a PE
    steps_done: int
    stopped: Wish  # what has ended the run before its last step
    balancing: list[dict[str, Any]]  # one per load-balancing step: `timing.balancing_summary`
    versions: dict[str, str]
    # The path of messages between GPUs, or of those that could not take the usual one, the reason
    # for it, and the bytes copied to and from hosts.
    transport: dict[str, Any] | None
    gpu: str | None  # of the reporting PE
    audit: AuditPlan | None
    audits: list[AuditedRound]  # with the contributions of all blocks


Report = Callable[[Outcome], int]  # returns the exit status


class Part(NamedTuple):
    """The contribution of one PE to an outcome."""

    tables: dict[str, np.ndarray]
    measures: dict[str, Measure]
    audits: list[AuditedRound]
    jit_s: float
    first_step_at: float
    passed_s: tuple[float, float]
    snapshots_s: float
    checkpoints_s: float
    checkpoints_written_s: float
    checkpoints_waited_s: float
    agreements_s: np.ndarray  # each of them
    audit_s: dict[int, float]  # spent on audits, by the first step of the round
    disturbance: Disturbance
    peak_rss_bytes: int
    staged_bytes: int

    @classmethod
    def of(cls, job: Job, runners: Iterable[Runner], log: PELog, jit_s: float) -> Part:
        """The part of a PE with the runners of these finished blocks; there may be none.

        A runner whose block has ended earlier has audits only.
        """
        runners = list(runners)
        blocks = [runner.block for runner in runners if runner.block is not None]
        audits = audit.joined(_taken(runner.audits for runner in runners))
        audit_s = Counter[int]()
        for runner in runners:
            audit_s.update(runner.audit_s)
        checker = job.new_audit()
        measures = combine(*[measured(block, checker) for block in blocks])
        staged = sum(block.device.staged_bytes for block in blocks)
        return cls(
            tables=log.tables()
            | {"messages": log.messages(job.layout.numbers), "sizes": _sizes(job, blocks)},
            measures=measures,
            audits=audits,
            jit_s=jit_s,
            first_step_at=log.born,
            passed_s=log.passed_s(),
            snapshots_s=log.snapshots_s,
            checkpoints_s=log.checkpoints_s,
            checkpoints_written_s=log.writing_s,
            checkpoints_waited_s=log.waiting_s,
            agreements_s=np.array(log.agreeing_s),
            audit_s=dict(audit_s),
            disturbance=log.disturbance(),
            peak_rss_bytes=host_memory.peak_bytes(),
            staged_bytes=staged,
        )


def _sizes(job: Job, blocks: Iterable[Any]) -> np.ndarray:
    """How long each of these blocks is as it migrates, as `SIZE`; none unless the run is traced."""
    wanted = blocks if job.traced and job.device == "cpu" else ()
    numbers = job.layout.numbers
    rows = [(numbers[block.kind, tuple(block.index)], pickled_bytes(block)) for block in wanted]
    return np.array(rows, SIZE)


def _taken(lists: Iterable[list[AuditedRound]]) -> Iterator[AuditedRound]:
    """The elements of lists, taken off them so that the memory of each is free after its use."""
    for some in lists:
        while some:
            yield some.pop()


def _transport(path: str, reason: str, parts: Sequence[Part]) -> dict[str, Any]:
    """The path of messages, for the record."""
    staged = sum(part.staged_bytes for part in parts)
    return {"path": path, "reason": reason, "staged_bytes": staged}


def measured(block: Any, checker: BaseAudit | None) -> dict[str, Measure]:
    """A finished block's measures, its part of the state hash as ``words``, and audits of that."""
    pieces = block.state()
    words = hashed(pieces)
    found = block.measure() | {"words": Measure("sum", words)}
    if checker is None:
        return found
    random = Random(f"{checker.seed} {block.kind} {block.index}")
    wrong = differences(hashed, pieces, random) + checker.misstated(block, pieces)
    own = words[np.newaxis] if pieces else np.empty((0, state_hash.WORDS), np.uint64)
    return found | {audit.HASHES: Measure("sum", wrong), audit.WORDS: Measure("join", own)}


def joined(
    job: Job,
    parts: Sequence[Part],
    end: End,
    versions: dict[str, str],
    transport: tuple[str, str],
    unusual: tuple[str, str] | None = None,
) -> Outcome:
    """Join the parts of all PEs; ``transport``: the path of messages on a GPU, and the reason.

    ``unusual``: the same on the CPU, where they could not take the usual path.
    """
    path = unusual if job.device == "cpu" else transport
    tables = {
        name: np.concatenate([part.tables[name] for part in parts]) for name in parts[0].tables
    }
    rows, syncs = tables["blocks"], tables["balancing"]
    rounds = list(job.rounds(job.timed, end.step))
    compute = compute_per_pe(rows, len(parts), len(rounds))
    elapsed = wall_of_rounds(rows, len(rounds))
    # All PEs audit the same rounds, so each waits for the one whose audit takes longest. A PE that
    # is ahead may audit while another one still computes.
    audits_s = np.array([max(p.audit_s.get(first, 0.0) for p in parts) for first, _ in rounds])
    wall_s = np.maximum(elapsed - audits_s, np.minimum(compute.max(axis=0), elapsed))
    measures = combine(*[part.measures for part in parts])
    return Outcome(
        pes=len(parts),
        rounds=rounds,
        wall_s=wall_s,
        compute_s=compute,
        blocks=rows,
        slices=tables["slices"],
        sent=tables["messages"],
        sizes=tables["sizes"],
        syncs=syncs,
        loads=tables["loads"],
        words=measures.pop("words").value,
        measures=measures,
        jit_s=max(part.jit_s for part in parts),
        first_step_at=max(part.first_step_at for part in parts),
        passed_s=max(part.passed_s for part in parts),
        snapshots_s=max(part.snapshots_s for part in parts),
        checkpoints_s=max(part.checkpoints_s for part in parts),
        checkpoints_written_s=max(part.checkpoints_written_s for part in parts),
        checkpoints_waited_s=max(part.checkpoints_waited_s for part in parts),
        agreements_s=float(np.min([part.agreements_s for part in parts], axis=0).sum()),
        audits_s=float((elapsed - wall_s).sum()),
        disturbance=Disturbance(*map(max, zip(*(part.disturbance for part in parts), strict=True))),
        peak_rss_bytes=max(part.peak_rss_bytes for part in parts),
        steps_done=end.step,
        stopped=end.wish,
        balancing=balancing_summary(rounds, syncs, compute),
        versions=versions,
        transport=None if path is None else _transport(*path, parts),
        gpu=OPENED.get(job.device).described(),
        audit=job.audit,
        audits=audit.joined(one for part in parts for one in part.audits),
    )
