"""The toolkit of the stub driver: numba-cuda's, and what is launched is computed on the CPU.

A launch goes to numba-cuda and the driver, with all their checks of types and grids, and then to
`emulation`, which works in the same memory.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from emulation import Emulated

from devices.cuda.compiler import Kernel
from devices.cuda.toolkit import Launcher, Nvidia


class Stub(Nvidia):
    """``MINIAPPS_CUDA_TOOLKIT=stub:Stub`` chooses it."""

    def compile(self, kernel: Kernel) -> Launcher:
        """A kernel that is launched on the driver and computed on the CPU."""
        on_driver = super().compile(kernel)
        on_cpu = Emulated(kernel.function, kernel.signatures, host_view)

        def launcher(how: tuple[Any, ...]) -> Any:
            launch = on_driver(how)

            def both(*arguments: Any) -> None:
                launch(*arguments)
                on_cpu.launch(*how[:2], arguments)

            return both

        return launcher


def host_view(value: Any) -> Any:
    """The memory of a device array as an array of NumPy; anything else as it is."""
    told = getattr(value, "__cuda_array_interface__", None)
    if told is None:
        return value
    shape, kind = told["shape"], np.dtype(told["typestr"])
    if not math.prod(shape):
        return np.empty(shape, kind)
    assert told.get("strides") is None or value.is_c_contiguous()
    memory = ctypes.c_char * (math.prod(shape) * kind.itemsize)
    return np.ndarray(shape, kind, memory.from_address(told["data"][0]))
