"""GPUs by CUDA: memory, streams and message buffers; how kernels are declared and compiled."""

from typing import Any

DEVICE = "gpu"


def create() -> Any:
    """Return the backend of this process. Raises DeviceUnavailable if its packages are missing."""
    from miniapps.devices.cuda.backend import CudaBackend

    return CudaBackend()
