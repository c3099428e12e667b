"""Style: pickled lower-case isend and recv, tags by direction."""

from mpi4py import MPI

OWN = slice(1, -1)
OUTERMOST = {"up": (1, OWN), "down": (-2, OWN), "left": (OWN, 1), "right": (OWN, -2)}
GHOSTS = {"down": (0, OWN), "up": (-1, OWN), "right": (OWN, 0), "left": (OWN, -1)}  # by travel
FROM = {"up": "down", "down": "up", "left": "right", "right": "left"}
TAG = {"up": 11, "down": 12, "left": 13, "right": 14}


def exchange(comm: MPI.Comm, field, neighbours):
    sends = [
        comm.isend(field[OUTERMOST[way]], dest=neighbours[way], tag=TAG[way])
        for way in TAG
        if neighbours[way] is not None
    ]
    for way in TAG:
        source = neighbours[FROM[way]]
        if source is not None:
            field[GHOSTS[way]] = comm.recv(source=source, tag=TAG[way])
    for request in sends:
        request.wait()


def advance(comm, field, neighbours, steps):
    for _ in range(steps):
        exchange(comm, field, neighbours)
        around = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
        field[1:-1, 1:-1] = 0.2 * (field[1:-1, 1:-1] + around)
    return field[1:-1, 1:-1].copy()
