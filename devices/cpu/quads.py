"""Registers of 16 numbers: each of four atoms with each of four others.

Lane 4 j + i is for atom i of a cluster and atom j of four others. A *record* is four int32 that
follow each other in memory: the coordinates of an atom and an unused number. As those of
`devices.cpu.vectors`, the functions exist inside ``njit`` only. 16 numbers fill one 512-bit
register; on CPUs without such registers LLVM uses several narrower ones.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from miniapps.devices.cpu.vectors import INT32, INTS, LINE_OF, Lanes, operation, pointer, repeat

FLOATS, WHOLES = LINE_OF[types.float32], LINE_OF[types.int32]
LANES = range(WHOLES.width)
MASK = Lanes(types.boolean, WHOLES.width)

operation(operator.sub, FLOATS, FLOATS, ir.IRBuilder.fsub)
operation(operator.truediv, FLOATS, FLOATS, ir.IRBuilder.fdiv)
operation(operator.lt, FLOATS, MASK, lambda builder, a, b: builder.fcmp_ordered("<", a, b))
operation(operator.add, WHOLES, WHOLES, ir.IRBuilder.add)
operation(operator.sub, WHOLES, WHOLES, ir.IRBuilder.sub)
operation(operator.lt, WHOLES, MASK, lambda builder, a, b: builder.icmp_signed("<", a, b))
operation(operator.and_, WHOLES, WHOLES, ir.IRBuilder.and_)
operation(operator.and_, MASK, MASK, ir.IRBuilder.and_)
operation(operator.ne, WHOLES, MASK, lambda builder, a, b: builder.icmp_signed("!=", a, b))


def _shuffled(builder: Any, a: Any, b: Any, numbers: Any) -> Any:
    """Return the lanes of two registers that have the given numbers."""
    chosen = list(numbers)
    return builder.shuffle_vector(a, b, ir.VectorType(INT32, len(chosen))(chosen))


@intrinsic
def _records(_: Any, array: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Load four records of an array, given their indices."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, *indices = arguments
        record = ir.VectorType(INT32, 4).as_pointer()
        loaded = []
        for index in indices:
            first = builder.shl(index, index.type(2))
            at = pointer(context, builder, signature.args[0], array, first)
            loaded.append(builder.load(builder.bitcast(at, record), align=4))
        a, b, c, d = loaded
        pairs = _shuffled(builder, a, b, range(8)), _shuffled(builder, c, d, range(8))
        return _shuffled(builder, pairs[0], pairs[1], LANES)

    return WHOLES(array, a, b, c, d), generate


def _picked(lane_of: Any) -> Any:
    """Return a function that moves the lanes of one register; each takes that of a number."""

    def pick(_: Any, lanes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _shuffled(builder, arguments[0], arguments[0], map(lane_of, LANES))

        return lanes(lanes), generate

    return intrinsic(pick)


def _known(value_of: Any) -> Any:
    """Return a function that returns a known number in each lane."""

    def know(_: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.get_value_type(WHOLES)(list(map(value_of, LANES)))

        return WHOLES(), generate

    return intrinsic(know)


@intrinsic
def _as_floats(_: Any, lanes: Any) -> Any:
    """Return integers as float32, rounded to nearest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.sitofp(arguments[0], context.get_value_type(FLOATS))

    return FLOATS(lanes), generate


@intrinsic
def _rounded(_: Any, lanes: Any) -> Any:
    """Return float32 as integers, rounded to nearest, halves to even."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into, kind = context.get_value_type(WHOLES), arguments[0].type
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(into, [kind]), "llvm.lrint.v16i32.v16f32"
        )
        return builder.call(function, arguments)

    return WHOLES(lanes), generate


@intrinsic
def _bits_of(_: Any, mask: Any) -> Any:
    """Return a mask as an integer, whose bit number n is lane n."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = builder.bitcast(arguments[0], ir.IntType(mask.width))
        return builder.zext(lanes, ir.IntType(64))

    return types.uint64(mask), generate


@intrinsic
def _append(_: Any, array: Any, end: Any, lanes: Any, mask: Any) -> Any:
    """Write the lanes where the mask holds behind each other, from ``array[end]`` on.

    Returns the new end. What follows it is overwritten, up to 16 elements from the old end on.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, end, lanes, mask = arguments
        compress = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(lanes.type, [lanes.type, mask.type, lanes.type]),
            "llvm.experimental.vector.compress.v16i32",
        )
        chosen = builder.call(compress, [lanes, mask, lanes.type(ir.Undefined)])
        at = pointer(context, builder, signature.args[0], array, end)
        builder.store(chosen, builder.bitcast(at, lanes.type.as_pointer()), align=4)
        bits = builder.bitcast(mask, ir.IntType(len(LANES)))
        count = builder.ctpop(builder.zext(bits, end.type))
        return builder.add(end, count)

    return end(array, end, lanes, mask), generate


@intrinsic
def _sums(_: Any, lanes: Any, factor: Any) -> Any:
    """Return the sum over j of each atom i, as int64 times a factor: `vectors.WIDTH` lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, factor = arguments
        for half in (8, 4):
            low, high = range(half), range(half, 2 * half)
            total = builder.add(*(_shuffled(builder, total, total, part) for part in (low, high)))
        wide = builder.sext(total, context.get_value_type(INTS))
        return builder.mul(wide, repeat(context, builder, INTS(signature.args[1]), [factor]))

    return INTS(lanes, factor), generate


# For type checkers: kernels call them without the first argument.
records: Any = _records
as_floats: Any = _as_floats
append: Any = _append
bits_of: Any = _bits_of
rounded: Any = _rounded
sums: Any = _sums
# The coordinates of four records along an axis, each in the lanes of its atom i or j.
x_of_i, y_of_i, z_of_i = (_picked(lambda lane, axis=axis: lane % 4 * 4 + axis) for axis in range(3))
x_of_j, y_of_j, z_of_j = (
    _picked(lambda lane, axis=axis: lane // 4 * 4 + axis) for axis in range(3)
)
numbers_of_i: Any = _known(lambda lane: lane % 4)
numbers_of_j: Any = _known(lambda lane: lane // 4)
