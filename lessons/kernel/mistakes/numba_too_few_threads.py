"""You launch threads for the own cells, but let the first thread of a row have none.

Thread 0 has the cell 1 if you add 1 to x and y. If instead x is the column itself, the threads 0
do nothing, and the last row and column have no thread.
"""

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
    if 0 < x < old.shape[1] - 1 and 0 < y < old.shape[0] - 1:
        new[y, x] = mean(old[y, x], old[y - 1, x], old[y + 1, x], old[y, x - 1], old[y, x + 1])


@cuda.jit
def sweep_tile(old, new):
    """Do the same; each block loads the cells that it needs into shared memory once."""
    tile = cuda.shared.array((HEIGHT, WIDTH), float64)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    n, m = old.shape[0] - 2, old.shape[1] - 2
    i, j = y + 1, x + 1
    mine = x < m and y < n
    if mine:
        tile[ty, tx] = old[i, j]
        if ty == 1:
            tile[0, tx] = old[i - 1, j]
        if ty == ROWS or y == n - 1:
            tile[ty + 1, tx] = old[i + 1, j]
        if tx == 1:
            tile[ty, 0] = old[i, j - 1]
        if tx == COLUMNS or x == m - 1:
            tile[ty, tx + 1] = old[i, j + 1]
    cuda.syncthreads()
    if mine:
        new[i, j] = mean(
            tile[ty, tx], tile[ty - 1, tx], tile[ty + 1, tx], tile[ty, tx - 1], tile[ty, tx + 1]
        )


def advance(field, steps, tiled):
    """Make some steps on the GPU; returns the own cells, (n, m).

    field: (n + 2, m + 2), float64, in the host's memory. tiled: use sweep_tile, not sweep.
    """
    kernel = sweep_tile if tiled else sweep
    n, m = field.shape[0] - 2, field.shape[1] - 2
    old, new = cuda.to_device(field), cuda.to_device(field)
    blocks = (-(-m // COLUMNS), -(-n // ROWS))
    for _ in range(steps):
        kernel[blocks, (COLUMNS, ROWS)](old, new)
        old, new = new, old
    return old.copy_to_host()[1:-1, 1:-1]
