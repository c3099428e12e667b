"""Rates on a GPU of the kernels of stencils, pic, cg, transpose and amr, and of exact sums.

Each is first made on CPU and GPU on a small part, where all numbers that it writes must be alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.gpu.cases import DOUBLE
from benchmarks.gpu.rates import Different, fields, pushing, rate
from miniapps import kernels
from miniapps.arrays import ghosted
from miniapps.devices import backend as device
from miniapps.devices.cuda.backend import Gpu
from miniapps.kernels.amr import REACH
from miniapps.kernels.exact_sum import accumulator
from miniapps.kernels.halo.interface import box

PARTS = {  # sizes with which every kernel of an app needs several thread blocks along each axis
    "jacobi2d": (300, 530),
    "stencil3d": (140, 40, 70),
    "pic": (100, 1000),
    "cg": (20, 40, 70),
    "transpose": (150,),
    "amr": (150, 300),
    "exact_sum": (3000,),
}
PATTERN = 1_000_003  # random numbers, which repeat
AT_ONCE = 20  # dot products that are timed together: one takes little longer than its launches
TO = (1, 0)  # the edge of a transpose's messages


class Work(NamedTuple):
    """A call of a kernel, the units of work in it, and what returns the numbers it has written."""

    call: Callable[[], Any]
    units: float
    written: Callable[[], list[np.ndarray]]


# Takes the device, its kernels, the size and the type of numbers.
Making = Callable[[Any, Any, tuple[int, ...], str], Work]


def kernel_rate(gpu: Any, name: str, size: tuple[int, ...], dtype: str) -> float:
    """Units of work per second of a kernel. Raises Different."""
    app, make = WORKS[name]
    part = tuple(map(min, size, PARTS[app]))
    on_cpu, on_gpu = (bits(make, app, where, part, dtype) for where in ("cpu", "gpu"))
    if on_cpu != on_gpu:
        raise Different("not the bits of the CPU")
    work = make(gpu, kernels.load(app, "gpu"), size, dtype)
    return rate(gpu, work.call, work.units)


def bits(make: Making, app: str, where: str, size: tuple[int, ...], dtype: str) -> list[bytes]:
    """The bits that a kernel writes on a device, called once."""
    work = make(device.get(where), kernels.load(app, where), size, dtype)
    work.call()
    return [array.tobytes() for array in work.written()]


def on_host(where: Any, arrays: Iterable[Any]) -> list[np.ndarray]:
    """Copies of arrays of a device."""
    return [np.array(where.to_host(array)) for array in arrays]


def numbers(where: Any, count: int, shape: tuple[int, ...], dtype: str = DOUBLE) -> list[Any]:
    """Different arrays of random numbers on a device."""
    patterns = (np.random.default_rng(seed).random(PATTERN) for seed in range(count))
    return [where.to_device(np.resize(one.astype(dtype), shape)) for one in patterns]


# Stencils ----------------------------------------------------------------------------------------


def sweeps(tile: int) -> Making:
    """What makes ``tile`` sweeps at once."""

    def make(where: Any, of: Any, cells: tuple[int, ...], dtype: str) -> Work:
        old, new, region = fields(where, cells, tile, dtype)
        grow, newest = np.ones(len(region), np.int64), [old]

        def call() -> None:
            newest[0] = new if of.sweep_tile(old, new, tile, *region, grow) else old

        def written() -> list[np.ndarray]:
            return [where.to_host(newest[0])[box(region)]]

        return Work(call, float(np.prod(cells)) * tile, written)

    return make


def measured_sweep(where: Any, of: Any, cells: tuple[int, ...], dtype: str) -> Work:
    """A sweep that computes the largest change of a cell; the host waits for it."""
    old, new, region = fields(where, cells, 1, dtype)
    change = np.zeros(1)

    def call() -> None:
        change[0] = of.sweep_residual(old, new, *region)

    def written() -> list[np.ndarray]:
        return [where.to_host(new)[box(region)], change]

    return Work(call, float(np.prod(cells)), written)


# PIC ---------------------------------------------------------------------------------------------


def push(steps: int) -> Making:
    """What pushes particles by ``steps`` steps at once."""

    def make(where: Any, of: Any, size: tuple[int, ...], dtype: str) -> Work:
        block = pushing(where, *size)

        def written() -> list[np.ndarray]:
            (piece,) = block.state()
            return [piece.values[np.argsort(piece.ids)]]

        return Work(partial(block.push, steps), float(size[1] * steps), written)

    return make


# CG ----------------------------------------------------------------------------------------------


def vectors(where: Any, cells: tuple[int, ...], count: int) -> tuple[list[Any], Any, Any]:
    """Vectors like those of a block on a GPU, the region of its points, and an accumulator."""
    empty, own = ghosted(cells, [(1, 1)] * 3, 1, line=Gpu.line)
    return numbers(where, count, empty.shape), own, where.to_device(accumulator())


def operator(points: int) -> Making:
    """What makes the operator of ``points`` points, without the dot product."""

    def make(where: Any, of: Any, cells: tuple[int, ...], dtype: str) -> Work:
        (u, v), own, _ = vectors(where, cells, 2)
        call = partial(of.multiply, points, u, v, *own)
        return Work(call, float(np.prod(cells)), partial(on_host, where, [v]))

    return make


def region_dot(where: Any, of: Any, cells: tuple[int, ...], dtype: str) -> Work:
    """The exact dot product of two vectors."""
    (a, b), own, words = vectors(where, cells, 2)
    call = partial(of.dot, a, b, *own, words)
    return Work(call, float(np.prod(cells)), partial(on_host, where, [words]))


def advance(where: Any, of: Any, cells: tuple[int, ...], dtype: str) -> Work:
    """The updates of an iteration, and the exact square of the residual."""
    four, own, words = vectors(where, cells, 4)
    call = partial(of.advance, *four, 0.5, *own, words)
    return Work(call, float(np.prod(cells)), partial(on_host, where, [*four[:2], words]))


# Transpose, of a block with half of the columns --------------------------------------------------


def take(where: Any, of: Any, size: tuple[int, ...], dtype: str) -> Work:
    """The copies for the other block."""
    half, other = size[0] // 2, size[0] - size[0] // 2
    (a,) = numbers(where, 1, (half, size[0]))
    messages = where.messages({TO: (half, other)}, np.float64)

    def written() -> list[np.ndarray]:
        message = messages[TO]
        if not isinstance(message, np.ndarray):
            (sealed,) = messages.sealed().values()
            where.stage([sealed])
            message = sealed.on_host()
        return [*on_host(where, [a]), np.array(message)]

    call = partial(of.take, a, {TO: (half, size[0])}, messages)
    return Work(call, float(half * other), written)


def add(where: Any, of: Any, size: tuple[int, ...], dtype: str) -> Work:
    """The sums of what came from the other block."""
    half, other = size[0] // 2, size[0] - size[0] // 2
    (b,) = numbers(where, 1, (half, size[0]))
    came = where.received({TO: np.random.default_rng(1).random((other, half))})
    call = partial(of.add, b, {TO: (half, size[0])}, came)
    return Work(call, float(half * other), partial(on_host, where, [b]))


def turn(where: Any, of: Any, size: tuple[int, ...], dtype: str) -> Work:
    """All for the block's own rows."""
    half = size[0] // 2
    a, b = numbers(where, 2, (half, size[0]))
    return Work(partial(of.turn, a, b, 0), float(half * half), partial(on_host, where, [a, b]))


