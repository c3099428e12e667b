"""Calls of kernels on the edges of what they distinguish, which small runs do not reach.

Each returns all that the kernel has written. What the right program returns is right, because other
tests compare the same kernels with independent programs.
"""

from __future__ import annotations

import importlib
import math
import pickle
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import support
from mutation import leanmd_examples
from mutation.leanmd_examples import Written

from miniapps import kernels
from miniapps.contract import MessageError
from miniapps.devices.backend import Device
from miniapps.kernels import exact_sum
from miniapps.kernels.pic.counters import OWNERS, clean_counters
from miniapps.pic.distribution import Distribution
from miniapps.pic.events import Event
from miniapps.pic.particles import Particles
from miniapps.pic.problem import PicProblem

FEW = Distribution("geometric", (0.9,))


# PIC ----------------------------------------------------------------------------------------------

FRAME = np.array([5, 12, 4, 10, 13, 18, 12, 15, 1], float)  # of a block in a grid of 22 cells
SIZE = 22


def particles(count: int, **values: Any) -> tuple[np.ndarray, ...]:
    """The eight arrays of particles that stand still, with room for ten more."""
    names = ("x", "y", "vx", "vy", "charge", "ids", "cells", "motions")
    made = {n: np.zeros(count + 10, float if n in names[:5] else np.int64) for n in names}
    made["ids"][:count] = np.arange(1, count + 1)
    for name, value in values.items():
        made[name][:count] = value
    return tuple(made.values())


def push_without_force() -> Written:
    """Particles that land on every mesh point, and outside the grid: their owners."""
    pic = kernels.load("pic", "cpu")
    half = np.arange(-4 * SIZE, 8 * SIZE + 1) / 2.0
    odd = np.array([math.nan, math.inf, -math.inf, 1e300])
    found: Written = []
    for known in ((1 << OWNERS) - 1, 1 << 4 | 1 << 7 | 1 << 8):
        for to_x, to_y in [
            (half, 6.5),
            (6.5, half),
            (13.5, half),
            (half, 11.0),
            (odd, 6.5),
            (6.5, odd),
        ]:
            count = np.size(to_x) if np.size(to_x) > 1 else np.size(to_y)
            arrays = particles(
                count, x=6.5, y=5.5, vx=np.subtract(to_x, 6.5), vy=np.subtract(to_y, 5.5)
            )
            owners, counters = np.zeros(count + 8, np.uint8), clean_counters()
            mesh, leaving = np.ones((20, 20), np.int8), np.full(count, -1)
            pic.push(
                count, 1, *arrays[:5], mesh, FRAME, float(SIZE), known, owners, counters, leaving
            )
            found += [*arrays[:2], owners, counters, leaving]
    return found


def push_with_forces() -> Written:
    """Particles anywhere in their cells, some beyond the mesh."""
    pic, rng = kernels.load("pic", "cpu"), np.random.default_rng(3)
    count = 40
    where = {"x": rng.uniform(1, 21, count), "y": rng.uniform(1, 21, count)}
    for n, (x, y) in enumerate([(17.5, 15.5), (17.5, 16.5), (18.5, 1.5)]):  # the mesh ends here
        where["x"][n], where["y"][n] = x, y
    arrays = particles(count, **where, vx=0.3, vy=-0.2, charge=rng.normal(0, 0.1, count))
    owners, counters, leaving = np.zeros(count, np.uint8), clean_counters(), np.full(count, -1)
    mesh = rng.choice([-1, 1], (14, 16)).astype(np.int8)
    pic.push(count, 2, *arrays[:5], mesh, FRAME, float(SIZE), -1, owners, counters, leaving)
    return [*arrays, owners, counters, leaving]


def arrivals_on_the_edges() -> Written:
    """Messages whose particles are on the corners of a block, and beside them."""
    pic = kernels.load("pic", "cpu")
    edges = [(x, y) for x in (5, 5.5, 11.9, 12) for y in (4, 4.5, 9.9, 10)]
    edges += [(4.9, 5), (5, 3.9), (12.1, 5), (math.nan, 5)]
    found: Written = []
    for second in edges:
        came = {}
        for edge, places in {
            (0, 1): [(6.5, 6.5)] * 3,
            (1, 0): [(7.5, 7.5), second, (99, 99)],
        }.items():
            rows = np.arange(24.0).reshape(3, 8)
            rows[:, :2] = places
            came[edge] = rows
        arrays, counters, gaps = particles(4), clean_counters(), np.array([1, 2])
        pic.unpack(came, FRAME, gaps, 2, 4, np.zeros(4, np.uint8), counters, arrays)
        found += [*arrays, counters]
    return found


