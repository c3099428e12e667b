"""PIC on the GPU: every kernel against its CPU counterpart on awkward data, and whole runs."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import support

from miniapps import kernels
from miniapps.audit import AuditPlan
from miniapps.contract import MessageError, Pause
from miniapps.devices import backend as device
from miniapps.devices.cuda import memory
from miniapps.drivers.engine import Engine
from miniapps.kernels.pic.counters import (
    FIRST_LOST,
    FORESEEN,
    HERE,
    LEFT,
    LOST,
    MISROUTED,
    NOWHERE,
    OWNERS,
    UNFORESEEN,
    clean_counters,
    owner_at,
)
from miniapps.pic.block import PicBlock
from miniapps.pic.distribution import Distribution
from miniapps.pic.events import Event
from miniapps.pic.particles import NAMES, Particles
from miniapps.pic.problem import PicProblem

# In the simulator NumPy warns of integers modulo 2^64, and of a NaN that becomes one.
pytestmark = pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
CPU, GPU = kernels.load("pic", "cpu"), kernels.load("pic", "gpu")
SIZE = 24
CELLS = (4, 12, 6, 14)  # of a block in the middle: x0, x1, y0, y1
FRAME = np.array([*CELLS, 16, 24, 16, 16, 5], np.float64)  # as of blocks of 8 x 8 cells
TARGETS = [(0, 1), (1, -1), (1, 0), (1, 1), (2, 0)]
KNOWN = sum(1 << owner_at(edge) for edge in TARGETS)


class Counterpart:
    """The same particles on a device: arrays as rows x, y, vx, vy, charge and ids, cells, motions.

    ``room``: particles that the arrays can hold; ``gaps``: places of emigrants that can be listed;
    ``shared``: whether they are in one stream with others.
    """

    def __init__(
        self,
        name: str,
        rows: np.ndarray,
        room: int = 0,
        gaps: int | None = None,
        shared: bool = False,
    ) -> None:
        self.device, self.kernels = device.get(name), kernels.load("pic", name)
        if shared:
            self.device.share_queue()
        self.count = len(rows)
        room = max(room, self.count, 1)
        whole = np.zeros((room, 8))
        whole[: self.count] = rows
        columns = [np.ascontiguousarray(column) for column in whole.T]
        whole_numbers = [column.view(np.int64) for column in columns[5:]]
        self.arrays = tuple(self.device.to_device(a.copy()) for a in columns[:5] + whole_numbers)
        self.owners = self.device.to_device(np.full(room, HERE, np.uint8))
        self.spare = self.device.empty((room,), np.uint64)
        self.gaps = self.device.empty((max(1, room if gaps is None else gaps),), np.int64)
        self.counters = self.device.to_device(clean_counters())

    def host(self, what: Any) -> np.ndarray:
        """An array of the device as it is now."""
        return np.array(self.device.to_host(what))

    def rows(self, count: int | None = None) -> np.ndarray:
        """The particles (count, 8), integers as the bits they are, in order of their ids."""
        columns = [self.host(a).view(np.float64) for a in self.arrays]
        rows = np.stack(columns, axis=1)[: self.count if count is None else count]
        return rows[np.argsort(rows[:, 5].view(np.int64), kind="stable")]


def particles(count: int, cells: tuple[int, ...] = CELLS, seed: int = 5) -> np.ndarray:
    """Particles anywhere in cells, some on sides, in no order: rows as of a message."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((count, 8))
    for axis in (0, 1):
        low, high = cells[2 * axis : 2 * axis + 2]
        rows[:, axis] = rng.integers(low, high, count) + rng.uniform(0.1, 0.9, count)
    rows[:, 2:4] = rng.uniform(-0.3, 0.3, (count, 2))
    rows[:, 4] = 0.004 * rng.uniform(0.5, 1, count) * rng.choice((-1, 1), count)
    numbers = np.ascontiguousarray(rows[:, 5:]).view(np.int64)
    numbers[:, 0] = 1 + rng.permutation(count)
    numbers[:, 1] = (rows[:, 0].astype(int) * SIZE) + rows[:, 1].astype(int)
    numbers[:, 2] = rng.integers(0, 3, count)
    rows[:, 5:] = numbers.view(np.float64)
    return rows


def counterparts(rows: np.ndarray, **room: int) -> list[Counterpart]:
    """The same particles on both devices."""
    return [Counterpart(name, rows, **room) for name in ("cpu", "gpu")]


def mesh() -> np.ndarray:
    """Charges at the corners of all cells that differ from one to the next; 0 or powers of two."""
    shape = SIZE + 1, SIZE + 1
    charges = np.array([-16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16], np.int8)
    return charges[np.arange(np.prod(shape)) % charges.size].reshape(shape)


def pushed(side: Counterpart, known: int = KNOWN, steps: int = 1) -> np.ndarray:
    """Push one side's particles and return the counters."""
    there = side.device.to_device(mesh())
    state = side.arrays[:5], (there, FRAME, float(SIZE), known)
    work = side.owners, side.counters, side.gaps
    side.kernels.push(side.count, steps, *state[0], *state[1], *work)
    return side.host(side.counters)


