"""Kernels of LeanMD."""
