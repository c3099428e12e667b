"""Calls of LeanMD's kernels and blocks on the edges of what they distinguish: see `examples`."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from miniapps import kernels
from miniapps.devices.backend import Device
from miniapps.kernels.leanmd.units import CLOSE_UNIT, NO_ERROR
from miniapps.leanmd.atoms import Atoms, Bins, Lists
from miniapps.leanmd.domain import Explosion, raise_too_close, strayed
from miniapps.leanmd.pairs import FIRST, Cell, Compute
from miniapps.leanmd.problem import LeanmdProblem

Written = list[Any]
QUANTUM = 2.0**-20  # of positions


def atoms_to_choose() -> Written:
    """Atoms on the two planes between which they are chosen, and the unused places at the end."""
    leanmd, found = kernels.load("leanmd", "cpu"), []
    values, which = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 1.0, 2.0]), np.zeros(14, np.uint32)
    found += [*map(int, leanmd.choose(7, values, 1.0, 2.0, which)), which]
    position = np.zeros((3, 9))
    leanmd.end_here(position, 5)
    return [*found, position]


def atoms_that_stray() -> Written:
    """Atoms as far from their origin as is allowed, along each axis, and a little farther."""
    leanmd, found = kernels.load("leanmd", "cpu"), []
    steps = [0.0, 0.5, 0.5 + 2.0**-20, -0.5, -0.7, 0.8, 0.9, 1.1, math.nan, -math.nan]
    for axis in range(3):
        for step in steps:
            position = np.arange(12.0).reshape(3, 4)
            origin, velocity = position.copy(), np.zeros((3, 4))
            velocity[axis, 1], flags = step, np.array(NO_ERROR)
            velocity[(axis + 1) % 3, 2] = 0.25
            leanmd.kick_and_drift(
                3,
                position,
                velocity,
                np.zeros((3, 4), np.int64),
                origin,
                1.0,
                2.0**-40,
                0.25,
                flags,
            )
            found += [position, velocity, flags]
    return found


def sums_over_atoms() -> Written:
    """Atoms that are as fast as is allowed, and forces that do not add up to zero."""
    leanmd = kernels.load("leanmd", "cpu")
    velocity = np.array([[1.5, -1000.0, 0.25], [0.5, 1000.0, 3.0], [2.0, 999.0, -1000.5]])
    force = np.array([[1, 20, 300], [5, 60, 700], [1 << 40, 9, 11]])
    totals, flags = np.zeros(15, np.int64), np.array(NO_ERROR)
    leanmd.sums_of_motion(3, velocity, force, totals, flags)
    numbers = np.zeros((3, 4))
    leanmd.draw(np.array([5, 1, 1 << 40, 17]), np.uint64(99), numbers)
    return [totals, flags, numbers]


def points_on_planes() -> Written:
    """Atoms on the borders of bins and of a box, or beyond, and lists that reach just so far."""
    leanmd, found = kernels.load("leanmd", "cpu"), []
    sides = (0.0, 1.0, 2.5, 4.0), (0.0, 1.5, 3.0, 4.0), (0.0, 0.5, 2.0, 4.0)
    points = list(itertools.product(*sides))[:-1]
    count, width = len(points), leanmd.WIDTH
    clusters = -(-count // width)
    position = np.full((3, count + width), 1e9)
    position[:, :count] = np.array(points).T
    ends, numbers = ((0.0, 4.0), (1.0, 3.0), (1.75, 2.25)), ((9, 7, 8), (5, 8, 3))
    for (begin, end), bins in itertools.product(ends, map(np.array, numbers)):
        low = begin + np.array([0.0, -0.3, 0.2]) * (1 if bins[0] == 9 else -1)
        density = bins / (end - begin)
        for turning in (True, False):
            starts, order = np.zeros(bins.prod() + 1, np.int64), np.zeros(count, np.uint32)
            leanmd.sort_into_bins(count, position, low, density, bins, turning, starts, order)
            found += [starts, order]
        for own, reach, room in ((1, 1.6, 9000), (0, 1.1, 9000), (1, 2.6, 9000), (1, 0.2, 0)):
            of, neighbors = np.zeros(clusters + 1, np.int64), np.zeros(room, np.uint32)
            last = np.zeros(clusters, np.uint32)
            total = leanmd.fill_lists(
                count, position, position, bool(own), low, density, bins, starts, order, reach,
                of, neighbors, last,
            )  # fmt: skip
            found.append(int(total))
            if total >= 0:
                found += [of, last, *map(np.sort, np.split(neighbors[:total], of[1:-1]))]
    for point in points:
        one = np.array([point]).T
        found.append(leanmd.first_outside(1, one, np.zeros(3), np.full(3, 4.0)))
    return found


def room_for_atoms() -> Written:
    """How arrays of atoms, bins and lists grow and travel."""
    leanmd, found = kernels.load("leanmd", "cpu"), []
    rng = np.random.default_rng(4)
    for count in (1, 41, 90):
        atoms, places = Atoms(Device()), rng.uniform(0, 6, (3, count))
        found += [atoms.rows.shape, atoms.force.shape, atoms.origin.shape, atoms.count, atoms.total]
        places[0, 1:4] = [4.0, 0.0, -1.0][: count - 1]  # at both ends of a box, and below it
        atoms.set(np.arange(1, count + 1), places, -places)
        room = atoms.rows.shape[1]
        found += [room, *(atoms.has_room(room + more) for more in (-5, -4, -3))]
        for ghosts in (2, count):
            atoms.extend([rng.uniform(6, 7, (3, n)) for n in (ghosts, 1)])
            for copy in (atoms, pickle.loads(pickle.dumps(atoms))):
                found += [copy.rows.shape, copy.force.shape, copy.origin.shape, copy.count]
                found += [copy.origin[:, :count].copy(), copy.position[:, : copy.total + 4].copy()]
                found += [copy.ids, copy.identity(4.0)]
        for own in (True, False):
            lists, corners = Lists(own), (np.full(3, -1.0), np.full(3, 7.0))
            for reach in (1.0, 3.0):
                names = "starts", "neighbors", "last", "all_clusters"
                found += [getattr(lists, name).shape for name in names]
                found += [lists.clusters, lists.entries]
                where = atoms.position, atoms.position, atoms.total
                lists.fill(leanmd, count, *where, corners, reach)
            found.append(lists.starts.shape)
        bins = Bins(np.array([0.0, -2.0, 1.0]), np.array([5.0, 2.0, 1.0]))
        found += [bins.low, bins.bins, bins.density, bins.starts.shape]
    return found


def forces_on_a_few() -> Written:
    """Nine atoms as far apart as the cutoff, the closest distance, or less; and those of a cell."""
    leanmd, found = kernels.load("leanmd", "cpu"), []
    count, width, cutoff = 9, leanmd.WIDTH, 1.5
    clusters = np.array([1, 2, 0], np.uint32)
    lists = {  # by whether the others are the same atoms: where lists start, and the lists
        True: (np.array([0, 5, 8, 10]), np.array([5, 4, 7, 8, 4, 1, 3, 0, 0, 4], np.uint32)),
        False: (np.array([0, 4, 7, 9]), np.array([0, 2, 4, 5, 1, 3, 5, 8, 4], np.uint32)),
    }
    for first, second in ((0, 1), (0, 4), (3, 5), (2, 0), (8, 4)):
        for apart in (0.66, 0.65, 0.25, cutoff):
            far = 1e9 * np.arange(1.0, count + width + 1)  # unused places are far from each other
            position, others = np.array([far] * 3), np.array([2 * far] * 3)
            position[:, :count] = np.random.default_rng(1).uniform(0, 1, (3, count))
            position[:, :count] += np.arange(count) * 1.5
            position[:, second] = position[:, first]
            position[(first + second) % 3, second] += apart
            others[:, :count] = position[:, :count] + [[2.0], [0.0], [0.0]]
            position, others = (np.round(each / QUANTUM) * QUANTUM for each in (position, others))
            for own, (starts, neighbors) in lists.items():
                where = position, position if own else others
                for dtype, forces in leanmd.FORCES.items():
                    force, flags = np.zeros((3, count + width), np.int64), np.array(NO_ERROR)
                    seen = [_seen(leanmd, dtype, each) for each in where]
                    for begin in range(3):
                        forces(
                            *seen, clusters, begin, begin + 1, starts, neighbors, own, cutoff,
                            force, flags,
                        )  # fmt: skip
                        found.append(flags.copy())
                    found.append(force[:, : 3 * width].copy())
                totals = np.zeros(6, np.int64)
                leanmd.energies(count, *where, starts, neighbors, own, cutoff, totals)
                found.append(totals)
    return found


def _seen(leanmd: Any, dtype: str, position: np.ndarray) -> Any:
    """Positions as the forces take them."""
    if dtype not in leanmd.QUANTA:
        return position
    quanta = leanmd.QUANTA[dtype](position, QUANTUM)
    quanta.update(8, 9)
    quanta.records.reshape(-1, 4)[:] = quanta.records.reshape(-1, 4)[8]  # as memory may hold
    quanta.update(0, position.shape[1])
    return quanta


def computes_by_themselves() -> Written:
    """What cells send, and what computes say of it: of an atom far away, and of a wrong virial."""
    values = {"lattice": (3, 3, 3), "density": 0.4, "cutoff": 1.6, "decomposition": "pairs"}
    problem = LeanmdProblem(**values)
    layout = problem.cut(1, 1, None)
    cells = {index: Cell(problem, layout, index, Device()) for index in layout.indices()}
    found = [cells[0, 0, 0].message(anew).shape for anew in (False, True)]
    for pair in ((2, 1, 0, 2, 1, 0), (2, 1, 0, 0, 1, 0)):
        for away in (0.0, 3.0):
            compute = Compute(problem, layout, pair, Device())
            came = {
                edge: cells[peer.block].message(True) for edge, peer in compute.neighbors.items()
            }
            came[FIRST][1, 0] += away
            compute.receive(came)
            found += [compute.measure()["strayed"].value, round(compute.virial_error(100.0), 6)]
    return found


def atoms_beyond_limits() -> Written:
    """Error flags of atoms closer than allowed, or just not, and positions that stray so far."""
    found: Written = []
    ids = np.array([11, 12, 13])
    for closest2, atom in itertools.product((0.25, 0.43, 0.44, 1.0, 2.0), (0, 2, 3, 9)):
        try:
            raise_too_close(4, ids, int(closest2 / CLOSE_UNIT) << 32 | atom)
            found.append("")
        except Explosion as error:
            found.append(str(error))
    low, high = np.array([0.0, 1.0, 2.0]), np.array([3.0, 4.0, 5.0])
    for axis, side, away in itertools.product(range(3), (0, 1), (0.0, 0.2, 0.25, 0.26, 0.6, 1.1)):
        position = np.array([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])
        position[axis, 1] = (low, high)[side][axis] + (2 * side - 1) * away
        found.append(strayed(position, low, high, 0.5))
        found.append(strayed(position - [[9.0], [0.0], [0.0]], low, high, 0.5))
    return found


EXAMPLES: Mapping[str, tuple[Callable[[], Written], ...]] = MappingProxyType(
    {
        "miniapps/leanmd/atoms.py": (room_for_atoms,),
        "miniapps/leanmd/domain.py": (atoms_beyond_limits,),
        "miniapps/leanmd/pairs.py": (computes_by_themselves,),
        "kernels/leanmd/": (
            forces_on_a_few, atoms_to_choose, atoms_that_stray, sums_over_atoms, points_on_planes,
        ),
    }
)  # fmt: skip
