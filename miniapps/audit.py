"""Audits: a random sample of a run is computed again, without the app's kernels.

In some rounds every block contributes what it holds near the sample, before the round and after it.
When the run has ended, the app's audit computes the sample from the first, in plain Python or
NumPy, and compares it with the second. The cost does not depend on the size of the problem, so runs
of any size are audited. docs/validation.md describes what audits can see.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import ModuleType
from typing import Any, Self

from miniapps.contract import SETUP, Check, Measure, Piece, combine
from miniapps.decomposition import Layout
from miniapps.plain_hash import text_of

# Measures: how often the state of a block or its hash is wrong, and the words of the hash of each
# block that has a state.
HASHES, WORDS = "hash differences", "hash of blocks"
DRAWN_ROUNDS = 2  # besides the first and the last
SEEDS = 1 << 63  # seeds are below this
MOST_ROUNDS = 1000  # that one run may audit, because blocks keep what they contribute
MOST_SAMPLES = 10_000
MASK = (1 << 64) - 1

Contribution = dict[str, Measure]
Found = Mapping[str, Measure]  # the contributions of all blocks, combined


class BaseAudit:
    """Computes a random sample of a run again. An app exports its subclass as ``Audit``.

    The sample follows from ``seed``, so all PEs draw the same. ``samples``: how many cells,
    particles or atoms to draw. An audit must not use what it validates: no kernels, no generator
    of the start, no hash.
    """

    def __init__(self, problem: Any, layout: Layout, seed: int, samples: int) -> None:
        self.problem, self.layout, self.seed, self.samples = problem, layout, seed, samples
        self.start = 0  # the first step that the run makes; above 0, it goes on from a checkpoint
        self.random = Random(seed)

    def set_up(self, block: Any) -> Contribution:
        """A block's contribution after its setup, while it has not migrated yet.

        Like `begin` and `end`, called for every block of every kind; it may be empty. The op
        ``"join"`` joins arrays along axis 0. A measure must not share memory with the block.
        """
        return {}

    def begin(self, block: Any, step: int, count: int) -> Contribution:
        """A block's contribution before the round of ``count`` steps at ``step``."""
        return {}

    def end(self, block: Any, step: int, count: int) -> Contribution:
        """A block's contribution after that round."""
        return {}

    def misstated(self, block: Any, pieces: Sequence[Piece]) -> int:
        """The number of elements of the sample of which the final state says something else.

        ``pieces``: the state of ``block``, which is hashed and written.
        """
        return 0

    def validate_setup(self, found: Found) -> list[Check]:
        """Validate the setup by the contributions of all blocks; called first."""
        return []

    def validate(self, step: int, count: int, began: Found, ended: Found) -> list[Check]:
        """Validate a round by the contributions of all blocks; the round at step 0 also the start.

        Every audited round gives the same names of checks; the run reports the worst of each name.
        """
        return []

    def validate_results(
        self, steps: int, measures: Found, results: Mapping[str, Any]
    ) -> list[Check]:
        """Validate the final measures and the app's entries of the record after ``steps`` steps."""
        return []


@dataclass(frozen=True)
class AuditPlan:
    """How a run is audited: the options ``--audit``, ``--audit-every`` and ``--audit-seed``.

    ``start``: the first step that the run makes.
    """

    samples: int
    every: int
    seed: int
    start: int = 0

    @classmethod
    def asked(cls, samples: int, every: int, seed: int | None, start: int = 0) -> Self | None:
        """The plan for these options, with a random seed if none is given; None for no audit."""
        if not samples:
            return None
        return cls(samples, every, secrets.randbelow(1 << 32) if seed is None else seed, start)

    def steps(self, total: int) -> set[int]:
        """Steps whose rounds are audited in a run of ``total`` steps, apart from `every`."""
        drawn = Random(self.seed)
        some = (drawn.randrange(self.start, total) for _ in range(DRAWN_ROUNDS))
        return {self.start, total - 1, *some}

    def due(self, total: int, done: int) -> set[int]:
        """Steps whose rounds must have been audited in a run that has ended after ``done`` steps.

        ``total``: how many it was asked for; a run that meets a tolerance makes fewer.
        """
        every = range(self.every, done + 1, self.every) if self.every else ()
        multiples = (multiple for multiple in every if multiple > self.start)
        before = {step for step in self.steps(total) if step < done}
        return {self.start, done - 1, *before, *(multiple - 1 for multiple in multiples)}


