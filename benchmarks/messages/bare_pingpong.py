"""The ping-pong of `apps/pingpong` with mpi4py alone: two ranks, arrays that go forth and back.

    mpiexec -n 2 python bare_pingpong.py BYTES TURNS WINDOW

In a turn rank 0 sends a window of arrays, then rank 1 sends one. Each rank writes all of every
array that it sends and reads all of every array that comes. Rank 0 prints microseconds per array,
and fails if one was wrong.
"""

import sys
from time import perf_counter

import numpy as np
from mpi4py import MPI


def main() -> None:
    """Exchange the arrays; the receives of a window are posted before it is sent."""
    length, turns, window = int(sys.argv[1]) // 8, int(sys.argv[2]), int(sys.argv[3])
    comm = MPI.COMM_WORLD
    other, value, wrong = 1 - comm.rank, 0, 0
    arrays, back = np.zeros((window, length)), np.zeros(length)
    comm.Barrier()
    began = perf_counter()
    for _ in range(turns):
        if comm.rank == 0:
            requests = []
            for array in arrays:
                value += 1
                array[:] = value
                requests.append(comm.Isend(array, other))
            MPI.Request.Waitall(requests)
            comm.Recv(back, other)
            value += 1
            wrong += float(np.sum(back)) != length * value
        else:
            requests = [comm.Irecv(array, other) for array in arrays]
            for array, request in zip(arrays, requests, strict=True):
                request.Wait()
                value += 1
                wrong += float(np.sum(array)) != length * value
            value += 1
            back[:] = value
            comm.Send(back, other)
    seconds = perf_counter() - began
    wrong = comm.allreduce(wrong)
    if comm.rank == 0:
        if wrong:
            raise RuntimeError(f"{wrong} arrays were wrong")
        print(seconds / (turns * (window + 1)) * 1e6, flush=True)


if __name__ == "__main__":
    main()
