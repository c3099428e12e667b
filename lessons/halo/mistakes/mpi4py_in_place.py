"""You use cells that have been computed in this step already.

The new value of a cell must be computed from the old values of its neighbours. NumPy
computes the whole right-hand side before it stores anything; a loop over cells does
not.
"""

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
    for request in sends:
        request.Wait()


def advance(comm, field, neighbours, steps):
    """Make some steps; returns the block's own cells, (n, m)."""
    for _ in range(steps):
        exchange(comm, field, neighbours)
        for i in range(1, len(field) - 1):
            around = field[i - 1, 1:-1] + field[i + 1, 1:-1] + field[i, :-2] + field[i, 2:]
            field[i, 1:-1] = 0.2 * (field[i, 1:-1] + around)
    return field[1:-1, 1:-1].copy()
