"""Faults of the stencils' GPU kernels that both apps can have."""

from __future__ import annotations

from typing import Any

from miniapps.faults import ACTED, in_place_of
from miniapps.gpu_faults import kernel_fault

OLD_AFTER = 2  # halos
KERNELS = "miniapps.kernels.{app}.gpu"
HALO = "miniapps.kernels.halo.gpu"
TILED = {"time_tile": 2}


@kernel_fault((f"{KERNELS}:_sweep", f"{KERNELS}:SWEEP_ALL"), "j < y1", "j + np.uint64(1) < y1")
def last_thread_idle() -> None:
    """The last thread of the grid relaxes nothing: off by one."""


@kernel_fault((f"{KERNELS}:task_here", f"{HALO}:task_here"), "FIRST] <= layer", "FIRST] < layer")
def task_of_another_block() -> None:
    """Of a launch for many blocks, the first thread blocks of a task do the one before."""


@kernel_fault(f"{KERNELS}:task_here", "down < table[row", "down + np.uint64(1) < table[row")
def task_cut_off() -> None:
    """Of a launch for many blocks, the last thread blocks of each task do nothing."""


@in_place_of(f"{KERNELS}:blocks")
def grid_rounded_down(right: Any, count: int, threads: int) -> int:
    """Thread blocks that are not full are not launched."""
    return max(1, count // threads)


@in_place_of(f"{KERNELS}:sweep_all", given=TILED)
def ping_pong_exchanged(right: Any, *arguments: Any) -> int:
    """The block takes the array of the sweep before for the newest."""
    return 1 - int(right(*arguments))


@kernel_fault(f"{HALO}:_pack64", "thread < tasks[", "thread + np.uint64(1) < tasks[")
def last_cell_not_packed() -> None:
    """The last cell of the last face is not copied into its message."""


@kernel_fault(f"{HALO}:_unpack64", "message[cell]", "message[cell - min(cell, np.uint64(1))]")
def ghosts_shifted() -> None:
    """Ghosts are read one element too early in their message."""


@in_place_of(f"{HALO}:face_table")
def last_face_left_out(right: Any, shape: tuple[int, ...], faces: Any) -> Any:
    """No threads are launched for the last face."""
    count, rows = right(shape, faces)
    return int(rows[0, -1]) if rows.size else count, rows


@in_place_of(f"{HALO}:unpack_all", conditional=True)
def old_halo(right: Any, tasks: Any) -> None:
    """After the first messages of a block ghosts are no longer written."""
    for halo, *_ in tasks:
        halo.unpacked = vars(halo).get("unpacked", 0) + 1
    fresh = [task for task in tasks if task[0].unpacked <= OLD_AFTER]
    if fresh:
        right(fresh)
    if len(fresh) < len(tasks):
        ACTED.now()


@in_place_of("miniapps.devices.cuda.backend:Gpu.received", conditional=True)
def received_in_another_order(right: Any, self: Any, came: Any) -> Any:
    """Two messages of one shape are taken for each other."""
    views = dict(right(self, came))
    for edge, view in views.items():
        alike = [e for e, other in views.items() if other.shape == view.shape and e != edge]
        if alike and 0 not in view.shape:
            ACTED.now()
            return views | {edge: views[alike[0]], alike[0]: view}
    return views
