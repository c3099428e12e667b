"""Faults of Transpose's GPU kernels."""

from __future__ import annotations

from typing import Any

from miniapps.faults import ACTED, Fault, catalogue, in_place_of
from miniapps.gpu_faults import edited, kernel_fault
from miniapps.grid_gpu_faults import (  # noqa: F401  # listed below
    grid_rounded_down,
    received_in_another_order,
)

KERNELS = "miniapps.kernels.transpose.gpu"
PROBLEMS = {"tiny": {"size": (23,), "steps": 3, "warmup": 1}}
SIZES = {"SIDE": 4, "HIGH": 2, "ROW": 5, "SQUARE": 20}
TILES = {f"{KERNELS}:{name}": size for name, size in SIZES.items()}


# Squares -----------------------------------------------------------------------------------------


@kernel_fault(f"{KERNELS}:_add")
def square_without_barrier(right: Any) -> Any:
    """Threads do not wait for the elements that others copy to shared memory."""
    return edited(right, ("cuda.syncthreads()", "pass"))


@kernel_fault(f"{KERNELS}:_add")
def square_not_turned(right: Any) -> Any:
    """Squares are put where they belong, but their elements are not transposed."""
    return edited(right, ("square[x * np.uint64(ROW) + n]", "square[n * np.uint64(ROW) + x]"))


@kernel_fault(f"{KERNELS}:_add")
def square_without_padding_on_one_side(right: Any) -> Any:
    """The square is written with rows of 33 elements, and read with rows of 32."""
    return edited(right, ("square[x * np.uint64(ROW) + n]", "square[x * side + n]"))


@kernel_fault(f"{KERNELS}:_add")
def one_block_index_twice(right: Any) -> Any:
    """Thread blocks find their square by one index along both axes: those of the diagonal."""
    return edited(right, ("cuda.blockIdx.y", "cuda.blockIdx.x"))


@kernel_fault(f"{KERNELS}:_add")
def end_of_a_row_left_out(right: Any) -> Any:
    """The last row of B is not added to: off by one."""
    words = "first_j + x\n        if r < wide"
    return edited(right, (words, words.replace("r <", "r + np.uint64(1) <")))


@kernel_fault(f"{KERNELS}:_add")
def replaced_in_place_of_added(right: Any) -> Any:
    """B loses what it had."""
    return edited(right, ("b[at] = b[at] + square", "b[at] = square"))


@kernel_fault(f"{KERNELS}:task_among_many")
def task_of_another_message(right: Any) -> Any:
    """Of a launch for many messages, the first thread blocks of a task do the one before."""
    return edited(right, ("FIRST] <= layer", "FIRST] < layer"))


# A += 1 ------------------------------------------------------------------------------------------


@kernel_fault(f"{KERNELS}:_add")
def one_added_too_early(right: Any) -> Any:
    """A += 1 is made before a block's own elements are read."""
    return edited(right, ("+ x] = source[at]", "+ x] = source[at] + np.float64(more)"))


@kernel_fault(f"{KERNELS}:_add")
def one_not_added(right: Any) -> Any:
    """A += 1 is not made in a block's own rows."""
    return edited(right, ("more > np.uint64(0)", "more > np.uint64(1)"))


@kernel_fault(f"{KERNELS}:_take")
def one_added_before_it_is_sent(right: Any) -> Any:
    """A += 1 is made before elements are copied for other blocks."""
    return edited(right, ("+ r] = a[at]", "+ r] = a[at] + 1.0"))


# Messages ----------------------------------------------------------------------------------------


@kernel_fault(f"{KERNELS}:_take")
def last_thread_idle(right: Any) -> Any:
    """The last element of each column is not copied."""
    return edited(right, ("r < wide", "r + np.uint64(1) < wide"))


@kernel_fault(f"{KERNELS}:_take")
def turned_on_the_way(right: Any) -> Any:
    """Elements are transposed in their message already, and again when they come."""
    return edited(right, ("start + j * wide + r", "start + r * high + j"))


@in_place_of(f"{KERNELS}:add", conditional=True)
def one_message_left_out(right: Any, b: Any, columns: Any, came: Any) -> None:
    """No threads are launched for one of the messages."""
    if columns:
        ACTED.now()
    right(b, dict(list(columns.items())[1:]), came)


FAULTS: tuple[Fault, ...] = catalogue(list(globals().values()))
