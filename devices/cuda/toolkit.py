"""The toolkits that run kernels for a GPU: numba-cuda with CuPy, and numba's simulator.

A `Toolkit` compiles kernels and makes arrays, streams and marks; all else in `devices.cuda` and all
kernels use what it gives them, so that another toolkit can take its place. `chosen` says which one
a process uses.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np

from devices.backend import DeviceUnavailable
from devices.cuda import driver_info
from devices.cuda.compiler import Kernel, cuda, simulated

LAUNCHERS = 512  # that a kernel keeps: one for each grid and stream
CHOICE = "MINIAPPS_CUDA_TOOLKIT"  # names another toolkit, as module:class
Launcher = Callable[[tuple[Any, ...]], Callable[..., None]]  # of (blocks, threads, stream)


class Toolkit:
    """What a toolkit offers; subclasses fill in what is not implemented here.

    Arrays have ``shape``, ``dtype``, ``size``, slices, ``reshape``, ``view``, ``copy_to_host(array,
    stream=)`` and ``copy_to_device(array, stream=)``; streams have ``synchronize()``; marks have
    ``synchronize()``, ``wait(stream)`` and ``elapsed_time(later mark)`` in milliseconds.
    """

    def __init__(self) -> None:
        self.launchers: dict[Kernel, Launcher] = {}
        self.idle: list[Any] = []  # streams of the GPU in use that no block uses any more

    def missing(self) -> str | None:
        """What is missing for kernels to run, in one line; None where they can."""
        return None

    def count(self) -> int:
        """How many GPUs this process sees."""
        raise NotImplementedError

    def select(self, number: int) -> None:
        """Use the GPU of that number, of those that this process sees, from now on."""
        self.idle = []  # blocks that go later give their streams back to the list before

    def described(self) -> str:
        """The name of the GPU in use."""
        raise NotImplementedError

    def compile(self, kernel: Kernel) -> Launcher:
        """Compile a kernel for its signatures.

        Returns ``launcher((blocks, threads, stream))``, which returns a function that launches the
        kernel with some arguments and does not wait for it.
        """
        raise NotImplementedError

    def launcher(self, kernel: Kernel) -> Launcher:
        """The launcher of a kernel, which is compiled the first time."""
        found = self.launchers.get(kernel)
        if found is None:
            found = self.launchers[kernel] = self.compile(kernel)
        return found

    def compile_all(self, kernels: Iterable[Kernel]) -> None:
        """Compile kernels before they are first launched."""
        for kernel in kernels:
            self.launcher(kernel)

    def new_stream(self) -> Any:
        """A queue of work, which waits for no other and none for it."""
        raise NotImplementedError

    def stream(self) -> Any:
        """A stream that no other block uses: an idle one before a new one.

        CuPy keeps the memory that was freed in a stream for that stream alone, and blocks come and
        go.
        """
        if self.idle:
            return self.idle.pop()
        stream = self.new_stream()
        stream.toolkit = self
        return stream

    def mark(self, stream: Any) -> Any:
        """A point in a stream's work."""
        raise NotImplementedError

    def array(self, how: str, size: int, dtype: Any, stream: Any) -> Any:
        """A flat array in device memory; ``how``: empty or zeros."""
        raise NotImplementedError

    def pinned(self, count: int) -> np.ndarray:
        """So many bytes of host memory that the device copies from and to by itself."""
        return np.empty(count, np.uint8)

    def address(self, array: Any) -> int:
        """Where a device array begins."""
        raise NotImplementedError

    def for_mpi(self, array: Any) -> Any:
        """A device array as MPI takes it: by its address."""
        return array

    def free_unused(self) -> None:
        """Give memory of the device that no array uses back to it, for other processes."""


class HostMark:
    """A mark in work that is done as soon as it is asked for."""

    def __init__(self) -> None:
        self.time = perf_counter()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, later: HostMark) -> float:
        """Milliseconds from this mark to a later one."""
        return 1000.0 * (later.time - self.time)


class Simulator(Toolkit):
    """numba's simulator: kernels run as Python, a thread at a time, on arrays in host memory."""

    def count(self) -> int:
        """As many as are asked for."""
        return 1 << 10

    def described(self) -> str:
        """What the record says."""
        return "numba's simulator"

    def compile(self, kernel: Kernel) -> Launcher:
        """The kernel itself, which the simulator interprets."""
        return cuda.jit(list(kernel.signatures), **kernel.options)(kernel.function).__getitem__

    def new_stream(self) -> Any:
        """A stream in name only."""
        return cuda.stream()

    def mark(self, stream: Any) -> HostMark:
        """A point in a stream's work, which is done by now."""
        return HostMark()

    def array(self, how: str, size: int, dtype: Any, stream: Any) -> Any:
        """A flat array that the simulator takes for one in device memory."""
        return cuda.to_device(getattr(np, how)(size, dtype)).bind(stream)

    def address(self, array: Any) -> int:
        """Where an array begins."""
        return array._ary.ctypes.data

    def for_mpi(self, array: Any) -> Any:
        """The host's array."""
        return array._ary


