"""Vector registers as values in kernels: several numbers side by side, used in formulas.

LLVM vectorises a loop over contiguous elements by itself. It does not do so where a short fixed
group of elements is combined with one other element at a time, as a cluster of atoms with its
neighbours; and it loads overlapping parts of a row one by one where a stencil could keep them in
registers. There a kernel uses these types explicitly. ``+ - * /`` and comparisons act lane by lane,
and the functions below do the rest. They exist inside ``njit`` only.

`load` reads `WIDTH` lanes: four of float64 fill a 256-bit register, which all x86 CPUs since 2013
have. `line` reads as many as fill a cache line, one 512-bit register. `doubles` reads `DOUBLES`
lanes as a line of float64. On CPUs without such registers LLVM uses several narrower ones.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model
from numba.np import arrayobj

WIDTH, DOUBLES = 4, 8
INT32 = ir.IntType(32)


class Lanes(types.Type):
    """The numba type of a fixed number of elements of one scalar type."""

    def __init__(self, element: Any, width: int) -> None:
        self.element, self.width = element, width
        super().__init__(f"Lanes({element}, {width})")


FLOATS, INTS, MASK = (Lanes(kind, WIDTH) for kind in (types.float64, types.int64, types.boolean))
LANES_OF = {types.float64: FLOATS, types.int64: INTS}
LINE_OF = {
    types.float64: Lanes(types.float64, 8),
    types.float32: Lanes(types.float32, 16),
    types.int32: Lanes(types.int32, 16),
    types.int64: Lanes(types.int64, 8),
}
ELEMENT = {
    types.float64: ir.DoubleType(),
    types.float32: ir.FloatType(),
    types.int64: ir.IntType(64),
    types.int32: INT32,
    types.boolean: ir.IntType(1),
}


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    """Represents lanes as LLVM vectors."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.VectorType(ELEMENT[lanes.element], lanes.width))


