"""Faults of CG."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from miniapps import kernels
from miniapps.cg.block import COLOURS
from miniapps.contract import AllReduce, Collect, Post
from miniapps.faults import ACTED, fault, in_place_of, off_in_its_last_bit, skipping, spoiling
from miniapps.kernels.exact_sum import rounded as rounded_sum
from miniapps.kernels.halo.interface import box

BLOCK = "miniapps.cg.block:CgBlock"
KERNELS = "miniapps.kernels.cg.cpu"
FEW = {"size": (7, 6, 5), "steps": 6, "warmup": 1}
SGS = {"preconditioner": "sgs"}
NOISE = {"solution": "noise"}
PROBLEMS = {"tiny": FEW, "small": NOISE | {"size": (64, 64, 64)}, "large": NOISE}
UNSEEN = {
    "cg: last bit off": "the last bit of one of many points, at the end",
    "cg: sums that follow the blocks": "the last sum, which is computed again, is often right",
    "cg: direction lost": "if all blocks lose it, they begin anew, which is slower but right",
}


# Halos -------------------------------------------------------------------------------------------


def unpacking(change: Callable[[Any], Any]) -> Any:
    """An exchange whose messages are changed before they are copied to the ghosts."""

    def exchange(self: Any, phase: str, vector: Any) -> Generator[Any, Any, None]:
        yield Post(phase, self.halo.pack(vector))
        came = yield Collect(phase, tuple(self.neighbors))
        self.halo.unpack(vector, change(came))

    return exchange


@fault(f"{BLOCK}.exchange")
def no_halo(right: Any) -> Any:
    """Ghosts are never filled: every block solves a problem of its own."""
    return unpacking(lambda came: {})


@fault(f"{BLOCK}.exchange", conditional=True)
def no_corners(right: Any) -> Any:
    """Ghosts are filled across faces only, but 27 points need edges and corners."""

    def of_faces(came: Any) -> Any:
        kept = {e: v for e, v in came.items() if sum(map(abs, e)) == 1}
        if len(kept) < len(came):
            ACTED.now()
        return kept

    return unpacking(of_faces)


@fault(f"{BLOCK}.exchange")
def halo_off(right: Any) -> Any:
    """What comes is multiplied by 1 + 1e-7."""
    return unpacking(lambda came: {edge: values * (1 + 1e-7) for edge, values in came.items()})


@fault(f"{BLOCK}.exchange")
def one_edge_left_out(right: Any) -> Any:
    """The ghosts of one edge are never filled."""
    return unpacking(lambda came: dict(list(came.items())[1:]))


# Sums --------------------------------------------------------------------------------------------


@in_place_of(f"{BLOCK}.total")
def sums_that_follow_the_blocks(right: Any, self: Any, words: np.ndarray) -> Any:
    """Each block rounds its part of a dot product, and the parts are added as floats."""
    return (yield AllReduce(rounded_sum(words), "sum"))


@in_place_of(f"{BLOCK}.total")
def largest_part_only(right: Any, self: Any, words: np.ndarray) -> Any:
    """Of the parts of a dot product the largest is taken."""
    return (yield AllReduce(rounded_sum(words), "max"))


@in_place_of(f"{BLOCK}.total")
def sums_of_one_block(right: Any, self: Any, words: np.ndarray) -> Generator[Any, Any, Any]:
    """Every block uses its own part of a dot product, and no other."""
    yield AllReduce(words, "exact")
    return rounded_sum(words)


@in_place_of(f"{BLOCK}.total")
def sums_in_single_precision(right: Any, self: Any, words: np.ndarray) -> Generator[Any, Any, Any]:
    """Dot products are rounded to float32."""
    found = yield AllReduce(words, "exact")
    return np.float64(np.float32(found))


# Operator and vectors ----------------------------------------------------------------------------


@in_place_of(f"{KERNELS}:apply")
def diagonal_off(right: Any, points: int, u: Any, v: Any, *where: Any) -> None:
    """The diagonal is larger by 1e-7."""
    right(points, u, v, *where)
    own = box(where[:6])
    v[own] += 1e-7 * u[own]


@in_place_of(f"{KERNELS}:apply")
def not_symmetric(right: Any, points: int, u: Any, v: Any, *where: Any) -> None:
    """The point before counts a little more than the one behind."""
    right(points, u, v, *where)
    x0, x1, *rest = where[:6]
    v[box(where[:6])] -= 1e-6 * u[box((x0 - 1, x1 - 1, *rest))]


@in_place_of(f"{KERNELS}:apply")
def other_operator(right: Any, points: int, u: Any, v: Any, *where: Any) -> None:
    """Seven points are used in place of 27."""
    right(7, u, v, *where)
    if points == 27:
        v[box(where[:6])] += 20 * u[box(where[:6])]


@in_place_of(f"{KERNELS}:apply")
def products_rounded(right: Any, points: int, u: Any, v: Any, *where: Any) -> None:
    """Products are rounded to float64 before they are added exactly."""
    right(points, u, v, *where)
    words = where[-1]
    words[...] = 0
    kernels.load("cg", "cpu").dot(u * v, np.ones_like(u), *where[:6], words)


@in_place_of(f"{KERNELS}:advance")
def residual_not_updated_alike(
    right: Any, x: Any, r: Any, p: Any, q: Any, alpha: float, *where: Any
) -> None:
    """The residual is updated by a step that is longer by 1e-9."""
    r[box(where[:6])] -= 1e-9 * alpha * q[box(where[:6])]
    right(x, r, p, q, alpha, *where)


@fault(f"{KERNELS}:turn")
def steepest_descent(right: Any) -> Any:
    """The direction is the residual: the search forgets the directions before."""
    return lambda z, p, beta, *own: right(z, p, 0.0, *own)


@fault(f"{KERNELS}:turn")
def beta_off(right: Any) -> Any:
    """Beta is larger by 1e-6: directions are no longer conjugate."""
    return lambda z, p, beta, *own: right(z, p, beta * (1 + 1e-6), *own)


@fault(f"{KERNELS}:advance_pipelined", given={"pipelined": True})
def pipelined_beta_off(right: Any) -> Any:
    """A pipelined iteration has a beta that is smaller by one percent."""
    return lambda *given: right(*given[:8], 0.99 * given[8], *given[9:])


# Preconditioner ----------------------------------------------------------------------------------


def preconditioning(colours: Sequence[int], origin: bool, every: bool) -> Any:
    """A preconditioner with other colours, or with other ghosts.

    ``origin``: whether the colours are those of the whole box; ``every``: whether ghosts are
    exchanged before every colour.
    """

    def precondition(self: Any, r: Any, phase: str) -> Generator[Any, Any, None]:
        at = [low & 1 for low, _ in self.bounds]
        if not origin and any(at):
            ACTED.now()
        shift = 4 * at[0] + 2 * at[1] + at[2] if origin else 0
        self.kernels.clear(self.z)
        for n, colour in enumerate(colours):
            if n and every:
                yield from self.exchange(f"{phase} {n}", self.z)
            self.kernels.relax(self.points, self.z, r, np.array([colour ^ shift]), *self.own)

    return precondition


@fault(f"{BLOCK}.precondition", given=SGS)
def forward_only(right: Any) -> Any:
    """Gauss-Seidel goes forward and not back: the preconditioner is not symmetric."""
    return preconditioning(range(8), True, True)


@fault(f"{BLOCK}.precondition", given=SGS, conditional=True)
def colours_of_the_block(right: Any) -> Any:
    """Colours are counted from each block's first point, so they depend on the blocks."""
    return preconditioning(COLOURS, False, True)


