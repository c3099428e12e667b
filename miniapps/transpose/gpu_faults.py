"""Faults of Transpose's GPU kernels."""

from __future__ import annotations

from typing import Any

from miniapps.faults import ACTED, in_place_of
from miniapps.gpu_faults import kernel_fault
from miniapps.grid_gpu_faults import (  # noqa: F401  # faults of this app, too
    grid_rounded_down,
    received_in_another_order,
)

KERNELS = "miniapps.kernels.transpose.gpu"
PROBLEMS = {"tiny": {"size": (23,), "steps": 3, "warmup": 1}}
SIZES = {"SIDE": 4, "HIGH": 2, "ROW": 5, "SQUARE": 20}
TILES = {f"{KERNELS}:{name}": size for name, size in SIZES.items()}


# Squares -----------------------------------------------------------------------------------------


@kernel_fault(f"{KERNELS}:_add", "cuda.syncthreads()", "pass")
def square_without_barrier() -> None:
    """Threads do not wait for the elements that others copy to shared memory."""


@kernel_fault(f"{KERNELS}:_add", "square[x * np.uint64(ROW) + n]", "square[n * np.uint64(ROW) + x]")
def square_not_turned() -> None:
    """Squares are put where they belong, but their elements are not transposed."""


@kernel_fault(f"{KERNELS}:_add", "square[x * np.uint64(ROW) + n]", "square[x * side + n]")
def square_without_padding_on_one_side() -> None:
    """The square is written with rows of 33 elements, and read with rows of 32."""


@kernel_fault(f"{KERNELS}:_add", "cuda.blockIdx.y", "cuda.blockIdx.x")
def one_block_index_twice() -> None:
    """Thread blocks find their square by one index along both axes: those of the diagonal."""


@kernel_fault(f"{KERNELS}:_add", "+ x\n        if r <", "+ x\n        if r + np.uint64(1) <")
def end_of_a_row_left_out() -> None:
    """The last row of B is not added to: off by one."""


@kernel_fault(f"{KERNELS}:_add", "b[at] = b[at] + square", "b[at] = square")
def replaced_in_place_of_added() -> None:
    """B loses what it had."""


@kernel_fault(f"{KERNELS}:task_among_many", "FIRST] <= layer", "FIRST] < layer")
def task_of_another_message() -> None:
    """Of a launch for many messages, the first thread blocks of a task do the one before."""


# A += 1 ------------------------------------------------------------------------------------------


@kernel_fault(f"{KERNELS}:_add", "+ x] = source[at]", "+ x] = source[at] + np.float64(more)")
def one_added_too_early() -> None:
    """A += 1 is made before a block's own elements are read."""


@kernel_fault(f"{KERNELS}:_add", "more > np.uint64(0)", "more > np.uint64(1)")
def one_not_added() -> None:
    """A += 1 is not made in a block's own rows."""


@kernel_fault(f"{KERNELS}:_take", "+ r] = a[at]", "+ r] = a[at] + 1.0")
def one_added_before_it_is_sent() -> None:
    """A += 1 is made before elements are copied for other blocks."""


# Messages ----------------------------------------------------------------------------------------


@kernel_fault(f"{KERNELS}:_take", "r < wide", "r + np.uint64(1) < wide")
def last_thread_idle() -> None:
    """The last element of each column is not copied."""


@kernel_fault(f"{KERNELS}:_take", "start + j * wide + r", "start + r * high + j")
def turned_on_the_way() -> None:
    """Elements are transposed in their message already, and again when they come."""


@in_place_of(f"{KERNELS}:add_all", conditional=True)
def one_message_left_out(right: Any, tasks: Any) -> Any:
    """No threads are launched for one of the messages of each block."""
    if any(columns for _, columns, _ in tasks):
        ACTED.now()
    return right([(b, dict(list(columns.items())[1:]), came) for b, columns, came in tasks])
