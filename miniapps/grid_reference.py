"""The definition of the stencil apps in plain NumPy, for references and audits.

It shares no code with blocks and kernels: neither the sweep nor the initial field.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from miniapps.plain_hash import uniform

BEYOND = {"heated": (255.0, 1.0), "zero": (0.0, 0.0)}  # the low and the high faces of the domain
WEIGHTS = {2: 0.2, 3: 1.0 / 7.0}  # by the number of axes


def start(problem: Any, numbers: np.ndarray) -> np.ndarray:
    """The initial values of the cells with these numbers, in C order, as float64."""
    if problem.initial == "ones":
        return np.ones(numbers.shape)
    if problem.initial == "noise":
        return uniform(numbers)
    cell = np.unravel_index(numbers, problem.size)
    if problem.initial == "ramp":
        return np.asarray(sum(10.0 ** (6 - 3 * axis) * at for axis, at in enumerate(cell)))
    waves = zip((1, 2, 3), cell, problem.size, strict=False)
    wave = _cosine if problem.boundary == "periodic" else _sine
    return np.asarray(math.prod(wave(p, at, n) for p, at, n in waves))


def _cosine(p: int, at: np.ndarray, n: int) -> np.ndarray:
    """A wave along a periodic axis; the phase 1 leaves no mirror symmetry."""
    return np.cos(2 * np.pi * (p * at % n) / n + 1.0)


def _sine(p: int, at: np.ndarray, n: int) -> np.ndarray:
    """A wave along an axis with fixed values beyond its ends."""
    return np.sin(np.pi * (p * (at + 1) % (2 * (n + 1))) / (n + 1))


def mean(around: np.ndarray) -> np.ndarray:
    """One sweep over all cells of an array but those at its sides, which are only read.

    Added in the order centre, x-1, x+1, y-1, y+1, z-1, z+1.
    """
    inner = (slice(1, -1),) * around.ndim
    total = around[inner]
    for axis, n in enumerate(total.shape):
        for first in (0, 2):
            total = total + around[(*inner[:axis], slice(first, first + n), *inner[axis + 1 :])]
    return around.dtype.type(WEIGHTS[around.ndim]) * total


def reference(problem: Any, steps: int) -> np.ndarray:
    """The whole field after ``steps`` sweeps, without blocks."""
    numbers = np.arange(math.prod(problem.size)).reshape(problem.size)
    field = start(problem, numbers).astype(problem.dtype)
    for _ in range(steps):
        if problem.boundary == "periodic":
            around = np.pad(field, 1, mode="wrap")
        else:
            beyond = [BEYOND[problem.boundary]] * field.ndim
            around = np.pad(field, 1, constant_values=beyond)
        field = mean(around)
    return field
