"""What the *pairs* decomposition of LeanMD needs besides, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from devices.cpu.vectors import WIDTH
from devices.cpu.vectors import fused as fused
from kernels.leanmd.cpu.interactions import forces
from kernels.leanmd.units import (
    CLOSE,
    QUIET,
)

_QUIET = np.array(QUIET)


def pair_forces(
    position: Any, others: Any, clusters: Any, starts: Any, neighbors: Any, own: bool,
    cutoff: float, heed: Any,
) -> Any:  # fmt: skip
    """The forces on the atoms of all clusters of a cell; ``heed`` is told if a pair is too close.

    They are (3, places) int64, where there is a place for each atom and a few more.
    """
    count = clusters.size
    force, alarms = np.empty((3, count * WIDTH), np.int64), _QUIET.copy()
    forces(position, others, clusters, 0, count, starts, neighbors, own, cutoff, force, alarms)
    if alarms[CLOSE] != QUIET[CLOSE]:
        heed(int(alarms[CLOSE]))
    return force


def tell(rows: Any, told: Any) -> None:
    """Fill a message (3, n), or (4, n) with ids, with positions and with the ids' bits."""
    told[:3] = rows[:3, : told.shape[1]]
    told[3:] = rows[-1, : told.shape[1]]


def shifted(told: Any, over: Any, device: Any) -> Any:
    """What a cell told, with ``over`` (3,) added to its positions; the same array for None."""
    if over is None:
        return told
    moved = told.copy()
    moved[:3] += np.array(over)[:, np.newaxis]
    return moved


def rows_of(told: Any) -> Any:
    """What `shifted` gave, as an array."""
    return told
