"""The stencil kernels against plain NumPy, bit for bit, on regions of every odd size."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import random
from types import ModuleType

import numpy as np
import pytest
import support
from hypothesis import example, given
from hypothesis import strategies as st

from miniapps import kernels
from miniapps.kernels.halo.interface import box

# Shapes with ghosts; none equal along two axes.
SHAPES = {"jacobi2d": (15, 13), "stencil3d": (15, 13, 11)}
APPS = sorted(SHAPES)
DTYPES = ("float64", "float32")
Region = tuple[int, ...]
OTHER_NAN = np.array(0x7FF8000000000ABC).view(np.float64)  # so that writing np.nan over it shows


def load(app: str) -> ModuleType:
    """The kernels under test."""
    return kernels.load(app, "cpu")


def swept(old: np.ndarray, region: Region) -> np.ndarray:
    """One sweep of a region in plain NumPy: the formula, added from left to right."""
    total = old[box(region)]
    for axis, by in itertools.product(range(old.ndim), (-1, 1)):
        moved = list(region)
        moved[2 * axis] += by
        moved[2 * axis + 1] += by
        total = total + old[box(tuple(moved))]
    return {2: 0.2, 3: 1.0 / 7.0}[old.ndim] * total


@st.composite
def regions(draw: st.DrawFn, app: str) -> Region:
    """Regions inside the ghosts, empty ones and strips one cell thick among them."""
    region: list[int] = []
    for cells in SHAPES[app]:
        low = draw(st.integers(1, cells - 1))
        region += [low, draw(st.integers(low, cells - 1))]
    return tuple(region)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("app", APPS)
@given(data=st.data(), seed=st.integers(0, 99))
def test_sweeps(app: str, dtype: str, data: st.DataObject, seed: int) -> None:
    """Catches another order of additions, cells that are missed, and a change not the largest."""
    region = data.draw(regions(app))
    old, new = support.noise(SHAPES[app], seed, dtype), support.noise(SHAPES[app], seed + 1, dtype)
    expected, before, measured = new.copy(), old.copy(), new.copy()
    expected[box(region)] = swept(old, region)
    changes = np.abs(expected - old)[box(region)]
    load(app).sweep(old, new, *region)
    residual = load(app).sweep_residual(old, measured, *region)
    assert support.same_bits(new, expected) and support.same_bits(measured, expected)
    assert support.same_bits(old, before)
    assert residual == (changes.max() if changes.size else 0.0)


@pytest.mark.parametrize("app", APPS)
def test_every_cell_is_swept_once_whatever_the_cut(app: str) -> None:
    """Catches bits that depend on where a vector or a strip begins: each cell alone is the same."""
    shape = SHAPES[app]
    old, whole, single = support.noise(shape), np.zeros(shape), np.zeros(shape)
    region = tuple(edge for cells in shape for edge in (1, cells - 1))
    load(app).sweep(old, whole, *region)
    for cell in itertools.product(*(range(1, cells - 1) for cells in shape)):
        load(app).sweep(old, single, *(edge for place in cell for edge in (place, place + 1)))
    assert support.same_bits(whole, single)


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("kernel", ["sweep", "sweep_residual"])
def test_reversed_region_is_empty(app: str, kernel: str) -> None:
    """Catches a block too thin for an interior: low > high must do nothing, not wrap around."""
    axes = len(SHAPES[app])
    for axis in range(axes):
        region = [1, 5] * axes
        region[2 * axis], region[2 * axis + 1] = 4, 2
        old, new = support.noise(SHAPES[app], 1), support.noise(SHAPES[app], 2)
        before = new.copy()
        assert getattr(load(app), kernel)(old, new, *region) in (None, 0.0)
        assert support.same_bits(new, before)


@pytest.mark.parametrize("app", APPS)
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_residual_of_nan_is_nan(app: str, odd: float) -> None:
    """Catches a run that counts as converged because no comparison with NaN holds.

    inf - inf is a NaN with the sign bit set, which an ordering by bits would put below all.
    """
    shape = SHAPES[app]
    for place in (tuple(cells // 2 for cells in shape), (1,) * len(shape)):
        old = np.ones(shape)
        old[place] = odd
        region = tuple(edge for cells in shape for edge in (1, cells - 1))
        assert np.isnan(load(app).sweep_residual(old, np.zeros(shape), *region))


def widened(region: Region, by: list[int]) -> Region:
    """Return a region that is wider by the given numbers of cells on each side."""
    return tuple(edge + (by[n] if n % 2 else -by[n]) for n, edge in enumerate(region))


def tiled_by_hand(
    old: np.ndarray, new: np.ndarray, sweeps: int, region: Region, grow: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of the region after ``sweeps`` sweeps, and after one sweep less."""
    arrays = [old.copy(), new.copy()]
    for s in range(1, sweeps + 1):
        wide = widened(region, [g * (sweeps - s) for g in grow])
        source, target = arrays if s % 2 else arrays[::-1]
        target[box(wide)] = swept(source, wide)
    newest, other = arrays[::-1] if sweeps % 2 else arrays
    return newest[box(region)], other[box(region)]


