"""Style: Reduce to the last process, which scales and passes the sum on by Bcast."""

import numpy as np
from mpi4py import MPI

UNIT = 2.0**-40


def total(comm, mine):
    root = comm.size - 1
    local = np.array([np.sum(np.round(mine / UNIT).astype("i8"))], dtype="i8")
    result = np.zeros(1, "i8")
    comm.Reduce([local, MPI.INT64_T], [result, MPI.INT64_T], op=MPI.SUM, root=root)
    answer = np.array([0.0])
    if comm.rank == root:
        answer[0] = float(result[0]) * UNIT
    comm.Bcast([answer, MPI.DOUBLE], root=root)
    return answer