def moving(count: int, share: float) -> np.ndarray:
    """Particles of which about a share goes to one of the targets; others begin further inside."""
    rows = particles(count, (CELLS[0] + 2, CELLS[1] - 2, CELLS[2] + 2, CELLS[3] - 2))
    rng = np.random.default_rng(9)
    for n in np.flatnonzero(rng.random(count) < share):
        rows[n, 4] = 0.0  # no force: it goes straight where it is sent
        along_x, along_y = TARGETS[rng.integers(len(TARGETS))]
        rows[n, 2] = (0.0, CELLS[1] - rows[n, 0] + 0.5, CELLS[1] + 8.5 - rows[n, 0])[along_x]
        rows[n, 3] = {
            -1: CELLS[2] - rows[n, 1] - 0.5,
            0: 0.0,
            1: CELLS[3] - rows[n, 1] + 0.5,
        }[along_y]
    return rows


# Beginning and pushing ---------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "count"), [(0, 0), (0, 37), (9, 1), (3, 64)])
def test_start(first: int, count: int) -> None:
    """Catches particles that begin elsewhere, or over those that are there."""
    rng = np.random.default_rng(2)
    cells, numbers = rng.integers(0, SIZE * SIZE, count), rng.permutation(count) + 100
    here, there = counterparts(particles(first), room=first + count + 5)
    for side in (here, there):
        new = side.device.to_device(numbers), side.device.to_device(cells)
        side.kernels.start(first, *new, 2, SIZE, -3.0, 0.7, *side.arrays)
    assert support.same_bits(there.rows(first + count + 5), here.rows(first + count + 5))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("count", "steps"), [(0, 1), (1, 1), (70, 3), (300, 1)])
def test_push(count: int, steps: int, share: float) -> None:
    """Catches another order of additions, a contraction, a wrong owner, emigrants miscounted."""
    rows = moving(count, share)
    rows[:, 2:4] /= steps
    here, there = counterparts(rows)
    right, counters = pushed(here, steps=steps), pushed(there, steps=steps)
    assert support.same_bits(counters, right) and counters[FIRST_LOST] == NOWHERE
    assert support.same_bits(there.rows(), here.rows())
    assert support.same_bits(there.host(there.owners), here.host(here.owners))
    left = counters[LEFT]
    assert (left == 0) == (share == 0.0 or count < 2) or left == count or steps > 1
    places = there.host(there.gaps)[:left]
    assert sorted(places) == here.host(here.gaps)[:left].tolist()


def test_push_beyond_all_sides() -> None:
    """Catches positions that are wrapped otherwise: at a side of the grid, twice, and at zero.

    A coordinate slightly below zero is moved to the far side, where there is no block.
    """
    whole = np.array([0, SIZE, 0, SIZE, SIZE, SIZE, SIZE, SIZE, 0], np.float64)
    at = [0.5, 0.25, 3.25, 23.75, 23.5]
    by = [-0.5, -1.0, -3.25, 0.25, 24.5, 2 * SIZE - 0.25, np.nextafter(-0.25, -1.0), -SIZE - 7.5]
    rows = np.zeros((len(at) * len(by), 8))
    rows[:, 0], rows[:, 1] = np.repeat(at, len(by)), np.tile(at, len(by))
    rows[:, 2], rows[:, 3] = np.tile(by, len(at)), np.repeat(by, len(at))
    results = []
    for side in counterparts(rows):
        charges = side.device.to_device(np.ones((SIZE + 1, SIZE + 1), np.int8))
        work = side.owners, side.counters, side.gaps
        side.kernels.push(side.count, 1, *side.arrays[:5], charges, whole, float(SIZE), 0, *work)
        results.append([side.host(array) for array in (*side.arrays, *work[:2])])
    for cpu, gpu in zip(*results, strict=True):
        assert support.same_bits(gpu, cpu)
    x, y, *_, owners, _ = results[0]
    outside = (x < 0) | (x >= SIZE) | (y < 0) | (y >= SIZE)
    assert 3 < outside.sum() < len(rows) and len(set(x)) > 9
    assert owners.tolist() == np.where(outside, LOST, HERE).tolist()


def test_push_names_the_first_that_is_lost() -> None:
    """Catches a particle that is lost in silence, and a NaN that is taken for a place here."""
    rows = moving(120, 0.5)
    for side in counterparts(rows):
        pushed(side)
        owners = side.host(side.owners)
        first = int(np.flatnonzero(owners == owner_at((1, 1)))[0])
        again = Counterpart(side.device.name, rows)
        assert pushed(again, KNOWN & ~(1 << owner_at((1, 1))))[FIRST_LOST] == first
        for axis in (0, 1):
            spoilt_rows = rows.copy()
            spoilt_rows[40, axis] = np.nan
            spoilt = Counterpart(side.device.name, spoilt_rows)
            assert pushed(spoilt)[FIRST_LOST] == 40
            assert spoilt.host(spoilt.owners)[40] == LOST


def foreseen_by(side: Counterpart, shifts: np.ndarray, known: int = -1) -> np.ndarray:
    """Push, and return how many of those that stay are foreseen to leave next, per owner."""
    there = side.device.to_device(mesh()), FRAME, float(SIZE), known
    work = side.owners, side.counters, side.gaps
    ahead = side.arrays[7], side.device.to_device(shifts.reshape(-1))
    side.kernels.push(side.count, 1, *side.arrays[:5], *there, *work, *ahead)
    return side.host(side.counters)[FORESEEN:]