@dataclass
class AuditedRound:
    """The contributions to the audit of one round: one block's, or those of several blocks.

    ``sent`` and ``got``: sums modulo 2^64 over the messages that blocks posted and collected;
    ``blocks``: how many contribute.
    """

    step: int
    count: int
    began: Contribution = field(default_factory=dict)
    ended: Contribution = field(default_factory=dict)
    sent: int = 0
    got: int = 0
    blocks: int = 1

    @classmethod
    def of(cls, parts: Sequence[Self]) -> Self:
        """Join groups of blocks."""
        return cls(
            parts[0].step,
            parts[0].count,
            combine(*[part.began for part in parts]),
            combine(*[part.ended for part in parts]),
            sum(part.sent for part in parts) & MASK,
            sum(part.got for part in parts) & MASK,
            sum(part.blocks for part in parts),
        )


def joined(rounds: Iterable[AuditedRound]) -> list[AuditedRound]:
    """The audited rounds in order, each with the contributions of all blocks."""
    by_step: dict[int, list[AuditedRound]] = {}
    for part in rounds:
        by_step.setdefault(part.step, []).append(part)
    return [AuditedRound.of(by_step.pop(step)) for step in sorted(by_step)]


def checks_of(
    app: ModuleType,
    problem: Any,
    layout: Layout,
    plan: AuditPlan,
    rounds: list[AuditedRound],
    asked: int,
    steps: int,
    measures: Found,
    state_hash: str,
) -> list[Check]:
    """The checks of an audited run that has made ``steps`` of the steps it was ``asked`` for.

    ``rounds`` as of `joined`.
    """
    lost = missing(rounds, plan.due(asked, steps), layout, problem.kinds_at)
    different = sum(part.sent != part.got for part in rounds)
    hashes = measures[HASHES].value + (text_of(measures[WORDS].value) != state_hash)
    checks = [
        Check("audit: rounds whose messages differ", float(different), 0),
        Check("audit: state hashes that differ", float(hashes), 0),
        Check("audit: rounds missing", float(len(lost)), 0),
    ]
    audit = audit_of(app, problem, layout, plan)
    found = [
        audit.validate_setup(part.ended)
        if part.step == SETUP
        else audit.validate(part.step, part.count, part.began, part.ended)
        for part in rounds
    ]
    found.append(audit.validate_results(steps, measures, problem.results(dict(measures))))
    return [*checks, *worst(check for some in found for check in some)]


def missing(
    rounds: Iterable[AuditedRound],
    due: set[int],
    layout: Layout,
    kinds_at: Callable[[int], frozenset[str] | None] = lambda step: None,
) -> set[int]:
    """The steps ``due`` whose round was not audited, or not in every block that exists then."""

    def blocks(step: int) -> int:
        kinds = kinds_at(step)
        if kinds is None:
            return len(layout.numbers)
        return sum(count for kind, count in layout.counts().items() if kind in kinds)

    whole = [part for part in rounds if part.blocks == blocks(part.step)]
    return {step for step in due if not any(p.step <= step < p.step + p.count for p in whole)}


def audit_of(app: ModuleType, problem: Any, layout: Layout, plan: AuditPlan) -> BaseAudit:
    """A new audit of a problem; one without a sample if the app has none."""
    make = getattr(app, "Audit", BaseAudit)
    audit: BaseAudit = make(problem, layout, plan.seed, plan.samples)
    audit.start = plan.start
    return audit


def worst(checks: Iterable[Check]) -> list[Check]:
    """The worst check of each name: one that does not hold, else the one with the largest value."""
    found: dict[str, Check] = {}
    for check in checks:
        before = found.setdefault(check.name, check)
        if (before.ok, -before.value) > (check.ok, -check.value):
            found[check.name] = check
    return list(found.values())
