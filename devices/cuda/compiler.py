"""How files declare kernels for a GPU, and the arithmetic that kernels use.

Nothing is compiled here. A `Kernel` is compiled by the toolkit (`devices.cuda.toolkit`) of the
stream in which it is launched. At import numba-cuda decides whether it compiles or simulates
(``NUMBA_ENABLE_CUDASIM=1``), so the arithmetic is declared for one or the other.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from miniapps.devices.backend import DeviceUnavailable

if importlib.util.find_spec("numba_cuda") is None:
    raise DeviceUnavailable("numba-cuda is not installed; pip install 'parallel-miniapps[gpu]'")
from numba import cuda as _cuda
from numba.core import config as _config

if not hasattr(np, "row_stack"):
    # numba-cuda 0.30 wants it, and will not follow NumPy 2.5, which has it under one name only:
    # https://github.com/NVIDIA/numba-cuda/issues/907
    np.row_stack = np.vstack  # noqa: NPY201
cuda: Any = _cuda
config: Any = _config
# Small halos and few emigrants make small grids; numba would warn about each size.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0

WARP = 32


def simulated() -> bool:
    """Return whether numba runs kernels as Python, one thread at a time, in host memory."""
    return bool(getattr(config, "ENABLE_CUDASIM", False))


class Kernel:
    """The declaration of a CUDA kernel: Python function, signatures, ``cuda.jit`` options."""

    def __init__(self, function: Any, signatures: tuple[str, ...], options: Any) -> None:
        self.function, self.signatures, self.options = function, signatures, options

    def __getitem__(self, launch: tuple[Any, ...]) -> Callable[..., None]:
        """Return a function that launches the kernel and does not wait for it.

        ``kernel[blocks, threads, stream](*arguments)``. The stream's toolkit compiles the kernel
        at its first launch.
        """
        return launch[-1].toolkit.launchers[self](launch)

    def prepared(self, launch: tuple[Any, ...], *arguments: Any) -> Callable[[], None]:
        """Return a function that launches the kernel with these arguments.

        The caller keeps the arrays' memory until the last launch.
        """
        return launch[-1].toolkit.prepared(self, launch, arguments)


def kernel(*signatures: str, **options: Any) -> Callable[[Any], Kernel]:
    """Declare a CUDA kernel with explicit signatures and options of ``cuda.jit``."""
    return lambda function: Kernel(function, signatures, options)


def declared(module: ModuleType) -> dict[str, Kernel]:
    """Return by name the kernels in a module, including those in its tuples, lists and dicts."""
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


def ported(function: Any, takes_arrays: bool = False) -> Any:
    """Return a function of the CPU's kernels for use in GPU kernels: one source for both.

    ``takes_arrays``: those of the simulator are not NumPy's, so it interprets the function.
    """
    return function if simulated() and not takes_arrays else inlined(function.py_func)


def blocks(count: int, threads: int) -> int:
    """Return how many thread blocks ``count`` threads need; at least one, as 0 is illegal."""
    return max(1, -(-count // threads))


# Arithmetic --------------------------------------------------------------------------------------

# The compiler fuses a product and a sum into one rounding wherever it can. `mul` keeps a product
# apart, so that a kernel has the bits of its CPU counterpart; `fma` requests the fusion.
if simulated():
    from miniapps.devices.cpu.fused import fused as fma

    @inlined
    def mul(a, b):  # type: ignore[no-untyped-def]
        """Return the rounded product."""
        return a * b

    @inlined
    def bits(a):  # type: ignore[no-untyped-def]
        """Return the bits of a float64 as an int64."""
        return np.float64(a).view(np.int64)

    @inlined
    def once(array, i):  # type: ignore[no-untyped-def]
        """Load an element that is used once: it need not stay in a cache, and is loaded here.

        The compiler moves other loads to where their values are used, after long computations.
        """
        return array[i]

    @inlined
    def rounded(a):  # type: ignore[no-untyped-def]
        """Return a float32 as an int32, rounded to nearest, halves to even."""
        return np.int32(np.rint(a))

    @inlined
    def from_bits(a):  # type: ignore[no-untyped-def]
        """Return the float64 with the bits of an int64."""
        return np.int64(a).view(np.float64)

    @inlined
    def estimate(a):  # type: ignore[no-untyped-def]
        """Return 1 / a to about 20 bits; the lower half of its bits are zero."""
        return from_bits(bits(1.0 / a) & ~0xFFFFFFFF)

    @inlined
    def estimate_of_root(a):  # type: ignore[no-untyped-def]
        """Return 1 / the square root of ``a`` to about 20 bits, in the same way."""
        return estimate(math.sqrt(a))

    @inlined
    def estimate_in_single(a):  # type: ignore[no-untyped-def]
        """Return 1 / a of a float32; what a GPU gives may differ in the last bit."""
        return np.float32(1.0) / a

    @inlined
    def quad(array, i):  # type: ignore[no-untyped-def]
        """Return elements 4 i to 4 i + 3 of an int32 array, by one load."""
        at = 4 * int(i)
        return array[at], array[at + 1], array[at + 2], array[at + 3]
else:
    from llvmlite import ir
    from numba.cuda import libdevice
    from numba.cuda.extending import intrinsic

    types: Any = cuda.types
    bits, from_bits = libdevice.double_as_longlong, libdevice.longlong_as_double
    rounded, once = libdevice.float2int_rn, cuda.ldcs

    def lasting(function: Any, name: str) -> Any:
        """Return an intrinsic whose id is the same in every process.

        numba's cache on disk finds a kernel by what it closes over, and ids are random otherwise.
        """
        function._set_uuid(f"{__name__}.{name}")
        return function

    @intrinsic
    def mul(typing: Any, a: Any, b: Any) -> Any:
        """Return the rounded product, float32 of two float32, otherwise float64."""
        return _rounding("mul", a, b)

    @intrinsic
    def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
        """Return a b + c rounded once, float32 of three float32, otherwise float64."""
        return _rounding("fma", a, b, c)

    def _rounding(operation: str, *given: Any) -> Any:
        """Return the signature of an operation that rounds once, and how it is compiled."""
        single = all(one == types.float32 for one in given)
        kind, letter = (types.float32, "f") if single else (types.float64, "d")

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = context.get_data_type(kind)
            function = ir.FunctionType(number, (number,) * len(given))
            name = f"llvm.nvvm.{operation}.rn.{letter}"
            return builder.call(builder.module.declare_intrinsic(name, (), function), arguments)

        return kind(*(kind,) * len(given)), code

    lasting(mul, "mul")
    lasting(fma, "fma")

    def _estimating(instruction: str) -> Any:
        """Return a function by one instruction, whose result has 20 bits or, in float32, 23."""
        single = instruction.endswith("f32")
        number, letter = (types.float32, "f") if single else (types.float64, "d")

        @intrinsic
        def approximate(typing: Any, a: Any) -> Any:
            def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                real = context.get_data_type(number)
                unary, text = ir.FunctionType(real, (real,)), f"{instruction} $0, $1;"
                return builder.call(ir.InlineAsm(unary, text, f"={letter},{letter}"), arguments)

            return number(number), code

        return lasting(approximate, instruction)

    estimate = _estimating("rcp.approx.ftz.f64")
    estimate_of_root = _estimating("rsqrt.approx.ftz.f64")
    estimate_in_single = _estimating("rcp.approx.ftz.f32")

    @intrinsic
    def quad(typing: Any, array: Any, i: Any) -> Any:
        """Return elements 4 i to 4 i + 3 of an int32 array, by one load.

        Memory of a device begins at a multiple of 256 bytes, so the load is aligned.
        """

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(array)(context, builder, arguments[0]).data
            four = ir.VectorType(ir.IntType(32), 4)
            at = builder.gep(builder.bitcast(data, ir.PointerType(four)), [arguments[1]])
            loaded = builder.load(at, align=16)
            each = [
                builder.extract_element(loaded, ir.Constant(ir.IntType(32), n)) for n in range(4)
            ]
            return context.make_tuple(builder, signature.return_type, each)

        return types.UniTuple(types.int32, 4)(array, types.uint64), code

    lasting(quad, "quad")


# Arrays by address -------------------------------------------------------------------------------

# A kernel that reads arrays of many blocks gets their addresses in a table. `viewer` makes
# functions ``view(address, columns)``, which return the array at an address in global memory.

if simulated():

    def viewer(dtype: str, rows: int | None = None) -> Any:
        """Return a function for the array, (columns,) or (rows, columns), at an address."""

        def view(address: int, columns: int) -> np.ndarray:
            shape, kind = (int(columns),) if rows is None else (rows, int(columns)), np.dtype(dtype)
            memory = ctypes.c_char * (math.prod(shape) * kind.itemsize)
            return np.ndarray(shape, kind, memoryview(memory.from_address(int(address))))

        return view
else:
    GLOBAL = 1  # an address space

    def viewer(dtype: str, rows: int | None = None) -> Any:
        """Return a function for the array, (columns,) or (rows, columns), at an address."""

        @intrinsic
        def view(typing: Any, address: Any, columns: Any) -> Any:
            """Return the array; the compiler knows that it is in global memory.

            Its type is made here: numba numbers types as they are made, and its cache on disk would
            find no kernel that closes over one with another number.
            """
            kind = types.Array(getattr(types, dtype), 1 if rows is None else 2, "C")

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

        return lasting(view, f"view {dtype} {rows}")
