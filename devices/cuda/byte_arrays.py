"""Arrays of bytes in a GPU's memory, made by CuPy or by numba-cuda, for messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from miniapps.devices.cuda import toolkit
from miniapps.devices.cuda.compiler import cuda


class ByteArrays:
    """Makes arrays of bytes with one of the libraries; opens this process's GPU.

    ``local_rank``: the number of this process on its host. Raises DeviceUnavailable.
    """

    def __init__(self, library: str, local_rank: int) -> None:
        self.library = library
        chosen = toolkit.chosen()
        toolkit.require(chosen)
        chosen.select(local_rank % chosen.count())

    def allocate(self, size: int) -> Any:
        """An array of ``size`` bytes with undefined contents."""
        if self.library == "numba":
            return cuda.device_array(size, np.uint8)
        import cupy

        return cupy.empty(size, np.uint8)

    def part(self, buffer: Any, start: int, stop: int) -> Any:
        """Bytes ``start`` to ``stop`` of an array, which share its memory."""
        return buffer[start:stop]

    def write(self, buffer: Any, values: np.ndarray) -> None:
        """Copy bytes (n,) into an array of n bytes; waits for the copy."""
        if values.size:
            cuda.as_cuda_array(buffer).copy_to_device(np.ascontiguousarray(values))
            cuda.synchronize()

    def read(self, buffer: Any) -> np.ndarray:
        """A copy of an array's bytes (n,) on the host."""
        if not buffer.size:
            return np.empty(0, np.uint8)
        return cuda.as_cuda_array(buffer).copy_to_host()