def where_they_go(rows: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """How many particles go to each owner when they make a shift without any force."""
    there = rows.copy()
    motions = np.ascontiguousarray(rows[:, 7]).view(np.int64)
    there[:, 2:4], there[:, 4] = shifts[motions], 0.0
    side = Counterpart("cpu", there)
    counts = pushed(side, -1)[:OWNERS]
    assert counts.sum() == (side.owners != HERE).sum()
    return counts


MOVES = np.array([[3.0, SIZE - 2.0], [5.0, -2.0], [-9.0, 3.0]])  # by motion


@pytest.mark.parametrize("motions", [1, 3])
def test_emigrants_are_foreseen(motions: int) -> None:
    """Catches emigrants of the next round that are not counted, or for another owner."""
    rows = moving(200, 0.2)
    rows[:, 7:].view(np.int64)[:] %= motions
    side = Counterpart("gpu", rows)
    found = foreseen_by(side, MOVES[:motions])
    stay = side.host(side.owners) == HERE
    columns = [side.host(array).view(np.float64) for array in side.arrays]
    right = where_they_go(np.stack(columns, axis=1)[stay], MOVES)
    assert found.tolist() == right.tolist() and (right > 0).sum() > 1
    came, count = arrivals([30, 1, 25]), 3 * side.count
    for message in came.values():
        message[:, 7:].view(np.int64)[:] %= motions
    work = side.gaps, 0, side.count, side.owners, side.counters
    room = tuple(GPU.resized(array, side.count, count) for array in side.arrays)
    ahead = float(SIZE), side.device.to_device(MOVES[:motions].reshape(-1))
    GPU.unpack(side.device.received(came), FRAME, *work, room, *ahead)
    right = right + where_they_go(np.concatenate(list(came.values())), MOVES)
    assert side.host(side.counters)[FORESEEN:].tolist() == right.tolist()


def test_lost_particles_stay_and_are_marked() -> None:
    """Catches a lost particle that goes on through memory that is not the mesh's, or unmarked."""
    rows = moving(90, 0.0)
    rows[7, :5], rows[50, :5] = (5.5, 7.5, 0.0, -4.0, 0.0), (5.5, 7.5, 0.0, np.nan, 0.0)
    side = Counterpart("gpu", rows)
    for _ in range(2):
        foreseen_by(side, MOVES, KNOWN)
        assert side.host(side.counters)[FIRST_LOST] == 7
        assert (side.host(side.owners)[[7, 50]] == HERE).all()
        assert np.flatnonzero(side.host(side.arrays[7]) < 0).tolist() == [7, 50]
        assert side.host(side.arrays[1])[7] == 7.5 - 4.0
    starts, places = side.device.empty((9,), np.int64), side.device.empty((90,), np.int32)
    GPU.places_by_column(90, side.arrays[0], 4.0, starts, places)
    assert sorted(side.host(places)) == list(range(90))


# Leaving and coming ------------------------------------------------------------------------------


def test_more_emigrants_than_room() -> None:
    """Catches a list that overruns its room, and a second search that counts twice."""
    here, there = counterparts(moving(150, 0.8), gaps=5)
    for side in (here, there):
        before = pushed(side)
        assert before[LEFT] > 60
        longer = side.device.to_device(np.full(before[LEFT] + 3, -1))
        side.kernels.find_leaving(side.count, side.owners, KNOWN, side.counters, longer)
        assert support.same_bits(side.host(side.counters), before)
        listed = side.host(longer)
        right = np.flatnonzero(side.host(side.owners) != HERE)
        assert sorted(listed[: len(right)]) == right.tolist() and (listed[len(right) :] == -1).all()


def packed(side: Counterpart) -> Mapping[Any, Any]:
    """Push, and pack those that leave."""
    counters = pushed(side)
    shapes = {edge: (int(counters[owner_at(edge)]), 8) for edge in TARGETS}
    messages = side.device.messages(shapes, np.float64)
    work = side.gaps, side.owners, side.counters
    side.kernels.pack(int(counters[LEFT]), *work, side.arrays, messages)
    assert support.same_bits(side.host(side.counters), clean_counters())
    return messages


def in_order(message: Any) -> np.ndarray:
    """The rows of a message on the host, in order of their bits."""
    array = message if isinstance(message, np.ndarray) else message.on_host()
    rows = np.array(array).view(np.uint64).reshape(-1, 8)
    return rows[np.lexsort(rows.T)]


@pytest.mark.parametrize(("count", "share"), [(0, 0.0), (50, 0.0), (200, 0.4), (90, 1.0)])
def test_pack(count: int, share: float) -> None:
    """Catches particles in another's message, bits that change, and rows written twice or not."""
    here, there = counterparts(moving(count, share))
    right, messages = packed(here), packed(there)
    there.device.stage(messages.values())
    assert list(messages) == list(right)
    for edge in TARGETS:
        assert np.array_equal(in_order(messages[edge]), in_order(right[edge]))
        assert messages[edge].shape == right[edge].shape
    assert sum(message.shape[0] for message in right.values()) > 0 or share == 0.0


@pytest.mark.parametrize("off", [(1, 0), (-1, 0), (1, -1), (-3, 2), (7, 9)])
def test_others_leave_than_foreseen(off: tuple[int, int]) -> None:
    """Catches rows that are written behind a message, and a wrong number that is not noticed."""
    side = Counterpart("gpu", moving(120, 0.5), gaps=200)
    side.gaps.copy_to_device(np.full(200, 1 << 40), stream=side.device.stream)
    counters = pushed(side)
    shapes = {edge: int(counters[owner_at(edge)]) for edge in TARGETS}
    for edge, more in zip(TARGETS, off, strict=False):
        shapes[edge] += more
    messages = side.device.messages({e: (rows, 8) for e, rows in shapes.items()}, np.float64)
    flat = messages.flat
    flat.copy_to_device(np.full(flat.size, -7.0), stream=side.device.stream)
    total = sum(shapes.values())
    GPU.pack(total, side.gaps, side.owners, side.counters, side.arrays, messages)
    after, whole = side.host(side.counters), side.host(flat).copy()
    assert after[UNFORESEEN] > 0 or after[:OWNERS].any()
    for edge, rows in shapes.items():
        whole[messages.starts[edge] :][: 8 * rows] = -7.0
    assert (whole == -7.0).all()
    with np.errstate(all="ignore"):  # the rest must do no harm
        work = side.gaps, 0, total, side.owners, side.counters, side.spare
        side.spare.copy_to_device(np.full(120, 1 << 40, np.uint64), stream=side.device.stream)
        GPU.close_gaps(side.count, *work, side.arrays)
        came = side.device.received(arrivals([total]))
        GPU.unpack(came, FRAME, side.gaps, total, side.count, *work[3:5], side.arrays)


def test_more_gaps_than_particles_behind_them() -> None:
    """Catches a place that no kernel has written, taken for that of a particle to move."""
    side = Counterpart("gpu", particles(4))
    before = side.rows()
    owners, spare = np.array([LOST, HERE, HERE, LOST], np.uint8), np.full(4, 1 << 40, np.uint64)
    side.owners, side.spare = side.device.to_device(owners), side.device.to_device(spare)
    gaps = side.device.to_device(np.zeros(1, np.int64))
    GPU.close_gaps(4, gaps, 0, 1, side.owners, side.counters, side.spare, side.arrays)
    assert support.same_bits(side.rows(), before)


def arrivals(lengths: list[int]) -> dict[int, np.ndarray]:
    """Return messages with the given numbers of particles in the block, with unique ids."""
    messages = {}
    for edge, length in enumerate(lengths):
        rows = particles(length, seed=20 + edge)
        rows[:, 5:6].view(np.int64)[:] += 1000 * (edge + 1)
        messages[edge] = rows
    return messages


def taken_in(side: Counterpart, came: dict[int, np.ndarray], mixed: bool) -> int:
    """Let ``came`` fill the places of those that left; returns how many there are then."""
    left = int(pushed(side)[LEFT])
    if side.device.name == "gpu":  # it may list them in any order: the worst is from behind
        places = side.host(side.gaps)[:left][::-1]
        side.gaps = side.device.to_device(np.array([*places, -1]))
    side.kernels.pack(left, side.gaps, side.owners, side.counters, side.arrays, room_for(side))
    there: Mapping[Any, Any] = {edge: rows.copy() for edge, rows in came.items()}
    if mixed and side.device.name == "gpu":  # some from another block here, some from the host
        other = device.get("gpu")
        near = {edge: rows for edge, rows in came.items() if edge % 2}
        sent = other.messages({edge: rows.shape for edge, rows in near.items()}, np.float64)
        for edge, rows in near.items():
            put_into(other, sent, edge, rows)
        sent.seal()
        there = {edge: sent[edge] if edge in near else rows for edge, rows in there.items()}
    rows = sum(len(message) for message in came.values())
    where = FRAME, side.gaps, left, side.count, side.owners, side.counters
    side.kernels.unpack(side.device.received(there), *where, side.arrays)
    count = side.count + max(0, rows - left)
    work = side.owners, side.counters, side.spare
    side.kernels.close_gaps(count, side.gaps, rows, left, *work, side.arrays)
    return count - max(0, left - rows)


def room_for(side: Counterpart) -> Mapping[Any, Any]:
    """Messages for those that leave."""
    counters = side.host(side.counters)
    return side.device.messages(
        {edge: (int(counters[owner_at(edge)]), 8) for edge in TARGETS}, np.float64
    )


def put_into(there: Any, buffer: Any, edge: Any, rows: np.ndarray) -> None:
    """Fill one message of a message buffer from the host."""
    whole = there.to_host(buffer.flat).copy()
    whole[buffer.starts[edge] : buffer.starts[edge] + rows.size] = rows.ravel()
    buffer.flat.copy_to_device(whole, stream=there.stream)


LENGTHS = [[], [0, 0, 0], [1], [3, 0, 5], [2, 7, 1, 4, 0, 3, 6, 5], [40, 33], [0, 150]]


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_unpack_and_close_gaps(lengths: list[int], share: float, mixed: bool) -> None:
    """Catches rows that fall on each other, gaps that stay, and particles lost where those close.

    More come than leave, fewer, as many and none; all leave and none.
    """
    if mixed and (len(lengths) < 2 or share != 0.5):
        return
    here, there = counterparts(moving(60, share), room=300)
    came = arrivals(lengths)
    counts = [taken_in(side, came, mixed) for side in (here, there)]
    assert counts[0] == counts[1]
    assert support.same_bits(there.rows(counts[1]), here.rows(counts[0]))
    counters = slice(MISROUTED + 1)
    assert support.same_bits(there.host(there.counters)[counters], clean_counters()[counters])


@pytest.mark.parametrize("mixed", [False, True])
def test_unpack_names_the_first_wrong_row(mixed: bool) -> None:
    """Catches a particle of another block that is taken in, and a NaN; both stay on the mesh."""
    came = arrivals([6, 5, 9, 4])
    came[1][3, 0], came[2][7, 1], came[3][0, 0] = CELLS[1], np.nan, CELLS[0] - 1e-9
    for side in counterparts(moving(60, 0.2), room=300):
        count = taken_in(side, came, mixed)
        assert side.host(side.counters)[MISROUTED] == 6 + 3
        x, y = (side.host(array)[:count] for array in side.arrays[:2])
        staying = side.host(side.owners)[:count] != LOST
        assert ((x >= CELLS[0]) & (x < CELLS[1]) & (y >= CELLS[2]) & (y < CELLS[3]))[staying].all()
        message = side.device.received({1: came[1].copy()})[1]
        assert support.same_bits(np.array(side.kernels.row_of(message, 3)), came[1][3])


@pytest.mark.parametrize("stays", ["", "1", "0", "0110", "1100", "0011", "10" * 40, "0" * 70])
def test_gaps_in_any_order_are_closed(stays: str) -> None:
    """Catches a particle that is dropped with those that leave, or one that stays twice."""
    kept = np.array([c == "1" for c in stays], bool)
    here, there = counterparts(particles(len(stays)))
    left = len(stays) - int(kept.sum())
    for side, turn in ((here, 1), (there, -1)):
        gaps = np.flatnonzero(~kept)[::turn]
        owners = np.where(kept, HERE, LOST).astype(np.uint8)
        side.gaps = side.device.to_device(np.array([-1, *gaps, -1]))
        side.owners = side.device.to_device(np.array([*owners, LOST], np.uint8))
        work = side.owners, side.counters, side.spare
        for _ in range(2 - (left > 0)):  # twice where nothing may happen
            arrays = side.arrays
            side.kernels.close_gaps(side.count, side.gaps, 1, 1 + left, *work, arrays)
    assert support.same_bits(there.rows(len(stays) - left), here.rows(len(stays) - left))


@pytest.mark.parametrize("counts", [[40], [0, 0], [300, 0, 7], [1, 600, 257, 30]], ids=str)
def test_several_blocks(counts: list[int]) -> None:
    """Catches a launch for many blocks that takes the numbers or the particles of another one.

    Some blocks need several thread blocks, others nothing; some get more than leave, others fewer.
    """
    rows = [moving(count, 0.3 + 0.1 * n) for n, count in enumerate(counts)]
    here = [Counterpart("cpu", one, 900) for one in rows]
    there = [Counterpart("gpu", one, 900, shared=True) for one in rows]
    right = [pushed(side) for side in here]
    state: list[Any] = [(gpu.device.to_device(mesh()), FRAME, float(SIZE), KNOWN) for gpu in there]
    GPU.FOR_ALL["push"]([
        (gpu.count, 1, *gpu.arrays[:5], *given, gpu.owners, gpu.counters, gpu.gaps, gpu.arrays[7],
         None)
        for gpu, given in zip(there, state, strict=True)
    ])  # fmt: skip
    left = [int(counters[LEFT]) for counters in right]
    assert [gpu.host(gpu.counters).tolist() for gpu in there] == [c.tolist() for c in right]
    sent = [room_for(side) for side in here], [room_for(side) for side in there]
    work = [
        [
            (n, side.gaps, side.owners, side.counters, side.arrays, to)
            for n, side, to in zip(left, *one, strict=True)
        ]
        for one in ((here, sent[0]), (there, sent[1]))
    ]
    for task in work[0]:
        CPU.pack(*task)
    GPU.FOR_ALL["pack"](work[1])
    for gpu, on_cpu, on_gpu in zip(there, *sent, strict=True):
        gpu.device.stage(on_gpu.values())
        assert all(np.array_equal(in_order(on_gpu[e]), in_order(on_cpu[e])) for e in TARGETS)
    came = [arrivals([3 * n, 20 // (n + 1)]) for n in range(len(counts))]
    works, ends = [], []
    for a, b, leave, messages in zip(here, there, left, came, strict=True):
        many = sum(map(len, messages.values()))
        ends.append(a.count + many - leave)
        for side in (a, b):
            view = side.device.received({e: m.copy() for e, m in messages.items()})
            work_of = side.owners, side.counters
            unpack = view, FRAME, side.gaps, leave, side.count, *work_of, side.arrays
            close = side.count, side.gaps, many, leave, *work_of, side.spare, side.arrays
            if side is a:
                CPU.unpack(*unpack)
                CPU.close_gaps(*close)
                continue
            ahead = float(SIZE), None
            works.append(((*unpack, *ahead) if many else None, close if many < leave else None))
    GPU.FOR_ALL["store"](works)
    for a, b, end in zip(here, there, ends, strict=True):
        assert support.same_bits(b.rows(end), a.rows(end))
    tasks = []
    for gpu, end in zip(there, ends, strict=True):
        gpu.places = gpu.device.empty((900,), np.int32)
        starts = gpu.device.empty((CELLS[1] - CELLS[0] + 1,), np.int64)
        x = gpu.arrays[0]
        tasks.append((end, x, float(CELLS[0]), starts, gpu.places, gpu.spare, gpu.arrays))
    GPU.FOR_ALL["sort"](tasks)
    for a, b, end in zip(here, there, ends, strict=True):
        assert (np.diff(np.floor(b.host(b.arrays[0])[:end])) >= 0).all()
        assert support.same_bits(b.rows(end), a.rows(end))


# Order -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 17, 200])
def test_sorting(count: int) -> None:
    """Catches particles that are lost or out of order, and arrays that are sorted apart."""
    here, there = counterparts(particles(count, (4, 7, 0, 24)), room=count + 3)
    for side in (here, there):
        starts = side.device.empty((3 + 1,), np.int64)
        places = side.device.empty((count + 3,), np.int32)
        side.kernels.places_by_column(side.count, side.arrays[0], 4.0, starts, places)
        assert sorted(side.host(places)[:count]) == list(range(count))
        side.kernels.reorder(side.count, places, side.spare, side.arrays)
        assert (np.diff(np.floor(side.host(side.arrays[0])[:count])) >= 0).all()
    assert support.same_bits(there.rows(), here.rows())


def test_sorting_over_many_columns() -> None:
    """Catches a prefix sum that is wrong where its chunks meet."""
    rng = np.random.default_rng(8)
    rows = np.zeros((130, 8))
    rows[:, 0] = 1000 + rng.integers(0, 301, 130) + 0.5
    rows[:, 5] = np.arange(130).view(np.float64)
    side = Counterpart("gpu", rows)
    starts, places = side.device.empty((302,), np.int64), side.device.empty((130,), np.int32)
    GPU.places_by_column(130, side.arrays[0], 1000.0, starts, places)
    columns = np.empty(130)
    columns[side.host(places)] = rows[:, 0]
    assert columns.tolist() == sorted(rows[:, 0])


def test_particles_grow_and_migrate() -> None:
    """Catches particles that are lost where arrays become longer, or when a block migrates."""
    mine = Particles(device.get("gpu"))
    rng = np.random.default_rng(1)
    cells, numbers = rng.integers(0, SIZE * SIZE, 50), rng.permutation(50)
    mine.begin(GPU, numbers, cells, 1, SIZE, 2.0, 0.5)
    kept = [mine.on_host(name).copy() for name in NAMES]
    again = pickle.loads(pickle.dumps(mine))
    assert len(pickle.dumps(mine)) < 64 * 50 + 2000
    for holder in (mine, again):
        holder.reserve(GPU, 200)
        assert holder.x.shape[0] >= 200 and holder.count == 50
        holder.begin(GPU, numbers, cells, 0, SIZE, 0.0, 0.5)
        for name, right in zip(NAMES, kept, strict=True):
            assert support.same_bits(holder.on_host(name)[:50], right)
        assert holder.on_host("cells").tolist() == [*cells, *cells]


# Events and checks -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 130])
@pytest.mark.parametrize("fraction", [0.3, 1.0])
@pytest.mark.parametrize("patch", [(0, 24, 0, 24), (5, 9, 7, 14), (0, 1, 0, 1)])
def test_find_removed(count: int, fraction: float, patch: tuple[int, ...]) -> None:
    """Catches a removal of others, at a side of its patch or by another hash."""
    selection = Event.parse(f"remove:1:0,1,0,1:{fraction}").selection(3)
    assert selection is not None
    listed = []
    for side in counterparts(particles(count)):
        x, y, ids = (side.arrays[n] for n in (0, 1, 5))
        where = np.array(patch), *selection, side.owners, side.counters, side.gaps
        side.kernels.find_removed(side.count, x, y, ids, *where)
        total = side.host(side.counters)[LEFT]
        listed.append(sorted(side.host(side.gaps)[:total]))
        gone = np.flatnonzero(side.host(side.owners)[:count] != HERE)
        assert gone.tolist() == listed[-1]
    assert listed[0] == listed[1]
    assert count < 2 or fraction < 1.0 or (len(listed[0]) == count) == (patch[1] == 24)


@pytest.mark.parametrize("count", [0, 1, 90])
def test_sums_of_ids(count: int) -> None:
    """Catches an id that is left out or taken twice, and ids beyond the count."""
    here, there = counterparts(particles(count), room=count + 4)
    sums = [side.kernels.sums_of_ids(count, side.arrays[5]) for side in (here, there)]
    assert support.same_bits(sums[1], sums[0]) and sums[1][0] == count


@pytest.mark.parametrize("off", [0.0, 1e-9, -5.0, 23.9, np.nan])
def test_largest_error(off: float) -> None:
    """Catches a particle that is not looked at, a distance around the grid, and a lost NaN."""
    rows = particles(70)
    cells, motions = (rows[:, n].copy().view(np.int64) for n in (6, 7))
    shifts = np.array([[0, 0], [5, -3], [SIZE - 1, 11]]) % SIZE
    rows[:, 0] = (cells // SIZE + shifts[motions, 0]) % SIZE + 0.5
    rows[:, 1] = (cells % SIZE + shifts[motions, 1]) % SIZE + 0.5
    for place, axis in ((0, 0), (69, 1), (33, 0)):
        wrong = rows.copy()
        wrong[place, axis] += off
        errors = []
        for side in counterparts(wrong):
            x, y, *_, cells_there, motions_there = side.arrays
            where = x, y, cells_there, motions_there, side.device.to_device(shifts)
            errors.append(side.kernels.largest_error(side.count, *where, float(SIZE)))
        assert support.same_bits(np.array(errors[1]), np.array(errors[0]))
        assert np.isnan(errors[0]) == np.isnan(off) and (errors[0] == 0) == (off == 0)


# Whole runs --------------------------------------------------------------------------------------


def problem_of(*events: str, **values: Any) -> PicProblem:
    """A small problem."""
    given: dict[str, Any] = {
        "size": SIZE,
        "particles": 120,
        "k": 1,
        "m": -2,
        "distribution": Distribution("geometric", (0.9,)),
        "events": tuple(map(Event.parse, events)),
    }
    return PicProblem(**(given | values))


EVENTS = "inject:1:50:2,9,3,8:0,3", "remove:3:0,23,0,11:0.5", "inject:3:9:10,13,10,13"
BUNCH, IN_A_CELL = (11, 11, 5, 5), Distribution("patch", (10, 10, 1, 1))
RUNS = [
    ((1, 1), 5, problem_of(*EVENTS)),
    ((2, 3), 5, problem_of(*EVENTS)),
    ((3, 1), 4, problem_of(k=4, m=0)),
    ((2, 2), 6, problem_of(*EVENTS, time_tile="auto")),
    ((1, 4), 4, problem_of("remove:2:0,23,0,23", k=0, m=5)),
    ((6, 2), 3, problem_of(k=2, m=1, distribution=Distribution("patch", (0, 3, 0, 3)))),
    ((2, 1), 2, problem_of(k=5, particles=300, distribution=Distribution("linear", (1.0, 3.0)))),
    # All are in a column or a row, and leave at once: more than a list of gaps or an array holds.
    ((4, 2), 9, problem_of(particles=300, distribution=Distribution("patch", (5, 5, 0, 23)))),
    ((2, 4), 6, problem_of(k=0, m=3, particles=300, distribution=Distribution("patch", BUNCH))),
    ((2, 2), 7, problem_of(*EVENTS, particles=300, time_tile=2, distribution=IN_A_CELL)),
]


CASES = [(*run, odf) for run in RUNS for odf in (1, 2) if odf == 1 or run[2].k < 2]


@pytest.mark.parametrize(("grid", "steps", "problem", "odf"), CASES)
def test_same_bits_as_on_the_cpu(grid, steps, problem, odf):
    """Catches particles lost, doubled or moved otherwise, with events and over a whole block.

    With several blocks on a PE, one launch does the work of all.
    """
    cpu, gpu = (
        support.solve("pic", problem, grid, steps, odf=odf, device=d, plan=AuditPlan(16, 0, 3))
        for d in ("cpu", "gpu")
    )
    assert gpu.state_hash == cpu.state_hash
    assert gpu.failed == set()
    for name, (_, value) in cpu.outcome.measures.items():
        assert np.array_equal(gpu.outcome.measures[name].value, value), name


def test_particles_stay_in_order_on_the_device() -> None:
    """Catches sorts that never happen, or lose particles, and arrays that never grow."""
    problem = problem_of(particles=150, k=0, m=3, distribution=Distribution("geometric", (1.0,)))
    blocks = support.blocks_of("pic", problem, (1, 2), device="gpu")
    engine, sorted_at = Engine(blocks).setup(), []
    for step in range(4):
        engine.round(step, 1)
        mine = blocks[0].particles
        columns = np.floor(mine.on_host("x"))
        sorted_at.append(mine.unsorted == 0 and bool((np.diff(columns) >= 0).all()))
    assert any(sorted_at)
    assert support.state_hash_of(blocks) == support.solve("pic", problem, (1, 2), 4).state_hash


@pytest.mark.parametrize("odf", [1, 2])
def test_block_pickled_in_mid_run(odf: int) -> None:
    """Catches device state that a migration loses, or that stays behind, or in another stream."""
    problem = problem_of(*EVENTS)
    engine = Engine(support.blocks_of("pic", problem, (2, 1), device="gpu", odf=odf)).setup()
    engine.round(0, 1)
    engine.round(1, 1)
    moved = [pickle.loads(pickle.dumps(block)) for block in engine.blocks]
    for block in moved:
        assert block.particles.device is block.device
        assert block.device.shares_queue is (odf == 2)
        assert block.particles.x.stream is block.device.stream
    again = Engine(moved)
    for step in (2, 3):
        again.round(step, 1)
    assert support.state_hash_of(moved) == support.solve("pic", problem, (2, 1), 4).state_hash


def test_arrivals_that_do_not_belong_here_are_named() -> None:
    """Catches a wrong particle that is never reported, as the step does not wait to look."""
    blocks = support.blocks_of("pic", problem_of(), (2, 1), device="gpu")
    engine = Engine(blocks).setup()
    engine.round(0, 1)
    block = blocks[0]
    row = np.zeros((1, 8))
    row[0, :2], row[:, 5:6].view(np.int64)[:] = (17.5, 3.25), 77
    edge = next(iter(block.sources))
    block.store_immigrants(0, block.device.received({edge: row}))
    block.time += 1
    message = rf"step 1: particle 77 at \(17\.5, 3\.25\) came by edge \({edge[0]}, {edge[1]}\)"
    with pytest.raises(MessageError, match=message):
        block.measure()
    life = block.step(1)
    assert next(life) == Pause()
    with pytest.raises(MessageError, match=message):
        next(life)


def test_emigrants_that_no_move_leads_to_are_named() -> None:
    """Catches a particle that is lost in silence."""
    blocks = support.blocks_of("pic", problem_of(), (3, 1), device="gpu")
    engine = Engine(blocks).setup()
    engine.round(0, 1)
    mine = blocks[0].particles
    charges = np.zeros(mine.charge.shape)
    speeds = np.full(mine.vx.shape, -11.0)
    toolkit_copy(mine.charge, charges)
    toolkit_copy(mine.vx, speeds)
    with pytest.raises(MessageError, match=r"step 1: particle \d+ went to \(.*\), which no move"):
        engine.round(1, 1)
        engine.round(2, 1)


def wrong_shift(block: Any) -> None:
    """Foresee as if particles went one cell further."""
    right = block._next_shifts
    block._next_shifts = lambda: block.device.to_device(memory.to_host(right()) + 1.0)


def copied_too_early(block: Any) -> None:
    """Copy the counters before particles have come."""
    mine = block.particles
    take = mine.take

    def taken(*arguments: Any) -> Any:
        mine.copy.begin()
        return take(*arguments)

    mine.take = taken
    block.device.begin_copies = lambda copies: None


def counts_of_the_round_before(block: Any) -> None:
    """Take as many as left in the last round."""
    seen, last = block.particles.seen, [[0] * OWNERS]

    def late() -> Any:
        found = seen()
        last.append(last[-1] if found is None else found[1])
        return found and (found[0], last[-2])

    block.particles.seen = late


def none_foreseen(block: Any) -> None:
    """Foresee that nobody leaves: then no kernel packs, and none can notice."""
    seen = block.particles.seen
    block.particles.seen = lambda: (found := seen()) and (found[0], [0] * OWNERS)


def owners_exchanged(block: Any) -> None:
    """Foresee as many, but for other owners: rows that do not fit are all that is wrong."""
    seen, one, other = block.particles.seen, owner_at((1, 0)), owner_at((0, -1))

    def exchanged() -> Any:
        found = seen()
        if found is not None:
            found[1][one], found[1][other] = found[1][other], found[1][one]
        return found

    block.particles.seen = exchanged


WRONG: list[Callable[[Any], None]] = [
    wrong_shift,
    owners_exchanged,
    copied_too_early,
    counts_of_the_round_before,
    none_foreseen,
]


@pytest.mark.parametrize("odf", [1, 2])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_foresight_is_noticed(wrong: Callable[[Any], None], odf: int) -> None:
    """Catches particles that no message had room for, and rows of messages that nobody wrote.

    Whose block looks first complains: the sender's, or that to which rows of no particle came.
    """
    problem = problem_of(k=1, m=-2, particles=400, distribution=Distribution("linear", (1.0, 9.0)))
    blocks = support.blocks_of("pic", problem, (2, 2), device="gpu", odf=odf)
    for block in blocks:
        wrong(block)
    engine = Engine(blocks).setup()
    with pytest.raises(MessageError, match=r"other particles left than|came by edge"):
        for step in range(5):
            engine.round(step, 1)


def test_more_are_foreseen_than_there_are() -> None:
    """Catches arrays and messages for particles that do not exist."""
    (block, _) = support.blocks_of("pic", problem_of(), (2, 1), device="gpu")
    here: Any = block
    here.particles.seen = lambda: (clean_counters().tolist(), [here.particles.count + 1] * OWNERS)
    with pytest.raises(MessageError, match="other particles left than the moves"):
        here.count_leaving(True)


@pytest.mark.parametrize("counter", [UNFORESEEN, owner_at((1, 0))])
def test_counters_of_wrong_foresight_are_looked_at(counter: int) -> None:
    """Catches one of two signs that others left, of which a run may show only one."""
    (block, _) = support.blocks_of("pic", problem_of(), (2, 1), device="gpu")
    here: Any = block
    counters = clean_counters().tolist()
    here.check(counters)
    counters[counter] = 1
    with pytest.raises(MessageError, match="other particles left than the moves"):
        here.check(counters)


def toolkit_copy(array: Any, values: np.ndarray) -> None:
    """Overwrite an array on the device."""
    array.copy_to_device(values, stream=array.stream)
    assert memory.to_host(array).tobytes() == values.tobytes()


@pytest.mark.parametrize("odf", [1, 4])
def test_a_step_waits_only_for_the_last_one(odf: int) -> None:
    """Catches a step that waits for its own push, or for the last one before all have pushed.

    After an event and in a shorter round, there is one wait for the push.
    """
    problem = problem_of("inject:4:9:10,13,10,13", k=0, time_tile=2)
    grid = (2, 2) if odf == 1 else (1, 1)
    blocks: list[Any] = list(support.blocks_of("pic", problem, grid, device="gpu", odf=odf))
    engine, seen = Engine(blocks).setup(), []

    def noted(word: str, call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: seen.append(word) or call(*arguments)

    for block in blocks:
        copy = block.particles.copy
        block.device.to_host = noted("wait", block.device.to_host)
        block.to_push, copy.get = noted("push", block.to_push), noted("get", copy.get)
        block.device.begin_copies = noted("copy", block.device.begin_copies)
    rounds = []
    for step, count in ((0, 2), (2, 2), (4, 2), (6, 2), (8, 1)):
        seen.clear()
        engine.round(step, count)
        rounds.append([*seen])
    pushed, copied = ["push"] * len(blocks), ["copy"] * (len(blocks) // odf)
    assert rounds[0] == pushed + ["wait"] * len(blocks) + copied
    assert rounds[1] == rounds[3] == pushed + ["get"] * len(blocks) + copied
    assert rounds[2] == rounds[4] == pushed + ["get", "wait"] * len(blocks) + copied


def test_a_cpu_foresees_nothing() -> None:
    """Catches work for the next round where no kernel runs behind the host."""
    (block,) = support.blocks_of("pic", problem_of(), (1, 1), device="cpu")
    assert isinstance(block, PicBlock) and block.shifts == []
    Engine([block]).setup().round(0, 1)
    assert block.next_steps == 0 and block.particles.seen() is None


def test_owners_fit_the_counters() -> None:
    """Catches an edge whose owner is another's, or LOST."""
    owners = {owner_at((x, y)) for x in (-1, 0, 1, 2) for y in (-1, 0, 1)}
    assert owners == set(range(12)) and LOST == OWNERS - 1 and owner_at((0, 0)) == HERE
