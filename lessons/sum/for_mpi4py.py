"""A sum that has the same bits on any number of processes, with mpi4py.

    mpiexec -n 3 python sum.py

Each process has a part of the numbers, perhaps an empty one. All want the sum of all of them.
"""

import numpy as np
from mpi4py import MPI

UNIT = 2.0**-40  # numbers are added in whole units


def total(comm, mine):
    """Return the sum of the numbers of all processes, as an array with one float64.

    comm: the communicator; mine: this process's part of the numbers, float64. Each number is
    rounded to the nearest whole number of units first. So the sum of all is a whole number of
    units, too.
    """
    # TODO 1: this sum depends on how the numbers are distributed. Run the program on 1, 2, 3
    #         and 4 processes, and compare the last digits.
    # TODO 2: round each number to units, as integers of 64 bits, and add these up.
    # TODO 3: return the sum in the numbers' own scale, not in units.
    local = np.array([np.sum(mine)])
    everywhere = np.empty(1)
    comm.Allreduce(local, everywhere)
    return everywhere


def main():
    """Add up 1000 numbers, of which each process has a part."""
    comm = MPI.COMM_WORLD
    numbers = np.random.default_rng(1).random(1000) - 0.5
    low, high = (1000 * (comm.rank + more) // comm.size for more in (0, 1))
    sums = total(comm, numbers[low:high])
    if comm.rank == 0:
        print(f"{comm.size} process(es): {sums[0]:.20f}")


if __name__ == "__main__":
    main()
