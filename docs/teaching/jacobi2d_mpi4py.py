"""Jacobi2D with mpi4py, on one page: one block per rank, halos by Sendrecv.

    mpiexec -n 3 python jacobi2d_mpi4py.py 100 80 50          n x m cells, number of steps
    mpiexec -n 3 python jacobi2d_mpi4py.py 100 80 50 FOLDER   also saves each rank's block in FOLDER

The plate is heated: 255 beyond the low-x and low-y sides, 1 beyond the others, 1 inside at first.
"""

import sys

import numpy as np
from mpi4py import MPI

# A block's array has one more line of cells on each of its four sides: its ghosts. FACE says where
# the outermost own cells on a side lie in the array, GHOST where the ghosts beyond them lie.
OWN = slice(1, -1)
SIDES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # low x, high x, low y, high y
FACE = {(-1, 0): (1, OWN), (1, 0): (-2, OWN), (0, -1): (OWN, 1), (0, 1): (OWN, -2)}
GHOST = {(-1, 0): (0, OWN), (1, 0): (-1, OWN), (0, -1): (OWN, 0), (0, 1): (OWN, -1)}


def part_of(cells, parts, part):
    """Return the cells [low, high) of one of nearly equal parts. They need not divide evenly."""
    return part * cells // parts, (part + 1) * cells // parts


def exchange(grid, neighbor, u):
    """Fill the ghosts of u with the neighbours' outermost cells: the halo exchange."""
    for side in SIDES:
        opposite = (-side[0], -side[1])
        # Every rank sends to its neighbour on this side and receives from the opposite one.
        # Sendrecv does both at once. If Send waited for its receiver, the ranks of a row would send
        # one after another, and those of a ring (a periodic plate) would wait for ever.
        face = u[FACE[side]].copy()  # MPI sends contiguous data, and a column of u is not
        halo = u[GHOST[opposite]].copy()
        grid.Sendrecv(face, neighbor[side], recvbuf=halo, source=neighbor[opposite])
        # On the plate's border the neighbour is PROC_NULL: nothing arrives, halo is unchanged.
        u[GHOST[opposite]] = halo


def main(n, m, steps, folder=None):
    """Run the program. Every rank runs all of it and only its rank number is different."""
    # 1. Who am I, which cells are mine, and who is beside me?
    world = MPI.COMM_WORLD
    grid = world.Create_cart(MPI.Compute_dims(world.size, 2))
    x0, x1 = part_of(n, grid.dims[0], grid.coords[0])
    y0, y1 = part_of(m, grid.dims[1], grid.coords[1])
    low_x, high_x = grid.Shift(0, 1)
    low_y, high_y = grid.Shift(1, 1)
    neighbor = dict(zip(SIDES, (low_x, high_x, low_y, high_y), strict=True))

    # 2. My block, with its ghosts. Ghosts on the plate's border never change.
    old = np.ones((x1 - x0 + 2, y1 - y0 + 2))
    if low_x == MPI.PROC_NULL:
        old[0, :] = 255.0
    if low_y == MPI.PROC_NULL:
        old[:, 0] = 255.0
    new = old.copy()

    # 3. The steps. A rank waits in exchange until its neighbours have reached the same step.
    for _ in range(steps):
        exchange(grid, neighbor, old)
        new[OWN, OWN] = 0.2 * (
            old[OWN, OWN] + old[:-2, OWN] + old[2:, OWN] + old[OWN, :-2] + old[OWN, 2:]
        )
        old, new = new, old

    # 4. The result. allreduce gives every rank the largest value, or the sum, over all ranks.
    mine = np.ascontiguousarray(old[OWN, OWN])
    change = grid.allreduce(np.abs(mine - new[OWN, OWN]).max(), MPI.MAX)
    # A sum of floats would depend on the order of the ranks. A sum of their bits as integers does
    # not. Each is multiplied by its cell's number, so that swapped cells change the sum mod 2^64.
    x, y = np.ogrid[x0:x1, y0:y1]
    checksum = int((mine.view(np.uint64) * (2 * (x * m + y) + 1).astype(np.uint64)).sum())
    checksum = grid.allreduce(checksum) % 2**64
    if folder is not None:
        np.save(f"{folder}/{x0}_{y0}.npy", mine)
    if grid.rank == 0:
        print(f"{world.size} rank(s) in a grid of {grid.dims[0]} x {grid.dims[1]}")
        print(f"largest change in the last step {change!s}, checksum {checksum:016x}")


main(*map(int, sys.argv[1:4]), *sys.argv[4:])
