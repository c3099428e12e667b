"""Audits during a run: which rounds are audited, and what each block contributes.

`miniapps.audit` describes audits; the contributions are compared when the run has ended.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from time import perf_counter
from typing import Any, Self

import numpy as np

from miniapps.audit import MASK, AuditedRound, BaseAudit
from miniapps.contract import SETUP, Collect, CollectSum, Edge, Place, Post, PostSum
from miniapps.drivers.job import Job


class Auditor:
    """Audits the blocks of one process."""

    def __init__(self, job: Job, audit: BaseAudit) -> None:
        assert job.audit is not None
        self.audit = audit
        self.start, self.timed, self.total = job.start, job.timed, job.warmup + job.steps
        self.every, self.steps = job.audit.every, job.audit.steps(self.total)
        self.may_finish = job.problem.may_finish
        self.last = SETUP - 1  # the step of the round after which the run stops early

    @classmethod
    def of(cls, job: Job) -> Self | None:
        """The auditor of a job; None if it is not audited."""
        audit = job.new_audit()
        return None if audit is None else cls(job, audit)

    def begin(self, block: Any, place: Place, step: int, count: int) -> Witness | None:
        """Begin the audit of a block's round, or of its setup; None if it is not audited."""
        if not (self.is_planned(step, count) or self.is_tentative(step, count)):
            return None
        audited = AuditedRound(step, count)
        if step != SETUP:
            audited.began = self.audit.begin(block, step, count)
        return Witness(audited, place, block)

    def end(self, block: Any, witness: Witness, finished: bool) -> AuditedRound | None:
        """End the audit of a block's round; returns what to keep. ``finished``: the run ends."""
        audited = witness.audited
        step, count = audited.step, audited.count
        if not (finished or self.is_planned(step, count)):
            return None
        setup = step == SETUP
        audited.ended = self.audit.set_up(block) if setup else self.audit.end(block, step, count)
        return audited

    def is_planned(self, step: int, count: int) -> bool:
        """Whether the round of ``count`` steps at ``step`` is audited in any case."""
        end = step + count
        crossed = self.every and step // self.every != end // self.every
        setup = step == SETUP and not self.start  # a resumed run has no setup
        drawn = not self.steps.isdisjoint(range(step, end))
        return setup or drawn or bool(crossed) or step == self.last

    def is_tentative(self, step: int, count: int) -> bool:
        """Whether that round is audited if it turns out to be the last one."""
        return step >= self.timed and self.may_finish(step + count)


class Witness:
    """Sums over the messages that a block posts and collects in one round.

    Each message counts by a 64-bit hash of the receiver, its edge, step, phase, data type, shape
    and bytes. Sums modulo 2^64 over all blocks are equal if each message arrived once, unchanged
    and in its place. Messages in the memory of a GPU are not counted. ``seconds``: the time of
    adding them up.
    """

    def __init__(self, audited: AuditedRound, place: Place, block: Any) -> None:
        self.audited, self.place = audited, place
        self.neighbors, self.counts = block.neighbors, block.device.name == "cpu"
        self.asked: Any = None  # the request that the next answer belongs to
        self.seconds = 0.0

    def requested(self, request: Any) -> None:
        """Note a request that the block has just yielded."""
        self.asked, kind = request, type(request)
        if not self.counts or kind not in (Post, PostSum):
            return
        begun = perf_counter()
        for edge, message in request.messages.items():
            peer = self.neighbors.get(edge)
            if peer is None or not (isinstance(message, np.ndarray) and message.flags.c_contiguous):
                continue  # the driver refuses it
            if kind is Post:
                self.audited.sent += self._hash(peer.place, peer.edge, request.phase, message)
            else:
                self.audited.sent += self._weighed(peer.place, request.phase, message)
        self.audited.sent &= MASK
        self.seconds += perf_counter() - begun

    def answered(self, answer: Any) -> None:
        """Note the answer to that request."""
        begun = perf_counter()
        request, self.asked = self.asked, None
        if self.counts and type(request) is Collect:
            for edge, message in answer.items():
                self.audited.got += self._hash(self.place, edge, request.phase, message)
        elif self.counts and type(request) is CollectSum:
            self.audited.got += self._weighed(self.place, request.phase, answer)
        self.audited.got &= MASK
        self.seconds += perf_counter() - begun

    def _hash(self, receiver: Place, edge: Edge, phase: str, message: np.ndarray) -> int:
        """A 64-bit hash of a message and where it belongs."""
        head = head_of(receiver, edge, phase, message.dtype, message.shape)
        return mixed(head + (self.audited.step << 32) + zlib.crc32(message.data))

    def _weighed(self, receiver: Place, phase: str, message: np.ndarray) -> int:
        """A sum of a message's integers with odd weights, which is linear in the message."""
        values = np.asarray(message).reshape(-1).astype(np.int64).view(np.uint64)
        weights = np.arange(1, 2 * values.size, 2).astype(np.uint64)
        factor = mixed(head_of(receiver, phase) + self.audited.step) | 1
        return int((values * weights).sum()) * factor & MASK


@lru_cache(1 << 16)
def head_of(*parts: Any) -> int:
    """A 64-bit hash of what many messages have in common, the same in all processes."""
    text = repr(parts).encode()
    return mixed(zlib.crc32(text) << 32 | zlib.adler32(text))


def mixed(number: int) -> int:
    """Scatter the bits of a number over 64 bits (the finalizer of SplitMix64)."""
    number &= MASK
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB & MASK
    return number ^ (number >> 31)
