"""A kernel for a GPU, with Numba.

    NUMBA_ENABLE_CUDASIM=1 python kernel.py     # without a GPU: Numba's simulator

The step of the lesson halo, on one GPU and without messages: each own cell becomes the mean of
itself and its four neighbours. The line of cells around the own ones is fixed.
"""

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
    # TODO 1: which cell is mine? Is there such a cell? Then compute it.


@cuda.jit
def sweep_tile(old, new):
    """Do the same; each block loads the cells that it needs into shared memory once."""
    tile = cuda.shared.array((HEIGHT, WIDTH), float64)
    # TODO 3: load my cell into the tile; some threads load a neighbour beside the block, too.
    # TODO 4: what must happen before the tile is read? Then compute my cell from the tile.


def advance(field, steps, tiled):
    """Make some steps on the GPU; returns the own cells, (n, m).

    field: (n + 2, m + 2), float64, in the host's memory. tiled: use sweep_tile, not sweep.
    """
    kernel = sweep_tile if tiled else sweep
    n, m = field.shape[0] - 2, field.shape[1] - 2
    # TODO 2: copy the field to the GPU, launch the kernel in each step, and copy the result back.
    #         kernel[(blocks along x, blocks along y), (COLUMNS, ROWS)](old, new)
    return np.zeros((n, m))


def main():
    """Show a plate of 6 x 20 cells with a hot upper edge after 4 steps, by both kernels."""
    field = np.zeros((8, 22))
    field[0] = 100.0
    for tiled in (False, True):
        print(f"tiled: {tiled}\n{advance(field, 4, tiled)[:, :8].round(2)}")


if __name__ == "__main__":
    main()
