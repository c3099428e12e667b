"""Where arrays live: the one place that knows which array library serves a device.

A `Device` pickles by its name, so blocks that hold one can migrate.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np


class DeviceUnavailable(RuntimeError):
    """The asked-for device cannot be used here; the message says why, in one line."""


class Device:
    """The CPU: numpy arrays, nothing to copy and nothing to wait for."""

    name = "cpu"

    @property
    def xp(self) -> ModuleType:
        """The array library."""
        return np

    def to_host(self, array: Any) -> np.ndarray:
        """The array in host memory; on the CPU the array itself."""
        return array

    def to_device(self, array: np.ndarray) -> Any:
        """The array in device memory; on the CPU the array itself."""
        return array

    def synchronize(self) -> None:
        """Wait until all work handed to the device is done."""

    def __reduce__(self) -> tuple[Any, ...]:
        return get, (self.name,)


def get(name: str) -> Device:
    """The device of that name. Raises DeviceUnavailable."""
    if name != "cpu":
        raise DeviceUnavailable("the apps have kernels for the cpu only, so far")
    return Device()
