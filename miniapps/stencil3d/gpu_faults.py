"""Faults of Stencil3D's GPU kernels."""

from __future__ import annotations

from typing import Any

from miniapps import grid_gpu_faults
from miniapps.faults import fault
from miniapps.gpu_faults import edited, kernel_fault
from miniapps.grid_gpu_faults import TILED

OTHERS = (grid_gpu_faults,)
KERNELS = "miniapps.kernels.stencil3d.gpu"
PROBLEMS = {"tiny": {"size": (7, 6, 5), "time_tile": 1, "steps": 3, "warmup": 1}}
SIZES: dict[str, Any] = {"WIDE": 4, "HIGH": 2, "MARCHES": (4,), "LONG": 7, "TALL": 6, "DEEP": 4}
TILES = {f"{KERNELS}:{name}": size for name, size in SIZES.items()}
TWICE = f"{KERNELS}:_two64", f"{KERNELS}:ALL_TWICE"
SMALL = TILED | {"size": (5, 4, 4)}


@kernel_fault(f"{KERNELS}:_average", "+ around[3]", "+ around[2]")
def neighbour_twice() -> None:
    """The neighbour in front is taken twice, the one behind not at all."""


@kernel_fault(
    f"{KERNELS}:_average",
    "here + below + above + around[0] + around[1] + around[2] + around[3]",
    "here + around[0] + around[1] + around[2] + around[3] + below + above",
)
def additions_in_another_order() -> None:
    """The neighbours along x are added last: the last bits differ, nothing else."""


@kernel_fault(f"{KERNELS}:_average_column", "while i < end:", "while i + one < end:")
def last_plane_left_out() -> None:
    """A thread ends one plane early where its planes are no multiple of four."""


@fault(f"{KERNELS}:_line_and_cell", conditional=True)
def thread_indices_swapped(right: Any) -> Any:
    """Threads find their row and their cell by their index along the other axis."""
    change = ("threadIdx.y", "threadIdx.other"), ("threadIdx.x", "threadIdx.y")
    return edited(right, *change, ("threadIdx.other", "threadIdx.x"))


@kernel_fault(TWICE, "cuda.syncthreads()", "pass", given=SMALL)
def tile_without_barrier() -> None:
    """Threads do not wait for the values that their neighbours write to shared memory."""


@kernel_fault(TWICE, "c < LONG - sweeps", "c < LONG - sweeps - 1", given=SMALL)
def border_of_a_tile_left_out() -> None:
    """The last cells of each thread block are not stored."""
