"""What blocks that run kernels have in common."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import kernels
from devices.backend import Device


class KernelUser:
    """A block that looks its kernels up by its problem's app and its device.

    Modules do not pickle, so a block leaves its kernels behind when it migrates.
    """

    problem: Any
    device: Device

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the kernels."""
        return {name: value for name, value in self.__dict__.items() if name != "kernels"}

    @cached_property
    def kernels(self) -> Any:
        """The app's kernels for this device."""
        return kernels.load(self.problem.app, self.device.name)
