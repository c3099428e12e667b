"""The cost of a message with mpi4py alone: two ranks exchange arrays, nothing else.

    mpiexec -n 2 python bare_mpi4py.py BYTES ROUNDS

In each round each rank sends two arrays to the other and waits for two, as echo's blocks do along
the axis that is cut. Rank 0 prints microseconds per array and rank. Arrays carry the number of
their round; the program fails if one is wrong.
"""

import sys
from time import perf_counter

import numpy as np
from mpi4py import MPI

ARRAYS = 2  # per round


def main() -> None:
    """Run the exchange with posted receives and non-blocking sends."""
    words, rounds = int(sys.argv[1]) // 8, int(sys.argv[2])
    comm = MPI.COMM_WORLD
    other = 1 - comm.rank
    came = [np.zeros(words, np.int64) for _ in range(ARRAYS)]
    sent = [np.zeros(words, np.int64) for _ in range(ARRAYS)]
    comm.Barrier()
    began = perf_counter()
    for number in range(rounds):
        receives = [comm.Irecv(array, other, tag) for tag, array in enumerate(came)]
        for array in sent:
            array[0] = number
        sends = [comm.Isend(array, other, tag) for tag, array in enumerate(sent)]
        for array, receive in zip(came, receives, strict=True):
            receive.Wait()
            if array[0] != number:
                raise RuntimeError(f"expected an array of round {number}, got one of {array[0]}")
        MPI.Request.Waitall(sends)
    comm.Barrier()
    if comm.rank == 0:
        print((perf_counter() - began) / (rounds * ARRAYS) * 1e6, flush=True)


if __name__ == "__main__":
    main()
