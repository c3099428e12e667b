"""Kernels for a GPU as files declare them, and the arithmetic that they use.

Nothing is compiled here. A `Kernel` is compiled by the toolkit (`devices.cuda.toolkit`) of the
stream on which it is launched. numba-cuda decides when it is imported whether it compiles or
simulates (``NUMBA_ENABLE_CUDASIM=1``), so arithmetic is declared for the one or the other.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from devices.backend import DeviceUnavailable

if importlib.util.find_spec("numba_cuda") is None:
    raise DeviceUnavailable("numba-cuda is not installed; pip install 'parallel-miniapps[gpu]'")
from numba import cuda as _cuda
from numba.core import config as _config

cuda: Any = _cuda
config: Any = _config
# Small halos and few emigrants make small grids; numba would warn of each size.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

WARP = 32


def simulated() -> bool:
    """Whether numba runs kernels as Python, a thread at a time, on arrays in host memory."""
    return bool(getattr(config, "ENABLE_CUDASIM", False))


class Kernel:
    """A CUDA kernel as it is declared: its Python function, signatures and ``cuda.jit`` options."""

    def __init__(self, function: Any, signatures: tuple[str, ...], options: Any) -> None:
        self.function, self.signatures, self.options = function, signatures, options

    def __getitem__(self, launch: tuple[Any, ...]) -> Callable[..., None]:
        """``kernel[blocks, threads, stream](*arguments)`` launches it and does not wait.

        The stream's toolkit compiles the kernel, if it has not yet.
        """
        return launch[-1].toolkit.launcher(self)(launch)


def kernel(*signatures: str, **options: Any) -> Callable[[Any], Kernel]:
    """Declare a CUDA kernel for arguments of given types, with options of ``cuda.jit``."""
    return lambda function: Kernel(function, signatures, options)


def declared(module: ModuleType) -> dict[str, Kernel]:
    """The kernels that a module has by name, those in its tuples, lists and dicts too."""
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        inside: dict[str, Any] = {name: value}
        if isinstance(value, dict):
            inside = {f"{name}[{key}]": one for key, one in value.items()}
        elif isinstance(value, list | tuple):
            inside = {f"{name}[{number}]": one for number, one in enumerate(value)}
        found |= {key: one for key, one in inside.items() if isinstance(one, Kernel)}
    return found


def inlined(function: Any) -> Any:
    """Declare a function that kernels call."""
    options = {} if simulated() else {"forceinline": True}
    return cuda.jit(device=True, **options)(function)


def ported(function: Any) -> Any:
    """A function of the CPU's kernels, for those here: one source, compiled for each."""
    return function if simulated() else inlined(function.py_func)


def blocks(count: int, threads: int) -> int:
    """Thread blocks for ``count`` threads; at least one, as none is illegal."""
    return max(1, -(-count // threads))


# Arithmetic --------------------------------------------------------------------------------------

# The compiler joins a product and a sum into one rounding wherever it can. `mul` keeps a product
# apart, so that a kernel has the bits of its CPU counterpart; `fma` joins them and says so.
if simulated():
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

if simulated():

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
