"""GPUs of NVIDIA, by numba-cuda and CuPy."""
