"""Faults of CG's GPU kernels, and of the exact sums there."""

from __future__ import annotations

from typing import Any

from miniapps.faults import Fault, catalogue, fault
from miniapps.gpu_faults import edited, kernel_fault
from miniapps.grid_gpu_faults import (  # noqa: F401  # listed below
    ghosts_shifted,
    grid_rounded_down,
    last_cell_not_packed,
    last_face_left_out,
    task_of_another_block,
)

KERNELS, SUMS = "miniapps.kernels.cg.gpu", "miniapps.kernels.exact_sum.gpu"
PROBLEMS = {"tiny": {"size": (5, 5, 4), "steps": 2, "warmup": 1}}
SIZES: dict[str, Any] = {"WIDE": 3, "HIGH": 2, "MARCHES": (2,)}
TILES = {f"{KERNELS}:{name}": size for name, size in SIZES.items()}
TILES |= {"miniapps.devices.cuda.primitives:WARP": 4}
SGS = {"preconditioner": "sgs"}


# Operator ----------------------------------------------------------------------------------------


@kernel_fault(f"{KERNELS}:_box")
def last_thread_idle(right: Any) -> Any:
    """The last thread of a row applies nothing: off by one."""
    return edited(right, ("k < z1", "k + np.uint64(1) < z1"))


@kernel_fault(f"{KERNELS}:_line_and_point")
def thread_indices_swapped(right: Any) -> Any:
    """Threads find their row by the index of their point."""
    return edited(right, ("cuda.threadIdx.y", "cuda.threadIdx.x"))


@kernel_fault(f"{KERNELS}:_planes")
def seam_between_threads(right: Any) -> Any:
    """Threads end one plane before the next ones begin."""
    return edited(right, ("begin + march, x1", "begin + march - np.uint64(1), x1"))


@kernel_fault(f"{KERNELS}:_lines")
def neighbour_twice(right: Any) -> Any:
    """A point across an edge is taken twice, another one not at all."""
    return edited(right, ("u[at + plane + one]", "u[at - plane + one]"))


@kernel_fault(f"{KERNELS}:_box")
def additions_in_another_order(right: Any) -> Any:
    """The sums along a row are added last to first: the last bits differ, nothing else."""
    there = "(a0 + a1 + a2) + (b0 + b1 + b2) + (c0 + c1 + c2)"
    return edited(right, (there, "(c0 + c1 + c2) + (b0 + b1 + b2) + (a0 + a1 + a2)"))


@kernel_fault(f"{KERNELS}:_box")
def plane_before_kept(right: Any) -> Any:
    """A thread that marches on keeps the sums of the first plane."""
    return edited(right, ("= a1, b1, c1, a2, b2, c2", "= a0, b0, c0, a2, b2, c2"))


@kernel_fault(f"{KERNELS}:_star", given={"operator": 7})
def value_before_kept(right: Any) -> Any:
    """With seven points, a thread that marches on keeps the value before the first plane."""
    return edited(right, ("before, here = here, behind", "here = behind"))


# Vectors and sums --------------------------------------------------------------------------------


@kernel_fault(f"{KERNELS}:_turn")
def direction_in_single_precision(right: Any) -> Any:
    """Directions are rounded to float32."""
    words = "z[at] + mul(beta, p[at])"
    return edited(right, (words, f"np.float64(np.float32({words}))"))


@kernel_fault(f"{KERNELS}:_with_ghosts")
def ghosts_of_x_left_out(right: Any) -> Any:
    """The ghosts of the solution before the first row and point are not updated."""
    return edited(right, ("_line_and_point(y0 - one, z0 - one)", "_line_and_point(y0, z0)"))


@kernel_fault(f"{KERNELS}:_advance")
def residual_of_the_first_plane_left_out(right: Any) -> Any:
    """The residual of the first plane is not updated."""
    return edited(right, ("i >= x0", "i > x0"))


@kernel_fault(f"{KERNELS}:_pipelined", given={"pipelined": True})
def direction_not_stored(right: Any) -> Any:
    """A pipelined iteration uses the new direction and keeps the old one."""
    return edited(right, ("s[at], p[at] = s_here, p_here", "s[at] = s_here"))


@kernel_fault(f"{KERNELS}:_dot")
def last_plane_left_out(right: Any) -> Any:
    """The products of the last plane are not added: off by one."""
    return edited(right, ("end = x1 * plane", "end = (x1 - np.uint64(1)) * plane"))


@kernel_fault(f"{SUMS}:flush")
def sum_without_barrier(right: Any) -> Any:
    """Threads do not wait for the products that others add in shared memory."""
    return edited(right, ("cuda.syncthreads()", "pass"))


@kernel_fault(f"{SUMS}:add_integer")
def highest_digit_lost(right: Any) -> Any:
    """Of the three digits of an addend the highest is not added."""
    return edited(right, ("cuda.atomic.add(mine, k + 2, high)", "pass"))


@kernel_fault(f"{SUMS}:chunk")
def product_cut(right: Any) -> Any:
    """Products lose their lowest bits, as those of floats do."""
    return edited(right, ("second += bits(u)", "second += bits(m2)"))


@kernel_fault(f"{SUMS}:add_block")
def last_sum_left_out(right: Any) -> Any:
    """The sums of a thread block's last thread are not added: off by one."""
    return edited(right, ("k + half < threads", "k + half + 1 < threads"))


# Preconditioner ----------------------------------------------------------------------------------


@kernel_fault(f"{KERNELS}:_coloured", given=SGS)
def rows_of_another_colour(right: Any) -> Any:
    """Rows of two colours are relaxed at once: neighbours, in whatever order threads run."""
    return edited(right, ("y0 + two * j", "y0 + j"))


@kernel_fault(f"{KERNELS}:_sides", given=SGS)
def corner_twice(right: Any) -> Any:
    """Gauss-Seidel takes one corner twice, another one not at all."""
    return edited(right, ("z[above + row]", "z[above - row]"))


@fault(f"{KERNELS}:clear", given=SGS)
def not_cleared(right: Any) -> Any:
    """Gauss-Seidel begins with the values of the iteration before in place of zeros."""
    return lambda z: None


FAULTS: tuple[Fault, ...] = catalogue(list(globals().values()))
