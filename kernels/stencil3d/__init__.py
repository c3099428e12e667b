"""Kernels of Stencil3D."""