def removals_on_the_edges() -> Written:
    """A removal's patch with particles on its corners, and a share that ends at one of them."""
    pic, mix = kernels.load("pic", "cpu"), kernels.load("state_hash", "cpu").mix
    places = np.array([(x, y) for x in (3, 4, 7, 8) for y in (5, 6, 8, 9)], float)
    seed, patch = np.uint64(77), np.array([4, 8, 6, 9])
    count, found = len(places), []
    with np.errstate(over="ignore"):
        limit = mix(np.uint64(6) + seed)
    for most in (np.uint64(2**64 - 1), np.uint64(limit)):
        arrays = particles(count, x=places[:, 0], y=places[:, 1])
        owners, counters, removed = (
            np.full(count, 9, np.uint8),
            clean_counters(),
            np.full(count, -1),
        )
        pic.find_removed(
            count, *arrays[:2], arrays[5], patch, seed, most, owners, counters, removed
        )
        found += [counters, removed]
        cells = (places[:, 0] * SIZE + places[:, 1]).astype(np.int64)
        alive, sums = np.ones(count, bool), np.zeros(3, np.uint64)
        ids = arrays[5][:count].copy()
        shift = np.array([21, 1])
        pic.foresee_removed(cells, ids, alive, SIZE, shift, patch, seed, most, sums)
        found += [alive, sums]
    return found


def draws_at_their_limits() -> Written:
    """Random counts with a mean of exactly 1, and where the chance is just large enough."""
    draw, found = importlib.import_module("miniapps.kernels.pic.initial").draw, []
    for second in (0, 1, 123456789, 0xFFFFFFFE, 0xFFFFFFFF, 1 << 63):
        rest = second % 0xFFFFFFFF
        means = (rest + 0.5) / 0xFFFFFFFF, (rest - 0.5) / 0xFFFFFFFF, 1.0, 1.0 + 2.0**-52
        for first in (1, 6364136223846793005):
            numbers = np.uint64(first), np.uint64(second)
            found += [int(draw(abs(mean), *numbers)) for mean in means]
    return found


def errors_of_positions() -> Written:
    """Particles that are too far along one axis, by a little, by more, and by almost the grid."""
    pic, found = kernels.load("pic", "cpu"), []
    cells, motions = np.array([3 * SIZE + 4] * 3), np.array([0, 1, 1])
    shifts = np.array([[0, 0], [20, 21]])
    for off in [
        (0, 0),
        (0.25, 0),
        (0, 0.5),
        (-0.25, 0.125),
        (SIZE - 0.5, 0),
        (0, 1 - SIZE),
        (2, 3),
    ]:
        for wrong in range(3):
            x, y = np.array([3.5, 1.5, 1.5]), np.array([4.5, 3.5, 3.5])
            x[wrong], y[wrong] = x[wrong] + off[0], y[wrong] + off[1]
            found.append(pic.largest_error(3, x, y, cells, motions, shifts, float(SIZE)))
    for x, y in ((math.nan, 1.0), (1.0, math.nan), (math.inf, math.inf), (math.inf, 1.0)):
        both = np.array([x]), np.array([y])
        found.append(pic.largest_error(1, *both, cells[:1], motions[:1], shifts, float(SIZE)))
    return found


def bounds_of_blocks() -> Written:
    """What blocks of different sizes know about themselves and those around them."""
    found: Written = []
    moves = (
        {"k": 1, "m": -2},
        {"m": 2},
        {"m": 0},
        {"m": 1, "events": ("inject:2:9:3,15,4,20:1,-2",)},
    )
    for grid, size, tile in (((4, 5), 22, 1), ((5, 3), 26, 2), ((1, 2), 22, 2), ((2, 1), 22, 2)):
        for given in moves:
            values = {"size": size, "particles": 9, "time_tile": tile, "k": 0, "distribution": FEW}
            events = tuple(map(Event.parse, given.get("events", ())))
            problem = PicProblem(**(values | given | {"events": events}))
            for block in support.blocks_of("pic", problem, grid):
                found += [
                    block.frame,
                    block.mesh,
                    block.known,
                    block.reach,
                    sorted(block.neighbors),
                ]
    return found