def operation(symbol: Any, operands: Lanes, result: Lanes, emit: Callable[..., Any]) -> None:
    """Define a Python operator for two Lanes of one type."""

    def joined(_: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emit(builder, *arguments)

        return result(a, b), generate

    apply: Any = intrinsic(joined)

    @overload(symbol, inline="always")
    def choose(a, b):  # numba compares names and annotations with those of what it returns
        return (lambda a, b: apply(a, b)) if a == b == operands else None


operation(operator.add, FLOATS, FLOATS, ir.IRBuilder.fadd)
operation(operator.sub, FLOATS, FLOATS, ir.IRBuilder.fsub)
operation(operator.mul, FLOATS, FLOATS, ir.IRBuilder.fmul)
operation(operator.truediv, FLOATS, FLOATS, ir.IRBuilder.fdiv)
operation(operator.lt, FLOATS, MASK, lambda builder, a, b: builder.fcmp_ordered("<", a, b))
for kind in (LINE_OF[types.float64], LINE_OF[types.float32]):
    operation(operator.add, kind, kind, ir.IRBuilder.fadd)
    operation(operator.sub, kind, kind, ir.IRBuilder.fsub)
    operation(operator.mul, kind, kind, ir.IRBuilder.fmul)
for kind in (INTS, LINE_OF[types.int64]):
    operation(operator.add, kind, kind, ir.IRBuilder.add)
operation(operator.sub, kind, kind, ir.IRBuilder.sub)
operation(operator.or_, kind, kind, ir.IRBuilder.or_)
operation(operator.xor, kind, kind, ir.IRBuilder.xor)
operation(operator.ne, INTS, MASK, lambda builder, a, b: builder.icmp_signed("!=", a, b))


def negation(operand: Lanes) -> None:
    """Define Python's unary minus for Lanes of floats."""

    def negative(_: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.fneg(*arguments)

        return operand(a), generate

    apply: Any = intrinsic(negative)

    @overload(operator.neg, inline="always")
    def choose(a):  # as in `operation`
        return (lambda a: apply(a)) if a == operand else None


negation(LINE_OF[types.float64])


def pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Return the address of ``array[index]``, for a contiguous array with one axis."""
    made = arrayobj.make_array(kind)(context, builder, array)
    return builder.gep(made.data, [index])


def repeat(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return lanes that all have one number."""
    lanes = context.get_value_type(signature.return_type)
    one = builder.insert_element(lanes(ir.Undefined), arguments[0], INT32(0))
    zeros = ir.VectorType(INT32, lanes.count)([0] * lanes.count)
    return builder.shuffle_vector(one, lanes(ir.Undefined), zeros)


@intrinsic
def _broadcast(_: Any, scalar: Any) -> Any:
    """Return `WIDTH` lanes that all have one number."""
    return LANES_OF[scalar](scalar), repeat


@intrinsic
def _broadcast_line(_: Any, scalar: Any) -> Any:
    """Return a line of lanes that all have one number."""
    return LINE_OF[scalar](scalar), repeat


def _read(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Load lanes from memory."""
    kind = signature.args[0]
    at = pointer(context, builder, kind, *arguments)
    lanes = context.get_value_type(signature.return_type).as_pointer()
    return builder.load(builder.bitcast(at, lanes), align=kind.dtype.bitwidth // 8)


@intrinsic
def _line_width(_: Any, array: Any) -> Any:
    """Return how many elements of an array are in a cache line, as a constant."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_constant(types.uint64, LINE_OF[array.dtype].width)

    return types.uint64(array), generate


@intrinsic
def _line(_: Any, array: Any, index: Any) -> Any:
    """Load a line of elements, from ``array[index]`` on."""
    return LINE_OF[array.dtype](array, index), _read


@intrinsic
def _doubles(_: Any, array: Any, index: Any) -> Any:
    """Load `DOUBLES` elements, float32 or float64, from ``array[index]`` on, as float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        read = Lanes(array.dtype, DOUBLES)(array, index)
        lanes = _read(context, builder, read, arguments)
        wide = context.get_value_type(signature.return_type)
        return lanes if lanes.type == wide else builder.fpext(lanes, wide)

    return LINE_OF[types.float64](array, index), generate


def _window(skipped: Callable[[int], int]) -> Any:
    """Return a function that cuts as many lanes as one line has out of two consecutive lines.

    ``skipped``: how many lanes to skip, given the width of a line.
    """

    def cut(_: Any, first: Any, second: Any) -> Any:
        skip = skipped(first.width)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = list(range(skip, skip + first.width))
            return builder.shuffle_vector(*arguments, ir.VectorType(INT32, len(numbers))(numbers))

        return first(first, second), generate

    return intrinsic(cut)


@intrinsic
def _alternating(_: Any, even: Any, odd: Any) -> Any:
    """Return the even lanes of one line and the odd lanes of another one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = [n + n % 2 * even.width for n in range(even.width)]
        return builder.shuffle_vector(*arguments, ir.VectorType(INT32, len(numbers))(numbers))

    return even(even, odd), generate


@intrinsic
def _load(_: Any, array: Any, index: Any) -> Any:
    """Load `WIDTH` elements, from ``array[index]`` on."""
    return LANES_OF[array.dtype](array, index), _read


@intrinsic
def _store(_: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Write lanes to the elements from ``array[index]`` on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index, values = arguments
        kind = signature.args[0]
        at = pointer(context, builder, kind, array, index)
        align = kind.dtype.bitwidth // 8
        builder.store(values, builder.bitcast(at, values.type.as_pointer()), align=align)
        return context.get_dummy_value()

    return types.void(array, index, lanes), generate


@intrinsic
def _fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """Return the product a b plus c, rounded once; scalars or lanes.

    Kernels call it explicitly, and the compiler never fuses, so that every kernel rounds alike.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        scalar = isinstance(a, types.Float)
        lanes = f"f{a.bitwidth}" if scalar else f"v{a.width}f{a.element.bitwidth}"
        name = f"llvm.fma.{lanes}"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * 3), name
        )
        return builder.call(function, arguments)

    return a(a, b, c), generate


@intrinsic
def _where(_: Any, mask: Any, a: Any, b: Any) -> Any:
    """Return lane by lane ``a`` where the mask holds, otherwise ``b``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return a(mask, a, b), generate


@intrinsic
def _bits(_: Any, floats: Any) -> Any:
    """Return the bits of floats as integers; a scalar or lanes."""
    lanes = isinstance(floats, Lanes)
    integers = Lanes(types.int64, floats.width) if lanes else types.int64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(integers))

    return integers(floats), generate


@intrinsic
def _lane(_: Any, lanes: Any, number: Any) -> Any:
    """Return the element in a lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_element(arguments[0], builder.trunc(arguments[1], INT32))

    return lanes.element(lanes, number), generate


def _joined(name: str) -> Any:
    """Return a function that joins all lanes of integers by LLVM's reduction of that name."""

    def joined(_: Any, lanes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = arguments[0].type
            function = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(kind.element, [kind]),
                f"llvm.vector.reduce.{name}.v{lanes.width}i64",
            )
            return builder.call(function, arguments)

        return lanes.element(lanes), generate

    return intrinsic(joined)


@intrinsic
def _numbers(_: Any) -> Any:
    """Return the numbers of the lanes: 0, 1, 2, 3."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_value_type(INTS)(list(range(WIDTH)))

    return INTS(), generate


# For type checkers: kernels call them without the first argument.
broadcast: Any = _broadcast
broadcast_line: Any = _broadcast_line
load: Any = _load
line: Any = _line
doubles: Any = _doubles
line_width: Any = _line_width
# The left neighbours of the elements, given (before, here); the right ones, given (here, after).
shift_left: Any = _window(lambda width: width - 1)
shift_right: Any = _window(lambda width: 1)
alternating: Any = _alternating
store: Any = _store
fma: Any = _fma
where: Any = _where
bits: Any = _bits
lane: Any = _lane
numbers: Any = _numbers
total: Any = _joined("add")
any_bits: Any = _joined("or")
