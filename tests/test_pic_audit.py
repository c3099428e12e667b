"""PIC's audit: its own start and motion, and the wrong programs that no other check sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import support
import test_pic

from miniapps.audit import AuditPlan
from miniapps.pic import audit, followed
from miniapps.pic import reference_solution as plain
from miniapps.pic.distribution import Distribution
from miniapps.pic.problem import PicProblem

PLAN = AuditPlan(16, 0, 7)
COLUMNS = "audit: columns that differ"
PARTICLES = "audit: particles that differ"
DISTANCE = "audit: distance from exact positions"
PLACED, SUMS = "audit: particles placed", "audit: sums of ids"


def large(**values: Any) -> PicProblem:
    """A problem beyond the size of the reference, with few particles and all kinds of events."""
    given: dict[str, Any] = {
        "size": 600,
        "particles": 20_000,
        "k": 1,
        "m": -2,
        "distribution": Distribution("geometric", (0.95,)),
        "events": test_pic.events("inject:3:900:0,99,10,99:0,3", "remove:5:0,299,0,599:0.5"),
    }
    return PicProblem(**(given | values))


def failed(problem: PicProblem, plan: AuditPlan | None = PLAN, steps: int = 12) -> set[str]:
    """The checks of a run on four blocks that do not hold."""
    return support.solve("pic", problem, (2, 2), steps, plan=plan).failed


# The start, drawn again --------------------------------------------------------------------------


@pytest.mark.parametrize("distribution", [*test_pic.DISTRIBUTIONS, "geometric:0.5"])
def test_columns_are_those_of_the_reference(distribution: str) -> None:
    """Catches columns that begin at another number of the sequence, and another draw."""
    problem = test_pic.problem_of(distribution=Distribution.parse(distribution), particles=900)
    start, cells = followed.Start(problem), plain.initial_cells(problem)
    counts = np.zeros((24, 24), np.int64)
    np.add.at(counts, tuple(cells.T), 1)
    assert [start.column(x).tolist() for x in range(24)] == counts.tolist()
    assert (start.cells(range(len(cells)), counts.sum(axis=1)) == cells).all()


@pytest.mark.parametrize(("size", "particles", "distribution", "count"), test_pic.PUBLISHED[1:])
def test_columns_of_the_published_problems(size, particles, distribution, count):
    """Catches a logarithm or a cosine of NumPy that places other particles than the C program."""
    problem = PicProblem(size, particles, distribution=Distribution.parse(distribution))
    start = followed.Start(problem)
    assert sum(start.column(x).sum() for x in range(size)) == count


# Right programs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tile", [1, "auto"])
def test_right_programs_pass(seed: int, tile: int | str) -> None:
    """Catches an audit that rejects a right run, in rounds of one step or of several."""
    problem = large(time_tile=tile)
    solved = support.solve("pic", problem, (3, 2), 12, warmup=2, plan=AuditPlan(16, 3, seed))
    assert {PARTICLES, DISTANCE, COLUMNS, PLACED, SUMS} <= {check.name for check in solved.checks}
    assert not solved.failed


@pytest.mark.long
def test_few_particles_and_long_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a sample of nothing that fails, and gaps that are not computed step by step."""
    monkeypatch.setattr(audit, "STEPS", 3)
    assert not failed(large(particles=1, events=()), AuditPlan(1, 0, 5))
    assert not failed(large(), steps=40)
    with support.with_fault("pic", "pic: ids reversed in a message"):
        assert {PARTICLES, DISTANCE} <= failed(large(), steps=40)


@pytest.mark.long
def test_every_particle_may_be_in_the_sample() -> None:
    """Catches a sample that some particles can never be part of, or that misses the injected."""
    problem = large(particles=300)
    seen: set[int] = set()
    for seed in range(300):
        counts = np.zeros(600, np.int64)
        counts[:3] = 100
        one = audit.Audit(problem, None, seed, 4)  # type: ignore[arg-type]
        ids = followed.sampled(problem, counts, one.mask + 1, one.low_bits)[:, 0]
        assert 20 <= len(ids) <= 80
        seen.update(ids.tolist())
    assert seen == set(range(1, 1201))


# Wrong programs ----------------------------------------------------------------------------------

STARTS = "start checksum error"
CHECKS = {
    "pic: ids reversed in a message": {PARTICLES, DISTANCE},
    "pic: all in the bottom row": {PARTICLES, DISTANCE},
    "pic: half as many asked for": {COLUMNS, PARTICLES},
    "pic: half as many removed": {PARTICLES},
    "pic: velocity off by little": {PARTICLES},
    "pic: no draw for means of one or more": {COLUMNS},
    "pic: injected in reverse": {PARTICLES, DISTANCE},
    "pic: lost but counted": {SUMS},
}


@pytest.mark.parametrize("wrong", CHECKS)
def test_wrong_programs_fail(wrong: str) -> None:
    """Catches an audit that cannot fail: hardly another check sees these mistakes."""
    with support.with_fault("pic", wrong):
        assert failed(large(), None) <= {STARTS}
        assert CHECKS[wrong] <= failed(large())
