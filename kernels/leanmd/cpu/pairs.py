"""The kernels for LeanMD's *pairs* decomposition on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from devices.backend import Array, Memory
from devices.cpu.vectors import WIDTH
from kernels.leanmd.cpu.interactions import forces
from kernels.leanmd.interface import PairTask
from kernels.leanmd.units import CLOSE, NO_ERROR


def pair_forces(tasks: list[list[PairTask]]) -> list[list[tuple[np.ndarray, int]]]:
    """Compute task after task by `forces`."""
    flags = np.array(NO_ERROR)
    return [[_forces_of(task, flags) for task in of_block] for of_block in tasks]


def _forces_of(task: PairTask, flags: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the result of one task; ``flags`` hold no error, before and after."""
    count = task.clusters.size
    force = np.empty((3, count * WIDTH), np.int64)
    forces(
        task.position, task.others, task.clusters, 0, count, task.starts, task.neighbors, task.own,
        task.cutoff, force, flags,
    )  # fmt: skip
    flag, flags[CLOSE] = int(flags[CLOSE]), NO_ERROR[CLOSE]
    return force, flag


def pack_positions(rows: Array, message: Any) -> None:
    """Copy the rows."""
    message[:3] = rows[:3, : message.shape[1]]
    message[3:] = rows[-1, : message.shape[1]]


def sent_positions(message: Any, over: list[float] | None, device: Memory) -> Any:
    """Return the message itself, or a shifted copy."""
    if over is None:
        return message
    moved = message.copy()
    moved[:3] += np.array(over)[:, np.newaxis]
    return moved


def rows_of(positions: Any) -> Array:
    """Return the given array."""
    return positions
