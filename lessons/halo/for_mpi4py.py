"""The halo exchange of a grid, with mpi4py.

    mpiexec -n 3 python halo.py

A grid of numbers is cut into blocks, one per process. In each step every cell becomes the mean of
itself and its four neighbours. Cells at the edge of a block have neighbours in another process.
"""

import numpy as np
from mpi4py import MPI

OWN = slice(1, -1)
FIRST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}  # own cells
GHOSTS = {"up": (0, OWN), "down": (-1, OWN), "left": (OWN, 0), "right": (OWN, -1)}


def exchange(comm, field, neighbours):
    """Fill the ghosts of a block with the outermost cells of the blocks beside it.

    field: (n + 2, m + 2), float64: the block's own cells, field[1:-1, 1:-1], and one line of ghosts
    on each side. neighbours: the ranks of the blocks "up", "down", "left" and "right" of this one.
    It is None where the grid ends: there the ghosts stay as they are.
    A neighbour may be this process itself, or the same process on two sides.
    """
    # TODO 1: send the first row of own cells, field[FIRST["up"]], up, and receive the ghosts below,
    #         field[GHOSTS["down"]], from the block below.
    # TODO 2: the same in the other three directions. mpi4py sends contiguous arrays only, and a
    #         column is not contiguous: copy it.


def advance(comm, field, neighbours, steps):
    """Make some steps; returns the block's own cells, (n, m)."""
    for _ in range(steps):
        # TODO 3: which line is missing here?
        around = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
        field[1:-1, 1:-1] = 0.2 * (field[1:-1, 1:-1] + around)
    return field[1:-1, 1:-1].copy()


def main():
    """Cut a grid of 4 columns into rows of blocks, with a hot row above, and show the result."""
    comm = MPI.COMM_WORLD
    up = comm.rank - 1 if comm.rank > 0 else None
    down = comm.rank + 1 if comm.rank < comm.size - 1 else None
    neighbours = {"up": up, "down": down, "left": None, "right": None}
    field = np.zeros((4, 6))
    if up is None:
        field[0] = 100.0
    own = advance(comm, field, neighbours, 5)
    print(f"process {comm.rank} of {comm.size}:\n{own.round(2)}")


if __name__ == "__main__":
    main()
