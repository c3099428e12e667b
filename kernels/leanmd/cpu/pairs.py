"""What the *pairs* decomposition of LeanMD needs besides, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from devices.cpu.vectors import WIDTH
from kernels.leanmd.cpu.interactions import forces
from kernels.leanmd.interface import PairTask
from kernels.leanmd.units import CLOSE, NO_ERROR


def pair_forces(tasks: list[list[PairTask]]) -> list[list[tuple[np.ndarray, int]]]:
    """The forces of each task, (3, places) int64 on the host, and the error flag `CLOSE` of it.

    There is a place for each atom and for the rest of the last cluster. A task list belongs to one
    block; the answer has the same shape.
    """
    return [[_forces_of(task) for task in of_block] for of_block in tasks]


def _forces_of(task: PairTask) -> tuple[np.ndarray, int]:
    """What one task asks for."""
    count = task.clusters.size
    force, flags = np.empty((3, count * WIDTH), np.int64), np.array(NO_ERROR)
    forces(
        task.position, task.others, task.clusters, 0, count, task.starts, task.neighbors, task.own,
        task.cutoff, force, flags,
    )  # fmt: skip
    return force, int(flags[CLOSE])


def pack_positions(rows: Any, message: Any) -> None:
    """Fill a message (3, n), or (4, n) with ids, with positions and with the bits of the ids."""
    message[:3] = rows[:3, : message.shape[1]]
    message[3:] = rows[-1, : message.shape[1]]


def sent_positions(message: Any, over: list[float] | None, device: Any) -> Any:
    """The positions in a cell's message, with ``over`` (3,) added; as they came for None."""
    if over is None:
        return message
    moved = message.copy()
    moved[:3] += np.array(over)[:, np.newaxis]
    return moved


def rows_of(positions: Any) -> Any:
    """What `sent_positions` gave, as an array on the device, (3, n) or (4, n)."""
    return positions
