"""The blocks of AMR: of the background, which exist always, and of refinements, which come and go.

What remains of a refinement when it ends is in a message that each of its blocks posts in its last
step, to the block of the background under its first point, which adds it up.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from miniapps import kernels
from miniapps.amr import plain
from miniapps.amr.layout import BACKGROUND, CORNERS, FACES, AmrLayout, refinement
from miniapps.amr.problem import HASH, POINTS, ROW, WRONG, AmrProblem
from miniapps.arrays import ghosted, realigned
from miniapps.contract import (
    Checkpoint,
    Collect,
    Edge,
    Index,
    Measure,
    Peer,
    Piece,
    Post,
    Saved,
)
from miniapps.decomposition import Bounds
from miniapps.devices.backend import Device
from miniapps.devices.messages import packed
from miniapps.grid import noise, slabs
from miniapps.kernel_user import KernelUser
from miniapps.kernels.amr import REACH
from miniapps.kernels.halo.interface import Region, box
from miniapps.kernels.state_hash import hash_cells

Requests = Generator[Any, Any, Any]
STEPS = 2.0**plain.BITS  # in which random numbers of the start lie in [0, 1)


class Patch(KernelUser[Any]):
    """A box of points of the background or of a refinement, with ghosts: values and sums.

    ``shape``: of the whole grid; ``scale``: 1 over its spacing.
    """

    kind: str
    neighbors: dict[Edge, Peer]

    def __init__(
        self, problem: AmrProblem, index: Index, device: Device, bounds: Bounds,
        shape: tuple[int, ...], scale: int,
    ) -> None:  # fmt: skip
        self.problem, self.index, self.device = problem, index, device
        self.bounds, self.shape, self.scale = bounds, shape, scale
        self.time = 0
        self.values, self.own = self.empty()
        self.sums, _ = self.empty()
        self.faces = tuple(edge for edge in FACES if edge in self.neighbors)
        self.halo = self._halo()

    def __getstate__(self) -> dict[str, Any]:
        """Attributes without kernels and halo, which are faster to rebuild."""
        state = super().__getstate__()
        del state["halo"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the block after a migration, with arrays aligned to cache lines."""
        self.__dict__.update(state)
        self.values, self.sums = realigned(self.values), realigned(self.sums)
        self.halo = self._halo()

    def begins(self, step: int) -> None:
        """Note the step in which the block begins."""
        self.time = step

    def empty(self) -> tuple[np.ndarray, Region]:
        """An array of zeros, and the region of the block's own points in it."""
        cells = [high - low for low, high in self.bounds]
        return ghosted(cells, [(REACH, REACH)] * 2, 1)

    def _halo(self) -> Any:
        """The kernels that pack faces and unpack ghosts, for this block's regions."""
        inside, outside = ({edge: self.beside(edge, n) for edge in self.faces} for n in (0, REACH))
        return kernels.load("halo", self.device.name).Halo(self.device, inside, outside)

    def beside(self, edge: Edge, beyond: int) -> Region:
        """Its own points beside the face at ``edge``; or the ghosts, ``beyond`` them.

        Along the face only those that the stencil uses.
        """
        region: list[int] = []
        active = self.region(self.active())
        for axis, side in enumerate(edge):
            low, high = self.own[2 * axis], self.own[2 * axis + 1]
            if side < 0:
                region += [low - beyond, low - beyond + REACH]
            elif side > 0:
                region += [high - REACH + beyond, high + beyond]
            else:
                low = active[2 * axis]
                region += [low, max(low, active[2 * axis + 1])]
        return tuple(region)

    def active(self) -> Bounds:
        """The points at which it applies the stencil: none of the whole grid's outermost layers."""
        axes = zip(self.bounds, self.shape, strict=True)
        return tuple((max(low, REACH), min(high, n - REACH)) for (low, high), n in axes)

    def region(self, bounds: Bounds) -> Region:
        """Where the points within some bounds are in the arrays."""
        shifts = [own - low for (low, _), own in zip(self.bounds, self.own[::2], strict=True)]
        pairs = zip(bounds, shifts, strict=True)
        return tuple(at + shift for ends, shift in pairs for at in ends)

    def sweep(self, phase: str) -> Requests:
        """Exchange the halo, add the stencil's results to the sums, and 1 to the values."""
        yield Post(phase, self.halo.pack(self.values))
        self.halo.unpack(self.values, (yield Collect(phase, self.faces)))
        self.kernels.add_stencil(
            self.values, self.sums, float(self.scale), *self.region(self.active())
        )
        self.kernels.add_one(self.values, *self.own)

    # State and checks ----------------------------------------------------------------------------

    def state(self) -> list[Piece]:
        """The block's values and sums."""
        origin = tuple(low for low, _ in self.bounds)
        found = (("values", self.values), ("sums", self.sums))
        own = box(self.own)
        return [Piece(f"{n} of {self.kind}", a[own], origin, self.shape) for n, a in found]

    def resume(self, saved: Saved) -> Requests:
        """Take up values and sums."""
        self.time = saved.step
        self.values[box(self.own)] = saved.cells(f"values of {self.kind}", self.bounds)
        self.sums[box(self.own)] = saved.cells(f"sums of {self.kind}", self.bounds)
        return
        yield  # makes this a generator; it sends no request

    def norm(self) -> float:
        """The sum of the absolute sums at active points, which is exact, as all numbers are."""
        return float(np.abs(self.sums[box(self.region(self.active()))]).sum())

    def row(self) -> np.ndarray:
        """What the block contributes to the checks, (ROW,) int64.

        The number of active points, and how many of the block's values and sums are not what they
        must be.
        """
        found = np.zeros(ROW, np.int64)
        found[POINTS] = self.sums[box(self.region(self.active()))].size
        found[WRONG] = sum(map(self._wrong, slabs(self.bounds)))
        return found

    def _wrong(self, bounds: Bounds) -> int:
        """The number of wrong values and sums within some bounds.

        From the linear start the sums are all alike, which is found much faster.
        """
        if self.problem.initial == "linear":
            return self._wrong_of_linear(bounds)
        start = self.started(tuple((low - REACH, high + REACH) for low, high in bounds))
        inner = box((REACH, -REACH) * 2)
        values, sums = (array[box(self.region(bounds))] for array in (self.values, self.sums))
        right = np.zeros_like(sums)
        axes = zip(bounds, self.active(), strict=True)
        active = tuple(slice(max(a - low, 0), max(b - low, 0)) for (low, _), (a, b) in axes)
        right[active] = self.swept() * self.scale * plain.stencil(start)[active]
        wrong = (values != start[inner] + self.swept()), (sums != right)
        return int(sum(map(np.count_nonzero, wrong)))

    def _wrong_of_linear(self, bounds: Bounds) -> int:
        """The same from the start x + y."""
        values, sums = (array[box(self.region(bounds))] for array in (self.values, self.sums))
        x, y = np.ix_(*(np.arange(*ends) / self.scale for ends in bounds))
        wrong = np.count_nonzero(values != x + (y + (self.origin() + self.swept())))
        axes = zip(bounds, self.active(), strict=True)
        active = tuple(slice(max(a - low, 0), max(b - low, 0)) for (low, _), (a, b) in axes)
        right = np.count_nonzero(sums[active] == plain.SLOPE * self.swept())
        still = np.count_nonzero(sums == 0.0) - np.count_nonzero(sums[active] == 0.0)
        return int(wrong + sums.size - right - still)

    def origin(self) -> int:
        """The first value of the grid as it began, if the start is linear."""
        raise NotImplementedError

    def started(self, bounds: Bounds) -> np.ndarray:
        """The values with which the grid began, from the formula; beyond the grid, any numbers."""
        raise NotImplementedError

    def swept(self) -> int:
        """How often the grid has been swept."""
        raise NotImplementedError


