"""Lesson 4: computing while messages travel."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from miniapps.lessons.halo import STEPS, Halo, wide
from miniapps.lessons.lesson import Case, Criterion, Traffic
from miniapps.lessons.log import LOG

Span = tuple[int, int]  # [low, high)


class Overlap(Halo):
    """The steps of lesson 2, in which the inner cells do not wait for messages."""

    name: ClassVar[str] = "overlap"
    number: ClassVar[int] = 4
    title: ClassVar[str] = "Computing while messages travel"
    minutes: ClassVar[int] = 60
    function: ClassVar[dict[str, str]] = {"mpi4py": "advance"}

    offers: ClassVar[frozenset[str]] = frozenset({"miniapps.lessons.overlap.sweep"})
    criteria: ClassVar[tuple[Criterion, ...]] = (
        Criterion(
            3, "inner cells while messages travel, fixed edges", lambda c: not c.periodic, True
        ),
        Criterion(
            3,
            "inner cells while messages travel, periodic edges",
            lambda c: c.periodic and not wide(c),
            True,
        ),
        Criterion(4, "the same with rows of which MPI keeps no copy", lambda c: wide(c), True),
    )

    def arguments(self, case: Case, rank: int) -> tuple[Any, ...]:
        """The block, its neighbours, the number of steps, and what computes cells."""
        return (*super().arguments(case, rank), sweep)

    def forbidden(self, case: Case, rank: int, traffic: Traffic) -> str:
        """Every cell is computed once per step, and the inner ones while messages travel."""
        (top, bottom), (left, right) = self.bounds(case, rank)
        rows, columns = bottom - top, right - left
        assert traffic.swept is not None
        swept, overlapped = traffic.swept
        needed, inner = (
            STEPS * cells for cells in (rows * columns, max(rows - 2, 0) * max(columns - 2, 0))
        )
        if swept != needed:
            return f"process {rank} computed {swept} cells; {needed} are to be computed"
        if overlapped < inner and any(r is not None for r in self.neighbours(case, rank).values()):
            return (
                f"process {rank} computed {overlapped} cells while messages were under way; "
                f"{inner} are possible"
            )
        return super().forbidden(case, rank, traffic)


def sweep(field: np.ndarray, new: np.ndarray, rows: Span, columns: Span) -> None:
    """Let cells of ``new`` become the mean of five of ``field``; both (n + 2, m + 2).

    ``rows`` and ``columns``: [low, high) in these arrays; nothing is done if one is empty.
    """
    (top, bottom), (left, right) = rows, columns
    if top >= bottom or left >= right:
        return
    own, across, down = field[top:bottom, left:right], slice(left, right), slice(top, bottom)
    around = field[top - 1 : bottom - 1, across] + field[top + 1 : bottom + 1, across]
    around = around + field[down, left - 1 : right - 1] + field[down, left + 1 : right + 1]
    new[down, across] = 0.2 * (own + around)
    LOG.note_swept((bottom - top) * (right - left))


LESSON = Overlap()
