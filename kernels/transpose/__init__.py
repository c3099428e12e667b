"""Kernels of the matrix transpose."""