def check_tile(
    app: str, own: tuple[int, ...], sweeps: int, grow: tuple[int, ...], seed: int
) -> None:
    """Sweep a tile of own cells with halos where ``grow`` says, in arrays full of traps.

    All that the kernel may not read is NaN: in ``old`` what lies beyond halo and boundary, in
    ``new`` everything but the boundary. All that it may not write must stay as it is; ghosts at
    the ends of a row, where there is a neighbour, are scratch. Own cells begin anywhere in a row,
    and then at a cache line.
    """
    for traps in (1, 16 - (sweeps if grow[-2] else 1)):
        check_tile_at(app, own, sweeps, grow, seed, traps)


def check_tile_at(
    app: str, own: tuple[int, ...], sweeps: int, grow: tuple[int, ...], seed: int, traps: int
) -> None:
    """As `check_tile`, with so many traps in front of each row."""
    region: list[int] = []
    shape = []
    for axis, cells in enumerate(own):
        low, high = (sweeps if g else 1 for g in grow[2 * axis : 2 * axis + 2])
        low += traps if axis == len(own) - 1 else 1
        region += [low, low + cells]
        shape.append(low + cells + high + 1)
    halo = widened(tuple(region), [sweeps if g else 1 for g in grow])
    swept_ever = widened(tuple(region), [g * (sweeps - 1) for g in grow])
    boundary = np.zeros(shape, bool)
    boundary[box(widened(swept_ever, [1 - g for g in grow]))] = True
    boundary[box(swept_ever)] = False
    old = np.full(shape, np.nan)
    old[box(halo)] = support.noise(tuple(shape), seed)[box(halo)]
    new = np.where(boundary, old, OTHER_NAN)
    newest, before = tiled_by_hand(old, new, sweeps, tuple(region), grow)
    assert np.isfinite(newest).all()
    kept = old.copy(), new.copy()
    flag = load(app).sweep_tile(old, new, sweeps, *region, np.array(grow, np.int64))
    assert flag == sweeps % 2
    result, other = (new, old) if flag else (old, new)
    assert support.same_bits(result[box(tuple(region))], newest)
    assert support.same_bits(other[box(tuple(region))], before)
    fixed = np.ones(shape, bool)
    fixed[box(swept_ever)] = False
    if grow[-2]:
        fixed[box((*swept_ever[:-2], 1, region[-1]))] = False
    if grow[-1]:
        fixed[box((*swept_ever[:-2], region[-2], shape[-1]))] = False
    assert support.same_bits(old[fixed], kept[0][fixed])
    assert support.same_bits(new[fixed], kept[1][fixed])


@pytest.mark.parametrize("sweeps", range(1, 10))
def test_sweep_tile_2d(sweeps: int) -> None:
    """Catches a tile that reads a neighbour's value of the wrong sweep, on any side."""
    for grow in itertools.product((0, 1), repeat=4):
        check_tile("jacobi2d", (7, 5), sweeps, grow, sweeps)
        check_tile("jacobi2d", (19, 1), sweeps, grow, sweeps)


@pytest.mark.slow
@pytest.mark.parametrize("sweeps", range(1, 10))
def test_sweep_tile_3d(sweeps: int) -> None:
    """Catches a tile that reads a neighbour's value of the wrong sweep, on any side."""
    for grow in itertools.product((0, 1), repeat=6):
        check_tile("stencil3d", (5, 4, 3), sweeps, grow, sweeps)
    check_tile("stencil3d", (13, 11, 9), sweeps, (1, 0, 0, 1, 1, 1), sweeps)


