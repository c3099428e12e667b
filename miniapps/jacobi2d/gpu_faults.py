"""Faults of Jacobi2D's GPU kernels."""

from __future__ import annotations

from typing import Any

from miniapps import grid_gpu_faults
from miniapps.faults import Fault, catalogue
from miniapps.gpu_faults import edited, kernel_fault
from miniapps.grid_gpu_faults import TILED

KERNELS = "miniapps.kernels.jacobi2d.gpu"
PROBLEMS = {"tiny": {"size": (15, 13), "time_tile": 1, "steps": 4, "warmup": 1}}
TILES = {f"{KERNELS}:{name}": n for name, n in (("THREADS", 4), ("MARCH", 4), ("STRIP", 4))}
TILES |= {f"{KERNELS}:WARP": 8, f"{KERNELS}:WIDEST": 8}
SEVERAL = f"{KERNELS}:AT_ONCE", f"{KERNELS}:ALL_AT_ONCE"
SMALL = TILED | {"size": (9, 7)}


@kernel_fault(f"{KERNELS}:_relaxed")
def float32_for_float64(right: Any) -> Any:
    """New values are rounded to float32."""
    words = "mul(weight, here + above + below + left + right)"
    return edited(right, (words, f"np.float64(np.float32({words}))"))


@kernel_fault(f"{KERNELS}:_relax_column_early")
def fourth_row_from_the_wrong_cell(right: Any) -> Any:
    """The last of four rows takes its own value for the one below."""
    return edited(right, ("third, second, fourth", "third, second, third"))


@kernel_fault(f"{KERNELS}:_relax_column_early")
def last_row_left_out(right: Any) -> Any:
    """A thread ends one row early where its rows are no multiple of four."""
    return edited(right, ("while i < end:", "while i + one < end:"))


@kernel_fault(f"{KERNELS}:_column")
def block_indices_swapped(right: Any) -> Any:
    """Thread blocks find their columns by their index along the other axis."""
    return edited(right, ("cuda.blockIdx.x", "cuda.blockIdx.y"))


@kernel_fault(*SEVERAL, given=SMALL)
def tile_without_barrier(right: Any) -> Any:
    """Threads do not wait for the values that their neighbours write to shared memory."""
    return edited(right, ("cuda.syncthreads()", "pass"))


@kernel_fault(*SEVERAL, given=SMALL)
def border_of_a_tile_left_out(right: Any) -> Any:
    """The last column of each thread block is not stored."""
    return edited(right, ("me < wide - sweeps and", "me < wide - sweeps - 1 and"))


@kernel_fault(*SEVERAL, given=SMALL)
def boundary_swept_in_a_tile(right: Any) -> Any:
    """Fixed cells beyond the last column change between the sweeps of a tile."""
    return edited(right, ("within(j, sweeps, y0, y1,", "within(j, sweeps, y0, y1 + 1,"))


@kernel_fault(f"{KERNELS}:raise_to", given={"tolerance": 1e-3, "check_every": 2})
def largest_change_lost(right: Any) -> Any:
    """No thread block reports the largest change of its cells."""
    return edited(right, ("cuda.atomic.max(most, 0, largest[0])", "pass"))


FAULTS: tuple[Fault, ...] = (*grid_gpu_faults.FAULTS, *catalogue(list(globals().values())))
