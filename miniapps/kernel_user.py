"""The base class of blocks that run kernels."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from miniapps import kernels
from miniapps.devices.backend import Device

Kernels = TypeVar("Kernels")  # the app's Protocol, in `kernels/<app>/interface.py`


class KernelUser(Generic[Kernels]):
    """A block that finds its kernels by the names of its app and its device.

    Modules cannot be pickled, so a block migrates without its kernels.
    """

    problem: Any
    device: Device

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes but the kernels."""
        return {name: value for name, value in self.__dict__.items() if name != "kernels"}

    @cached_property
    def kernels(self) -> Kernels:
        """The app's kernels for the block's device."""
        return cast(Kernels, kernels.load(self.problem.app, self.device.name))
