"""One block of the matrix transpose: columns of A and B."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from miniapps.arrays import aligned_zeros, realigned
from miniapps.contract import Checkpoint, Collect, Index, Measure, Piece, Post, Saved
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.kernel_user import KernelUser
from miniapps.kernels.transpose.interface import TransposeKernels
from miniapps.problem import steps_of
from miniapps.transpose.problem import TransposeProblem

SLAB_ELEMENTS = 1 << 17  # that are compared at a time: 1 MiB


class TransposeBlock(KernelUser[TransposeKernels]):
    """Some columns: ``a[j, i]`` is A(i, low + j), and so is ``b``.

    Every block has an edge to every other one, by its distance: (-2, 0) leads to the second one
    before it.
    """

    kind = "block"
    arrays = "a", "b"

    def __init__(
        self, problem: TransposeProblem, layout: Layout, index: Index, device: Device
    ) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.together = self.work_together(layout)
        self.bounds = layout.bounds(index)
        (self.low, self.high), (_, self.order) = self.bounds
        others = [(n - index[0], 0) for n in range(layout.grid[0]) if n != index[0]]
        self.neighbors = layout.peers(index, others)
        self.columns = {edge: layout.bounds(peer.block)[0] for edge, peer in self.neighbors.items()}
        self.own = 0, self.high - self.low, 0, self.order
        self.a, self.b = (device.to_device(values) for values in self._start())
        self.time = 0  # steps made

    def _start(self) -> tuple[np.ndarray, np.ndarray]:
        """A and B at step 0: A(i, j) = N j + i, in memory the numbers from 0 on, and B = 0."""
        shape = self.high - self.low, self.order
        a = aligned_zeros(shape, float)
        a[...] = np.arange(self.low * self.order, self.high * self.order).reshape(shape)
        return a, aligned_zeros(shape, float)

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Send the others their rows, turn the own ones meanwhile, and add what comes."""
        own = self.high - self.low
        shapes = {edge: (own, high - low) for edge, (low, high) in self.columns.items()}
        messages = self.device.messages(shapes, np.float64)
        yield from self.at_once(self.kernels.take, self.a, self.columns, messages)
        yield Post("rows", messages)
        yield from self.at_once(self.kernels.turn, self.a, self.b, self.low)
        came = yield Collect("rows", tuple(self.columns))
        for edge, (rows, wide) in shapes.items():  # beyond the end of long ones, memory ends too
            if came[edge].nbytes != 8 * rows * wide:
                raise ValueError(f"{came[edge].nbytes} bytes from {edge}, not {8 * rows * wide}")
        messages = self.device.received(came)
        yield from self.at_once(self.kernels.add, self.b, self.columns, messages)
        self.time += count
        return False

    def state(self) -> list[Piece]:
        """The block's columns of A and B."""
        shape = self.order, self.order
        return [
            Piece(name, self.device.to_host(values), (self.low, 0), shape)
            for name, values in (("a", self.a), ("b", self.b))
        ]

    def checkpoint(self) -> Checkpoint:
        """What the block needs beside `state` to go on later: nothing."""
        return Checkpoint()

    def resume(self, saved: Saved) -> None:
        """Take up the columns of a checkpoint."""
        self.time = saved.step
        columns = (realigned(saved.cells(name, self.bounds)) for name in "ab")
        self.a, self.b = map(self.device.to_device, columns)

    def measure(self) -> dict[str, Measure]:
        """The sums of the differences of A and B from what they must be after the steps made."""
        a, b = self.device.to_host(self.a), self.device.to_host(self.b)
        columns = max(1, SLAB_ELEMENTS // self.order)
        slabs = range(self.low, self.high, columns)
        found = sum(self._differences(a, b, first, first + columns) for first in slabs)
        elements = (self.high - self.low) * self.order
        sums = {"differences": Measure("sum", found), "elements": Measure("sum", elements)}
        return sums | steps_of(self)

    def _differences(self, a: np.ndarray, b: np.ndarray, first: int, end: int) -> np.ndarray:
        """Those of some columns, from ``first`` on: (2,)."""
        n, s = self.order, self.time
        j = np.arange(first, min(end, self.high), dtype=float)[:, np.newaxis]
        i = np.arange(n, dtype=float)
        right = n * j + i + s, (n * i + j) * s + s * (s - 1) / 2
        here = slice(first - self.low, end - self.low)
        return np.array([np.abs(x[here] - y).sum() for x, y in zip((a, b), right, strict=True)])
