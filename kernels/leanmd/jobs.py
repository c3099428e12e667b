"""What computes ask for on a GPU: forces of pairs of cells, of all that wait by one launch.

A launch has a table of 64-bit words, which one copy takes to the device: an alarm for each job, a
row for each job, and for each thread block the number of its job. A row says where the job's arrays
lie and where the sum that it adds to: kernels so read memory of many blocks.

Positions are shifted in the kernel, by what the atoms of one cell are moved less what those of the
other are. That, like either sum alone, is exact (see
`kernels.leanmd.cpu`), so the bits are the same.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from devices.cuda import memory
from devices.cuda.sums import Job, Report, pool
from kernels.leanmd.units import CLOSE, QUIET

JOB_THREADS = 32  # of a thread block; few, as the last one of each job is not full

# The words of a row: addresses and sizes, the first thread block, and float64: shift and cutoff^2.
POSITION, COLUMNS, OTHERS, OTHER_COLUMNS, STARTS, NEIGHBORS, ENTRIES, FORCE, PLACES, OWN, BLOCK = (
    range(11)
)
SHIFT, CUTOFF2, WORDS = 11, 14, 15
ROW = struct.Struct("=11q4d")
NO_SHIFT = [0.0, 0.0, 0.0]


class PairForces(Job):
    """Forces on the atoms of a cell, from those of another or its own."""

    def __init__(
        self, kernel: Any, shape: tuple[int, int], position: Any, others: Any, lists: Any,
        own: bool, cutoff: float, heed: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.kernel, self.shape, self.position, self.others = kernel, shape, position, others
        self.starts, self.neighbors = lists
        self.own, self.cutoff, self.heed = own, cutoff, heed
        self.reads = position.parcel.bundle, others.parcel.bundle
        pool().follow(self.starts)  # written last

    @property
    def blocks(self) -> int:
        """Thread blocks that do it."""
        return -(-self.shape[1] // JOB_THREADS)

    def row(self, block: int, into: Any) -> tuple[Any, ...]:
        """Its row of the table, from the thread block of that number on."""
        position, others = self.position, self.others
        shift = NO_SHIFT
        if position.over is not others.over:
            shift = [a - b for a, b in zip(position.over, others.over, strict=True)]
        return (
            position.parcel.address, position.shape[1], others.parcel.address, others.shape[1],
            memory.address(self.starts), memory.address(self.neighbors), self.neighbors.size,
            into.address, self.shape[1], self.own, block, *shift, self.cutoff * self.cutoff,
        )  # fmt: skip

    @staticmethod
    def launch(jobs: list[tuple[Any, Any]], stream: Any) -> Report:
        """Launch the kernel that does some jobs and adds what they find to parcels."""
        (kernel,) = {job.kernel for job, _ in jobs}
        count, blocks = len(jobs), [job.blocks for job, _ in jobs]
        firsts = list(itertools.accumulate(blocks, initial=0))
        size = count * (1 + WORDS) + firsts[-1]
        table = stream.toolkit.pinned(8 * size).view(np.int64)
        table[:count] = QUIET[CLOSE]
        for number, (job, into) in enumerate(jobs):
            place = 8 * (count + number * WORDS)
            ROW.pack_into(table.data, place, *job.row(firsts[number], into))
        table[count * (1 + WORDS) :] = np.repeat(np.arange(count), blocks)
        words = memory.empty(size, np.int64, stream)
        words.copy_to_device(table, stream=stream)
        if firsts[-1]:
            kernel[firsts[-1], JOB_THREADS, stream](words, count)
        words[:count].copy_to_host(table[:count], stream=stream)

        def report() -> None:
            for number in np.flatnonzero(table[:count] != QUIET[CLOSE]):
                jobs[number][0].heed(int(table[number]))

        return report
