"""Faults of the stencils' GPU kernels that both apps can have."""

from __future__ import annotations

from typing import Any

from miniapps.faults import ACTED, Fault, catalogue, fault
from miniapps.gpu_faults import edited, kernel_fault

OLD_AFTER = 2  # halos
KERNELS = "miniapps.kernels.{app}.gpu"
HALO = "miniapps.kernels.halo.gpu"
TILED = {"time_tile": 2}


@kernel_fault(f"{KERNELS}:_sweep", f"{KERNELS}:SWEEP_ALL")
def last_thread_idle(right: Any) -> Any:
    """The last thread of the grid relaxes nothing: off by one."""
    return edited(right, ("j < y1", "j + np.uint64(1) < y1"))


@kernel_fault(f"{KERNELS}:task_here", f"{HALO}:task_here")
def task_of_another_block(right: Any) -> Any:
    """Of a launch for many blocks, the first thread blocks of a task do the one before."""
    return edited(right, ("FIRST] <= layer", "FIRST] < layer"))


@kernel_fault(f"{KERNELS}:task_here")
def task_cut_off(right: Any) -> Any:
    """Of a launch for many blocks, the last thread blocks of each task do nothing."""
    return edited(right, ("down < table[row, DOWN]", "down + np.uint64(1) < table[row, DOWN]"))


@fault(f"{KERNELS}:blocks")
def grid_rounded_down(right: Any) -> Any:
    """Thread blocks that are not full are not launched."""

    def blocks(count: int, threads: int) -> int:
        return max(1, count // threads)

    return blocks


@fault(f"{KERNELS}:sweep_all", given=TILED)
def ping_pong_exchanged(right: Any) -> Any:
    """The block takes the array of the sweep before for the newest."""

    def sweep_all(*arguments: Any) -> int:
        return 1 - int(right(*arguments))

    return sweep_all


@kernel_fault(f"{HALO}:_pack64")
def last_cell_not_packed(right: Any) -> Any:
    """The last cell of the last face is not copied into its message."""
    return edited(right, ("thread < tasks[", "thread + np.uint64(1) < tasks["))


@kernel_fault(f"{HALO}:_unpack64")
def ghosts_shifted(right: Any) -> Any:
    """Ghosts are read one element too early in their message."""
    return edited(right, ("message[cell]", "message[cell - min(cell, np.uint64(1))]"))


@fault(f"{HALO}:face_table")
def last_face_left_out(right: Any) -> Any:
    """No threads are launched for the last face."""

    def face_table(shape: tuple[int, ...], faces: Any) -> Any:
        count, rows = right(shape, faces)
        return int(rows[0, -1]) if rows.size else count, rows

    return face_table


@fault(f"{HALO}:unpack_all", conditional=True)
def old_halo(right: Any) -> Any:
    """After the first messages of a block ghosts are no longer written."""

    def unpack_all(tasks: Any) -> None:
        for halo, *_ in tasks:
            halo.unpacked = vars(halo).get("unpacked", 0) + 1
        fresh = [task for task in tasks if task[0].unpacked <= OLD_AFTER]
        if fresh:
            right(fresh)
        if len(fresh) < len(tasks):
            ACTED.now()

    return unpack_all


@fault("miniapps.devices.cuda.backend:Gpu.received", conditional=True)
def received_in_another_order(right: Any) -> Any:
    """Two messages of one shape are taken for each other."""

    def received(self: Any, came: Any) -> Any:
        views = dict(right(self, came))
        for edge, view in views.items():
            alike = [e for e, other in views.items() if other.shape == view.shape and e != edge]
            if alike and 0 not in view.shape:
                ACTED.now()
                return views | {edge: views[alike[0]], alike[0]: view}
        return views

    return received


FAULTS: tuple[Fault, ...] = catalogue(list(globals().values()))
