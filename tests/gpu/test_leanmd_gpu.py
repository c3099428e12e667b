"""LeanMD on the GPU: every kernel has the bits of its CPU counterpart, and so have whole runs."""

from __future__ import annotations

import dataclasses
import math
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
import support
from placed_atoms import Placed

from miniapps import apps, kernels
from miniapps.contract import StepError, checked_message
from miniapps.devices import backend as device
from miniapps.devices.backend import Device
from miniapps.devices.cuda import streams
from miniapps.devices.cuda.memory import PinnedCopy
from miniapps.devices.cuda.primitives import CHUNK, SCANNERS, scan
from miniapps.drivers.engine import Engine
from miniapps.kernels.leanmd.gpu import pairs as gpu_pairs
from miniapps.kernels.leanmd.gpu.neighbours import _tidy_bins
from miniapps.kernels.leanmd.units import CLOSE, FAR, FAST, FASTEST, FORESEEN, NO_ERROR, STRAY
from miniapps.leanmd import plain
from miniapps.leanmd.atoms import Atoms, Bins, Lists
from miniapps.leanmd.domain import Explosion
from miniapps.leanmd.problem import Gradient, LeanmdProblem
from miniapps.leanmd.thermo import table

APP = apps.load("leanmd")
CPU, GPU = kernels.load("leanmd", "cpu"), kernels.load("leanmd", "gpu")


def both() -> list[tuple[Any, Device]]:
    """The kernels and a device of each kind; only tests may ask for a GPU."""
    return [(CPU, Device()), (GPU, device.get("gpu"))]


COUNTS = [0, 1, 7, 8, 9, 65]  # of atoms: none, one, and a cluster or a thread block more or less
REACH, CUTOFF = 1.6, 1.3
QUANTUM = 2.0**-22  # of positions in single precision
AT_ONCE = CHUNK * SCANNERS  # numbers that one thread block scans
LOW, HIGH = np.zeros(3), np.array([4.0, 5.0, 3.0])
HOT: dict[str, Any] = {
    "density": 0.7, "cutoff": CUTOFF, "skin": 0.2, "thermo": 2, "rebuild": 3, "temperature": 6.0,
}  # fmt: skip


def strewn(count: int, seed: int) -> np.ndarray:
    """Points 0.94 from each other at least, some beyond the box; places behind them."""
    side = 1 + math.ceil(count ** (1 / 3))
    sites = np.stack(np.unravel_index(np.arange(side**3), (side,) * 3))[:, :count]
    points = np.full((3, count + 2 * GPU.WIDTH), 0.0)
    points[:, :count] = 1.1 * sites - 0.5
    points[:, :count] += np.random.default_rng(seed).uniform(-0.08, 0.08, (3, count))
    points[:, count:] = FAR * np.arange(1, 2 * GPU.WIDTH + 1)
    return points


def scattered(count: int, seed: int) -> np.ndarray:
    """Points anywhere in the box and a little beyond, however close; places behind them."""
    points = strewn(count, seed)
    away = np.random.default_rng(seed).uniform(LOW - 0.5, HIGH + 0.5, (count, 3))
    points[:, :count] = away.T
    return points


