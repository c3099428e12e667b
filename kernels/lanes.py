"""A few numbers side by side in one vector register, for kernels written as formulas.

LLVM vectorises a loop over contiguous elements by itself. Where a short fixed group of elements
meets one other element at a time, as a cluster of atoms meets its neighbours, it does not; there a
kernel says so with these types. ``Lanes`` hold `WIDTH` numbers each; ``+ - * /`` and comparisons
act lane by lane, and the functions below do the rest. They exist inside ``njit`` only.

Four lanes of float64 fill a 256-bit register, which all x86 machines since 2013 have; LLVM makes
two narrower ones of each where there is none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types, vectorize
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model
from numba.np import arrayobj

WIDTH = 4
INT32 = ir.IntType(32)


class Lanes(types.Type):
    """The numba type of `WIDTH` elements of one scalar type."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(f"Lanes({element})")


FLOATS, INTS, MASK = Lanes(types.float64), Lanes(types.int64), Lanes(types.boolean)
LANES_OF = {types.float64: FLOATS, types.int64: INTS}
ELEMENT = {FLOATS: ir.DoubleType(), INTS: ir.IntType(64), MASK: ir.IntType(1)}


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    """Lanes are LLVM vectors."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.VectorType(ELEMENT[lanes], WIDTH))


def _operator(symbol: Any, operands: Lanes, result: Lanes, emit: Callable[..., Any]) -> None:
    """Let two Lanes of a type be joined by a Python operator."""

    def joined(_: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emit(builder, *arguments)

        return result(a, b), generate

    apply: Any = intrinsic(joined)

    @overload(symbol, inline="always")
    def choose(a, b):  # numba compares names and annotations with those of what it returns
        return (lambda a, b: apply(a, b)) if a == b == operands else None


_operator(operator.add, FLOATS, FLOATS, ir.IRBuilder.fadd)
_operator(operator.sub, FLOATS, FLOATS, ir.IRBuilder.fsub)
_operator(operator.mul, FLOATS, FLOATS, ir.IRBuilder.fmul)
_operator(operator.truediv, FLOATS, FLOATS, ir.IRBuilder.fdiv)
_operator(operator.lt, FLOATS, MASK, lambda builder, a, b: builder.fcmp_ordered("<", a, b))
_operator(operator.add, INTS, INTS, ir.IRBuilder.add)
_operator(operator.ne, INTS, MASK, lambda builder, a, b: builder.icmp_signed("!=", a, b))


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Where the lanes that begin at ``array[index]`` lie; the array is contiguous."""
    made = arrayobj.make_array(kind)(context, builder, array)
    at = builder.gep(made.data, [index])
    return builder.bitcast(at, context.get_value_type(lanes).as_pointer())


@intrinsic
def _every(_: Any, scalar: Any) -> Any:
    """All lanes the same number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = context.get_value_type(signature.return_type)
        one = builder.insert_element(lanes(ir.Undefined), arguments[0], INT32(0))
        return builder.shuffle_vector(
            one, lanes(ir.Undefined), ir.VectorType(INT32, WIDTH)([0] * WIDTH)
        )

    return LANES_OF[scalar](scalar), generate


@intrinsic
def _load(_: Any, array: Any, index: Any) -> Any:
    """The elements from ``array[index]`` on, of a one-dimensional array."""
    lanes = LANES_OF[array.dtype]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index = arguments
        at = _pointer(context, builder, signature.args[0], array, index, lanes)
        return builder.load(at, align=8)

    return lanes(array, index), generate


@intrinsic
def _store(_: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Write lanes to the elements from ``array[index]`` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index, values = arguments
        at = _pointer(context, builder, signature.args[0], array, index, lanes)
        builder.store(values, at, align=8)
        return context.get_dummy_value()

    return types.void(array, index, lanes), generate


@intrinsic
def _fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """The product a b plus c, rounded once; scalars or lanes.

    Said and never left to the compiler, so that every kernel rounds alike.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        name = "llvm.fma.f64" if a is types.float64 else f"llvm.fma.v{WIDTH}f64"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * 3), name
        )
        return builder.call(function, arguments)

    return a(a, b, c), generate


@intrinsic
def _where(_: Any, mask: Any, a: Any, b: Any) -> Any:
    """Lane by lane ``a`` where the mask holds, else ``b``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return a(mask, a, b), generate


@intrinsic
def _bits(_: Any, floats: Any) -> Any:
    """The bits of floats as integers; a scalar or lanes."""
    integers = INTS if floats is FLOATS else types.int64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(integers))

    return integers(floats), generate


@intrinsic
def _some(_: Any, mask: Any) -> Any:
    """Whether the mask holds in any lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(WIDTH)
        return builder.icmp_unsigned("!=", builder.bitcast(arguments[0], word), word(0))

    return types.boolean(mask), generate


@intrinsic
def _lane(_: Any, lanes: Any, number: Any) -> Any:
    """The element in a lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_element(arguments[0], builder.trunc(arguments[1], INT32))

    return lanes.element(lanes, number), generate


@intrinsic
def _numbers(_: Any) -> Any:
    """The numbers of the lanes: 0, 1, 2, 3."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_value_type(INTS)(list(range(WIDTH)))

    return INTS(), generate


# To a type checker, called as they are in kernels.
every: Any = _every
load: Any = _load
store: Any = _store
fma: Any = _fma
where: Any = _where
bits: Any = _bits
some: Any = _some
lane: Any = _lane
numbers: Any = _numbers


@vectorize("float64(float64, float64, float64)", cache=True)
def fused(a, b, c):  # type: ignore[no-untyped-def]
    """The product a b plus c, rounded once, for arrays outside of kernels; a NumPy ufunc."""
    return fma(a, b, c)
