"""Computing while messages travel, with mpi4py.

    mpiexec -n 2 python overlap.py

The steps of the lesson halo. Now the messages are on their way while the inner cells are computed.
"""

import numpy as np
from mpi4py import MPI

OWN = slice(1, -1)
FIRST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}  # own cells
GHOSTS = {"up": (0, OWN), "down": (-1, OWN), "left": (OWN, 0), "right": (OWN, -1)}
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
TAGS = {"up": 0, "down": 1, "left": 2, "right": 3}  # the direction in which a message travels


def begin(comm, field, neighbours):
    """Begin all messages; return what `finish` needs."""
    receives, sends = [], []
    for side, rank in neighbours.items():
        if rank is not None:
            came = field[GHOSTS[side]].copy()
            receives.append((side, came, comm.Irecv(came, rank, TAGS[OPPOSITE[side]])))
    for side, rank in neighbours.items():
        if rank is not None:
            sends.append(comm.Isend(field[FIRST[side]].copy(), rank, TAGS[side]))
    return receives, sends


def finish(field, receives, sends):
    """Wait for all messages, and put what came into the ghosts."""
    for side, came, request in receives:
        request.Wait()
        field[GHOSTS[side]] = came
    MPI.Request.Waitall(sends)


def advance(comm, field, neighbours, steps, sweep):
    """Make some steps; returns the block's own cells, (n, m).

    field and neighbours: as in the lesson halo; a block may have one row or one column only.
    sweep(field, new, (top, bottom), (left, right)) computes new[top:bottom, left:right] from field.
    All own cells are new[1:-1, 1:-1]. It does nothing if there are no cells in between.
    """
    n, m = field.shape[0] - 2, field.shape[1] - 2
    new = field.copy()  # so both arrays have the fixed ghosts at the edges of the grid
    for _ in range(steps):
        # TODO 1: compute the inner cells, which need no ghosts, between begin and finish.
        # TODO 2: compute the cells along the four sides after finish. Each cell once: mind the
        #         corners, and blocks with one row or column.
        finish(field, *begin(comm, field, neighbours))
        sweep(field, new, (1, n + 1), (1, m + 1))
        field, new = new, field
    return field[1:-1, 1:-1].copy()


def main():
    """Let a block of 1000 x 1000 cells per process make 100 steps, and say how long they took."""
    from miniapps.lessons.overlap import sweep

    comm = MPI.COMM_WORLD
    up = comm.rank - 1 if comm.rank > 0 else None
    down = comm.rank + 1 if comm.rank < comm.size - 1 else None
    field, start = np.ones((1002, 1002)), MPI.Wtime()
    advance(comm, field, {"up": up, "down": down, "left": None, "right": None}, 100, sweep)
    print(f"process {comm.rank}: {MPI.Wtime() - start:.2f} s")


if __name__ == "__main__":
    main()
