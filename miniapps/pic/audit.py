"""The audit of PIC: a sample of particles is followed from its start through the whole run.

Sampled are the ids with certain low bits, which a block finds in one pass. Their start is drawn
again, and the reference solution's program pushes them; every bit must agree, in whichever block
the particle is. Which of them are present follows from integers. The numbers of particles in a
sample of columns are drawn again too. docs/pic.md says what this detects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from miniapps.audit import BaseAudit, Contribution, Found
from miniapps.contract import Check, Measure, Piece
from miniapps.decomposition import Layout
from miniapps.pic.followed import Followed, Start

PARTICLES_PER_SAMPLE = 8  # following 100 particles takes hardly longer than following one
CELLS = 1 << 21  # cells whose particles are drawn again, about: 0.1 s
STEPS = 2000  # most steps that are computed again between two audited rounds: 0.1 s
ERROR_LIMIT = 1e-6  # cells, and cells per step; the Parallel Research Kernels' epsilon
CHUNK = 1 << 15  # particles that a block looks at together, so that they stay in cache
FLOATS = ("x", "y", "vx", "vy", "charge")


class Audit(BaseAudit):
    """Follows the particles whose id has ``low_bits`` where ``mask`` is 1; counts ``columns``."""

    def __init__(self, problem: Any, layout: Layout, seed: int, samples: int) -> None:
        super().__init__(problem, layout, seed, samples)
        columns = min(problem.size, max(samples, CELLS // problem.size))
        total = problem.particles + sum(event.particles for event in problem.events)
        parts = total // min(PARTICLES_PER_SAMPLE * samples, columns)
        self.mask = (1 << max(0, parts.bit_length() - 1)) - 1
        self.low_bits = self.random.randrange(self.mask + 1)
        self.columns = sorted(self.random.sample(range(problem.size), columns))
        self.followed: Followed | None = None
        self.placed = 0
        self.sums = np.zeros(2, np.uint64)

    # What blocks contribute ----------------------------------------------------------------------

    def begin(self, block: Any, step: int, count: int) -> Contribution:
        """The block's sampled particles; at the start also how many are in each column."""
        found = self.end(block, step, count)
        if step == 0:
            size = self.problem.size
            counts = np.zeros(size, np.int64)
            for x in chunks(block.particles.on_host("x")):
                counts += np.bincount(x.astype(np.int64).clip(0, size - 1), minlength=size)
            (columns,) = counts.nonzero()
            found["columns"] = Measure("join", np.stack([columns, counts[columns]], axis=1))
        return found

    def end(self, block: Any, step: int, count: int) -> Contribution:
        """The block's sampled particles; the number of all, and the sum of their ids."""
        mine, to_host = block.particles, block.device.to_host
        ids = mine.on_host("ids")
        places = self._sampled(ids)
        rows = np.empty((len(places), 1 + len(FLOATS)), np.int64)
        for row, n in zip(rows, places, strict=True):
            row[0] = ids[n]
            row[1:] = [to_host(getattr(mine, name)[n : n + 1]).view(np.int64)[0] for name in FLOATS]
        sums = np.array([len(ids), ids.view(np.uint64).sum()], np.uint64)
        return {"particles": Measure("join", rows), "sums": Measure("sum", sums)}

    def _sampled(self, ids: np.ndarray) -> list[int]:
        """Where the sampled ids are among these."""
        found = [(chunk & self.mask) == self.low_bits for chunk in chunks(ids)]
        return [CHUNK * n + int(at) for n, some in enumerate(found) for at in some.nonzero()[0]]

    def misstated(self, block: Any, pieces: Sequence[Piece]) -> int:
        """The number of sampled particles that are not as in the block."""
        (piece,) = pieces
        assert piece.ids is not None
        places = self._sampled(piece.ids)
        values = np.ascontiguousarray(piece.values[places]).view(np.int64)
        stated = np.column_stack([piece.ids[places], values]).tolist()
        held = self.end(block, 0, 0)["particles"].value.tolist()
        return sum(a != b for a, b in zip_longest(sorted(stated), sorted(held)))

    # What they must be ---------------------------------------------------------------------------

    def validate(self, step: int, count: int, began: Found, ended: Found) -> list[Check]:
        """Compare the sampled particles before and after the round; at step 0 also the columns."""
        checks = []
        if step == 0:
            checks.append(self._validate_start(began["columns"].value))
        elif self.followed is None and self.start:
            start = Start(self.problem)
            self._follow(np.array([start.column(x).sum() for x in range(self.problem.size)]))
        followed, self.sums = self.followed, ended["sums"].value
        if followed is None:  # a check of every audit reports that the first round is missing
            return []
        if step - followed.time > STEPS:
            followed.jump(step, began["particles"].value)
        differ, errors = 0, []
        for time, measures in ((step, began), (step + count, ended)):
            followed.push(time)
            differ += followed.differing(measures["particles"].value)
            errors.append(followed.error(measures["particles"].value))
        return [
            *checks,
            Check("audit: particles that differ", float(differ), 0),
            Check("audit: distance from exact positions", float(np.max(errors)), ERROR_LIMIT),
        ]

    def _validate_start(self, columns: np.ndarray) -> Check:
        """Draw the sample's start, given the numbers of particles in ``columns``, (n, 2) int64."""
        counts = np.zeros(self.problem.size, np.int64)
        np.add.at(counts, *columns.T)
        self._follow(counts)
        start = Start(self.problem)
        wrong = [x for x in self.columns if start.column(x).sum() != counts[x]]
        return Check("audit: columns that differ", float(len(wrong)), 0)

    def _follow(self, counts: np.ndarray) -> None:
        """Follow the sample, given how many particles begin in each column."""
        self.placed = int(counts.sum())
        self.followed = Followed(self.problem, counts, self.mask + 1, self.low_bits)

    def validate_results(
        self, steps: int, measures: Found, results: Mapping[str, Any]
    ) -> list[Check]:
        """Compare the reported numbers of particles, and the sum of ids, with plain sums."""
        off = (self.sums - measures["ids"].value[:2]).view(np.int64)
        placed = results["particles_placed"] - self.placed
        return [
            Check("audit: particles placed", float(abs(placed)), 0),
            Check("audit: sums of ids", float(np.abs(off.astype(np.float64)).max()), 0),
        ]


def chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The array in pieces of `CHUNK`."""
    for at in range(0, len(array), CHUNK):
        yield array[at : at + CHUNK]
