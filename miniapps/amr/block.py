"""The blocks of AMR: of the background, which exist always, and of refinements, which come and go.

What remains of a refinement when it ends is in a message that each of its blocks posts in its last
step, to the block of the background under its first point, which adds it up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from miniapps.amr import plain
from miniapps.amr.layout import BACKGROUND, CORNERS, FACES, AmrLayout, refinement
from miniapps.amr.problem import HASH, POINTS, ROW, WRONG, AmrProblem
from miniapps.arrays import ghosted
from miniapps.contract import (
    Checkpoint,
    Collect,
    Edge,
    Index,
    Measure,
    Pause,
    Peer,
    Piece,
    Post,
    Requests,
    Saved,
)
from miniapps.decomposition import Bounds
from miniapps.devices.backend import Array, Device, known
from miniapps.grid import noise, slabs
from miniapps.halo_user import HaloUser
from miniapps.kernels.amr import REACH
from miniapps.kernels.amr.interface import AmrKernels
from miniapps.kernels.halo.interface import Region, box
from miniapps.kernels.state_hash import hash_cells
from miniapps.problem import steps_of


class Patch(HaloUser[AmrKernels]):
    """A box of points of the background or of a refinement, with ghosts: values and sums.

    A subclass makes the arrays by `put` when it is created.
    ``shape``: of the whole grid; ``scale``: 1 over its spacing. ``new``: where a sweep puts the
    values; it is ``values`` itself where the kernels sweep in place.
    """

    arrays, rebuilt = ("values", "sums"), ("new", "halo", "births")
    depth = REACH
    kind: str
    neighbors: dict[Edge, Peer]
    time: int  # steps of the run that have been made

    def __init__(
        self, problem: AmrProblem, layout: AmrLayout, index: Index, device: Device,
        bounds: Bounds, shape: tuple[int, ...], scale: int,
    ) -> None:  # fmt: skip
        self.problem, self.index, self.device = problem, index, device
        self.together = self.work_together(layout)
        self.bounds, self.shape, self.scale = bounds, shape, scale
        self.faces = tuple(edge for edge in FACES if edge in self.neighbors)

    def put(self, values: np.ndarray | None = None, sums: np.ndarray | None = None) -> None:
        """Make the arrays, with these values and sums of its own points; 0 if they are None."""
        self._keep(self._array(values), self._array(sums))

    def _array(self, numbers: np.ndarray | None) -> Array:
        """An array on the device with these numbers at its own points, and zeros elsewhere."""
        cells, line = [high - low for low, high in self.bounds], self.device.line
        zeros, self.own = ghosted(cells, [(REACH, REACH)] * 2, 1, self.problem.dtype, line)
        if numbers is None:
            return self.device.zeros_as(zeros)
        zeros[box(self.own)] = numbers
        return self.device.to_device(zeros)

    def _keep(self, values: Array, sums: Array) -> None:
        """Use these arrays on the device."""
        self.values = self.new = values
        self.sums = sums
        if not self.kernels.IN_PLACE:
            self.new = self.device.zeros(values.shape, values.dtype)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the block after a migration."""
        super().__setstate__(state)
        self._keep(self.values, self.sums)

    def begins(self, step: int) -> None:
        """Note the step in which the block begins."""
        self.time = step

    @cached_property
    def halo(self) -> Any:
        """The kernels that pack faces and unpack ghosts."""
        return self.halo_along(self.faces)

    def beside(self, edge: Edge, beyond: int) -> Region:
        """Its own points beside the face at ``edge``; or the ghosts, ``beyond`` them.

        Along the face only those that the stencil uses.
        """
        x0, x1, y0, y1 = super().beside(edge, beyond)
        first, end, left, right = self.region(self.active())
        return (x0, x1, left, max(left, right)) if edge[0] else (first, max(first, end), y0, y1)

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
        yield from self.exchange(phase, self.values)
        active = self.region(self.active())
        self.kernels.sweep(self.values, self.new, self.sums, self.scale, active, self.own)
        self.values, self.new = self.new, self.values

    # State and checks ----------------------------------------------------------------------------

    def state(self) -> list[Piece]:
        """The block's values and sums."""
        return self.pieces(self.device.to_host(self.values), self.device.to_host(self.sums))

    def pieces(self, values: np.ndarray, sums: np.ndarray) -> list[Piece]:
        """The block's points of the whole arrays on the host."""
        origin, own = tuple(low for low, _ in self.bounds), box(self.own)
        found = zip(("values", "sums"), (values, sums), strict=True)
        return [Piece(f"{n} of {self.kind}", a[own], origin, self.shape) for n, a in found]

    def copies(self) -> list[Any]:
        """Begin to copy the whole arrays of values and sums to the host."""
        return [self.device.to_host_later(array) for array in (self.values, self.sums)]

    def resume(self, saved: Saved) -> None:
        """Take up values and sums; `begins` has noted the step."""
        names = (f"{name} of {self.kind}" for name in ("values", "sums"))
        self.put(*(saved.cells(name, self.bounds) for name in names))

    def checked(self) -> Any:
        """Begin to check the block's numbers; returns what `row` waits for."""
        if self.problem.initial != "linear":
            return self.copies()
        (x, _), (y, _) = self.bounds
        first = x / self.scale, y / self.scale + (self.origin() + self.swept())
        return self.kernels.check(
            self.values, self.sums, first, 1 / self.scale, plain.SLOPE * self.swept(),
            self.region(self.active()), self.own,
        )  # fmt: skip

    def row(self, checked: Any) -> tuple[float, np.ndarray]:
        """What the block contributes to the checks, from `checked`: a float, and (ROW,) int64.

        The sum of the absolute sums at active points, which is exact, as all numbers are; the
        number of these points; and how many of its values and sums are not what they must be.
        """
        found, active = np.zeros(ROW, np.int64), self.active()
        found[POINTS] = math.prod(max(0, high - low) for low, high in active)
        if self.problem.initial == "linear":
            norm, found[WRONG] = known(checked)
            return norm, found
        values, sums = map(known, checked)
        found[WRONG] = sum(self._wrong(part, values, sums) for part in slabs(self.bounds))
        return float(np.abs(sums[box(self.region(active))]).sum(dtype=float)), found

    def measures(self, norms: np.ndarray, rows: np.ndarray) -> dict[str, Measure]:
        """What it contributes: norms and rows of all grids, of which it has some."""
        return {"norms": Measure("sum", norms), "grids": Measure("sum", rows)} | steps_of(self)

    def _wrong(self, bounds: Bounds, values: np.ndarray, sums: np.ndarray) -> int:
        """The number of wrong values and sums within some bounds, from any start."""
        part = box(self.region(bounds))
        values, sums = values[part], sums[part]
        axes = zip(bounds, self.active(), strict=True)
        active = tuple(slice(max(a - low, 0), max(b - low, 0)) for (low, _), (a, b) in axes)
        start = self.started(tuple((low - REACH, high + REACH) for low, high in bounds))
        right = np.zeros_like(sums)
        right[active] = self.swept() * self.scale * plain.stencil(start)[active]
        inner = box((REACH, -REACH) * 2)
        wrong = (values != start[inner] + self.swept()), (sums != right)
        return int(sum(map(np.count_nonzero, wrong)))

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
        super().__init__(problem, layout, index, device, layout.bounds(index), problem.size, 1)
        self.put(start(problem, self.bounds))
        self.ended = np.zeros((CORNERS, ROW), np.int64)  # what refinements have left here
        self.ended_norms = np.zeros(CORNERS)
        # By corner: the points that blocks of the refinement begin from, and who reports its end.
        self.given: list[dict[Edge, Region]] = [{} for _ in range(CORNERS)]
        self.reporting: list[list[Edge]] = [[] for _ in range(CORNERS)]
        for edge, peer in self.neighbors.items():
            if peer.kind != BACKGROUND:
                pairs = zip(layout.needed(peer.block), self.bounds, strict=True)
                part = tuple((max(a, low), min(b, high)) for (a, b), (low, high) in pairs)
                self.given[peer.block[0]][edge] = self.region(part)
                if layout.under(peer.block)[0] == tuple(index):
                    self.reporting[peer.block[0]].append(edge)

    def step(self, count: int) -> Requests:
        """Give a refinement that begins its values, sweep once, and hear from one that ends."""
        born, ended = self.problem.begins_at(self.time), self.problem.ends_after(self.time)
        if born is not None:
            yield Post("birth", (yield from self.pack(self.births[born], self.values)))
        yield from self.sweep("halo")
        if ended is not None:
            came = yield Collect("end", tuple(self.reporting[ended]))
            reports = [self.kernels.reported(one) for one in self.device.received(came).values()]
            yield Pause()
            for report in reports:
                norm, *row = known(report)
                self.ended_norms[ended] += norm.view(np.float64)
                self.ended[ended] += np.array(row)
        self.time += 1
        return False

    @cached_property
    def births(self) -> list[Any]:
        """By corner, the kernels that copy the points from which a refinement begins."""
        return [self.copier(regions, {}) for regions in self.given]

    def checkpoint(self) -> Checkpoint:
        """What refinements have left."""
        norms = Measure("sum", self.ended_norms)
        return Checkpoint(totals={"ended": Measure("sum", self.ended), "ended norms": norms})

    def resume(self, saved: Saved) -> None:
        """Take up values, sums, and what refinements have left."""
        self.ended = np.zeros_like(self.ended) + saved.total("ended")
        self.ended_norms = np.zeros(CORNERS) + saved.total("ended norms")
        super().resume(saved)

    def measure(self) -> dict[str, Measure]:
        """Norm and row of the background, and those that refinements have left."""
        norm, row = self.row(self.checked())
        norms = np.array([norm, *self.ended_norms])
        return self.measures(norms, np.vstack([row, self.ended]))

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
        super().__init__(problem, layout, index, device, bounds, problem.fine_shape, scale)
        self.put()
        self.needed = layout.needed(index)
        self.below = {  # where the points of each block below are among those needed
            edge: tuple(
                min(max(at, a), b) - a
                for (low, high), (a, b) in zip(layout.bounds(peer.block), self.needed, strict=True)
                for at in (low, high)
            )
            for edge, peer in self.neighbors.items()
            if peer.kind == BACKGROUND
        }
        self.heir = next(iter(self.below))

    def step(self, count: int) -> Requests:
        """Interpolate the values in the first step, sweep, and report in the last step."""
        if self.problem.begins_at(self.time) is not None:
            yield from self.interpolate((yield Collect("birth", tuple(self.below))))
        for sweep in range(self.problem.sub_iterations):
            yield from self.sweep(f"sweep {sweep}")
        self.time += 1
        if self.problem.ends_after(self.time - 1) is not None:
            row = yield from self.last_row()
            messages = self.device.messages({self.heir: row.shape}, row.dtype)
            self.kernels.report(row, messages[self.heir])
            yield Post("end", messages)
        return False

    def interpolate(self, came: Mapping[Edge, Array]) -> Requests:
        """Set the values from those of the background's points."""
        shape = tuple(high - low for low, high in self.needed)
        coarse = self.device.empty(shape, self.problem.dtype)
        yield from self.unpack(self.copier({}, self.below), coarse, came)
        (first_x, _), (first_y, _) = self.bounds
        level = self.problem.level
        self.kernels.interpolate(coarse, self.values, level, (first_x, first_y), self.own)

    def last_row(self) -> Requests:
        """What remains of the block: the bits of its norm, its row, and the hash of its state.

        Other blocks run before this one waits for its numbers.
        """
        checked, copies = self.checked(), self.copies() if self.problem.is_hashed else []
        yield Pause()
        norm, found = self.row(checked)
        for name, values, origin, shape, _ in self.pieces(*map(known, copies)) if copies else ():
            found[HASH] += hash_cells(name, values, origin or (), shape).view(np.int64)
        return np.array([np.float64(norm).view(np.int64), *found])

    def checkpoint(self) -> Checkpoint:
        """Nothing beside the state."""
        return Checkpoint()

    def measure(self) -> dict[str, Measure]:
        """Its norm and row, at the place of its corner."""
        norms, rows = np.zeros(1 + CORNERS), np.zeros((1 + CORNERS, ROW), np.int64)
        norms[1 + self.corner], rows[1 + self.corner] = self.row(self.checked())
        return self.measures(norms, rows)

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
    steps = 2.0**problem.bits
    return np.floor(noise(x * problem.size[1] + y) * steps) / steps
