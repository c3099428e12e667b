"""GPUs by CUDA: memory, streams, message buffers, and how kernels are declared and compiled."""

from typing import Any

DEVICE = "gpu"


def create() -> Any:
    """The backend of this process. Raises DeviceUnavailable where its packages are missing."""
    from devices.cuda.backend import CudaBackend

    return CudaBackend()