def moving(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, velocities and forces of atoms, with places behind them."""
    rng = np.random.default_rng(seed)
    force = rng.integers(-(1 << 50), 1 << 50, (3, count + 2 * GPU.WIDTH))
    return strewn(count, seed), rng.normal(0, 2, force.shape), force


def on(there: Device, *arrays: np.ndarray) -> list[Any]:
    """Copies of arrays on a device."""
    return [there.to_device(array.copy()) for array in arrays]


def no_error(there: Device) -> Any:
    """Error flags that are not set."""
    return there.to_device(np.array(NO_ERROR))


def listed(
    module: Any, there: Device, position: np.ndarray, count: int, others: np.ndarray, total: int,
    own: bool,
) -> tuple[Lists, Any, Any]:  # fmt: skip
    """Lists on a device, and the positions there."""
    lists = Lists(own, there)
    (here,) = on(there, position)
    near = here if own else there.to_device(others.copy())
    lists.fill(module, count, here, near, total, (LOW, HIGH), REACH)
    while lists.made_again():
        pass
    return lists, here, near


# Forces ------------------------------------------------------------------------------------------


def felt(module: Any, there: Device, lists: Lists, here: Any, near: Any) -> tuple[Any, Any]:
    """Forces of a device, in two launches, and its error flags."""
    force = there.to_device(np.zeros(here.shape, np.int64))
    flags, middle = no_error(there), lists.clusters // 2
    for part in ((0, middle), (middle, lists.clusters)):
        module.forces(
            here, near, lists.all_clusters, *part, lists.starts, lists.neighbors, lists.own, CUTOFF,
            force, flags,
        )  # fmt: skip
    return there.to_host(force), there.to_host(flags)


def shared(module: Any, there: Device, lists: Lists, count: int, here: Any, near: Any) -> Any:
    """Energy, virial and pairs of a device, added to something."""
    totals = there.to_device(np.arange(6))
    module.energies(
        count, here, near, lists.starts, lists.neighbors, lists.own, CUTOFF, totals
    )  # fmt: skip
    return there.to_host(totals)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("count", COUNTS)
def test_forces_and_energies(count: int, own: bool) -> None:
    """Catches another rounding, a pair left out or seen twice, a ghost lost, a cluster cut off."""
    position, others = strewn(count, 1), strewn(40, 2) + 0.55
    atoms = max(count - 5, 0) if own else count  # the others are ghosts
    results = []
    for module, there in both():
        lists, here, near = listed(
            module, there, position, atoms, others, count if own else 40, own
        )
        force, flags = felt(module, there, lists, here, near)
        assert flags.tolist() == list(NO_ERROR)
        results.append((force[:, :atoms], shared(module, there, lists, atoms, here, near)))
    (right, sums), (force, gpu_sums) = results
    assert support.same_bits(force, right) and gpu_sums.tolist() == sums.tolist()
    assert count < 9 or (right != 0).any()


def test_pairs_at_the_cutoff() -> None:
    """Catches ``<=`` for ``<``, and a square or a difference that is rounded in another way."""
    within = CUTOFF
    while within * within >= CUTOFF * CUTOFF:
        within = np.nextafter(within, 0)
    for apart, pairs in ((CUTOFF, 0), (within, 2)):
        position = strewn(2, 0)
        position[:, :2] = [[0.0, apart], [1.0, 1.0], [1.0, 1.0]]
        for module, there in both():
            lists, here, near = listed(module, there, position, 2, position, 2, True)
            force, _ = felt(module, there, lists, here, near)
            assert shared(module, there, lists, 2, here, near)[5] == 5 + pairs
            assert np.count_nonzero(force[:, :2]) == pairs


@pytest.mark.parametrize("apart", [0.0, 0.3, 0.6599, 0.6601])
def test_pairs_that_are_too_close(apart: float) -> None:
    """Catches an error flag that names another pair than the closest, or is raised too late."""
    position = strewn(20, 4)
    position[:, 3] = position[:, 17] + [apart, 0, 0]
    position[:, 9] = position[:, 12] + [0.65, 0, 0]
    seen = []
    for module, there in both():
        lists, here, near = listed(module, there, position, 20, position, 20, True)
        with np.errstate(all="ignore"):
            seen.append(felt(module, there, lists, here, near)[1].tolist())
    assert seen[0] == seen[1] and seen[0][CLOSE] & 0xFFFFFFFF == (3 if apart < 0.65 else 9)


def felt_in_single(
    module: Any, there: Device, lists: Lists, here: Any, near: Any
) -> tuple[np.ndarray, np.ndarray]:
    """As `felt`, in single precision, in one launch."""
    force = there.to_device(np.zeros((3, here.shape[1]), np.int64))
    flags, sides = no_error(there), [here, near]
    if make := module.QUANTA.get("float32"):
        sides = [make(side, QUANTUM) for side in sides]
        for side in sides:
            side.update(0, side.position.shape[1])
    module.FORCES["float32"](
        *sides, lists.all_clusters, 0, lists.clusters, lists.starts, lists.neighbors, lists.own,
        CUTOFF, force, flags,
    )  # fmt: skip
    return there.to_host(force), there.to_host(flags)


def in_quanta(position: np.ndarray) -> np.ndarray:
    """Positions that are multiples of the quantum of single precision."""
    return np.rint(position / QUANTUM) * QUANTUM


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("count", COUNTS)
def test_forces_in_single_precision(count: int, own: bool) -> None:
    """Catches distances that lose bits, another rounding, and forces of float64."""
    position, others = in_quanta(strewn(count, 1)), in_quanta(strewn(40, 2) + 0.55)
    atoms = max(count - 5, 0) if own else count  # the others are ghosts
    results = []
    for module, there in both():
        lists, here, near = listed(
            module, there, position, atoms, others, count if own else 40, own
        )
        force, flags = felt_in_single(module, there, lists, here, near)
        assert flags.tolist() == list(NO_ERROR)
        results.append(force[:, :atoms])
    near = position[:, :count] if own else others[:, :40]
    given = position[:, :atoms], near, None, CUTOFF
    assert (results[0] == results[1]).all()
    assert (results[0] == plain.forces(*given, "float32")).all()
    assert count < 9 or (results[0] != plain.forces(*given, "float64")).any()


@pytest.mark.parametrize("apart", [0.0, 0.3, 0.6599, 0.6601])
def test_pairs_that_are_too_close_in_single_precision(apart: float) -> None:
    """Catches an error flag that is raised too late or names another atom than the closest."""
    position = in_quanta(strewn(20, 4))
    position[:, 3] = position[:, 17] + in_quanta(np.array([apart, 0, 0]))
    for module, there in both():
        lists, here, near = listed(module, there, position, 20, position, 20, True)
        with np.errstate(all="ignore"):
            flag = felt_in_single(module, there, lists, here, near)[1][CLOSE]
        assert flag == NO_ERROR[CLOSE] if apart > 0.66 else flag & 0xFFFFFFFF == 3


# Motion ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", COUNTS)
def test_kick_and_drift(count: int) -> None:
    """Catches a contracted sum, a place behind the atoms that moves, an error for what is near."""
    for seed in range(4):
        position, velocity, force = moving(count, seed)
        origin = position + np.random.default_rng(seed).normal(0, 0.1, position.shape)
        results = []
        for module, there in both():
            rows, flags = on(there, position, velocity, force, origin), no_error(there)
            module.kick_and_drift(count, *rows, 0.005, 2.0**-44, 0.05, flags)
            found = there.to_host(flags).copy()
            module.kick(count, *rows, 0.004, 2.0**-44, 0.05, flags)
            results.append([*(there.to_host(a).copy() for a in rows), found])
        assert all(support.same_bits(a, b) for a, b in zip(*results, strict=True))
        assert count < 65 or (results[0][-1][STRAY] > 0 and (results[0][0] != position).any())


@pytest.mark.parametrize("lost", [0.0, math.nan, -math.nan, math.inf])
@pytest.mark.parametrize("count", COUNTS)
def test_a_kick_foresees_the_next_drift(count: int, lost: float) -> None:
    """Catches a foreseen distance of another position, atom or bit; and work on the CPU for it."""
    for seed in range(4):
        position, velocity, force = moving(count, seed)
        velocity[2, min(count, 3)] += lost
        origin = position + np.random.default_rng(seed).normal(0, 0.1, position.shape)
        for module, there in both():
            flags = no_error(there)
            motion = *on(there, position, velocity, force, origin), 0.005, 2.0**-44, 0.05, flags
            with np.errstate(all="ignore"):
                module.kick(count, *motion)
                before = there.to_host(flags).tolist()
                module.kick_and_drift(count, *motion)
            after = there.to_host(flags).tolist()
            assert before[:FORESEEN] == list(NO_ERROR[:FORESEEN])
            assert after[FORESEEN] == before[FORESEEN] == (after[STRAY] if module is GPU else 0)
            assert count < 65 or after[STRAY] > 0


def test_atoms_just_as_far_as_allowed() -> None:
    """Catches lists that are made anew too early: hashes do not show it."""
    rows = np.zeros((3, 9))
    for allowed2, known in ((0.25, 0.0), (math.nextafter(0.25, 0), 0.25)):
        velocity, (_, there) = np.full((3, 9), [[0.5], [0.0], [0.0]]), both()[1]
        at = on(there, rows, velocity, rows.astype(np.int64), rows)
        flags = no_error(there)
        GPU.kick(1, *at, 1.0, 2.0**-40, allowed2, flags)
        assert there.to_host(flags).view(np.float64)[FORESEEN] == known


@pytest.mark.parametrize("lost", [math.nan, -math.nan, math.inf])
def test_an_atom_that_is_nowhere(lost: float) -> None:
    """Catches a comparison that no number passes: the run would go on with it."""
    position, velocity, force = moving(9, 5)
    velocity[1, 4] = lost
    for module, there in both():
        rows, flags = on(there, position, velocity, force, position), no_error(there)
        with np.errstate(all="ignore"):
            module.kick_and_drift(9, *rows, 0.005, 2.0**-44, 0.05, flags)
        assert not there.to_host(flags).view(np.float64)[STRAY] < math.inf


@pytest.mark.parametrize("count", COUNTS)
def test_sums_of_motion(count: int) -> None:
    """Catches sums in other units, rounded halves, carries that are lost, places that are added."""
    _, velocity, force = moving(count, 8)
    velocity[0, :count] = (np.arange(count) + 0.5) * 2.0**-41  # halves of a unit
    results = []
    for fast in (0.0, 1001.0):
        velocity[1, 5:8] = fast
        for module, there in both():
            totals, flags = there.to_device(np.arange(8)), no_error(there)
            module.sums_of_motion(count, *on(there, velocity, force), totals, flags)
            results.append((there.to_host(totals).tolist(), there.to_host(flags).tolist()))
    assert results[0] == results[1] and results[2] == results[3]
    assert FASTEST < 1001 and results[2][1][FAST] == (5 if count > 5 else NO_ERROR[FAST])


@pytest.mark.parametrize("count", COUNTS)
def test_velocities_that_are_drawn(count: int) -> None:
    """Catches other random numbers than the CPU's, or velocities scaled before they are at rest."""
    ids = np.random.default_rng(3).permutation(count) * 7 + 1
    results = []
    for module, there in both():
        velocity = there.to_device(np.zeros((3, count + 9)))
        with np.errstate(over="ignore"):
            module.draw(there.to_device(ids), 87287, velocity)
        module.adjust(count, velocity, np.array([0.1, -0.2, 0.3]), 1.7)
        results.append(there.to_host(velocity))
    assert support.same_bits(*results) and (results[0] != 0).sum() == 3 * count


# Moving atoms about ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, CHUNK, CHUNK + 1, AT_ONCE, AT_ONCE + 1, CHUNK * AT_ONCE + 1])
def test_scan(size: int) -> None:
    """Catches chunks whose sums are not passed on, at each level."""
    values = np.random.default_rng(size).integers(0, 1 << 40, size)
    there = device.get("gpu")
    (scanned,) = on(there, values)
    scan(scanned)
    assert there.to_host(scanned).tolist() == (np.cumsum(values) - values).tolist()


@pytest.mark.parametrize(("below", "above"), [(1.0, 2.0), (2.0, 1.0), (0.0, 9.0), (5.0, 5.0)])
@pytest.mark.parametrize("dtype", [np.float64, np.uint32])
def test_choose(below: float, above: float, dtype: Any) -> None:
    """Catches a value at a limit on the wrong side, one in two groups, groups that overlap."""
    for count in (*COUNTS, CHUNK):
        values = np.random.default_rng(count).integers(0, 4, count + 3).astype(dtype)
        groups = values < below, values >= above, ~((values < below) | (values >= above))
        right = [np.flatnonzero(group[:count]) for group in groups]
        for module, there in both():
            (chosen,) = on(there, np.full(2 * count, 99, np.uint32))
            sizes = device.known(
                module.choose(count, there.to_device(values), below, above, chosen)
            )
            assert list(sizes) == [len(group) for group in right]
            got = there.to_host(chosen)[: sum(sizes)]
            assert got.tolist() == np.concatenate(right).tolist()


@pytest.mark.parametrize("sizes", [(3, 5), (0, 4), (6, 0), (0, 0), (70, 1)])
@pytest.mark.parametrize("height", [3, 7])
def test_messages_are_filled_and_put_down(sizes: tuple[int, int], height: int) -> None:
    """Catches sides that are swapped, a shift on another axis, and ids that lose a bit."""
    rng = np.random.default_rng(2)
    rows = rng.normal(0, 1, (7, 80))
    rows[6] = np.arange(80).view(np.float64)  # ids, as which most bits are zero
    which = rng.integers(0, 80, sum(sizes) + 2).astype(np.uint32)
    for axis in range(3):
        results = []
        for module, there in both():
            shapes = {side: (height, size) for side, size in enumerate(sizes)}
            messages = there.messages(shapes, np.float64)
            sides = [messages[side] for side in shapes]
            module.gather(*on(there, rows, which), sizes, axis, np.array([5.0, -7.0]), sides)
            (down,) = on(there, np.zeros((7, 90)))
            module.place(down, 4, sides)
            module.place(down, 80, sides[1:] if sizes[1] < 10 else sides[:0])
            results.append(there.to_host(down))
        assert support.same_bits(*results)
        assert results[0][height - 1, 4 : 4 + sum(sizes)].any() == (sum(sizes) > 0)


def test_rows_are_arranged() -> None:
    """Catches an order that is read from its beginning, and the end of the atoms in its place."""
    rows, order = np.random.default_rng(1).normal(0, 1, (7, 30)), np.arange(30)[::-1]
    results = []
    for module, there in both():
        into, origin = on(there, np.zeros((7, 40)), np.zeros((3, 40)))
        for target in (into, origin):
            module.arrange(6, 20, *on(there, rows, order.astype(np.uint32)), target)
        module.end_here(origin, 20)
        results.append(np.vstack([there.to_host(into), there.to_host(origin)])[:, : 20 + CPU.WIDTH])
    assert support.same_bits(*results)
    assert (results[0][:7, :20] == rows[:, 23:3:-1]).all() and results[0][7, 20] == FAR


def test_first_outside() -> None:
    """Catches a limit that belongs to the wrong side, and the last of several atoms."""
    inside = np.stack([LOW + 0.5, LOW, np.nextafter(HIGH, 0)], axis=1)
    for column, right in ((None, -1), (HIGH, 1), (np.array([1, -1e-9, 1]), 1), (HIGH - 9, 1)):
        position = np.concatenate([inside, inside, inside], axis=1)
        if column is not None:
            position[:, 1] = position[:, 7] = column
        for module, there in both():
            found = device.known(module.first_outside(9, there.to_device(position), LOW, HIGH))
            assert found == right or right == -1 and found == 9
            assert module.first_outside(0, there.to_device(position), LOW, HIGH) in (-1, 0)


def test_atoms_make_room_and_pickle() -> None:
    """Catches atoms or ghosts that are lost where arrays grow, or when a block migrates."""
    results = []
    for _, there in both():
        atoms = Atoms(there)
        atoms.set(np.arange(5) + 1, strewn(5, 1)[:, :5], strewn(5, 2)[:, :5])
        for count in (3, 50, 0, 9):
            atoms.extend([there.to_device(strewn(count, 3)[:, :count])])
        again = pickle.loads(pickle.dumps(atoms))
        for one in (atoms, again):
            end = one.total + CPU.WIDTH
            rows = there.to_host(one.position)[:, :end], one.own("velocity"), one.own("origin")
            results.append((*rows, one.ids, there.to_host(one.error_flags)))
    for other in results[1:]:
        assert all(support.same_bits(a, b) for a, b in zip(results[0], other, strict=True))
    assert results[0][0].shape == (3, 67 + CPU.WIDTH) and results[0][3].tolist() == [1, 2, 3, 4, 5]


# Lists -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turning", [True, False])
@pytest.mark.parametrize("count", [*COUNTS, 150])
def test_sort_into_bins(count: int, turning: bool) -> None:
    """Catches an order that depends on who came first to a bin, and atoms beyond the bins lost."""
    position, results = scattered(count, 7), []
    for module, there in both():
        bins = Bins(LOW, HIGH, there)
        order = bins.sort(module, there.to_device(position), count, turning)
        starts = there.to_host(bins.starts)
        results.append((there.to_host(order).tolist(), None if turning else starts.tolist()))
    assert results[0] == results[1] and sorted(results[0][0]) == list(range(count))


def test_bins_are_tidied() -> None:
    """Catches an order of atoms in a bin that is left to chance, which no simulator throws."""
    rng, there = np.random.default_rng(1), device.get("gpu")
    ends = [0, 0, 3, 4, 11, 11]
    bins = [rng.permutation(np.arange(a, b)) for a, b in zip(ends, ends[1:], strict=False)]
    starts, order = on(there, np.array(ends), np.concatenate(bins).astype(np.uint32))
    _tidy_bins[1, 8, there.stream](len(bins), starts, order)
    assert there.to_host(order).tolist() == list(range(11))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("count", COUNTS)
def test_lists(count: int, own: bool) -> None:
    """Catches an atom near a cluster that is not listed, one that is not near, or listed twice."""
    position, others = (scattered if own else strewn)(count, 1), scattered(600, 3)
    there = device.get("gpu")
    total, atoms = (count, max(count - 5, 0)) if own else (600, count)
    lists, *_ = listed(GPU, there, position, atoms, others, total, own)
    near = position if own else others
    apart = position[:, :, None] - near[:, None, :total]
    within = (apart**2).sum(axis=0) < REACH**2
    starts, last = there.to_host(lists.starts), there.to_host(lists.last)
    neighbors = there.to_host(lists.neighbors)
    assert len(starts) == 1 + -(-atoms // GPU.WIDTH) and starts[0] == 0
    for k, (begin, end) in enumerate(zip(starts, starts[1:], strict=False)):
        mine = set(range(k * GPU.WIDTH, (k + 1) * GPU.WIDTH))
        right = set(np.flatnonzero(within[sorted(mine)].any(axis=0)).tolist()) - (
            mine if own else set()
        )
        found = neighbors[begin:end].tolist()
        assert sorted(found) == sorted(right)
        assert last[k] == max(*found, max(mine) if own else 0, 0)


def test_lists_without_room() -> None:
    """Catches a list that runs over its end."""
    position, there = strewn(20, 1), device.get("gpu")
    lists, here, _ = listed(GPU, there, position, 20, position, 20, True)
    bins = Bins(LOW, HIGH, there)
    order = bins.sort(GPU, here, 20, turning=False)
    for room in (0, 5, lists.entries - 1, lists.entries):
        neighbors = there.to_device(np.full(room + 9, 12345, np.uint32))
        found = GPU.fill_lists(
            20, here, here, True, bins.low, bins.density, bins.bins, bins.starts, order, REACH,
            lists.starts, neighbors[:room], lists.last,
        )  # fmt: skip
        there_is_room = room == lists.entries
        assert found.get() == (room if there_is_room else -1)
        written = there.to_host(neighbors) != 12345
        assert not written[room:].any() and written[:room].all() == (there_is_room or room == 0)
        assert there.to_host(lists.starts).any() == there_is_room
    assert lists.all_clusters.size == lists.clusters
    again = pickle.loads(pickle.dumps(lists))
    assert again.neighbors.size == lists.entries
    for name in (*Lists.ON_DEVICE, "all_clusters"):
        kept = there.to_host(getattr(lists, name))[: getattr(again, name).size]
        assert support.same_bits(there.to_host(getattr(again, name)), kept)


# Whole runs --------------------------------------------------------------------------------------


def blocks_of(problem: LeanmdProblem, grid: tuple[int, ...], name: str) -> list[Any]:
    """All blocks of a problem on a device."""
    layout = support.layout_of(problem, grid)
    return [APP.Block(problem, layout, at, device.get(name)) for _, at in layout.numbers]


def hash_and_table(blocks: list[Any]) -> tuple[str, list[Any]]:
    """The state hash and the thermo table of blocks after a run."""
    owners = [block for block in blocks if block.kind != "compute"]
    return support.state_hash_of(owners), table(owners[0].problem, owners[0].rows)


def ran(problem: LeanmdProblem, grid: tuple[int, ...], name: str, steps: int) -> Any:
    """Return the errors of blocks after some steps, and their measures."""
    blocks = blocks_of(problem, grid, name)
    engine = Engine(blocks).setup()
    for step in range(steps):
        engine.round(step, 1)
    engine.close(steps)
    return hash_and_table(blocks), [block.measure() for block in blocks]


@pytest.mark.parametrize("grid", [(1, 1, 1), (1, 2, 1), (2, 1, 2)])
def test_runs_have_the_bits_of_the_cpu(grid: tuple[int, ...]) -> None:
    """Catches any difference at all, over changes of domain and many blocks of a device."""
    problem = LeanmdProblem(lattice=(2, 2, 2), **HOT)
    right, _ = ran(problem, (1, 1, 1), "cpu", 5)
    seen, measures = ran(problem, grid, "gpu", 5)
    assert seen == right
    for measure in measures:
        assert measure["strayed"].value == 0


def test_blocks_without_atoms() -> None:
    """Catches launches of nothing, and arrays of nothing that no kernel takes."""
    problem = LeanmdProblem(cells=(4, 1, 1), gradient=Gradient(0, 6), **HOT | {"temperature": 0.1})
    right, _ = ran(problem, (1, 1, 1), "cpu", 2)
    seen, measures = ran(problem, (4, 1, 1), "gpu", 2)
    assert seen == right and measures[0]["ids"].value[0] == 0


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The cells of pairs for whose atoms each launch computes forces."""
    counts: list[int] = []
    right = gpu_pairs._launch

    def launch(kernel: Any, tasks: list[Any], rows: Any, *rest: Any) -> Any:
        counts.append(len(rows))
        return right(kernel, tasks, rows, *rest)

    monkeypatch.setattr(gpu_pairs, "_launch", launch)
    return counts


PAIRS: dict[str, Any] = {"cells": (3, 3, 3), "decomposition": "pairs", **HOT}


def test_pairs_have_the_bits_of_the_cpu(launches: list[int]) -> None:
    """Catches positions sent to computes wrongly, wrong sums, and more than one launch a step."""
    problem = LeanmdProblem(per_cell=2, **PAIRS)
    right, _ = ran(dataclasses.replace(problem, decomposition="blocks"), (1, 1, 1), "cpu", 2)
    blocks = blocks_of(problem, (1, 1, 1), "gpu")
    engine = Engine(blocks).setup()
    for step in range(2):
        engine.round(step, 1)
    assert launches == [27 * 27] * 3  # the first forces, and those of two steps
    assert hash_and_table(blocks) == right
    computes = [block for block in blocks if block.kind == "compute"][:20]
    for block in computes:
        assert block.measure()["virial error"].value < 1e-8
        for some, others, sums in block.potentials(5):
            assert plain.potential(some, others, CUTOFF) == sums


def test_lists_go_through_memory_in_order() -> None:
    """Catches lists in which atoms of one sector of 32 bytes are far apart: each is loaded anew."""
    problem = LeanmdProblem(lattice=(6, 6, 6), cutoff=2.0, temperature=0.1)
    (block,) = blocks_of(problem, (1, 1, 1), "gpu")
    Engine([block]).setup()
    lists = block.device.to_host(block.lists.neighbors)[: block.lists.entries]
    sectors = lists // 4
    assert np.count_nonzero(sectors[1:] != sectors[:-1]) < 0.85 * len(lists)


def test_runs_in_single_precision() -> None:
    """Catches other bits than the CPU's, and bits that depend on blocks."""
    problem = LeanmdProblem(lattice=(2, 2, 2), dtype="float32", **HOT)
    seen = []
    for grid, name in (((1, 1, 1), "cpu"), ((1, 1, 1), "gpu"), ((2, 1, 1), "gpu")):
        solved = support.solve("leanmd", problem, grid, 4, device=name)
        assert solved.failed == set()
        assert "differs from reference" in [check.name for check in solved.checks]
        seen.append(solved.state_hash)
    double = ran(dataclasses.replace(problem, dtype="float64"), (1, 1, 1), "cpu", 4)[0][0]
    assert seen[0] == seen[1] == seen[2] != double


def test_blocks_migrate() -> None:
    """Catches a block that leaves something on its device, or comes back with the wrong lists."""
    problem = LeanmdProblem(lattice=(3, 2, 2), **HOT | {"rebuild": 9, "temperature": 1.0})
    blocks = blocks_of(problem, (2, 1, 1), "gpu")
    Engine(blocks).setup()
    for step in range(4):
        if step == 2:
            blocks = [pickle.loads(pickle.dumps(block)) for block in blocks]
        Engine(blocks).round(step, 1)
    assert blocks[0].built == 0  # so lists and ghosts were used again
    assert hash_and_table(blocks) == ran(problem, (1, 1, 1), "cpu", 4)[0]


# What is foreseen ---------------------------------------------------------------------------------

STRAYING: dict[str, Any] = HOT | {"rebuild": 9, "thermo": 0}  # an atom uses up the skin before


def built_at(problem: LeanmdProblem, grid: tuple[int, ...], name: str) -> list[int]:
    """After each of some steps, the step at which atoms last changed domain."""
    blocks = blocks_of(problem, grid, name)
    engine, found = Engine(blocks).setup(), []
    for step in range(12):
        engine.round(step, 1)
        (built,) = {block.built for block in blocks if block.kind != "compute"}
        found.append(built)
    return found


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 2)])
def test_lists_are_made_in_the_steps_of_the_cpu(grid: tuple[int, ...]) -> None:
    """Catches lists that are made a step too late or too early; most hashes do not show it."""
    problem = LeanmdProblem(lattice=(2, 2, 2), **STRAYING)
    right = built_at(problem, (1, 1, 1), "cpu")
    assert built_at(problem, grid, "gpu") == right
    assert len({*right}) > 2 and max(np.diff(sorted({*right}))) < 9


