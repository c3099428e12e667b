"""What both stencils need on a GPU: the launches that make several sweeps, residual, and sides."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from miniapps.devices.backend import Array
from miniapps.devices.cuda.compiler import bits, cuda, inlined
from miniapps.devices.cuda.launches import Tasks

MOST = 2**31 - 1024  # cells along an axis: coordinates are int32, those of idle threads too


def check_sizes(array: Array) -> None:
    """Raise ValueError for an array with more cells along an axis than int32 can count."""
    if max(array.shape) > MOST:
        raise ValueError(f"at most {MOST} cells per axis on a GPU: {array.shape}")


@lru_cache(1024)
def _regions(
    sweeps: int, at_once: tuple[int, ...], region: tuple[int, ...], grow: tuple[int, ...]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return the launches for some sweeps: how many sweeps each makes, and of which region.

    The last one covers ``region``, each sweep before it one cell more where ``grow`` is 1.
    """
    launches = []
    while sweeps:
        count = next((count for count in at_once if count <= sweeps), 1)
        sweeps -= count
        sides = enumerate(zip(region, grow, strict=True))
        wider = tuple(at + (g if n % 2 else -g) * sweeps for n, (at, g) in sides)
        launches.append((count, wider))
    return launches


def sweep_in_turns(
    tasks: Tasks, sweeps: int, at_once: tuple[int, ...], launch: Callable[[Tasks], None]
) -> int:
    """Sweep the arrays of some blocks by few launches, each of which exchanges a block's arrays.

    ``tasks``: (old, new, region, grow) of each block. ``at_once``: how many sweeps a launch can
    make beside one, the most first. ``launch``: gets tasks (old, new, count, region, grow). Returns
    what `sweep_tile` does.
    """
    if sweeps > 1:
        for old, *_ in tasks:
            check_sizes(old)
    launches = [_regions(sweeps, at_once, region, grow) for _, _, region, grow in tasks]
    for number, each in enumerate(zip(*launches, strict=True)):
        turn = 1 if number % 2 == 0 else -1
        arrays = [(old, new)[::turn] for old, new, _, _ in tasks]
        grows = (grow for *_, grow in tasks)
        launch([(*a, *one, g) for a, one, g in zip(arrays, each, grows, strict=True)])
    return len(launches[0]) % 2


@inlined
def next_four(old, at, stride):  # type: ignore[no-untyped-def]
    """Return the four cells after the one at an index, along the axis with a stride."""
    b, c, d = at + stride, at + stride + stride, at + stride + stride + stride
    return old[b], old[c], old[d], old[d + stride]


@inlined
def change(new, old):  # type: ignore[no-untyped-def]
    """Return |new - old| as the bits of a float64.

    These integers have the order of the floats, and a NaN is larger than all numbers.
    """
    return bits(np.float64(abs(new - old)))


@inlined
def raise_to(most, mine):  # type: ignore[no-untyped-def]
    """Raise ``most[0]`` to the largest ``mine`` >= 0 of a thread block.

    All threads of the block must call it.
    """
    largest = cuda.shared.array(1, "int64")
    first = cuda.threadIdx.x + cuda.threadIdx.y == 0
    if first:
        largest[0] = 0
    cuda.syncthreads()
    cuda.atomic.max(largest, 0, mine)
    cuda.syncthreads()
    if first and largest[0] > most[0]:  # seldom true once a few blocks are done
        cuda.atomic.max(most, 0, largest[0])


@inlined
def reach(sweeps, grows):  # type: ignore[no-untyped-def]
    """Return how many cells exist beyond a side of a region.

    As many as there are sweeps on the side of a neighbour, one at the boundary of the domain.
    """
    return sweeps if grows else 1


@inlined
def changed(sweeps, low, high, grows_low, grows_high):  # type: ignore[no-untyped-def]
    """Return the first row that several sweeps at once change, and how many they change.

    A row i is one of them if the unsigned ``i - first`` is less than their number: one comparison.
    """
    first = np.int32(low - sweeps * grows_low)
    return first, np.uint32(high + sweeps * grows_high - first)


@inlined
def within(i, sweeps, low, high, grows_low, grows_high):  # type: ignore[no-untyped-def]
    """Return whether several sweeps at once change cells with index ``i`` along an axis."""
    first, count = changed(sweeps, low, high, grows_low, grows_high)
    return np.uint32(i - first) < count
