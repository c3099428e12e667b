"""The kernels for LeanMD's *pairs* decomposition on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from devices.backend import Array, Memory
from devices.cpu.vectors import WIDTH
from kernels.leanmd.cpu.interactions import forces
from kernels.leanmd.cpu.single import Quanta, forces_in_single
from kernels.leanmd.interface import Forces, PairTask
from kernels.leanmd.units import CLOSE, NO_ERROR


def pair_forces(tasks: list[list[PairTask]]) -> list[list[tuple[np.ndarray, int]]]:
    """Compute task after task by `forces`."""
    flags = np.array(NO_ERROR)
    return [[_forces_of(task, forces, flags) for task in of_block] for of_block in tasks]


def pair_forces_in_single(tasks: list[list[PairTask]]) -> list[list[tuple[np.ndarray, int]]]:
    """Compute task after task by `forces_in_single`, from all positions in quanta."""
    flags = np.array(NO_ERROR)
    return [
        [_forces_of(_in_quanta(task), forces_in_single, flags) for task in of_block]
        for of_block in tasks
    ]


def _in_quanta(task: PairTask) -> PairTask:
    """Return a task with positions in quanta."""
    position, others = (Quanta(side, task.quantum) for side in (task.position, task.others))
    for side in (position, others):
        side.update(0, side.position.shape[1])
    return task._replace(position=position, others=others)


def _forces_of(task: PairTask, formula: Forces, flags: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the result of one task; ``flags`` hold no error, before and after."""
    count = task.clusters.size
    force = np.empty((3, count * WIDTH), np.int64)
    formula(
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
