"""The CPU as a device; Numba's compiler and vector instructions for its kernels."""

from miniapps.devices.backend import Backend

DEVICE = "cpu"


def create() -> Backend:
    """Return the backend of this process."""
    return Backend()
