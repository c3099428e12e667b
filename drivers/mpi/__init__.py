"""The mpi driver: one block per rank of MPI."""
