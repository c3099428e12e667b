"""The lesson particles: its right result, by the closed form, and what its cases contain."""

from __future__ import annotations

import numpy as np
import pytest

from miniapps.lessons.checking import check
from miniapps.lessons.lesson import Traffic
from miniapps.lessons.particles import LESSON, NEXT, STAY, STEPS, finished

CASES = [case for processes in check.PROCESSES for case in LESSON.cases(processes, 1)]


@pytest.mark.parametrize("case", CASES, ids=LESSON.words)
def test_the_right_result_is_that_of_the_closed_form(case) -> None:
    """Catches a lesson that makes the mistake which it teaches to find, and lost particles."""
    begin, speed = LESSON.beginning(case)
    size = case.size[0]
    moved = np.stack([speed, begin[:, 3]], axis=1) * STEPS
    error = np.abs(finished(case)[:, :2] - (begin[:, :2] + moved) % size)
    assert np.minimum(error, size - error).max() < 1e-9
    assert np.array_equal(finished(case)[:, 5], begin[:, 5])
    parts = [LESSON.expected(case, rank) for rank in range(case.processes)]
    assert sorted(np.concatenate(parts)[:, 5]) == list(begin[:, 5])


@pytest.mark.parametrize("case", CASES, ids=LESSON.words)
def test_cases_are_what_their_criteria_say(case) -> None:
    """Catches particles that leave where none must, and none that fly over a block."""
    fastest, widths = case.size[2], np.diff(LESSON.edges(case))
    assert (LESSON.leaving(case) == 0) == (fastest == STAY or case.processes == 1)
    assert fastest > NEXT or fastest <= widths.min()
    assert fastest <= NEXT or case.processes < 3 or fastest > widths.min() + 1


def test_particles_that_stay_must_not_travel() -> None:
    """Catches a program that sends all particles to everybody, and one that is blamed for none."""
    (case,) = [case for case in CASES if case.processes == 4 and case.size[2] == STAY]
    everything = LESSON.arguments(case, 2)[0].nbytes * STEPS
    assert "0 particles left" in LESSON.forbidden(case, 2, Traffic(sent={}, handed=everything))
    assert LESSON.forbidden(case, 2, Traffic(sent={}, handed=0)) == ""