class Nvidia(Toolkit):
    """numba-cuda compiles and launches kernels; arrays lie in CuPy's memory pool."""

    def missing(self) -> str | None:
        """What is missing: a driver, one that is new enough, a compiler, or CuPy."""
        # The driver is asked first, as numba looks further where there is none, and for long.
        takes = driver_info.cuda_version(driver_info.library())
        if takes and takes < driver_info.NEEDED:
            newest = ".".join(map(str, takes))
            needed = f"CUDA {driver_info.NEEDED[0]} is needed (driver 580 or later)"
            return f"NVIDIA's driver takes CUDA up to {newest}; {needed}"
        if not takes or not cuda.is_available():
            if takes and not compiler_is_there():
                return "numba-cuda finds no compiler; pip install 'parallel-miniapps[gpu]'"
            return "no NVIDIA GPU with a working driver was found"
        if importlib.util.find_spec("cupy") is None:
            return "CuPy is not installed; pip install 'parallel-miniapps[gpu]'"
        return None

    def count(self) -> int:
        """How many GPUs this process sees."""
        return len(cuda.gpus)

    def select(self, number: int) -> None:
        """Use the GPU of that number, of those that this process sees, from now on."""
        import cupy

        super().select(number)
        cuda.select_device(number)
        cupy.cuda.Device(number).use()

    def described(self) -> str:
        """The name of the GPU in use."""
        name = cuda.get_current_device().name
        return name.decode() if isinstance(name, bytes) else name

    def compile(self, kernel: Kernel) -> Launcher:
        """Machine code for the GPU in use, from numba's cache on disk where it is there."""
        compiled = cuda.jit(list(kernel.signatures), cache=True, **kernel.options)(kernel.function)
        return lru_cache(LAUNCHERS)(compiled.__getitem__)

    def new_stream(self) -> Any:
        """A stream of CuPy's, as numba sees it."""
        import cupy

        queue = cupy.cuda.Stream(non_blocking=True)
        stream = cuda.external_stream(queue.ptr)
        stream.queue = queue  # lives as long
        return stream

    def mark(self, stream: Any) -> Any:
        """An event that is recorded in the stream."""
        event = cuda.event()
        event.record(stream)
        return event

    def array(self, how: str, size: int, dtype: Any, stream: Any) -> Any:
        """A flat array from CuPy's pool, as numba sees it; or, for sanitizers, memory of its own.

        They cannot see where in a pool an array ends.
        """
        import cupy

        if "MINIAPPS_NO_POOL" in os.environ:
            cupy.cuda.set_allocator(None)
        with stream.queue:
            flat = cuda.as_cuda_array(getattr(cupy, how)(size, dtype), sync=False)
        flat.stream = stream
        return flat

    def pinned(self, count: int) -> np.ndarray:
        """So many bytes from CuPy's pool of pinned memory.

        The pool gives memory back for the very same size only, so there are few: powers of two.
        """
        import cupy

        size = 1 << max(count - 1, 511).bit_length()
        return np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, count)

    def address(self, array: Any) -> int:
        """Where an array begins."""
        return array.device_ctypes_pointer.value or 0

    def free_unused(self) -> None:
        """Empty CuPy's pool."""
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()


def compiler_is_there() -> bool:
    """Whether NVIDIA's compiler of kernels is."""
    from numba.cuda.cudadrv import nvvm

    return nvvm.is_available()


def chosen() -> Toolkit:
    """A toolkit for this process: that which `CHOICE` names in the environment, else numba's."""
    if CHOICE in os.environ:
        module, _, name = os.environ[CHOICE].partition(":")
        return getattr(importlib.import_module(module), name)()
    return Simulator() if simulated() else Nvidia()


def require(toolkit: Toolkit, least: int = 1) -> None:
    """Raise DeviceUnavailable where kernels cannot run, or not on so many GPUs."""
    missing = toolkit.missing()
    if missing is not None:
        raise DeviceUnavailable(missing)
    if least > 1 and least > toolkit.count():
        raise DeviceUnavailable(f"{least} GPUs are asked for, {toolkit.count()} found")