class Background(Patch):
    """A block of the background."""

    kind = BACKGROUND

    def __init__(
        self, problem: AmrProblem, layout: AmrLayout, index: Index, device: Device
    ) -> None:
        self.neighbors = layout.coarse_neighbors(index)
        super().__init__(problem, index, device, layout.bounds(index), problem.size, 1)
        self.values[box(self.own)] = start(problem, self.bounds)
        self.ended = np.zeros((CORNERS, ROW), np.int64)  # what refinements have left here
        self.ended_norms = np.zeros(CORNERS)
        # By corner: the points that blocks of the refinement begin from, and those that end here.
        self.given: list[dict[Edge, Region]] = [{} for _ in range(CORNERS)]
        self.heir: list[list[Edge]] = [[] for _ in range(CORNERS)]
        for edge, peer in self.neighbors.items():
            if peer.kind != BACKGROUND:
                pairs = zip(layout.needed(peer.block), self.bounds, strict=True)
                part = tuple((max(a, low), min(b, high)) for (a, b), (low, high) in pairs)
                self.given[peer.block[0]][edge] = self.region(part)
                if layout.under(peer.block)[0] == tuple(index):
                    self.heir[peer.block[0]].append(edge)

    def step(self, count: int) -> Requests:
        """Give a refinement that begins its values, sweep once, and hear from one that ends."""
        born, ended = self.problem.begins_at(self.time), self.problem.ends_after(self.time)
        if born is not None:
            parts = self.given[born].items()
            yield Post("birth", {edge: packed(self.values[box(part)]) for edge, part in parts})
        yield from self.sweep("halo")
        if ended is not None:
            came = yield Collect("end", tuple(self.heir[ended]))
            for norm, *row in came.values():
                self.ended_norms[ended] += norm.view(np.float64)
                self.ended[ended] += np.array(row)
        self.time += 1
        return False

    def checkpoint(self) -> Checkpoint:
        """What refinements have left."""
        norms = Measure("sum", self.ended_norms)
        return Checkpoint(totals={"ended": Measure("sum", self.ended), "ended norms": norms})

    def resume(self, saved: Saved) -> Requests:
        """Take up values, sums, and what refinements have left."""
        self.ended = np.zeros_like(self.ended) + saved.total("ended")
        self.ended_norms = np.zeros(CORNERS) + saved.total("ended norms")
        yield from super().resume(saved)

    def measure(self) -> dict[str, Measure]:
        """Norm and row of the background, and those that refinements have left."""
        return {
            "norms": Measure("sum", np.array([self.norm(), *self.ended_norms])),
            "grids": Measure("sum", np.vstack([self.row(), self.ended])),
        }

    def origin(self) -> int:
        """0 at the lowest point."""
        return 0

    def started(self, bounds: Bounds) -> np.ndarray:
        """The start of the background."""
        return plain.start_at(self.problem, *(np.arange(*ends) for ends in bounds))

    def swept(self) -> int:
        """Once in each step."""
        return self.time


