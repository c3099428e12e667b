"""Kernels of CG."""
