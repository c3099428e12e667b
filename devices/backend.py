"""Where a block's arrays live and its kernels run: the one interface to CPU and GPU.

A block asks its device for room for messages, and says which it has got; all else it does with
kernels. On the CPU there is nothing to copy and nothing to wait for. `devices.cuda.backend` has
the other.
A device pickles by its name, so blocks that hold one can migrate.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from devices.messages import packed_empty

Array: TypeAlias = Any  # in a device's memory: NumPy's on the CPU, numba-cuda's on a GPU


class DeviceUnavailable(RuntimeError):
    """The asked-for device cannot be used here; the message says why, in one line."""


class Device:
    """The CPU, and what every device offers."""

    name = "cpu"
    line: int | None = None  # bytes where rows of cells begin best; None where it depends on more
    lag = 0  # rounds that the host may be ahead of it, so that marks have not been reached yet
    staged_bytes = 0  # copied between host and device for messages

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array on the device; what is in it is not said."""
        return np.empty(shape, dtype)

    def to_host(self, array: Any) -> np.ndarray:
        """A contiguous array in host memory, when all work on it is done."""
        return array

    def to_device(self, array: np.ndarray) -> Any:
        """An array on the device; on the CPU the array itself."""
        return array

    def messages(self, shapes: Mapping[Any, tuple[int, ...]], dtype: Any) -> Mapping[Any, Any]:
        """Arrays for messages, by edge, that kernels fill in and a Post gives away."""
        return {edge: packed_empty(shape, dtype) for edge, shape in shapes.items()}

    def stage(self, messages: Iterable[Any]) -> None:
        """Begin to copy messages that lie on the device to the host."""

    def received(self, came: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """What a Collect brought, by edge, as arrays on the device, until the next such call."""
        return came

    # A point in the device's work, as that has been asked for so far; called many times a step.
    mark: Callable[[], Any] = staticmethod(perf_counter)

    def seconds(self, first: Any, last: Any) -> float:
        """The time between two marks, once both have been reached."""
        return last - first

    def total(self, spans: Iterable[tuple[Any, Any]]) -> float:
        """The time between pairs of marks, added up, once all have been reached."""
        return sum([last - first for first, last in spans])

    def time_of(self, mark: Any) -> float:
        """When a mark was reached, by ``perf_counter``."""
        return mark

    def renew(self, mark: Any) -> None:
        """Measure time from that mark on: earlier marks are not asked about any more."""

    def synchronize(self) -> None:
        """Wait until all work handed to the device is done."""

    def __reduce__(self) -> tuple[Any, ...]:
        return get, (self.name,), {"staged_bytes": self.staged_bytes}


class Backend:
    """What one process has of a kind of device; a driver opens it, blocks get devices of it."""

    name = "cpu"

    def require(self, least: int = 1) -> None:
        """Raise DeviceUnavailable where there are not so many; takes nothing of one."""

    def select(self, local_rank: int, per_host: int | None) -> None:
        """Use one device from now on, as the process of that number on its host.

        Processes take turns with the first ``per_host`` of the host's devices, or with all of them.
        """

    def described(self) -> str | None:
        """What device this process uses, in words; None for the CPU."""
        return None

    def compile(self, module: ModuleType) -> None:
        """Compile all kernels that a module of kernels uses, so that none compiles in a step."""

    def device(self) -> Device:
        """What a block has of it."""
        return Device()


class Opened:
    """The backends that this process has, by name.

    Devices pickle by name and find the backend of the process to which their block has migrated.
    """

    def __init__(self) -> None:
        self.backends: dict[str, Backend] = {}

    def get(self, name: str) -> Backend:
        """The backend of that name, made the first time."""
        if name not in self.backends:
            self.backends[name] = _packages()[name].create()
        return self.backends[name]


OPENED = Opened()


def _packages() -> dict[str, Any]:
    """The modules and packages beside this one that have a backend, by the name of the device."""
    import devices

    found = {}
    for module in pkgutil.iter_modules(devices.__path__, "devices."):
        if module.name != __name__:
            package = importlib.import_module(module.name)
            if hasattr(package, "DEVICE"):
                found[package.DEVICE] = package
    return found


def names() -> list[str]:
    """The kinds of devices that there are backends for."""
    return sorted(_packages())


def open_backend(name: str, local_rank: int = 0, per_host: int | None = None) -> Backend:
    """Open a backend for this process, of those on its host the one of that number.

    Raises DeviceUnavailable. ``per_host``: see `Backend.select`.
    """
    backend = OPENED.get(name)
    backend.require()
    backend.select(local_rank, per_host)
    return backend


def get(name: str) -> Device:
    """A device of that name for one block. Raises DeviceUnavailable."""
    return OPENED.get(name).device()
