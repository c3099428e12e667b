"""Faults of AMR's GPU kernels."""

from __future__ import annotations

from typing import Any

from miniapps.faults import in_place_of
from miniapps.gpu_faults import kernel_fault

KERNELS = "miniapps.kernels.amr.gpu"
SWEEP, INTERPOLATE, CHECK = (f"{KERNELS}:_{name}64" for name in ("sweep", "interpolate", "check"))
PROBLEMS = {
    "tiny": {
        "size": (11, 9), "refinement": (4, 3), "level": 1, "period": 2, "duration": 1,
        "sub_iterations": 1, "steps": 4, "warmup": 1,
    }
}  # fmt: skip
SIZES: dict[str, Any] = {"WIDE": 4, "ACROSS": 4, "DOWN": 2, "MARCHES": (3,)}
TILES = {f"{KERNELS}:{name}": size for name, size in SIZES.items()}


@kernel_fault(SWEEP, "if j < right:", "if j + next_ < right:")
def last_thread_idle() -> None:
    """The last column of a block is not swept."""


@kernel_fault(SWEEP, "while i < end:", "while i + next_ < end:")
def last_row_of_a_march_left_out() -> None:
    """A thread ends one row early."""


@kernel_fault(SWEEP, "below, before, here, behind = before, here", "before, here, behind = here")
def values_kept_too_long() -> None:
    """A thread does not move on with one of the values that it keeps."""


@kernel_fault(SWEEP, "(u[at + second] - u[at - second])", "(u[at + next_] - u[at - next_])")
def neighbour_twice() -> None:
    """The nearer neighbours in the row are taken twice, the others not at all."""


@kernel_fault(SWEEP, "new[at] = here + one", "u[at] = new[at] = here + one")
def in_place() -> None:
    """Values grow in the array from which other threads still read."""


@kernel_fault(SWEEP, "if inside and i >= x0 and i < x1:", "if inside:")
def border_is_swept_too() -> None:
    """The stencil is applied in the outermost rows of the grid."""


@kernel_fault(INTERPOLATE, "mul(behind, up) + mul(before, one - up)", "before")
def nearest_below() -> None:
    """Along y a point takes the value before it."""


@kernel_fault(INTERPOLATE, "low, here = (x >> level) * columns", "low, here = (x >> level) * row")
def rows_of_another_array() -> None:
    """The background's points are taken to have the rows of the refinement."""


@kernel_fault(INTERPOLATE, "np.uint64(cuda.threadIdx.y)", "np.uint64(cuda.threadIdx.x)")
def thread_indices_swapped() -> None:
    """Threads find their row by their index along the other axis."""


@kernel_fault(CHECK, "in range(WIDE)", "in range(WIDE - 1)", given={"initial": "linear"})
def sum_of_one_thread_left_out() -> None:
    """Of a thread block's sums, those of the last thread are not added."""


@kernel_fault(f"{KERNELS}:_put", "message[", "if n + np.uint64(1) < numbers.size: message[")
def report_without_its_last_number() -> None:
    """The last number of what a block leaves is not copied."""


@in_place_of("miniapps.amr.block:Refinement.interpolate")
def kept_by_the_next_life(right: Any, self: Any, came: Any) -> Any:
    """A refinement begins with sums that are not 0, as those of an earlier one would be."""
    yield from right(self, came)
    sums = self.device.to_host(self.sums)
    self.sums = self.device.to_device(sums + 1.0)
