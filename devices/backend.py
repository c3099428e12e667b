"""Where a block's arrays live and its kernels run: the one interface to CPU and GPU.

A block asks its device for room for messages, and says which it has got; all else it does with
kernels. On the CPU there is nothing to copy and nothing to wait for. `devices.cuda.backend` has
the other.
A device pickles by its name, so blocks that hold one can migrate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from devices.messages import packed_empty


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

    def landed(self, came: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """The same, for kernels of others: nothing here waits until they are on the device."""
        return came

    def heed(self) -> None:
        """Raise what kernels that work for several blocks of this process have found wrong."""

    def settle(self) -> None:
        """The same, once all that these kernels have been asked for is done."""

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
        """Tell the time from that mark on: none that comes before it is asked about any more."""

    def synchronize(self) -> None:
        """Wait until all work handed to the device is done."""

    def __reduce__(self) -> tuple[Any, ...]:
        return get, (self.name,), {"staged_bytes": self.staged_bytes}


def require(name: str, least: int = 1) -> None:
    """Raise DeviceUnavailable where there are not so many of that name; takes nothing of one."""
    if name != "cpu":
        from devices.cuda import toolkit as cuda

        cuda.require(least)


def take(name: str, local_rank: int, per_host: int | None) -> None:
    """Let this process, of those on its host the one of that number, use one device from now on.

    They take turns with the first ``per_host`` of the host's devices, or with all of them.
    """
    if name != "cpu":
        from devices.cuda import toolkit as cuda

        cuda.select(local_rank % (per_host or cuda.count()))
        from devices.cuda.sums import pool  # compiles kernels, on the device that is used by then

        pool.cache_clear()  # that of a run before, perhaps on another one


def described(name: str) -> str | None:
    """What device this process uses, in words; None for the CPU."""
    if name == "cpu":
        return None
    from devices.cuda import toolkit as cuda

    return cuda.described()


def get(name: str) -> Device:
    """A device of that name for one block. Raises DeviceUnavailable."""
    if name == "cpu":
        return Device()
    from devices.cuda.backend import Gpu

    return Gpu()
