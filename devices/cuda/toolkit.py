"""CUDA kernels from Python: numba-cuda and CuPy are imported here and nowhere else.

Three ways lead through this file. On a machine with a GPU kernels are compiled when their file is
imported, and arrays lie in CuPy's memory pool. In numba's simulator (``NUMBA_ENABLE_CUDASIM=1``)
kernels run as Python, a thread at a time, on arrays in host memory. On any other machine kernels
can only be looked at and compiled, which tests do.

Every array carries the stream on which it is used, as ``array.stream``, and a kernel is launched on
the stream of the array that it writes.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import os
from collections.abc import Callable
from functools import cache, lru_cache
from time import perf_counter
from typing import Any

import numpy as np

from devices.backend import DeviceUnavailable
from devices.cuda import driver_info as nvidia

if importlib.util.find_spec("numba_cuda") is None:
    raise DeviceUnavailable("numba-cuda is not installed; pip install 'parallel-miniapps[gpu]'")
from numba import cuda as _cuda
from numba.core import config as _config

cuda: Any = _cuda
config: Any = _config
# Small halos and few leavers make small grids; numba would warn of each size.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

SIMULATED = bool(getattr(config, "ENABLE_CUDASIM", False))
# What CUDA the driver takes; asked first, as numba looks further where there is none, and for long.
TAKES = nvidia.NEEDED if SIMULATED else nvidia.cuda_version(nvidia.library())
PRESENT = SIMULATED or bool(TAKES and TAKES >= nvidia.NEEDED and cuda.is_available())  # can run
WITH_ARRAYS = SIMULATED or importlib.util.find_spec("cupy") is not None  # in the GPU's memory
WARP = 32
LAUNCHERS = 512  # that a kernel keeps: one for each grid and stream


class Kernel:
    """A CUDA kernel: its Python source, its signatures and, where it can run, its machine code."""

    def __init__(self, function: Any, signatures: tuple[str, ...], options: Any) -> None:
        self.function, self.signatures, self.options = function, signatures, options
        self._launcher: Callable[[tuple[Any, ...]], Callable[..., None]] = refused
        if SIMULATED:  # where a launcher is the kernel itself and cannot be kept
            self._launcher = cuda.jit(list(signatures), **options)(function).__getitem__
        elif PRESENT:
            compiled = cuda.jit(list(signatures), cache=True, **options)(function)
            self._launcher = lru_cache(LAUNCHERS)(compiled.__getitem__)

    def __getitem__(self, launch: tuple[Any, ...]) -> Callable[..., None]:
        """``kernel[blocks, threads, stream](*arguments)`` launches it and does not wait."""
        return self._launcher(launch)


def refused(launch: tuple[Any, ...]) -> Callable[..., None]:
    """What a launch is where there is nothing to run kernels. Raises DeviceUnavailable."""
    require()
    raise AssertionError("kernels can run here")


def require(least: int = 1) -> None:
    """Raise DeviceUnavailable where kernels cannot run, or not on so many GPUs."""
    if TAKES and TAKES < nvidia.NEEDED:
        newest = ".".join(map(str, TAKES))
        needed = f"CUDA {nvidia.NEEDED[0]} is needed (driver 580 or later)"
        raise DeviceUnavailable(f"NVIDIA's driver takes CUDA up to {newest}; {needed}")
    if not PRESENT:
        wanting = TAKES and not compiler_is_there()
        compiler = "numba-cuda finds no compiler; pip install 'parallel-miniapps[gpu]'"
        there = "no NVIDIA GPU with a working driver was found"
        raise DeviceUnavailable(compiler if wanting else there)
    if not WITH_ARRAYS:
        raise DeviceUnavailable("CuPy is not installed; pip install 'parallel-miniapps[gpu]'")
    if least > 1 and least > count():
        raise DeviceUnavailable(f"{least} GPUs are asked for, {count()} found")


def compiler_is_there() -> bool:
    """Whether NVIDIA's compiler of kernels is."""
    from numba.cuda.cudadrv import nvvm

    return nvvm.is_available()


def kernel(*signatures: str, **options: Any) -> Callable[[Any], Kernel]:
    """Declare a CUDA kernel for arguments of given types, with options of ``cuda.jit``."""
    return lambda function: Kernel(function, signatures, options)


