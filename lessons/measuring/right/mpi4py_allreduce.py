"""Style: each repetition is reduced by Allreduce, with arrays of one number."""

import numpy as np
from mpi4py import MPI


def measure(comm, clock, work, repetitions):
    """Return an array with a row for each number of processes, 1 to comm.size.

    A row is the time in s, the speed-up, the efficiency and the serial fraction, which is 0 in the
    first row. All processes return the same array, rounded to three decimals.

    clock(): this process's time in s, as MPI.Wtime: only differences mean anything, and only on
    the same process. work(comm, count): the work, on the first count processes; all processes call
    it. repetitions: how often the work is to be timed on each number of processes; it is odd.
    """
    table = np.zeros((comm.size, 4))
    for count in range(1, comm.size + 1):
        work(comm, count)
        times = []
        for _ in range(repetitions):
            comm.Barrier()
            start = clock()
            work(comm, count)
            mine = np.array([clock() - start])
            longest = np.empty(1)
            comm.Allreduce(mine, longest, op=MPI.MAX)
            times.append(longest[0])
        time = np.median(times)
        if count == 1:
            first = time
        speed_up = first / time
        efficiency = speed_up / count
        serial_fraction = (1 / speed_up - 1 / count) / (1 - 1 / count) if count > 1 else 0.0
        table[count - 1] = time, speed_up, efficiency, serial_fraction
    return np.round(table, 3)


def compute(amount):
    """Compute sines: no messages, and nothing that does not fit into a cache."""
    numbers = np.ones(10_000)
    for _ in range(amount):
        np.sin(numbers, out=numbers)


def sines(comm, count):
    """On process 0 a tenth of the work, then on each of the first processes a share of the rest."""
    if comm.rank == 0:
        compute(300)
    comm.Barrier()
    if comm.rank < count:
        compute(2700 // count)