def test_a_step_waits_only_for_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a step that waits for its own drift, or for the last step before all have drifted.

    The first step waits for its drift, as no kick was before it; so does one after a migration.
    """
    seen: list[str] = []

    def note(owner: Any, name: str) -> None:
        right = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a: seen.append(name) or right(*a))

    note(GPU, "kick_and_drift")
    note(GPU, "kick")
    note(type(device.get("gpu")), "to_host")
    note(PinnedCopy, "begin")
    note(PinnedCopy, "get")
    problem = LeanmdProblem(lattice=(3, 2, 2), **STRAYING | {"temperature": 1.0})
    blocks = blocks_of(problem, (2, 1, 1), "gpu")
    Engine(blocks).setup()
    rounds = []
    for step in range(6):
        if step == 3:
            blocks = [pickle.loads(pickle.dumps(block)) for block in blocks]
        seen.clear()
        Engine(blocks).round(step, 1)
        rounds.append([*seen])
    assert blocks[0].built == 0
    wanted = [["kick_and_drift"] * 2 + [word] * 2 for word in ("to_host", "get", "get")]
    assert rounds == [[*words, *["kick", "begin"] * 2] for words in wanted * 2]


def test_what_new_lists_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a wait of one block before all have launched, and for all work of a stream.

    What is counted is read after the kernels of all blocks; entries of lists after the forces.
    """
    seen: list[str] = []

    def note(owner: Any, name: str) -> None:
        right = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *a: seen.append(name) or right(*a))

    def forces(*what: Any) -> None:
        seen.append("forces")
        GPU.forces(*what)

    for name in ("choose", "first_outside", "fill_lists"):
        note(GPU, name)
    monkeypatch.setitem(GPU.FORCES, "float64", forces)
    for name in ("to_host", "to_device"):
        note(type(device.get("gpu")), name)
    note(PinnedCopy, "get")
    problem = LeanmdProblem(lattice=(3, 2, 2), **HOT | {"rebuild": 1, "thermo": 0})
    blocks = blocks_of(problem, (2, 1, 1), "gpu")
    engine = Engine(blocks).setup()
    engine.round(0, 1)
    seen.clear()
    engine.round(1, 1)
    per_block = [  # error flags of the step before; atoms along x, y and z; ghosts; lists
        "get choose", "get", "choose", "get choose", "get first_outside",
        "get", "choose", "get", "choose", "get choose",
        "get fill_lists choose forces", "get get",
    ]  # fmt: skip
    assert seen == " ".join(f"{words} {words}" for words in per_block).split()


