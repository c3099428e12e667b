"""Kernels of Jacobi2D."""
