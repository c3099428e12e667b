"""Faults of Jacobi2D's GPU kernels."""

from __future__ import annotations

from miniapps import grid_gpu_faults
from miniapps.gpu_faults import kernel_fault
from miniapps.grid_gpu_faults import TILED

OTHERS = (grid_gpu_faults,)
KERNELS = "miniapps.kernels.jacobi2d.gpu"
PROBLEMS = {"tiny": {"size": (15, 13), "time_tile": 1, "steps": 4, "warmup": 1}}
TILES = {f"{KERNELS}:{name}": n for name, n in (("THREADS", 4), ("MARCH", 4), ("STRIP", 4))}
TILES |= {f"{KERNELS}:WARP": 8, f"{KERNELS}:WIDEST": 8}
SEVERAL = f"{KERNELS}:AT_ONCE", f"{KERNELS}:ALL_AT_ONCE"
SMALL = TILED | {"size": (9, 7)}


@kernel_fault(
    f"{KERNELS}:_relaxed",
    "mul(weight, here + above + below + left + right)",
    "np.float64(np.float32(mul(weight, here + above + below + left + right)))",
)
def float32_for_float64() -> None:
    """New values are rounded to float32."""


@kernel_fault(f"{KERNELS}:_relax_column_early", "third, second, fourth", "third, second, third")
def fourth_row_from_the_wrong_cell() -> None:
    """The last of four rows takes its own value for the one below."""


@kernel_fault(f"{KERNELS}:_relax_column_early", "while i < end:", "while i + one < end:")
def last_row_left_out() -> None:
    """A thread ends one row early where its rows are no multiple of four."""


@kernel_fault(f"{KERNELS}:_column", "cuda.blockIdx.x", "cuda.blockIdx.y")
def block_indices_swapped() -> None:
    """Thread blocks find their columns by their index along the other axis."""


@kernel_fault(SEVERAL, "cuda.syncthreads()", "pass", given=SMALL)
def tile_without_barrier() -> None:
    """Threads do not wait for the values that their neighbours write to shared memory."""


@kernel_fault(SEVERAL, "me < wide - sweeps and", "me < wide - sweeps - 1 and", given=SMALL)
def border_of_a_tile_left_out() -> None:
    """The last column of each thread block is not stored."""


@kernel_fault(SEVERAL, "within(j, sweeps, y0, y1,", "within(j, sweeps, y0, y1 + 1,", given=SMALL)
def boundary_swept_in_a_tile() -> None:
    """Fixed cells beyond the last column change between the sweeps of a tile."""


@kernel_fault(
    f"{KERNELS}:raise_to",
    "cuda.atomic.max(most, 0, largest[0])",
    "pass",
    given={"tolerance": 1e-3, "check_every": 2},
)
def largest_change_lost() -> None:
    """No thread block reports the largest change of its cells."""
