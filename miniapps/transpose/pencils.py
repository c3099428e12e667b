"""One block of the Fourier transform: a pencil of lines along one axis, then along another."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from miniapps.contract import Checkpoint, Collect, Edge, Index, Measure, Piece, Post, Saved
from miniapps.decomposition import Bounds, Layout, split
from miniapps.devices.backend import Device
from miniapps.grid import noise, slabs
from miniapps.kernel_user import KernelUser
from miniapps.kernels.pencils import PencilKernels
from miniapps.problem import steps_of
from miniapps.transpose.problem import TransposeProblem

FEW = 256  # terms of a sum that BLAS adds up, with a rounding error for each
Lines = np.ndarray  # complex128, C order, along the last of three axes
Span = tuple[int, int]
Put = Callable[[Lines, int, int, Lines, int], None]


@dataclass(frozen=True)
class Side:
    """How blocks that exchange share an axis, while lines go along another one.

    ``own``: the block's part; ``others``: those of the others by edge; ``length``: of all.
    """

    own: Span
    others: Mapping[Edge, Span]
    length: int

    @property
    def wide(self) -> int:
        """The points of the block's part."""
        return self.own[1] - self.own[0]


class PencilBlock(KernelUser[PencilKernels]):
    """Lines along z at first, then along y, then along x; and back.

    The blocks are a grid of P x Q. Block (i, j) has some x and some y, as the layout says, and all
    z. Of the lines along y it has the same x, and part j of Q of z; of those along x the same z,
    and part i of P of y. Between the first two it exchanges with the blocks (i, .), between the
    other two with (., j). The arrays are (x, y, z), (z, x, y) and (y, z, x).
    """

    kind = "block"
    rebuilt = ("memory",)

    def __init__(
        self, problem: TransposeProblem, layout: Layout, index: Index, device: Device
    ) -> None:
        self.problem, self.index, self.device = problem, index, device
        self.bounds = layout.bounds(index)
        edges = [
            tuple(n - index[axis] if axis == along else 0 for axis in range(3))
            for along in (0, 1)
            for n in range(layout.grid[along])
            if n != index[along]
        ]
        self.neighbors = layout.peers(index, edges)
        self.x, self.y_of_x = self._sides(layout, 0)
        self.y, self.z_of_y = self._sides(layout, 1)
        self.lines = field(problem, self.bounds)
        self.waves = (0, self.x.length), self.y_of_x.own, self.z_of_y.own
        self.spectrum = np.zeros((self.y_of_x.wide, self.z_of_y.wide, self.x.length), complex)
        self.time = 0  # steps made

    def _sides(self, layout: Layout, axis: int) -> tuple[Side, Side]:
        """How blocks share an axis, and how they share the next one when lines go along this one.

        They exchange when lines along the next axis give way to lines along this one, and back.
        """
        parts, size = layout.grid[axis], self.problem.size
        others = {edge: peer.block for edge, peer in self.neighbors.items() if edge[axis]}
        here = {edge: layout.bounds(block)[axis] for edge, block in others.items()}
        there = {
            edge: split(0, size[axis + 1], parts, block[axis]) for edge, block in others.items()
        }
        own = split(0, size[axis + 1], parts, self.index[axis])
        return Side(self.bounds[axis], here, size[axis]), Side(own, there, size[axis + 1])

    @cached_property
    def memory(self) -> tuple[Lines, Lines, Lines]:
        """Memory for lines in every step: of the field, along y, and of the spectrum.

        New memory would be filled with zeros by the system first.
        """
        x, y, z = self.x.wide, self.y.wide, self.z_of_y.wide
        along_z, along_y = x * y * self.z_of_y.length, x * z * self.y.length
        most = max(along_z, along_y, self.y_of_x.wide * z * self.x.length)
        return np.empty(most, complex), np.empty(most, complex), np.empty(most, complex)

    def step(self, count: int) -> Generator[Any, Any, bool]:
        """Transform along z, y and x, and back along x, y and z."""
        transform, (of_field, along, of_spectrum) = self.kernels.transform, self.memory
        along_z = transform(self.lines, False)
        along_y = yield from self.forward("z to y", along_z, self.y, self.z_of_y, along)
        along_y = transform(along_y, False)
        along_x = yield from self.forward("y to x", along_y, self.x, self.y_of_x, of_spectrum)
        self.spectrum = transform(along_x, False)
        along_x = shaped(of_field, self.spectrum.shape)
        along_x[...] = self.spectrum
        along_x = transform(along_x, True)
        along_y = yield from self.backward("x to y", along_x, self.x, self.y_of_x, along)
        along_y = transform(along_y, True)
        along_z = yield from self.backward("y to z", along_y, self.y, self.z_of_y, of_field)
        self.lines = transform(along_z, True)
        self.time += count
        return False

    def forward(
        self, phase: str, lines: Lines, new: Side, old: Side, memory: Lines
    ) -> Generator[Any, Any, Lines]:
        """Give others their part of the lines along an axis; returns lines along the one before."""
        found = shaped(memory, (old.wide, lines.shape[0], new.length))
        return self._exchanged(phase, lines, old, new, found, self.kernels.forward)

    def backward(
        self, phase: str, lines: Lines, old: Side, new: Side, memory: Lines
    ) -> Generator[Any, Any, Lines]:
        """Do the reverse."""
        found = shaped(memory, (lines.shape[1], old.wide, new.length))
        return self._exchanged(phase, lines, old, new, found, self.kernels.backward)

    def _exchanged(
        self, phase: str, lines: Lines, old: Side, new: Side, found: Lines, put: Put
    ) -> Generator[Any, Any, Lines]:
        """Cut lines along the old axis into the others' parts, and put lines along the new one."""
        shapes = {edge: (*lines.shape[:2], high - low) for edge, (low, high) in old.others.items()}
        messages = self.device.messages(shapes, complex)
        for edge, (low, _) in old.others.items():
            self.kernels.cut(lines, low, messages[edge])
        yield Post(phase, messages)
        put(lines, *old.own, found, new.own[0])
        came = yield Collect(phase, tuple(old.others))
        for edge, part in came.items():
            put(part, 0, part.shape[2], found, new.others[edge][0])
        return found

    def state(self) -> list[Piece]:
        """The block's points of the field, and its waves of the last spectrum."""
        pieces = []
        for of, (values, bounds) in self.fields().items():
            where = tuple(low for low, _ in bounds), self.problem.size
            for name, part in (("imaginary", values.imag), ("real", values.real)):
                pieces.append(Piece(of + name, np.ascontiguousarray(part), *where))
        return pieces

    def fields(self) -> dict[str, tuple[np.ndarray, Bounds]]:
        """Field and last spectrum, by how their names begin: views as (x, y, z), and bounds."""
        spectrum = self.spectrum.transpose(2, 0, 1)
        return {"": (self.lines, self.bounds), "spectrum ": (spectrum, self.waves)}

    def checkpoint(self) -> Checkpoint:
        """What the block needs beside `state` to go on later: nothing."""
        return Checkpoint()

    def resume(self, saved: Saved) -> None:
        """Take up the field and the spectrum of a checkpoint."""
        self.time = saved.step
        for of, (values, bounds) in self.fields().items():
            values.real = saved.cells(f"{of}real", bounds)
            values.imag = saved.cells(f"{of}imaginary", bounds)

    def measure(self) -> dict[str, Measure]:
        """The sums of the squares of field, spectrum, what has changed, and the field at first."""
        found = np.zeros(4)
        found[1] = square(self.spectrum)
        (first, _), *rest = self.bounds
        for slab in slabs(self.bounds):
            (low, high), *_ = slab
            here, before = self.lines[low - first : high - first], field(self.problem, slab)
            found[[0, 2, 3]] += square(here), square(here - before), square(before)
        return {"squares": Measure("sum", found)} | steps_of(self)


def shaped(memory: Lines, shape: tuple[int, ...]) -> Lines:
    """Lines in the first part of some memory."""
    return memory[: math.prod(shape)].reshape(shape)


def square(numbers: np.ndarray) -> float:
    """The sum of the squares of absolute values of a contiguous array."""
    parts = np.array_split(numbers.reshape(-1), 1 + numbers.size // FEW)
    return math.fsum(float(np.vdot(part, part).real) for part in parts)


def field(problem: TransposeProblem, bounds: Bounds) -> Lines:
    """The field at step 0 in a box of points: both parts in [-0.5, 0.5), by the points' numbers."""
    _, rows, columns = problem.size
    found = np.empty([high - low for low, high in bounds], complex)
    for slab in slabs(bounds):
        x, y, z = np.ix_(*(np.arange(low, high) for low, high in slab))
        number = 2 * ((x * rows + y) * columns + z)
        here = found[slab[0][0] - bounds[0][0] : slab[0][1] - bounds[0][0]]
        here.real, here.imag = noise(number) - 0.5, noise(number + 1) - 0.5
    return found
