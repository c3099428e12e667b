"""Style: grid-stride loops; the threads of a block load the tile place by place, in turns."""

import math

import numpy as np
from numba import cuda, float64

ROWS, COLUMNS = 4, 16
HEIGHT, WIDTH = ROWS + 2, COLUMNS + 2


@cuda.jit
def sweep(old, new):
    x, y = cuda.grid(2)
    wide, high = cuda.gridsize(2)
    for i in range(1 + y, old.shape[0] - 1, high):
        for j in range(1 + x, old.shape[1] - 1, wide):
            around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
            new[i, j] = 0.2 * (old[i, j] + around)


@cuda.jit
def sweep_tile(old, new):
    tile = cuda.shared.array((HEIGHT, WIDTH), float64)
    top, left = cuda.blockIdx.y * ROWS, cuda.blockIdx.x * COLUMNS  # of the tile, in the field
    place = cuda.threadIdx.y * COLUMNS + cuda.threadIdx.x
    while place < HEIGHT * WIDTH:
        a, b = place // WIDTH, place % WIDTH
        corner = (a == 0 or a == HEIGHT - 1) and (b == 0 or b == WIDTH - 1)
        if top + a < old.shape[0] and left + b < old.shape[1] and not corner:
            tile[a, b] = old[top + a, left + b]
        place += ROWS * COLUMNS
    cuda.syncthreads()
    a, b = cuda.threadIdx.y + 1, cuda.threadIdx.x + 1
    if top + a < old.shape[0] - 1 and left + b < old.shape[1] - 1:
        around = tile[a - 1, b] + tile[a + 1, b] + tile[a, b - 1] + tile[a, b + 1]
        new[top + a, left + b] = 0.2 * (tile[a, b] + around)


def advance(field, steps, tiled):
    n, m = field.shape[0] - 2, field.shape[1] - 2
    blocks = math.ceil(m / COLUMNS), math.ceil(n / ROWS)
    arrays = [cuda.to_device(field), cuda.to_device(field)]
    for step in range(steps):
        old, new = arrays[step % 2], arrays[1 - step % 2]
        if tiled:
            sweep_tile[blocks, (COLUMNS, ROWS)](old, new)
        else:
            sweep[blocks, (COLUMNS, ROWS)](old, new)
    return np.ascontiguousarray(arrays[steps % 2].copy_to_host()[1:-1, 1:-1])
