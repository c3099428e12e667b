"""Faults of AMR."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from miniapps.contract import Collect, Post
from miniapps.faults import fault, in_place_of, off_in_its_last_bit
from miniapps.kernels.halo.interface import box

PATCH, BACKGROUND, REFINEMENT = (
    f"miniapps.amr.block:{name}" for name in ("Patch", "Background", "Refinement")
)
KERNELS = "miniapps.kernels.amr.cpu"
FEW = {"period": 2, "duration": 1, "sub_iterations": 2, "steps": 6, "warmup": 1}
NOISE = FEW | {"initial": "noise"}
PROBLEMS = {
    "tiny": FEW | {"size": (17, 14), "refinement": (6, 5), "level": 1},
    "small": NOISE | {"size": (900, 800), "refinement": (200, 150)},  # no reference
    "large": NOISE,
}
UNSEEN = {"amr: last bit off": "the last bit of one of many values, at the end"}


# Sweeps ------------------------------------------------------------------------------------------


@in_place_of(f"{PATCH}.sweep")
def no_halo(right: Any, self: Any, phase: str) -> Generator[Any, Any, None]:
    """Ghosts are never filled."""
    yield Post(phase, self.halo.pack(self.values))
    yield Collect(phase, self.faces)
    swept(self)


@in_place_of(f"{PATCH}.sweep")
def halo_of_the_sweep_before(right: Any, self: Any, phase: str) -> Generator[Any, Any, None]:
    """Ghosts are filled with what came one sweep earlier."""
    yield Post(phase, self.halo.pack(self.values))
    came = yield Collect(phase, self.faces)
    now = {edge: part.copy() for edge, part in came.items()}
    self.halo.unpack(self.values, vars(self).get("late", now))
    self.late = now
    swept(self)


def swept(block: Any) -> None:
    """Sweep a block's own points, on the CPU."""
    active = block.region(block.active())
    block.kernels.sweep(block.values, block.new, block.sums, block.scale, active, block.own)


@fault(f"{KERNELS}:sweep")
def not_scaled(right: Any) -> Any:
    """The stencil of a refinement is that of the background."""
    return lambda u, new, sums, scale, *regions: right(u, new, sums, 1, *regions)


@in_place_of(f"{KERNELS}:sweep")
def one_axis_only(
    right: Any, u: Any, new: Any, sums: Any, scale: int, active: Any, own: Any
) -> None:
    """The stencil differentiates along one axis, twice."""
    x0, x1, y0, y1 = active

    def at(n: int) -> Any:
        return u[x0 + n : x1 + n, y0:y1]

    near, far = 2 * (at(1) - at(-1)), 2 * (at(2) - at(-2))
    sums[x0:x1, y0:y1] += scale * (0.25 * near + 0.125 * far)
    u[box(own)] += 1.0


@in_place_of(f"{KERNELS}:sweep")
def last_row_left_out(
    right: Any, u: Any, new: Any, sums: Any, scale: int, active: Any, own: Any
) -> None:
    """The stencil is not applied to the last row of a block."""
    x0, x1, *row = active
    right(u, new, sums, scale, (x0, x1 - 1, *row), own)


@fault(f"{KERNELS}:sweep")
def values_stay(right: Any) -> Any:
    """Values do not grow."""
    return lambda u, *rest: right(u.copy(), *rest)


# Births and ends ---------------------------------------------------------------------------------


@in_place_of(f"{KERNELS}:interpolate")
def not_interpolated(right: Any, coarse: Any, u: Any, level: int, first: Any, own: Any) -> None:
    """A point of a refinement takes the value of a background point beside it."""
    expand = 1 << level
    axes = zip(first, (own[:2], own[2:]), strict=True)
    at = ((n % expand + np.arange(high - low)) // expand for n, (low, high) in axes)
    u[box(own)] = coarse[np.ix_(*at)]


@in_place_of(f"{KERNELS}:interpolate")
def weights_exchanged(right: Any, coarse: Any, u: Any, level: int, first: Any, own: Any) -> None:
    """The nearer point has the smaller weight."""
    expand = 1 << level
    for axis, (low, high) in enumerate((own[:2], own[2:])):
        at, part = np.divmod(first[axis] % expand + np.arange(high - low), expand)
        weight = (part / expand).reshape((-1, 1) if axis == 0 else (1, -1))
        after = coarse.take(np.minimum(at + 1, coarse.shape[axis] - 1), axis)
        coarse = after * (1.0 - weight) + coarse.take(at, axis) * weight
    u[box(own)] = coarse


@in_place_of(f"{BACKGROUND}.step")
def born_a_step_late(right: Any, self: Any, count: int) -> Generator[Any, Any, bool]:
    """A refinement begins from the values that the background has after the step."""
    self.values += 1.0
    requests = right(self, count)
    answer, first = None, True
    while True:
        try:
            request = requests.send(answer)
        except StopIteration:
            return False
        if first:
            first, born = False, isinstance(request, Post) and request.phase == "birth"
            self.values -= 1.0
            if not born:  # its halo has been packed already
                request = Post(request.phase, self.halo.pack(self.values))
        answer = yield request


@in_place_of(f"{REFINEMENT}.interpolate")
def last_part_lost(right: Any, self: Any, came: Any) -> Any:
    """The background points of the last message are taken to be 0."""
    last = list(came)[-1]
    yield from right(self, {**came, last: np.zeros_like(came[last])})


@in_place_of(f"{REFINEMENT}.last_row")
def end_lost(right: Any, self: Any) -> Any:
    """A block of a refinement reports nothing when it ends."""
    return np.zeros_like((yield from right(self)))


@in_place_of(f"{REFINEMENT}.last_row")
def end_reported_twice(right: Any, self: Any) -> Any:
    """What a block reports when it ends is counted twice."""
    found = yield from right(self)
    twice = 2.0 * found[:1].view(np.float64)
    return np.concatenate([twice.view(np.int64), found[1:] + found[1:]])


@in_place_of(f"{REFINEMENT}.begins")
def sums_of_the_last_life(right: Any, self: Any, step: int) -> None:
    """A refinement goes on from what the block of another one at its place has left."""
    right(self, step)
    self.sums[box(self.own)] += 1.0


@in_place_of(f"{PATCH}.__getstate__", migrating=True)
def half_precision_on_the_way(right: Any, self: Any) -> dict[str, Any]:
    """Sums are rounded to half precision where a block migrates."""
    return right(self) | {"sums": self.sums.astype(np.float16).astype(float)}


@fault(f"{PATCH}.state")
def last_bit_off(right: Any) -> Any:
    """One value of the first block of the background is off by its last bit at the end."""
    off = off_in_its_last_bit(right)
    return lambda self: off(self) if self.kind == "background" else right(self)
