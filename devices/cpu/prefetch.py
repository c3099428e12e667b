"""LLVM's prefetch, for kernels on the CPU."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from miniapps.devices.cpu.vectors import pointer

READ, KEEP_FROM_L2, DATA = 0, 2, 1  # LLVM's numbers


@intrinsic
def _prefetch(_: Any, array: Any, index: Any) -> Any:
    """Begin to load the cache line of ``array[index]``, for a contiguous array with one axis.

    An index outside the array is no error: nothing is loaded.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = pointer(context, builder, signature.args[0], *arguments)
        word, byte_pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], kind)
        how = [ir.Constant(word, number) for number in (READ, KEEP_FROM_L2, DATA)]
        builder.call(function, [builder.bitcast(at, byte_pointer), *how])
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = _prefetch  # for type checkers: kernels call it without the first argument
