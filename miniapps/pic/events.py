"""Events that inject and remove particles during a run, and the motion of injected particles.

An event happens before the step of its number. ``inject`` puts exactly N particles into a patch,
spread evenly over its cells in the order of the cells' numbers. ``remove`` takes all particles in a
patch, or each of them with probability FRACTION; a hash of the particle's id decides, so the result
is the same on every decomposition. Events of one step happen in the order given.

The paper on the Parallel Research Kernels describes such events; their public code has none.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from miniapps.decomposition import Bounds
from miniapps.parameters import integer, require
from miniapps.pic.distribution import check_patch

FORMS = "inject:STEP:N:XL,XR,YB,YT[:K,M] or remove:STEP:XL,XR,YB,YT[:FRACTION]"


@dataclass(frozen=True)
class Motion:
    """How particles move: 2k + 1 cells along x and m along y in every step since ``born``."""

    k: int
    m: int
    born: int

    def shift(self, step: int) -> tuple[int, int]:
        """Cells moved along x and y before ``step``."""
        steps = step - self.born
        return (2 * self.k + 1) * steps, self.m * steps


@dataclass(frozen=True)
class Event:
    """One injection or removal; ``str`` gives its form on the command line.

    ``patch``: inclusive xl, xr, yb, yt. Only injections have ``particles``, ``k`` and ``m`` (None:
    those of the problem), only removals have ``fraction``.
    """

    action: str
    step: int
    patch: tuple[int, ...]
    particles: int = 0
    k: int | None = None
    m: int | None = None
    fraction: float = 1.0

    @classmethod
    def parse(cls, text: str) -> Event:
        """Read an event in its form on the command line. Raises ValueError."""
        action, *words = text.lower().split(":")
        try:
            if action == "inject" and len(words) in (3, 4):
                k, m = integers(words[3], 2) if len(words) == 4 else (None, None)
                return cls(
                    action, integer(words[0]), integers(words[2], 4), integer(words[1]), k, m
                )
            if action == "remove" and len(words) in (2, 3):
                fraction = float(words[2]) if len(words) == 3 else 1.0
                return cls(action, integer(words[0]), integers(words[1], 4), fraction=fraction)
        except ValueError:
            raise ValueError(FORMS) from None
        raise ValueError(FORMS)

    def __str__(self) -> str:
        patch = ",".join(map(str, self.patch))
        if self.action == "inject":
            motion = "" if self.k is None else f":{self.k},{self.m}"
            return f"inject:{self.step}:{self.particles}:{patch}{motion}"
        return f"remove:{self.step}:{patch}:{self.fraction}"

    def check(self, size: int) -> None:
        """Raise InputError if the event is not possible on ``size`` x ``size`` cells."""
        option = "--event"
        require(self.step >= 0, option, self, "STEP must be 0 or more")
        check_patch(option, self, self.patch, size)
        require(self.particles >= 0, option, self, "N must be 0 or more")
        require(0 <= self.fraction <= 1, option, self, "FRACTION must be from 0 to 1")
        require((self.k or 0) >= 0, option, self, "K must be 0 or more")

    def cells(self) -> tuple[int, int, int, int]:
        """The patch as half-open bounds x0, x1, y0, y1."""
        xl, xr, yb, yt = self.patch
        return xl, xr + 1, yb, yt + 1

    def selection(self, number: int) -> tuple[np.uint64, np.uint64] | None:
        """Seed and limit with which removal ``number`` selects ids; None if it takes none.

        A particle is taken if its hash is at most the limit.
        """
        taken = round(self.fraction * 2.0**64)
        if taken == 0:
            return None
        return np.uint64(zlib.crc32(b"removal") + number), np.uint64(min(taken, 1 << 64) - 1)

    def spread(self, own: Bounds, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and cells of the particles that are injected into a block's ``own`` cells.

        Of N particles and a patch of C cells, particle j begins in cell floor(j C / N) of the
        patch. Both are (particles,) int64; numbers count from 0, cells are x L + y.
        """
        x0, x1, y0, y1 = self.cells()
        total, height = (x1 - x0) * (y1 - y0), y1 - y0
        (own_x0, own_x1), (own_y0, own_y1) = own
        low, high = max(y0, own_y0), min(y1, own_y1)
        columns = np.arange(max(x0, own_x0), min(x1, own_x1), dtype=np.int64)
        if self.particles == 0 or low >= high or not columns.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        numbers, cells = [], []
        for column in columns:
            base = (int(column) - x0) * height - y0
            first, end = (-(-(base + row) * self.particles // total) for row in (low, high))
            whole, part = divmod(first * total, self.particles)  # may have more than 64 bits
            more = np.arange(end - first, dtype=np.int64)
            numbers.append(first + more)
            cells.append(column * size + whole - base + (part + more * total) // self.particles)
        return np.concatenate(numbers), np.concatenate(cells)


def integers(text: str, count: int) -> Any:
    """Read ``count`` integers with commas between. Raises ValueError."""
    words = text.split(",")
    if len(words) != count:
        raise ValueError(text)
    return tuple(integer(word) for word in words)
