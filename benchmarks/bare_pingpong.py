"""The ping-pong of `apps/pingpong` with mpi4py alone: two ranks, one array that goes to and fro.

    mpiexec -n 2 python bare_pingpong.py BYTES ROUNDS

Each rank reads all of the array that came and writes all of the one that it sends. Rank 0 prints
microseconds per array, and fails if the last one is wrong.
"""

import sys
from time import perf_counter

import numpy as np
from mpi4py import MPI


def main() -> None:
    """Run the exchange with blocking calls."""
    words, rounds = int(sys.argv[1]) // 8, int(sys.argv[2])
    comm = MPI.COMM_WORLD
    other = 1 - comm.rank
    came, sent = np.zeros(words), np.zeros(words)
    comm.Barrier()
    began = perf_counter()
    for _ in range(rounds):
        if comm.rank == 1:
            comm.Recv(came, other)
        np.add(came, 1.0, out=sent)
        comm.Send(sent, other)
        if comm.rank == 0:
            comm.Recv(came, other)
    seconds = perf_counter() - began
    if comm.rank == 0:
        if not np.all(came == 2 * rounds):
            raise RuntimeError("the last array is not the one that was sent")
        print(seconds / (2 * rounds) * 1e6, flush=True)


if __name__ == "__main__":
    main()