# AMR and exact sums ------------------------------------------------------------------------------


def amr_sweep(where: Any, of: Any, size: tuple[int, ...], dtype: str) -> Work:
    """A sweep of all points."""
    empty, own = ghosted(size, [(REACH, REACH)] * 2, 1, dtype, line=128)
    u, sums = numbers(where, 2, empty.shape, dtype)
    new = u if of.IN_PLACE else numbers(where, 1, empty.shape, dtype)[0]  # the numbers of u
    call = partial(of.sweep, u, new, sums, 1, own, own)
    return Work(call, float(np.prod(size)), partial(on_host, where, [new, sums]))


def long_dot(where: Any, of: Any, size: tuple[int, ...], dtype: str) -> Work:
    """Exact dot products of two long arrays."""
    a, b = numbers(where, 2, size, dtype)
    words = where.to_device(accumulator())

    def call() -> None:
        for _ in range(AT_ONCE):
            of.add_dot(a, b, words)

    return Work(call, float(size[0] * AT_ONCE), partial(on_host, where, [words]))


SWEEPS: dict[str, Making] = {
    "": sweeps(1),
    ", residual": measured_sweep,
    ", 2 at once": sweeps(2),
    ", 4 at once": sweeps(4),
}
WORKS: dict[str, tuple[str, Making]] = {
    **{f"jacobi2d{how}": ("jacobi2d", make) for how, make in SWEEPS.items()},
    **{f"stencil3d{how}": ("stencil3d", make) for how, make in SWEEPS.items()},
    "pic push": ("pic", push(1)),
    "pic push, 4 steps at once": ("pic", push(4)),
    "cg operator, 27 points": ("cg", operator(27)),
    "cg operator, 7 points": ("cg", operator(7)),
    "cg exact dot": ("cg", region_dot),
    "cg advance": ("cg", advance),
    "transpose take": ("transpose", take),
    "transpose add": ("transpose", add),
    "transpose turn": ("transpose", turn),
    "amr sweep": ("amr", amr_sweep),
    "exact dot": ("exact_sum", long_dot),
}
