"""Runs students' kernels for a GPU, in Numba's simulator, in one process."""
