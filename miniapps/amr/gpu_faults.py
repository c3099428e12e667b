"""Faults of AMR's GPU kernels."""

from __future__ import annotations

from typing import Any

from miniapps.faults import Fault, catalogue, in_place_of
from miniapps.gpu_faults import edited, kernel_fault

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


@kernel_fault(SWEEP)
def last_thread_idle(right: Any) -> Any:
    """The last column of a block is not swept."""
    return edited(right, ("if j < right:", "if j + next_ < right:"))


@kernel_fault(SWEEP)
def last_row_of_a_march_left_out(right: Any) -> Any:
    """A thread ends one row early."""
    return edited(right, ("while i < end:", "while i + next_ < end:"))


@kernel_fault(SWEEP)
def values_kept_too_long(right: Any) -> Any:
    """A thread does not move on with one of the values that it keeps."""
    there = "below, before, here, behind = before, here, behind, above"
    return edited(right, (there, "before, here, behind = here, behind, above"))


@kernel_fault(SWEEP)
def neighbour_twice(right: Any) -> Any:
    """The nearer neighbours in the row are taken twice, the others not at all."""
    there = "(u[at + second] - u[at - second])"
    return edited(right, (there, "(u[at + next_] - u[at - next_])"))


@kernel_fault(SWEEP)
def in_place(right: Any) -> Any:
    """Values grow in the array from which other threads still read."""
    return edited(right, ("new[at] = here + one", "u[at] = new[at] = here + one"))


@kernel_fault(SWEEP)
def border_is_swept_too(right: Any) -> Any:
    """The stencil is applied in the outermost rows of the grid."""
    return edited(right, ("if inside and i >= x0 and i < x1:", "if inside:"))


@kernel_fault(INTERPOLATE)
def nearest_below(right: Any) -> Any:
    """Along y a point takes the value before it."""
    return edited(right, ("mul(behind, up) + mul(before, one - up)", "before"))


@kernel_fault(INTERPOLATE)
def rows_of_another_array(right: Any) -> Any:
    """The background's points are taken to have the rows of the refinement."""
    change = "low, here = (x >> level) * columns, y >> level"
    return edited(right, (change, change.replace("columns", "row")))


@kernel_fault(INTERPOLATE)
def thread_indices_swapped(right: Any) -> Any:
    """Threads find their row by their index along the other axis."""
    return edited(right, ("np.uint64(cuda.threadIdx.y)", "np.uint64(cuda.threadIdx.x)"))


@kernel_fault(CHECK, given={"initial": "linear"})
def sum_of_one_thread_left_out(right: Any) -> Any:
    """Of a thread block's sums, those of the last thread are not added."""
    return edited(right, ("for n in range(WIDE):", "for n in range(WIDE - 1):"))


@kernel_fault(f"{KERNELS}:_put")
def report_without_its_last_number(right: Any) -> Any:
    """The last number of what a block leaves is not copied."""
    change = "message[start + n] = numbers[n]"
    return edited(right, (change, f"if n + np.uint64(1) < numbers.size: {change}"))


@in_place_of("miniapps.amr.block:Refinement.interpolate")
def kept_by_the_next_life(right: Any, self: Any, came: Any) -> None:
    """A refinement begins with sums that are not 0, as those of an earlier one would be."""
    right(self, came)
    sums = self.device.to_host(self.sums)
    self.sums = self.device.to_device(sums + 1.0)


FAULTS: tuple[Fault, ...] = catalogue(list(globals().values()))