@pytest.mark.long
@given(
    own=st.tuples(st.integers(1, 40), st.integers(1, 300)),
    sweeps=st.integers(1, 9),
    grow=st.tuples(*[st.integers(0, 1)] * 4),
)
@example(own=(3, 7001), sweeps=9, grow=(1, 1, 1, 1))  # more than one strip of columns
@example(own=(17, 6600), sweeps=2, grow=(0, 1, 1, 0))
@example(own=(9, 12001), sweeps=1, grow=(0, 0, 0, 0))
def test_sweep_tile_2d_seams(own, sweeps, grow):
    """Catches errors on the seams between the strips and steps into which a tile is cut."""
    check_tile("jacobi2d", own, sweeps, grow, 3)


@pytest.mark.long
@given(
    own=st.tuples(st.integers(1, 12), st.integers(1, 60), st.integers(1, 20)),
    sweeps=st.integers(1, 9),
    grow=st.tuples(*[st.integers(0, 1)] * 6),
)
@example(own=(5, 29, 1100), sweeps=9, grow=(1, 1, 1, 1, 1, 1))  # strips of eight rows
@example(own=(4, 37, 900), sweeps=4, grow=(0, 1, 1, 0, 0, 1))
def test_sweep_tile_3d_seams(own, sweeps, grow):
    """Catches errors on the seams between the strips into which a tile is cut."""
    check_tile("stencil3d", own, sweeps, grow, 4)


def at_guard_page(values: np.ndarray, end: bool) -> np.ndarray:
    """A copy right before (``end``) or behind a guard page, which nothing may touch."""
    size = -(-values.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + 2 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for guard in (address, address + mmap.PAGESIZE + size):
        forbidden = ctypes.CDLL(None).mprotect(
            ctypes.c_void_p(guard), ctypes.c_size_t(mmap.PAGESIZE), 0
        )
        assert forbidden == 0
    start = mmap.PAGESIZE + (size - values.nbytes if end else 0)
    copy = np.ndarray(values.shape, values.dtype, memory, start)
    copy[...] = values
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("app", APPS)
def test_nothing_beyond_the_arrays_is_touched(app: str, end: bool) -> None:
    """Catches reads of whole lines, or of empty rows, that leave the arrays: these crash here."""
    rng = random.Random(7)
    axes = 2 if app == "jacobi2d" else 3
    narrow = range(180, 200)  # rows so short that a strip of columns begins two rows beyond
    for length in (*narrow, *(rng.randint(1, 700) for _ in range(60))):
        sweeps = 32 if length in narrow else rng.choice((1, 2, 5, 8, 32))
        grow = [int(length in narrow) or rng.randrange(2) for _ in range(2 * axes)]
        own = [*(rng.randint(1, 9) for _ in range(axes - 1)), length]
        low, high = ([sweeps if g else 1 for g in grow[side::2]] for side in (0, 1))
        shape = tuple(sum(cells) for cells in zip(low, own, high, strict=True))
        region = [edge for at, n in zip(low, own, strict=True) for edge in (at, at + n)]
        old, new = (at_guard_page(support.noise(shape, 1), end) for _ in range(2))
        right = swept(old, tuple(region))
        load(app).sweep(old, new, *region)
        assert support.same_bits(new[box(tuple(region))], right)
        change = load(app).sweep_residual(old, new, *region)
        assert change == np.abs(right - old[box(tuple(region))]).max()
        flag = load(app).sweep_tile(old, new, sweeps, *region, np.array(grow, np.int64))
        assert flag == sweeps % 2


def test_sweep_3d_seams() -> None:
    """Catches errors on the seams between the strips of rows of a plain sweep."""
    old = support.noise((5, 43, 1103))
    new, other = old.copy(), old.copy()
    region = (1, 4, 1, 42, 1, 1102)
    load("stencil3d").sweep(old, new, *region)
    assert support.same_bits(new[box(region)], swept(old, region))
    residual = load("stencil3d").sweep_residual(old, other, *region)
    assert support.same_bits(new, other)
    assert residual == np.abs(new - old)[box(region)].max()
