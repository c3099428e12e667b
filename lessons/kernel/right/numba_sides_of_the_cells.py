"""Style: a thread along a side also loads the cell beside it."""

import numpy as np
from numba import cuda, float64

ROWS, COLUMNS = 4, 16  # threads of a block: ROWS along y, COLUMNS along x
HEIGHT, WIDTH = ROWS + 2, COLUMNS + 2  # of the tile: the block's cells and one more on each side


@cuda.jit(device=True)
def mean(own, up, down, left, right):
    """Return the new value of a cell; for use in kernels. Up is row i - 1, left column j - 1."""
    return 0.2 * (own + (up + down + left + right))


@cuda.jit
def sweep(old, new):
    """Let each own cell of new become the mean of five cells of old: one cell per thread.

    old, new: (n + 2, m + 2), float64, on the GPU; own cells: rows 1 to n, columns 1 to m.
    """
    x, y = cuda.grid(2)
    i, j = y + 1, x + 1
    if i < old.shape[0] - 1 and j < old.shape[1] - 1:
        new[i, j] = mean(old[i, j], old[i - 1, j], old[i + 1, j], old[i, j - 1], old[i, j + 1])


@cuda.jit
def sweep_tile(old, new):
    """Do the same; each block loads the cells that it needs into shared memory once."""
    tile = cuda.shared.array((HEIGHT, WIDTH), float64)
    x, y = cuda.grid(2)
    i, j = y + 1, x + 1
    a, b = cuda.threadIdx.y + 1, cuda.threadIdx.x + 1
    inside = i < old.shape[0] - 1 and j < old.shape[1] - 1
    if inside:
        tile[a, b] = old[i, j]
        if a == 1:
            tile[0, b] = old[i - 1, j]
        if b == 1:
            tile[a, 0] = old[i, j - 1]
        if a == ROWS or i == old.shape[0] - 2:
            tile[a + 1, b] = old[i + 1, j]
        if b == COLUMNS or j == old.shape[1] - 2:
            tile[a, b + 1] = old[i, j + 1]
    cuda.syncthreads()
    if inside:
        new[i, j] = mean(tile[a, b], tile[a - 1, b], tile[a + 1, b], tile[a, b - 1], tile[a, b + 1])


def advance(field, steps, tiled):
    """Make some steps on the GPU; returns the own cells, (n, m).

    field: (n + 2, m + 2), float64, in the host's memory. tiled: use sweep_tile, not sweep.
    """
    kernel = sweep_tile if tiled else sweep
    n, m = field.shape[0] - 2, field.shape[1] - 2
    old, new = cuda.to_device(field), cuda.to_device(field)
    blocks = (m + COLUMNS - 1) // COLUMNS, (n + ROWS - 1) // ROWS
    for _ in range(steps):
        kernel[blocks, (COLUMNS, ROWS)](old, new)
        old, new = new, old
    return old.copy_to_host()[1:-1, 1:-1]