def arrival_before_a_migration() -> Written:
    """A particle that came to a block that is not its own, just before the block migrates."""
    problem = PicProblem(size=SIZE, particles=9, k=0, m=1, distribution=FEW)
    found: Written = []
    for wrong in (False, True):
        block = support.blocks_of("pic", problem, (2, 2))[0]
        rows = np.arange(16.0).reshape(2, 8) / 2
        came = {edge: rows.copy() for edge in block.sources}
        list(came.values())[1][1, 0] += 11 * wrong
        try:
            block.store_immigrants(0, came)
            found.append(pickle.loads(pickle.dumps(block)).particles.count)
        except MessageError as error:
            found.append(str(error))
    return found


def room_for_particles() -> Written:
    """How arrays of particles grow, shrink and travel, and when particles are sorted."""
    pic, found = kernels.load("pic", "cpu"), []
    for count in (0, 63, 64, 65, 1500):
        mine = Particles(Device())
        mine.begin(
            pic, np.arange(1, count + 1), np.arange(count) * 7 % (SIZE * SIZE), 0, SIZE, 1.0, 0.5
        )
        for copy in (mine, pickle.loads(pickle.dumps(mine))):
            found += [copy.x.shape, copy.gaps.shape, copy.owners.shape, copy.count, copy.unsorted]
        for size in (mine.x.shape[0], mine.x.shape[0] + 1):
            mine.reserve(pic, size)
            found += [array.shape for array in mine.arrays] + [mine.gaps.shape]
        for unsorted in (count // 8 - 1, count // 8, count // 8 + 1):
            mine.unsorted = unsorted
            mine.sort(pic, 0.0, SIZE)
            found += [mine.unsorted, mine.ids[:count].copy()]
        mine.drop(pic, np.arange(min(count, 5)), 0, min(count, 5))
        found += [mine.count, np.sort(mine.ids[: mine.count])]
    return found


# Stencils and the state hash ----------------------------------------------------------------------


def changes_of_cells() -> Written:
    """The largest change of a sweep over a part, for fields with a NaN, and for no cells."""
    found: Written = []
    for app, axes in (("jacobi2d", 2), ("stencil3d", 3)):
        module = kernels.load(app, "cpu")
        for value in (0.0, math.nan, 1e3):
            old = np.random.default_rng(axes).uniform(-1, 1, (9,) * axes)
            old[(4,) * axes] += value
            for box in ((1, 8) * axes, (2, 3) * axes, (5, 5) * axes):
                new = np.zeros_like(old)
                found += [module.sweep_residual(old, new, *box), new]
    return found


# Exact sums ---------------------------------------------------------------------------------------


def exact_sums() -> Written:
    """Sums and dot products of few numbers of every size, as words and rounded."""
    module, rng = kernels.load("exact_sum", "cpu"), np.random.default_rng(1)
    found: Written = []
    for low, high in ((0, 1), (-60, 60), (-1074, 1023), (-1074, -1010), (990, 1023), (-560, -490)):
        a = np.ldexp(rng.uniform(-1, 1, 6), rng.integers(low, high, 6))
        b = np.ldexp(rng.uniform(-1, 1, 6), rng.integers(low, high, 6))
        for values in (a, np.append(a[:5], 0.0), np.append(a[:5], math.nan)):
            with np.errstate(over="ignore"):
                single = values.astype(np.float32)
            words = exact_sum.accumulator(4)
            module.add_sum(values, words[0])
            module.add_dot(values, b, words[1])
            module.add_sum(single, words[2])
            module.add_dot(single, single, words[3])
            found += [words, *(exact_sum.rounded(words, kind) for kind in ("f8", "f4"))]
            found.append(exact_sum.accumulated(values))
    one = 1 + 2.0**-52  # products of it fit into bins that their errors do not fit into
    for low, high in ((0, -48), (-960, -971)):
        words, ends = exact_sum.accumulator(), np.array([low, high]) // 2
        a, b = np.ldexp([1.0, one], ends), np.ldexp([1.0, one], np.array([low, high]) - ends)
        module.add_dot(np.append(a, 0.0), np.append(b, 1.0), words)
        found.append(words)
    return found


EXAMPLES: Mapping[str, tuple[Callable[[], Written], ...]] = MappingProxyType(
    {
        **leanmd_examples.EXAMPLES,
        "kernels/pic/": (
            push_without_force, push_with_forces, arrivals_on_the_edges, removals_on_the_edges,
            errors_of_positions, draws_at_their_limits,
        ),
        "miniapps/pic/block.py": (bounds_of_blocks, arrival_before_a_migration),
        "miniapps/pic/particles.py": (room_for_particles,),
        "kernels/exact_sum/": (exact_sums,),
        "kernels/jacobi2d/": (changes_of_cells,),
        "kernels/stencil3d/": (changes_of_cells,),
    }
)  # fmt: skip
