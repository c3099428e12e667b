"""`devices.cpu.vectors` as plain Python: registers are NumPy arrays, for kernels run as Python."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from devices.cpu.fused import fused
from devices.cpu.vectors import WIDTH


def broadcast(scalar: Any) -> np.ndarray:
    """All lanes have one number."""
    return np.full(WIDTH, scalar)


def load(array: np.ndarray, index: Any) -> np.ndarray:
    """The elements from ``array[index]`` on."""
    return array[index : index + WIDTH].copy()


def store(array: np.ndarray, index: Any, lanes: np.ndarray) -> None:
    """Write lanes to the elements from ``array[index]`` on."""
    array[index : index + WIDTH] = lanes


def bits(floats: Any) -> Any:
    """The bits of a float or of lanes as integers."""
    return np.asarray(floats, float).view(np.int64)[()]


def some(mask: np.ndarray) -> bool:
    """Whether the mask holds in any lane."""
    return bool(mask.any())


def lane(lanes: np.ndarray, number: int) -> Any:
    """The element in a lane."""
    return lanes[number]


def numbers() -> np.ndarray:
    """The numbers of the lanes."""
    return np.arange(WIDTH)


def module() -> ModuleType:
    """A module with these functions."""
    made = ModuleType("devices.cpu.vectors")
    functions = bits, broadcast, lane, load, numbers, some, store
    vars(made).update({function.__name__: function for function in functions})
    vars(made).update(WIDTH=WIDTH, fma=fused, where=np.where)
    return made
