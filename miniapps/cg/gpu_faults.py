"""Faults of CG's GPU kernels, and of the exact sums there."""

from __future__ import annotations

from typing import Any

from miniapps.faults import ACTED, in_place_of
from miniapps.gpu_faults import kernel_fault
from miniapps.grid_gpu_faults import (  # noqa: F401  # faults of this app, too
    ghosts_shifted,
    grid_rounded_down,
    last_cell_not_packed,
    last_face_left_out,
    task_of_another_block,
)

KERNELS, SUMS = "miniapps.kernels.cg.gpu", "miniapps.kernels.exact_sum.gpu"
OPERATORS = ("_box", "_boxes"), ("_star", "_stars")
PROBLEMS = {"tiny": {"size": (5, 5, 4), "steps": 2, "warmup": 1}}
SIZES: dict[str, Any] = {"WIDE": 3, "HIGH": 2, "MARCHES": (2,)}
TILES = {f"{KERNELS}:{name}": size for name, size in SIZES.items()}
TILES |= {"miniapps.devices.cuda.primitives:WARP": 4}
BOX, STAR = ((f"{KERNELS}:{one}", f"{KERNELS}:{many}") for one, many in OPERATORS)
SGS, PIPELINED = {"preconditioner": "sgs"}, {"pipelined": True}


# Operator ----------------------------------------------------------------------------------------


@kernel_fault(BOX, "k < z1", "k + np.uint64(1) < z1")
def last_thread_idle() -> None:
    """The last thread of a row applies nothing: off by one."""


@kernel_fault(f"{KERNELS}:_line_and_point", "cuda.threadIdx.y", "cuda.threadIdx.x")
def thread_indices_swapped() -> None:
    """Threads find their row by the index of their point."""


@kernel_fault(f"{KERNELS}:_planes", "begin + march, x1", "begin + march - np.uint64(1), x1")
def seam_between_threads() -> None:
    """Threads end one plane before the next ones begin."""


@kernel_fault(f"{KERNELS}:_lines", "u[at + plane + one]", "u[at - plane + one]")
def neighbour_twice() -> None:
    """A point across an edge is taken twice, another one not at all."""


@kernel_fault(
    BOX,
    "(a0 + a1 + a2) + (b0 + b1 + b2) + (c0 + c1 + c2)",
    "(c0 + c1 + c2) + (b0 + b1 + b2) + (a0 + a1 + a2)",
)
def additions_in_another_order() -> None:
    """The sums along a row are added last to first: the last bits differ, nothing else."""


@kernel_fault(BOX, "= a1, b1, c1, a2, b2, c2", "= a0, b0, c0, a2, b2, c2")
def plane_before_kept() -> None:
    """A thread that marches on keeps the sums of the first plane."""


@kernel_fault(STAR, "before, here = here,", "here =", given={"operator": 7})
def value_before_kept() -> None:
    """With seven points, a thread that marches on keeps the value before the first plane."""


# Vectors and sums --------------------------------------------------------------------------------


@kernel_fault(
    f"{KERNELS}:_turn",
    "z[at] + mul(beta, p[at])",
    "np.float64(np.float32(z[at] + mul(beta, p[at])))",
)
def direction_in_single_precision() -> None:
    """Directions are rounded to float32."""


@kernel_fault(f"{KERNELS}:_place", "tasks[task, Y0] - around,", "tasks[task, Y0],")
def ghosts_of_x_left_out() -> None:
    """The ghosts of the solution before the first row are not updated."""


@kernel_fault(f"{KERNELS}:_advance", "i >= x0", "i > x0")
def residual_of_the_first_plane_left_out() -> None:
    """The residual of the first plane is not updated."""


@kernel_fault(f"{KERNELS}:_pipelined", ", p[at] = s_here, p_here", " = s_here", given=PIPELINED)
def direction_not_stored() -> None:
    """A pipelined iteration uses the new direction and keeps the old one."""


@in_place_of(f"{KERNELS}:_march_through", conditional=True)
def numbers_of_the_iteration_before(right: Any, tasks: Any, *numbers: float) -> None:
    """A launch that comes again has the alpha or beta with which it was made before."""
    before = vars(tasks[0][0].stream).setdefault("numbers", {})
    kept = before.get(tasks[0][2], numbers)
    before[tasks[0][2]] = numbers
    if kept != numbers:
        ACTED.now()
    right(tasks, *kept)


@kernel_fault(f"{KERNELS}:_dot", "end = x1 * plane", "end = (x1 - np.uint64(1)) * plane")
def last_plane_left_out() -> None:
    """The products of the last plane are not added: off by one."""


@kernel_fault(f"{SUMS}:flush", "cuda.syncthreads()", "pass")
def sum_without_barrier() -> None:
    """Threads do not wait for the products that others add in shared memory."""


@kernel_fault(f"{SUMS}:add_integer", "cuda.atomic.add(mine, k + 2, high)", "pass")
def highest_digit_lost() -> None:
    """Of the three digits of an addend the highest is not added."""


@kernel_fault(f"{SUMS}:chunk", "second += bits(u)", "second += bits(m2)")
def product_cut() -> None:
    """Products lose their lowest bits, as those of floats do."""


@kernel_fault(f"{SUMS}:add_block", "k + half < threads", "k + half + 1 < threads")
def last_sum_left_out() -> None:
    """The sums of a thread block's last thread are not added: off by one."""


# Preconditioner ----------------------------------------------------------------------------------


@kernel_fault(f"{KERNELS}:_coloured", "y0 + two * j", "y0 + j", given=SGS)
def rows_of_another_colour() -> None:
    """Rows of two colours are relaxed at once: neighbours, in whatever order threads run."""


@kernel_fault(f"{KERNELS}:_sides", "z[above + row]", "z[above - row]", given=SGS)
def corner_twice() -> None:
    """Gauss-Seidel takes one corner twice, another one not at all."""


@in_place_of(f"{KERNELS}:_clear_through", given=SGS)
def not_cleared(right: Any, tasks: Any) -> None:
    """Gauss-Seidel begins with the values of the iteration before in place of zeros."""
