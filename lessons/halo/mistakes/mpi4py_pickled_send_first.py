"""A process sends to itself, or all send to each other, before any process receives.

send may wait until its message is received. With periodic edges and one block the receiver is the
same process, which waits in send. Use sendrecv, or begin with isend and wait after recv.
"""

STOPS = "send"

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
    opposite = {"up": "down", "down": "up", "left": "right", "right": "left"}
    for side, other in opposite.items():
        to, source = neighbours[side], neighbours[other]
        if to is not None:
            comm.send(field[FIRST[side]], to)
        if source is not None:
            field[GHOSTS[other]] = comm.recv(source=source)


def advance(comm, field, neighbours, steps):
    """Make some steps; returns the block's own cells, (n, m)."""
    for _ in range(steps):
        exchange(comm, field, neighbours)
        around = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
        field[1:-1, 1:-1] = 0.2 * (field[1:-1, 1:-1] + around)
    return field[1:-1, 1:-1].copy()
