"""The CPU: Numba as kernels for it need it."""

from devices.backend import Backend

DEVICE = "cpu"


def create() -> Backend:
    """The backend of this process."""
    return Backend()
