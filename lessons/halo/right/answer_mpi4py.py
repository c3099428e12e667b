"""Model answer of the lesson halo, for mpi4py."""

from mpi4py import MPI

OWN = slice(1, -1)
FIRST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}  # own cells
GHOSTS = {"up": (0, OWN), "down": (-1, OWN), "left": (OWN, 0), "right": (OWN, -1)}
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
TAGS = {"up": 0, "down": 1, "left": 2, "right": 3}  # the direction in which a message travels


def exchange(comm, field, neighbours):
    """Fill the ghosts of a block with the outermost cells of the blocks beside it."""
    receives, sends = [], []
    for side, rank in neighbours.items():
        if rank is not None:
            came = field[GHOSTS[side]].copy()
            receives.append((side, came, comm.Irecv(came, rank, TAGS[OPPOSITE[side]])))
    for side, rank in neighbours.items():
        if rank is not None:
            sends.append(comm.Isend(field[FIRST[side]].copy(), rank, TAGS[side]))
    for side, came, request in receives:
        request.Wait()
        field[GHOSTS[side]] = came
    MPI.Request.Waitall(sends)


def advance(comm, field, neighbours, steps):
    """Make some steps; returns the block's own cells, (n, m)."""
    for _ in range(steps):
        exchange(comm, field, neighbours)
        around = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
        field[1:-1, 1:-1] = 0.2 * (field[1:-1, 1:-1] + around)
    return field[1:-1, 1:-1].copy()