@pytest.mark.parametrize("is_right", [True, False])
@pytest.mark.parametrize(
    ("words", "grid"),
    [
        ({"lattice": (2, 2, 2)}, (2, 1, 1)),
        ({"decomposition": "pairs", "cells": (3, 3, 3)}, (1,) * 3),
    ],
)
def test_lists_without_room_are_made_again(
    words: dict[str, Any], grid: tuple[int, ...], is_right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches forces by lists that lack entries, where the room is that for the lists before.

    The wrong program does not look whether the lists have had enough room.
    """
    if not is_right:
        monkeypatch.setattr(Lists, "made_again", lambda lists: False)
    problem = LeanmdProblem(per_cell=4, **words, **HOT | {"rebuild": 1})
    right, _ = ran(dataclasses.replace(problem, decomposition="blocks"), (1, 1, 1), "cpu", 2)
    blocks = blocks_of(problem, grid, "gpu")
    engine = Engine(blocks).setup()
    for step in range(2):
        for block in blocks:
            lists = getattr(block, "lists", {})
            for one in lists.values() if isinstance(lists, dict) else [lists]:
                one.neighbors = block.device.empty((1,), np.uint32)
        engine.round(step, 1)
    assert (hash_and_table(blocks) == right) == is_right


def test_sizes_of_an_earlier_exchange_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches messages with as many atoms as the host has last read, and not as now leave."""
    problem = LeanmdProblem(lattice=(2, 2, 2), **HOT | {"rebuild": 1})
    assert support.solve("leanmd", problem, (2, 1, 1), 3, device="gpu").failed == set()
    right, before = GPU.choose, [(0, 0, 0)]

    def choose(*what: Any) -> Any:
        before.append(device.known(right(*what)))
        return (*map(min, before[-2][:2], before[-1]), before[-1][2])  # the rest stays

    monkeypatch.setattr(GPU, "choose", choose)
    with pytest.raises(Explosion, match="flies too fast"):
        support.solve("leanmd", problem, (2, 1, 1), 3, device="gpu")


Wrong: TypeAlias = "Callable[[list[Any], pytest.MonkeyPatch], None]"


def nothing_foreseen(blocks: list[Any], patch: pytest.MonkeyPatch) -> None:
    """The kick says nothing."""
    right, unread = GPU.kick, no_error(device.get("gpu"))
    patch.setattr(GPU, "kick", lambda *motion: right(*motion[:-1], unread))


def copied_before_the_kick(blocks: list[Any], patch: pytest.MonkeyPatch) -> None:
    """The flags are copied before the kick sets them."""
    right, show = GPU.kick, Atoms.show

    def kick(count: int, position: Any, *motion: Any) -> None:
        (atoms,) = (block.atoms for block in blocks if block.atoms.position is position)
        show(atoms)
        right(count, position, *motion)

    patch.setattr(GPU, "kick", kick)
    patch.setattr(Atoms, "show", lambda atoms: None)


def flags_of_the_step_before(blocks: list[Any], patch: pytest.MonkeyPatch) -> None:
    """The flags are those that were read a step earlier."""
    right = Atoms.seen
    kept: dict[int, list[Any]] = {id(block.atoms): [] for block in blocks}

    def seen(atoms: Atoms) -> Any:
        kept[id(atoms)].append(right(atoms))
        return kept[id(atoms)][-2:][0]

    patch.setattr(Atoms, "seen", seen)


FARTHER = r"step \d+: an atom moved farther than foreseen"
WRONG: list[Wrong] = [nothing_foreseen, copied_before_the_kick, flags_of_the_step_before]


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_foresight_is_noticed(wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches lists that are used too long, which change forces only sometimes."""
    blocks = blocks_of(LeanmdProblem(lattice=(2, 2, 2), **STRAYING), (2, 1, 1), "gpu")
    wrong(blocks, monkeypatch)
    engine, ends = Engine(blocks).setup(), 0
    with pytest.raises(StepError, match=FARTHER):
        for step in range(9):
            engine.round(step, 1)
            for block in blocks:
                if block.device.to_host(block.atoms.error_flags)[STRAY]:
                    ends += 1
                    with pytest.raises(StepError, match=FARTHER):
                        block.measure()  # as if this were the last step
    assert ends > 0


def test_a_cpu_foresees_nothing() -> None:
    """Catches copies where no kernel runs behind the host."""
    (block,) = blocks_of(LeanmdProblem(lattice=(2, 2, 2), **HOT), (1, 1, 1), "cpu")
    Engine([block]).setup().round(0, 1)
    assert block.atoms.seen() is None


def sent_by(there: Device, module: Any, position: np.ndarray, count: int, height: int = 4) -> Any:
    """Return the message of a cell with the first of some atoms, with ids from 100 on."""
    rows = np.concatenate([position, 0 * position, [np.arange(100, 100 + position.shape[1])]])
    rows[-1] = rows[-1].astype(np.int64).view(np.float64)
    rows[:3, count:] = FAR * np.arange(1, 1 + position.shape[1] - count)
    (message,) = there.messages({(): (height, count + module.WIDTH)}, np.float64).values()
    module.pack_positions(there.to_device(rows), message)
    return checked_message((), message)


def forces_of(kernels: Any, computes: list[Any]) -> list[np.ndarray]:
    """The forces of some computes, worked out by one batch, one after another and by edge."""
    dtype = computes[0].problem.dtype
    answers = kernels.PAIR_FORCES[dtype]([compute.task() for compute in computes])
    pairs = zip(computes, answers, strict=True)
    return [force for compute, answer in pairs for force in compute.forces(answer).values()]


def computes_of(name: str, **words: Any) -> dict[Any, Any]:
    """Some computes: of a cell with itself, and of two cells within and across the box's edge."""
    blocks = blocks_of(LeanmdProblem(per_cell=2, **PAIRS, **words), (1, 1, 1), name)
    second = (0, 0, 0), (0, 0, 1), (0, 1, 2)  # there over the edge downwards, above upwards
    wanted = *((0, 0, 0, *to) for to in second), (0, 2, 2, 0, 0, 0), (2, 2, 2, 0, 0, 0)
    return {block.index: block for block in blocks if block.index in wanted}


def received(compute: Any, came: Sequence[Any]) -> None:
    """Let a compute receive messages, of its second cell only if it has one."""
    compute.receive(dict(zip(compute.neighbors, came, strict=False)))
    assert not any([lists.made_again() for lists in compute.lists.values()])


@pytest.mark.parametrize("counts", [(9, 17), (1, 0), (0, 8), (65, 70)])
def test_computes(counts: tuple[int, int], launches: list[int]) -> None:
    """Catches rows of a table that are mixed up, a wrong shift, and tasks without atoms."""
    results: list[list[np.ndarray]] = []
    for (module, there), name in zip(both(), ("cpu", "gpu"), strict=True):
        computes = computes_of(name)
        for index, compute in computes.items():
            layout = support.layout_of(compute.problem, (1, 1, 1))
            low = compute.problem.corners(layout, index[:3])[0][:, None]
            over = np.array(compute.over or [0, 0, 0])[:, None]
            at = [strewn(70, 1) + low, strewn(70, 2) + low + 0.55 - over]
            at = [np.rint(one / compute.problem.quantum) * compute.problem.quantum for one in at]
            came = [sent_by(there, module, *one) for one in zip(at, counts, strict=True)]
            received(compute, came)
        results.append(forces_of(module, list(computes.values())))
    assert launches == [9]
    atoms = [counts[0], *counts * 4]
    for right, got, count in zip(*results, atoms, strict=True):
        assert support.same_bits(got[:, :count].copy(), right[:, :count].copy())
    assert min(counts) < 9 or all((force != 0).any() for force in results[0])


def test_computes_in_single_precision() -> None:
    """Catches jobs of another formula than that of blocks, and other bits than the CPU's."""
    results = []
    for (module, there), name in zip(both(), ("cpu", "gpu"), strict=True):
        compute = computes_of(name, dtype="float32")[0, 0, 0, 0, 0, 1]
        at = (in_quanta(strewn(9, 1)), in_quanta(strewn(9, 2) + 0.55))
        came = [sent_by(there, module, one, 9) for one in at]
        received(compute, came)
        lists, sides = compute.lists[0,], map(module.rows_of, compute.sides[0,])
        of_blocks, _ = felt_in_single(module, there, lists, *sides)
        assert compute.problem.quantum <= QUANTUM
        results += [forces_of(module, [compute])[0][:, :9], of_blocks[:, :9]]
    assert all((results[0] == other).all() for other in results[1:])
    assert results[0].any()


def test_computes_migrate() -> None:
    """Catches a compute that forgets its lists or who is in its cells."""
    there = device.get("gpu")
    for compute in computes_of("gpu").values():
        first, second = strewn(9, 1), strewn(9, 2) + 0.55
        for height in (4, 3):
            came = [sent_by(there, GPU, position, 9, height) for position in (first, second)]
            received(compute, came)
        again = pickle.loads(pickle.dumps(compute))
        received(again, came)
        for edge in compute.neighbors:
            assert again.energies(edge).tolist() == compute.energies(edge).tolist()
            assert again.ids_in(again.ids[edge]).tolist() == list(range(100, 109))
        for one, other in zip(forces_of(GPU, [again]), forces_of(GPU, [compute]), strict=True):
            assert support.same_bits(one, other)


def test_a_batch_waits_for_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a launch that reads positions or lists before they are there."""
    computes, cell, other = list(computes_of("gpu").values()), device.get("gpu"), device.get("gpu")
    sent = sent_by(cell, GPU, strewn(9, 1), 9), sent_by(other, GPU, strewn(9, 2) + 0.55, 9)
    for compute in computes:
        received(compute, sent)
    built = {compute.task().lists.ready for compute in computes}
    waits: list[tuple[Any, Any]] = []
    right = streams.wait_for

    def wait_for(mark: Any, stream: Any) -> None:
        waits.append((mark, stream))
        right(mark, stream)

    monkeypatch.setattr(streams, "wait_for", wait_for)
    forces_of(GPU, computes)
    marks = [mark for mark, _ in waits]
    assert marks[:2] == [message.ready for message in sent] and None not in marks
    assert set(marks[2:]) == built
    own = {compute.device.stream for compute in computes} | {cell.stream, other.stream}
    (shared,) = {stream for _, stream in waits}
    assert shared not in own and shared in shared.toolkit.idle


# Explosions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("apart", "speed", "said"), [(0.3, 0.0, "step 0"), (1.2, 25.0, "step [1-9]")]
)
def test_pairs_of_cells_that_are_too_close(apart: float, speed: float, said: str) -> None:
    """Catches errors that are found after atoms are too fast, or of another pair or step.

    There are two close pairs. The first compute that has its answer names its own.
    """
    at = np.array(
        [[1.0, 2.2, 2.2], [1.0 + apart, 2.2, 2.2], [3.0, 3.1, 1.5], [3.0, 3.05 + apart, 1.5]]
    )
    fast = np.array([[1, 0, 0], [-1, 0, 0], [0, 1.05, 0], [0, -1.05, 0]]) * speed

    def message(name: str, which: slice) -> str:
        """Return the outcome of a run with some of the atoms, with ids from 1 on."""
        at_once = at[which].T.copy(), fast[which].T.copy()
        problem = Placed(at=at_once[0], speed=at_once[1], **PAIRS | {"thermo": 1})
        with pytest.raises(Explosion, match=said + r": atom \d is 0\.") as raised:
            ran(problem, (1, 1, 1), name, 8)
        return str(raised.value)

    both = {message(name, slice(0, 4)) for name in ("cpu", "gpu")}
    if speed:  # one pair meets first
        assert len(both) == 1
        return
    alone = message("cpu", slice(0, 2)), message("cpu", slice(2, 4))
    right = {alone[0], re.sub(r"atom (\d)", lambda found: f"atom {int(found[1]) + 2}", alone[1])}
    assert len(right) == 2 and both <= right
    assert [message("gpu", slice(n, n + 2)) for n in (0, 2)] == list(alone)


@pytest.mark.parametrize(
    ("dt", "said"),
    [
        (0.06, r"step [1-9]\d*: atom \d+ is 0\.\d+ from another one; below 0\.66"),
        (100.0, r"step 1: atom \d+ flies too fast"),
        (1e300, r"step 1: atom \d+ flies apart"),
    ],
)
def test_a_step_that_is_too_long(dt: float, said: str) -> None:
    """Catches error flags that nobody checks, and messages that are not those of the CPU."""
    problem = LeanmdProblem(lattice=(2, 2, 2), **HOT | {"dt": dt, "density": 0.9, "skin": 0.1})
    messages = []
    for name in ("cpu", "gpu"):
        with pytest.raises(Explosion, match=said) as raised, np.errstate(all="ignore"):
            ran(problem, (1, 1, 1), name, 40)
        messages.append(str(raised.value))
    assert messages[0] == messages[1] or dt == 0.06
