"""The kernels for LeanMD's *pairs* decomposition on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from miniapps.devices.backend import Array, Memory
from miniapps.devices.cpu.vectors import WIDTH
from miniapps.kernels.leanmd.cpu.interactions import forces
from miniapps.kernels.leanmd.cpu.single import Quanta, forces_in_single
from miniapps.kernels.leanmd.interface import ClusterLists, Forces, PairTask
from miniapps.kernels.leanmd.units import CLOSE, NO_ERROR


class PairLists(NamedTuple):
    """The result of `pair_lists`."""

    lists: Sequence[ClusterLists]
    cutoff: float
    quantum: float


def pair_forces(tasks: list[PairTask]) -> list[list[tuple[np.ndarray, int]]]:
    """Compute task after task by `forces`."""
    return [_forces_of(task, forces) for task in tasks]


def pair_forces_in_single(tasks: list[PairTask]) -> list[list[tuple[np.ndarray, int]]]:
    """Compute task after task by `forces_in_single`, from all positions in quanta."""
    return [_forces_of(_in_quanta(task), forces_in_single) for task in tasks]


def _in_quanta(task: PairTask) -> PairTask:
    """Return a task with positions in quanta."""
    first = second = _quanta_of(task.first, task.lists.quantum)
    if task.second is not task.first:
        second = _quanta_of(task.second, task.lists.quantum)
    return task._replace(first=first, second=second)


def _quanta_of(position: Array, quantum: float) -> Quanta:
    """Return positions in quanta."""
    quanta = Quanta(position, quantum)
    quanta.update(0, position.shape[1])
    return quanta


def _forces_of(task: PairTask, formula: Forces) -> list[tuple[np.ndarray, int]]:
    """Return the result of one task."""
    both, results = (task.first, task.second), []
    for sides, lists in zip((both, both[::-1]), task.lists.lists, strict=False):
        count, flags = lists.all_clusters.size, np.array(NO_ERROR)
        force = np.empty((3, count * WIDTH), np.int64)
        formula(
            *sides, lists.all_clusters, 0, count, lists.starts, lists.neighbors, lists.own,
            task.lists.cutoff, force, flags,
        )  # fmt: skip
        results.append((force, int(flags[CLOSE])))
    return results


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


def pair_lists(
    first: Any, second: Any, lists: Sequence[ClusterLists], cutoff: float, quantum: float
) -> Any:
    """Return them together."""
    return PairLists(lists, cutoff, quantum)


def rows_of(positions: Any) -> Array:
    """Return the given array."""
    return positions