@fault(f"{BLOCK}.precondition", given=SGS)
def ghosts_of_zero(right: Any) -> Any:
    """Blocks relax their colours without exchanging ghosts, as block Jacobi does."""
    return preconditioning(COLOURS, True, False)


@in_place_of("miniapps.cg.block:groups", given=SGS, conditional=True)
def exchanges_left_out(right: Any, points: int, cut: Sequence[bool]) -> list[list[int]]:
    """Ghosts are exchanged only between colours that differ along the first axis."""
    found: list[list[int]] = right(points, [cut[0], False, False])
    if found != right(points, cut):
        ACTED.now()
    return found


@fault(f"{BLOCK}.precondition", given=SGS)
def two_sweeps(right: Any) -> Any:
    """Gauss-Seidel goes forward and back twice: a better preconditioner, but another one."""
    return preconditioning(COLOURS * 2, True, True)


@fault(f"{KERNELS}:relax", given=SGS)
def relaxed_too_far(right: Any) -> Any:
    """Points are relaxed by 1e-9 too far: the preconditioner is another one, but symmetric."""
    return lambda points, z, r, *where: right(points, z, r * (1 + 1e-9), *where)


# Start, end and migration ------------------------------------------------------------------------


@in_place_of("miniapps.cg.block:field")
def solution_of_another_run(right: Any, problem: Any, bounds: Any) -> Any:
    """The right-hand side belongs to another solution."""
    found = right(problem, bounds)
    return found * found * 0.5


@fault(f"{BLOCK}.step")
def skipped_iteration(right: Any) -> Any:
    """The blocks make one iteration less than they say."""
    return skipping(right, lambda made: made == 2)


@fault(f"{BLOCK}.step")
def nan(right: Any) -> Any:
    """One point of the solution becomes NaN."""

    def spoil(block: Any) -> None:
        block.vectors["x"][tuple(low for low in block.own[::2])] = np.nan

    return spoiling(right, spoil)


@fault(f"{BLOCK}.state")
def last_bit_off(right: Any) -> Any:
    """One point is off in its last bit at the end."""
    return off_in_its_last_bit(right)


@in_place_of(f"{BLOCK}.test_tolerance", given={"tolerance": 1e-3})
def tolerance_met_too_early(right: Any, self: Any, rr: float) -> None:
    """The run ends before the residual is small."""
    self.has_met = True


def migrating(right: Any, name: str, change: Callable[[Any], Any]) -> Any:
    """What migrates of a block, with one vector changed."""

    def state_of(self: Any) -> dict[str, Any]:
        state = right(self)
        vectors = state["vectors"]
        return state | {"vectors": vectors | {name: change(vectors[name])}}

    return state_of


@fault(f"{BLOCK}.__getstate__", migrating=True)
def direction_lost(right: Any) -> Any:
    """A migrating block begins anew: its direction is forgotten."""
    return migrating(right, "p", np.zeros_like)


@fault(f"{BLOCK}.__getstate__", migrating=True)
def migrates_in_single_precision(right: Any) -> Any:
    """A migrating block's residual is rounded to float32."""
    return migrating(right, "r", lambda r: r.astype(np.float32).astype(float))
