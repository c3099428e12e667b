"""Measuring how a program scales, with mpi4py.

    mpiexec -n 2 python measuring.py

The same work is timed on 1, 2, ... processes. From the times follow speed-up, efficiency and more.
"""

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
        # TODO 1: warm up: call the work once without the clock.
        times = []
        for _ in range(repetitions):
            # TODO 2: let all processes begin at the same time.
            start = clock()
            work(comm, count)
            # TODO 3: the work is done when the last process is. This is one process's own time.
            times.append(clock() - start)
        # TODO 4: a single disturbance changes the mean. Take the median.
        time = np.mean(times)
        # TODO 5: compute these three.
        speed_up = efficiency = serial_fraction = 0.0
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


def main(work=sines):
    """Time a work with a real clock, and print the table."""
    comm = MPI.COMM_WORLD
    table = measure(comm, MPI.Wtime, work, 7)
    if comm.rank == 0:
        print("processes  time in s  speed-up  efficiency  serial fraction")
        for count, (time, speed_up, efficiency, fraction) in enumerate(table, 1):
            print(f"{count:9}  {time:9}  {speed_up:8}  {efficiency:10}  {fraction:15}")


if __name__ == "__main__":
    main()