class Refinement(Patch):
    """A block of a refinement."""

    def __init__(
        self, problem: AmrProblem, layout: AmrLayout, index: Index, device: Device
    ) -> None:
        self.corner = index[0]
        self.kind = refinement(self.corner)
        self.neighbors = layout.fine_neighbors(index)
        bounds, scale = layout.fine_bounds(index), problem.expand
        super().__init__(problem, index, device, bounds, problem.fine_shape, scale)
        self.needed = layout.needed(index)
        self.below = {
            edge: tuple(
                (max(low, a) - a, min(high, b) - a)
                for (low, high), (a, b) in zip(layout.bounds(peer.block), self.needed, strict=True)
            )
            for edge, peer in self.neighbors.items()
            if peer.kind == BACKGROUND
        }
        self.heir = next(iter(self.below))

    def step(self, count: int) -> Requests:
        """Interpolate the values in the first step, sweep, and report in the last step."""
        if self.problem.begins_at(self.time) is not None:
            self.interpolate((yield Collect("birth", tuple(self.below))))
        for sweep in range(self.problem.sub_iterations):
            yield from self.sweep(f"sweep {sweep}")
        self.time += 1
        if self.problem.ends_after(self.time - 1) is not None:
            yield Post("end", {self.heir: self.last_row()})
        return False

    def interpolate(self, came: dict[Edge, np.ndarray]) -> None:
        """Set the values from those of the background's points."""
        coarse = np.empty([high - low for low, high in self.needed])
        for edge, part in came.items():
            coarse[tuple(slice(*ends) for ends in self.below[edge])] = part
        for axis, (low, high) in enumerate(self.bounds):
            coarse = between(coarse, axis, self.scale, low, high)
        self.values[box(self.own)] = coarse

    def last_row(self) -> np.ndarray:
        """What remains of the block: the bits of its norm, its row, and the hash of its state."""
        found = self.row()
        for name, values, origin, shape, _ in self.state() if self.problem.is_hashed else ():
            found[HASH] += hash_cells(name, values, origin or (), shape).view(np.int64)
        return np.array([np.float64(self.norm()).view(np.int64), *found])

    def checkpoint(self) -> Checkpoint:
        """Nothing beside the state."""
        return Checkpoint()

    def measure(self) -> dict[str, Measure]:
        """Its norm and row, at the place of its corner."""
        norms, rows = np.zeros(1 + CORNERS), np.zeros((1 + CORNERS, ROW), np.int64)
        norms[1 + self.corner], rows[1 + self.corner] = self.norm(), self.row()
        return {"norms": Measure("sum", norms), "grids": Measure("sum", rows)}

    def origin(self) -> int:
        """The background's lowest point under it, as it was when the refinement began."""
        return sum(self.problem.corners[self.corner]) + self.born

    @property
    def born(self) -> int:
        """The step in which it began."""
        return (self.time - 1) // self.problem.period * self.problem.period

    def started(self, bounds: Bounds) -> np.ndarray:
        """The values interpolated from the background's as it was when the refinement began."""
        first = self.problem.corners[self.corner]

        def at(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return plain.start_at(self.problem, x + first[0], y + first[1]) + self.born

        return plain.bilinear(at, bounds, self.scale)

    def swept(self) -> int:
        """So many times in each step since it began."""
        return (self.time - self.born) * self.problem.sub_iterations


def start(problem: AmrProblem, bounds: Bounds) -> np.ndarray:
    """The background at step 0 on a box of points: x + y, or random numbers of few bits."""
    x, y = np.ix_(*(np.arange(*ends) for ends in bounds))
    if problem.initial == "linear":
        return (x + y).astype(float)
    return np.floor(noise(x * problem.size[1] + y) * STEPS) / STEPS


def between(values: np.ndarray, axis: int, expand: int, low: int, high: int) -> np.ndarray:
    """Interpolate along an axis: ``expand`` points for one, of which those from low to high.

    ``values`` begin at the last of their points that is not behind ``low``.
    """
    at, part = np.divmod(np.arange(low, high) - low // expand * expand, expand)
    weight = (part / expand).reshape((-1, 1) if axis == 0 else (1, -1))
    before = values.take(at, axis)
    after = values.take(np.minimum(at + 1, values.shape[axis] - 1), axis)
    return after * weight + before * (1.0 - weight)
