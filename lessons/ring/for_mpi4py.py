"""A ring of processes, with mpi4py.

    mpiexec -n 3 python ring.py

Each process has an array. All arrays travel around the ring: every process sends to the one on its
right and receives from the one on its left, again and again, until it has seen them all.
"""

import numpy as np
from mpi4py import MPI


def collect(comm, mine):
    """Return the arrays of all processes, in the order of their ranks: shape (size, len(mine)).

    comm: the communicator; mine: this process's array of float64. A process may send to its right
    neighbour only, and receive from its left neighbour only.
    """
    everything = np.empty((comm.size, len(mine)))
    everything[comm.rank] = mine
    # TODO 1: the ranks of the neighbours. The last process's right neighbour is the first one.
    right = ...
    left = ...
    travelling = mine
    for _ in range(comm.size - 1):
        # TODO 2: send `travelling` to the right, and receive another array from the left.
        # TODO 3: put the array that came where it belongs: whose is it?
        pass
    return everything


def main():
    """Let every process begin with ten times its rank; show what the first one has collected."""
    comm = MPI.COMM_WORLD
    everything = collect(comm, np.full(2, 10.0 * comm.rank))
    if comm.rank == 0:
        print(f"{comm.size} process(es)")
        print(everything)


if __name__ == "__main__":
    main()
