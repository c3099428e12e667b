"""Runs students' programs for mpi4py."""
