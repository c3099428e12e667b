"""Cutting a grid into blocks: every cell once, every neighbour mutual, every PE its own block."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miniapps.decomposition import Layout, factorizations, least_surface, split
from miniapps.leanmd.pair_layout import PairLayout
from miniapps.parameters import InputError


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Uneven layouts of two or three axes, periodic or not, 1 to 3 parts per axis, ODF 1 to 6."""
    axes = draw(st.integers(2, 3))
    parts = tuple(draw(st.integers(1, 3)) for _ in range(axes))
    odf = draw(st.integers(1, 6))
    shape = tuple(draw(st.integers(6 * n, 6 * n + 11)) for n in parts)
    periodic = tuple(draw(st.booleans()) for _ in range(axes))
    return Layout.create(shape, periodic, math.prod(parts), odf, parts)


def covered(layout: Layout, indices: list[tuple[int, ...]]) -> np.ndarray:
    """How many of the blocks own each cell."""
    count = np.zeros(layout.shape, int)
    for index in indices:
        count[tuple(slice(low, high) for low, high in layout.bounds(index))] += 1
    return count


@pytest.mark.long
@given(layouts())
def test_blocks_tile_the_grid(layout: Layout) -> None:
    """Catches a cell that no block owns, or two, and blocks with one number, or counted wrongly."""
    blocks = layout.indices()
    assert len(blocks) == math.prod(layout.grid) == layout.pes * layout.odf
    assert (covered(layout, blocks) == 1).all()
    assert [layout.numbers["block", index] for index in blocks] == list(range(len(blocks)))
    pairs = PairLayout((3, 4, 5), (True,) * 3, layout.pe_grid, (1, 1, 1))
    for one in (layout, pairs):
        assert one.counts() == {kind: len(found) for kind, found in one.families().items()}


@given(layouts())
def test_chares_of_a_pe_tile_its_mpi_block(layout: Layout) -> None:
    """Catches an over-decomposition that gives a PE other cells than its MPI rank would own."""
    ranks = Layout.create(layout.shape, layout.periodic, layout.pes, 1, layout.pe_grid)
    for rank, whole in enumerate(ranks.indices()):
        assert ranks.pe(whole) == rank
        chares = [index for index in layout.indices() if layout.pe(index) == rank]
        assert len(chares) == layout.odf
        assert (covered(layout, chares) == covered(ranks, [whole])).all()


@given(layouts())
def test_block_extremes(layout: Layout) -> None:
    """Catches a temporal-blocking depth that is checked against another block than the thinnest."""
    sizes = [[high - low for low, high in layout.bounds(index)] for index in layout.indices()]
    assert layout.thinnest() == min(map(min, sizes)) >= 1
    assert layout.block_shape() == tuple(map(max, zip(*sizes, strict=True)))


@given(layouts(), st.booleans())
def test_neighbours_touch(layout: Layout, diagonals: bool) -> None:
    """Catches an edge whose other end knows it by another name, and neighbours that are far."""
    for index in layout.indices():
        mine = layout.bounds(index)
        for edge, peer in layout.neighbors(index, diagonals).items():
            back = layout.neighbors(peer.block, diagonals)[peer.edge]
            assert (back.block, back.edge) == (index, edge)
            theirs = layout.bounds(peer.block)
            for axis, side in enumerate(edge):
                cells = layout.shape[axis]
                if side > 0:
                    assert mine[axis][1] % cells == theirs[axis][0] % cells
                elif side < 0:
                    assert mine[axis][0] % cells == theirs[axis][1] % cells
                else:
                    assert mine[axis] == theirs[axis]


@pytest.mark.parametrize("diagonals", [False, True])
@pytest.mark.parametrize("periodic", [(True, True), (False, False), (True, False)])
@pytest.mark.parametrize("grid", list(itertools.product((1, 2, 3), repeat=2)))
def test_number_of_neighbours(grid, periodic, diagonals):
    """Catches an edge that is lost where a periodic axis has one or two blocks."""
    layout = Layout.create((7, 5), periodic, math.prod(grid), 1, grid)
    for index in layout.indices():
        found = set(layout.neighbors(index, diagonals))
        for edge in itertools.product((-1, 0, 1), repeat=2):
            exists = all(
                wraps or 0 <= place + side < blocks
                for place, side, blocks, wraps in zip(index, edge, grid, periodic, strict=True)
            )
            counts = any(edge) and (diagonals or sum(map(abs, edge)) == 1)
            assert (edge in found) == (exists and counts), (index, edge)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.integers(1, 36),
    st.sampled_from([1, 4]),
)
def test_least_surface_against_brute_force(shape: list[int], count: int, last_axis: int) -> None:
    """Catches a grid of blocks with more halo than needed, or with blocks that own no cell."""

    def cut_area(grid: tuple[int, ...]) -> int:
        others = [math.prod(shape) // cells for cells in shape]
        others[-1] *= last_axis
        return sum((parts - 1) * area for parts, area in zip(grid, others, strict=True))

    grids = [
        grid
        for grid in itertools.product(range(1, count + 1), repeat=len(shape))
        if math.prod(grid) == count and all(p <= n for p, n in zip(grid, shape, strict=True))
    ]
    if not grids:
        with pytest.raises(ValueError, match="do not fit"):
            least_surface(tuple(shape), count, last_axis)
        return
    least = min(map(cut_area, grids))
    best = max(grid for grid in grids if cut_area(grid) == least)
    assert least_surface(tuple(shape), count, last_axis) == best


@pytest.mark.long
@given(st.integers(1, 60), st.integers(1, 3))
def test_factorizations_are_all(count: int, axes: int) -> None:
    """Catches a forgotten or repeated grid."""
    every = [
        g for g in itertools.product(range(1, count + 1), repeat=axes) if math.prod(g) == count
    ]
    assert sorted(factorizations(count, axes)) == every


@given(st.integers(-5, 5), st.integers(0, 100), st.integers(1, 12))
def test_split_is_even(low: int, cells: int, parts: int) -> None:
    """Catches parts that overlap, leave gaps, or differ by more than one cell."""
    pieces = [split(low, low + cells, parts, part) for part in range(parts)]
    assert pieces[0][0] == low and pieces[-1][1] == low + cells
    assert all(a[1] == b[0] for a, b in itertools.pairwise(pieces))
    sizes = [high - first for first, high in pieces]
    assert max(sizes) - min(sizes) <= 1


def test_parts_below_zero() -> None:
    """Catches a grid whose parts are as many as the PEs though none exists."""
    with pytest.raises(InputError, match="--pe-grid -2x-2: must be one part per PE, 4 in all"):
        Layout.create((7, 5), (True, True), 4, 1, (-2, -2))
