"""The CPU: Numba as kernels for it need it."""
