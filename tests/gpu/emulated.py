"""The functions that an emulated kernel calls: compiled for the CPU, with a GPU's arithmetic.

`emulation` writes modules that import these. ``t`` is a thread's place: threadIdx, blockIdx,
blockDim and gridDim, three int32 each.
"""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from miniapps.devices.cpu.compiler import njit as _njit

OPTIONS: dict[str, Any] = {"boundscheck": True, "error_model": "numpy"}
PLACES = ("threadIdx", "blockIdx", "blockDim", "gridDim")


def njit(function: Any, signature: Any) -> Any:
    """Compile as kernels are: out of bounds is an error, division by zero is not.

    Hardly optimized: more would take longer to compile than it saves, and changes no bits.
    """
    with patch.object(config, "OPT", type(config.OPT)(1)):
        return _njit(signature, cache=True, **OPTIONS)(function)


def inlined(function: Any) -> Any:
    """Have a function compiled inside those that call it, and not by itself as well."""
    return _njit(inline="always", **OPTIONS)(function)


@inlined
def grid_1(t):  # type: ignore[no-untyped-def]
    """``cuda.grid(1)``."""
    return np.int64(t[3]) * np.int64(t[6]) + np.int64(t[0])


@inlined
def gridsize_1(t):  # type: ignore[no-untyped-def]
    """``cuda.gridsize(1)``."""
    return np.int64(t[6]) * np.int64(t[9])


@inlined
def grid_2(t):  # type: ignore[no-untyped-def]
    """``cuda.grid(2)``."""
    return grid_1(t), np.int64(t[4]) * np.int64(t[7]) + np.int64(t[1])


# Threads run one after another, so an atomic operation is one like any other.


@inlined
def atomic_add(array, at, value):  # type: ignore[no-untyped-def]
    """Add; returns what was there."""
    old = array[at]
    array[at] = old + array.dtype.type(value)
    return old


@inlined
def atomic_sub(array, at, value):  # type: ignore[no-untyped-def]
    """Subtract; returns what was there."""
    old = array[at]
    array[at] = old - array.dtype.type(value)
    return old


@inlined
def atomic_max(array, at, value):  # type: ignore[no-untyped-def]
    """Keep the larger; returns what was there."""
    old = array[at]
    array[at] = max(old, array.dtype.type(value))
    return old


@inlined
def atomic_min(array, at, value):  # type: ignore[no-untyped-def]
    """Keep the smaller; returns what was there."""
    old = array[at]
    array[at] = min(old, array.dtype.type(value))
    return old


@inlined
def once(array, i):  # type: ignore[no-untyped-def]
    """An element."""
    return array[i]


@intrinsic
def mul(typing: Any, a: Any, b: Any) -> Any:
    """The product, rounded: of two float32 as one, of anything else as a float64."""
    kind = types.float32 if a == b == types.float32 else types.float64
    return kind(kind, kind), lambda context, builder, signature, args: builder.fmul(*args)


@intrinsic
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """The product a b plus c, rounded once; of three float32 as one, otherwise as a float64."""
    kind = types.float32 if a == b == c == types.float32 else types.float64

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = context.get_data_type(kind)
        joined = ir.FunctionType(number, (number,) * 3)
        function = builder.module.declare_intrinsic("llvm.fma", (number,), joined)
        return builder.call(function, arguments)

    return kind(kind, kind, kind), code


def _bitcast(into: Any) -> Any:
    """Code that takes bits for a value of another type."""
    return lambda context, builder, signature, args: builder.bitcast(args[0], into)


@intrinsic
def bits(typing: Any, a: Any) -> Any:
    """The bits of a float64 as an int64."""
    return types.int64(types.float64), _bitcast(ir.IntType(64))


@intrinsic
def from_bits(typing: Any, a: Any) -> Any:
    """The float64 of an int64's bits."""
    return types.float64(types.int64), _bitcast(ir.DoubleType())


@intrinsic
def rounded(typing: Any, a: Any) -> Any:
    """A float32 as an int32, rounded to nearest, halves to even."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), (ir.FloatType(),))
        function = builder.module.declare_intrinsic("llvm.lrint.i32.f32", (), kind)
        return builder.call(function, arguments)

    return types.int32(types.float32), code


@inlined
def estimate(a):  # type: ignore[no-untyped-def]
    """The upper half of the bits of a reciprocal; what a GPU gives may differ in the last two."""
    return from_bits(bits(1.0 / a) & ~np.int64(0xFFFFFFFF))


@inlined
def estimate_of_root(a):  # type: ignore[no-untyped-def]
    """The same of the reciprocal of a square root."""
    return estimate(math.sqrt(a))


@inlined
def estimate_in_single(a):  # type: ignore[no-untyped-def]
    """The reciprocal of a float32; what a GPU gives may differ in the last bit."""
    return np.float32(1.0) / a


@inlined
def quad(array, i):  # type: ignore[no-untyped-def]
    """Four elements."""
    at = np.uint64(4) * i
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    return array[at], array[at + one], array[at + two], array[at + three]


def viewer(dtype: str, rows: int | None) -> Any:
    """A function that sees an array, (columns,) or (rows, columns), at an address."""
    kind = types.Array(getattr(types, dtype), 1 if rows is None else 2, "C")

    @intrinsic
    def view(typing: Any, address: Any, columns: Any) -> Any:
        """The array."""

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            element = context.get_data_type(kind.dtype)
            size = context.get_constant(types.intp, context.get_abi_sizeof(element))
            shape, strides = [arguments[1]], [size]
            if rows is not None:
                shape = [context.get_constant(types.intp, rows), *shape]
                strides = [builder.mul(arguments[1], size), *strides]
            array = context.make_array(kind)(context, builder)
            data = builder.inttoptr(arguments[0], ir.PointerType(element))
            context.populate_array(
                array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None
            )
            return array._getvalue()

        return kind(types.int64, types.int64), code

    return view
