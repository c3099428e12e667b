"""What the *pairs* decomposition of LeanMD needs besides, on the GPU."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from devices.cuda.compiler import cuda, from_bits, kernel, viewer
from devices.cuda.primitives import _threads
from kernels.leanmd.gpu.interactions import (
    CLOSEST2,
    WIDTH,
    _alarm,
    _felt,
    _felt_in_single,
)
from kernels.leanmd.gpu.motion import _numbers
from kernels.leanmd.jobs import (
    BLOCK,
    COLUMNS,
    CUTOFF2,
    ENTRIES,
    FORCE,
    JOB_THREADS,
    NEIGHBORS,
    NO_SHIFT,
    OTHER_COLUMNS,
    OTHERS,
    OWN,
    PLACES,
    POSITION,
    SHIFT,
    STARTS,
    WORDS,
    PairForces,
)

_rows, _sums = viewer("float64", 3), viewer("int64", 3)
_offsets, _indices = viewer("int64"), viewer("uint32")


def _jobs_by(felt_by: Any) -> Any:
    """The kernel for `PairForces`, with what atoms feel."""

    @kernel("void(int64[::1], uint32)")
    def by_job(words, jobs):  # type: ignore[no-untyped-def]
        """The jobs of a table, as `leanmd_jobs` writes it; each has thread blocks of its own."""
        block = np.uint64(cuda.blockIdx.x)
        job = np.uint64(words[np.uint64(jobs * (1 + WORDS)) + block])
        row = np.uint64(jobs) + job * np.uint64(WORDS)
        places = words[row + np.uint64(PLACES)]
        thread = np.uint64(cuda.threadIdx.x)
        i = (block - np.uint64(words[row + np.uint64(BLOCK)])) * np.uint64(JOB_THREADS) + thread
        if i >= np.uint64(places):
            return
        member, k = i % np.uint64(WIDTH), i // np.uint64(WIDTH)
        starts = _offsets(words[row + np.uint64(STARTS)], places // WIDTH + 1)
        n, last = np.uint64(starts[k]), np.uint64(starts[k + np.uint64(1)])
        own = words[row + np.uint64(OWN)] != 0
        if n == last and not own:
            return
        position = _rows(words[row + np.uint64(POSITION)], words[row + np.uint64(COLUMNS)])
        fx, fy, fz, closest = felt_by(
            position[0, i] + from_bits(words[row + np.uint64(SHIFT)]),
            position[1, i] + from_bits(words[row + np.uint64(SHIFT + 1)]),
            position[2, i] + from_bits(words[row + np.uint64(SHIFT + 2)]),
            _rows(words[row + np.uint64(OTHERS)], words[row + np.uint64(OTHER_COLUMNS)]),
            _indices(words[row + np.uint64(NEIGHBORS)], words[row + np.uint64(ENTRIES)]),
            n, last, i - member, member, own, from_bits(words[row + np.uint64(CUTOFF2)]),
        )  # fmt: skip
        force = _sums(words[row + np.uint64(FORCE)], places)
        cuda.atomic.add(force, (np.uint64(0), i), fx)
        cuda.atomic.add(force, (np.uint64(1), i), fy)
        cuda.atomic.add(force, (np.uint64(2), i), fz)
        if closest < CLOSEST2:
            cuda.atomic.min(words, job, _alarm(closest, i))

    return by_job


_jobs, _jobs_in_single = _jobs_by(_felt), _jobs_by(_felt_in_single)


@kernel("void(uint32, uint32, float64[:, ::1], float64[::1], int64)")
def _tell(height, size, rows, buffer, start):  # type: ignore[no-untyped-def]
    n = np.int64(cuda.grid(1))
    if n < size:
        for row in range(np.int64(height)):
            # The fourth row of a message is the last of an atom's.
            buffer[start + row * size + n] = rows[row if row < 3 else rows.shape[0] - 1, n]


def tell(rows: Any, told: Any) -> None:
    """Fill a message (3, n), or (4, n) with ids, with positions and with the ids' bits."""
    height, size = told.shape
    _tell[_threads(size, rows)](height, size, rows, told.bundle.buffer, told.start)


@kernel("void(uint32, uint32, float64[::1], int64, UniTuple(float64, 3), float64[:, ::1])")
def _shift(height, size, buffer, start, over, into):  # type: ignore[no-untyped-def]
    n = np.int64(cuda.grid(1))
    if n < size:
        for row in range(np.int64(height)):
            value = buffer[start + row * size + n]
            into[row, n] = value + over[row] if row < 3 else value


class Told:
    """What a cell told, as it came, and what is to be added to its positions."""

    def __init__(self, parcel: Any, over: Any, device: Any) -> None:
        self.parcel, self.over, self.device = parcel, over or NO_SHIFT, device
        self.shape = parcel.shape

    @cached_property
    def rows(self) -> Any:
        """An array with the sums; `PairForces` does without."""
        (told,) = self.device.received({(): self.parcel}).values()
        height, size = told.shape
        into = self.device.empty((height, size), np.float64)
        _shift[_threads(size, into)](
            height, size, told.bundle.buffer, told.start, _numbers(self.over), into
        )
        return into


def shifted(told: Any, over: Any, device: Any) -> Told:
    """What a cell told, with ``over`` (3,), or None, added to its positions."""
    return Told(told, over, device)


def rows_of(told: Told) -> Any:
    """What `shifted` gave, as an array."""
    return told.rows


def pair_forces(
    position: Told, others: Told, clusters: Any, starts: Any, neighbors: Any, own: bool,
    cutoff: float, heed: Any,
) -> PairForces:  # fmt: skip
    """The forces on the atoms of all clusters of a cell, not computed yet.

    They are (3, places) int64, where there is a place for each atom and a few more. ``heed`` is
    told if a pair is too close, some time after they have been computed.
    """
    shape, lists = (3, clusters.size * WIDTH), (starts, neighbors)
    return PairForces(_jobs, shape, position, others, lists, own, cutoff, heed)


def pair_forces_in_single(
    position: Told, others: Told, clusters: Any, starts: Any, neighbors: Any, own: bool,
    cutoff: float, heed: Any,
) -> PairForces:  # fmt: skip
    """As `pair_forces`, but what two atoms feel is found in float32, as in `forces_in_single`."""
    shape, lists = (3, clusters.size * WIDTH), (starts, neighbors)
    return PairForces(_jobs_in_single, shape, position, others, lists, own, cutoff, heed)
