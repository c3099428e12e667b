"""Style: pickled lower-case isend and recv; each message carries its owner beside the array."""

import numpy as np
from mpi4py import MPI


def collect(comm: MPI.Comm, mine):
    found = {comm.rank: mine}
    message = comm.rank, mine
    while len(found) < comm.size:
        request = comm.isend(message, dest=(comm.rank + 1) % comm.size)
        message = comm.recv(source=(comm.rank - 1) % comm.size)
        request.wait()
        found[message[0]] = message[1]
    return np.array([found[rank] for rank in range(comm.size)])
