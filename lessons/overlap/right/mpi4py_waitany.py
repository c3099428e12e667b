"""Style: Waitany: each side is computed when its own line has come, and the corners last."""

import numpy as np
from mpi4py import MPI

OWN = slice(1, -1)
SIDES = ("up", "down", "left", "right")
FIRST = ((1, OWN), (-2, OWN), (OWN, 1), (OWN, -2))
GHOSTS = ((0, OWN), (-1, OWN), (OWN, 0), (OWN, -1))


def advance(comm, field, neighbours, steps, sweep):
    n, m = field.shape[0] - 2, field.shape[1] - 2
    new = field.copy()
    strips = [((1, 2), (2, m)), ((n, n + 1), (2, m)), ((2, n), (1, 2)), ((2, n), (m, m + 1))]
    thin = n < 2 or m < 2  # a line or a single cell: nothing can be done before all has come
    for _ in range(steps):
        with_neighbour = [k for k in range(4) if neighbours[SIDES[k]] is not None]
        came = [np.empty(field[GHOSTS[k]].size) for k in with_neighbour]
        receives = [
            comm.Irecv(buffer, neighbours[SIDES[k]], tag=k ^ 1)
            for k, buffer in zip(with_neighbour, came)
        ]
        lines = [field[FIRST[k]].copy() for k in with_neighbour]
        sends = [
            comm.Isend(line, neighbours[SIDES[k]], tag=k) for k, line in zip(with_neighbour, lines)
        ]
        sweep(field, new, (2, n), (2, m))
        if not thin:
            for k in set(range(4)) - set(with_neighbour):
                sweep(field, new, *strips[k])
        for _ in with_neighbour:
            which = MPI.Request.Waitany(receives)
            k = with_neighbour[which]
            field[GHOSTS[k]] = came[which]
            if not thin:
                sweep(field, new, *strips[k])
        if thin:
            sweep(field, new, (1, n + 1), (1, m + 1))
        else:
            for row in (1, n):
                for column in (1, m):
                    sweep(field, new, (row, row + 1), (column, column + 1))
        MPI.Request.Waitall(sends)
        field, new = new, field
    return field[1:-1, 1:-1].copy()