def inlined(function: Any) -> Any:
    """Declare a function that kernels call."""
    options = {} if SIMULATED else {"forceinline": True}
    return cuda.jit(device=True, **options)(function)


def ported(function: Any) -> Any:
    """A function of the CPU's kernels, for those here: one source, compiled for each."""
    return function if SIMULATED else inlined(function.py_func)


def blocks(count: int, threads: int) -> int:
    """Thread blocks for ``count`` threads; at least one, as none is illegal."""
    return max(1, -(-count // threads))


# Arithmetic --------------------------------------------------------------------------------------

# The compiler joins a product and a sum into one rounding wherever it can. `mul` keeps a product
# apart, so that a kernel has the bits of its CPU twin; `fma` joins them and says so.
if SIMULATED:
    from devices.cpu.vectors import fused as fma

    @inlined
    def mul(a, b):  # type: ignore[no-untyped-def]
        """The product, rounded."""
        return a * b

    @inlined
    def bits(a):  # type: ignore[no-untyped-def]
        """The bits of a float64 as an int64."""
        return np.float64(a).view(np.int64)

    @inlined
    def once(array, i):  # type: ignore[no-untyped-def]
        """An element that is read once: it need not stay in a cache, and is read where it stands.

        The compiler puts other reads off until they are needed, behind all that takes long.
        """
        return array[i]

    @inlined
    def from_bits(a):  # type: ignore[no-untyped-def]
        """The float64 of an int64's bits."""
        return np.int64(a).view(np.float64)
else:
    from llvmlite import ir
    from numba.cuda import libdevice
    from numba.cuda.extending import intrinsic

    types: Any = cuda.types
    bits, from_bits = libdevice.double_as_longlong, libdevice.longlong_as_double
    fma, once = libdevice.fma, cuda.ldcs

    @intrinsic
    def mul(typing: Any, a: Any, b: Any) -> Any:
        """The product, rounded: of two float32 as one, of anything else as a float64."""
        single = a == b == types.float32
        kind, letter = (types.float32, "f") if single else (types.float64, "d")

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = context.get_data_type(kind)
            product = ir.FunctionType(number, (number, number))
            name = f"llvm.nvvm.mul.rn.{letter}"
            return builder.call(builder.module.declare_intrinsic(name, (), product), arguments)

        return kind(kind, kind), code


# Arrays by address -------------------------------------------------------------------------------

# A kernel that reads arrays of many blocks is given their addresses in a table. `viewer` makes
# functions ``view(address, columns)`` by which it sees one as an array, in global memory.

if SIMULATED:

    def viewer(dtype: str, rows: int | None = None) -> Any:
        """A function that sees an array, (columns,) or (rows, columns), at an address."""
        kind = np.dtype(dtype)

        def view(address: int, columns: int) -> np.ndarray:
            shape = (int(columns),) if rows is None else (rows, int(columns))
            memory = ctypes.c_char * (math.prod(shape) * kind.itemsize)
            return np.ndarray(shape, kind, memoryview(memory.from_address(int(address))))

        return view
else:
    GLOBAL = 1  # an address space

    def viewer(dtype: str, rows: int | None = None) -> Any:
        """A function that sees an array, (columns,) or (rows, columns), at an address."""
        kind = types.Array(getattr(types, dtype), 1 if rows is None else 2, "C")

        @intrinsic
        def view(typing: Any, address: Any, columns: Any) -> Any:
            """The array; that its address is of global memory, loads and stores know."""

            def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                element = context.get_data_type(kind.dtype)
                size = context.get_constant(types.intp, context.get_abi_sizeof(element))
                place = builder.inttoptr(arguments[0], ir.PointerType(element, GLOBAL))
                shape, strides = [arguments[1]], [size]
                if rows is not None:
                    shape = [context.get_constant(types.intp, rows), *shape]
                    strides = [builder.mul(arguments[1], size), *strides]
                array = context.make_array(kind)(context, builder)
                context.populate_array(
                    array, data=builder.addrspacecast(place, ir.PointerType(element)), shape=shape,
                    strides=strides, itemsize=size, meminfo=None,
                )  # fmt: skip
                return array._getvalue()

            return kind(types.int64, types.int64), code

        return view


def address(array: Any) -> int:
    """Where a device array begins."""
    return array._ary.ctypes.data if SIMULATED else array.device_ctypes_pointer.value or 0


# Memory and streams ------------------------------------------------------------------------------


def select(number: int) -> None:
    """Use the GPU of that number, of those that this process sees, from now on."""
    idle.cache_clear()
    if not SIMULATED:
        import cupy

        cuda.select_device(number)
        cupy.cuda.Device(number).use()


def count() -> int:
    """GPUs that this process sees; the simulator has as many as are asked for."""
    return 1 << 10 if SIMULATED else len(cuda.gpus)


def described() -> str:
    """The name of the GPU that this process uses."""
    if SIMULATED:
        return "numba's simulator"
    name = cuda.get_current_device().name
    return name.decode() if isinstance(name, bytes) else name


@cache
def idle() -> list[Any]:
    """Streams of the GPU that is used, of which nobody has any use."""
    return []


def stream() -> Any:
    """A queue of work of its own, which waits for no other and none for it.

    One that is `idle` before a new one: CuPy keeps the memory that was freed in a stream for it
    alone, and blocks come and go.
    """
    if idle():
        return idle().pop()
    if SIMULATED:
        return cuda.stream()
    import cupy

    queue = cupy.cuda.Stream(non_blocking=True)
    mine = cuda.external_stream(queue.ptr)
    mine.queue = queue  # lives as long
    return mine


def empty(shape: int | tuple[int, ...], dtype: Any, stream: Any) -> Any:
    """An array in device memory, used on a stream; its memory goes back to the pool by itself."""
    return _made("empty", shape, dtype, stream)


def zeros(shape: int | tuple[int, ...], dtype: Any, stream: Any) -> Any:
    """An array of zeros in device memory."""
    return _made("zeros", shape, dtype, stream)


def _made(how: str, shape: int | tuple[int, ...], dtype: Any, stream: Any) -> Any:
    """An array that an array library makes."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    size = math.prod(shape)
    if SIMULATED:
        flat = cuda.to_device(getattr(np, how)(size, dtype)).bind(stream)
    else:
        flat = _pooled(how, size, dtype, stream)
    array = flat.reshape(shape)
    array.stream, array.flat_array = stream, flat
    return array


def _pooled(how: str, size: int, dtype: Any, stream: Any) -> Any:
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


def flat(array: Any) -> Any:
    """The elements of a contiguous device array in a row; made once, as it costs microseconds."""
    return array.flat_array if hasattr(array, "flat_array") else array.reshape(array.size)


def to_device(array: np.ndarray, stream: Any) -> Any:
    """A copy in device memory."""
    copy, source = empty(array.shape, array.dtype, stream), np.ascontiguousarray(array)
    if array.size:
        copy.copy_to_device(source, stream=stream)
        stream.synchronize()  # before the source goes
    return copy


def to_host(array: Any) -> np.ndarray:
    """A copy of a contiguous device array in host memory, once all that comes before it is done."""
    copy = np.empty(array.shape, array.dtype)  # of its own: numba's would be a view of bytes
    if array.size:
        array.copy_to_host(copy, stream=array.stream)
        array.stream.synchronize()
    return copy


def free_unused() -> None:
    """Give memory of the device that no array uses back to it, for other processes."""
    if not SIMULATED:
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()


def pinned(count: int) -> np.ndarray:
    """Bytes of host memory that the device copies from and to by itself, from a pool.

    The pool gives memory back for the very same size only, so there are few: powers of two.
    """
    if SIMULATED:
        return np.empty(count, np.uint8)
    import cupy

    size = 1 << max(count - 1, 511).bit_length()
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, count)


def sent(array: Any) -> Any:
    """A device array as MPI takes it: by its address."""
    return array._ary if SIMULATED else array


# Time --------------------------------------------------------------------------------------------


def mark(stream: Any) -> Any:
    """A point in a stream's work."""
    if SIMULATED:
        return perf_counter()
    event = cuda.event()
    event.record(stream)
    return event


def seconds(first: Any, last: Any) -> float:
    """From one mark to another, once both have been reached."""
    if SIMULATED:
        return last - first
    last.synchronize()
    return first.elapsed_time(last) / 1000.0


def wait_for(event: Any, stream: Any) -> None:
    """Let a stream go on only when a mark, if there is one, has been reached."""
    if event is not None and not SIMULATED:
        event.wait(stream)


def reached(event: Any) -> None:
    """Wait until a mark, if there is one, has been reached."""
    if event is not None and not SIMULATED:
        event.synchronize()
