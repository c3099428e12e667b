"""The interface to CPU and GPU: where a block's arrays are and where its kernels run.

A `Backend` is a kind of device in this process. It makes a `Device` for each block, which combines
three interfaces: `Memory`, used by blocks; `Buffers`, used by blocks and by transports; and
`Clock`, used by drivers. The methods here are those of the CPU, where memory is the host's and no
call returns before its work is done; `devices.cuda.backend` overrides them for a GPU.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from miniapps.devices.messages import Allocate, packed_empty, plain_envelope

Array: TypeAlias = Any  # in a device's memory: NumPy's on the CPU, numba-cuda's on a GPU


class DeviceUnavailable(RuntimeError):
    """The requested device cannot be used here; the message says why, in one line."""


class HostCopy:
    """A copy of few numbers of an array on the host, made while kernels run."""

    def begin(self) -> None:
        """Begin to copy the array, as the kernels leave it that have been launched so far."""
        raise NotImplementedError

    def get(self) -> Any:
        """Return the list of numbers that were copied last, or the only one; waits for the copy."""
        raise NotImplementedError


def known(result: Any) -> Any:
    """Return numbers that a kernel function has counted; waits if it has returned a `HostCopy`."""
    return result.get() if isinstance(result, HostCopy) else result


class Memory:
    """The arrays of a block. Raises MemoryError if the device has no memory left."""

    line: int | None = None  # bytes to which rows are best aligned; None: `miniapps.arrays` decides

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return an array on the device, with undefined contents."""
        return np.empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return an array of zeros on the device."""
        return np.zeros(shape, dtype)

    def to_host(self, array: Array) -> np.ndarray:
        """Return a contiguous array in host memory; waits until all kernels that write it ended.

        On the CPU this is the array itself, on other devices a copy.
        """
        return array

    def to_host_later(self, array: Array) -> Any:
        """Begin to copy a small array to the host; `known` returns the copy, and waits for it."""
        return array

    def host_copy(self, array: Array) -> HostCopy | None:
        """Return what copies a small array to the host; None on the CPU, where that is no copy."""
        return None

    def begin_copies(self, copies: Sequence[HostCopy]) -> None:
        """Begin the copies of blocks that share a queue, at once; of all of them again next time.

        That is after all have been got.
        """
        for copy in copies:
            copy.begin()

    def zeros_as(self, zeros: np.ndarray) -> Array:
        """Return as many zeros on the device as on the host; on the CPU that array itself.

        There it is written: memory costs two page faults if it is read before it is written.
        """
        zeros.fill(0)
        return zeros

    def to_device(self, array: np.ndarray) -> Array:
        """Return an array on the device; on the CPU the array itself, on other devices a copy."""
        return array

    def leaving(self, array: Array, used: slice = slice(None)) -> Any:
        """Return an array as the state of a block that migrates has it, for `arriving`.

        ``used``: the entries along the last axis that are needed. On the CPU this is the array.
        """
        return array if used == slice(None) else np.ascontiguousarray(array[..., used])

    def arriving(self, array: Any) -> Array:
        """Return what `leaving` returned as an array on the device, where the block arrives."""
        return array


class Buffers:
    """The messages of a block."""

    staged_bytes = 0  # copied between host and device for messages
    # By edge, what allocates a message in host memory; a driver may set another.
    allocator: Callable[[Any], Allocate] = staticmethod(lambda edge: plain_envelope)

    def messages(self, shapes: Mapping[Any, tuple[int, ...]], dtype: Any) -> Mapping[Any, Any]:
        """Return by edge arrays for messages, which kernels fill and a Post sends.

        The size of an element must divide 64 bytes, that of a header.
        """
        return {
            edge: packed_empty(shape, dtype, self.allocator(edge)) for edge, shape in shapes.items()
        }

    def received(self, came: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Return by edge, on the device, the messages that a Collect returned.

        They are valid until the next such call. Raises ValueError on a GPU if those that come from
        host memory have several types.
        """
        return came

    def stage(self, messages: Iterable[Any]) -> None:
        """Begin to copy messages from the device to the host."""

    def room(self, edge: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return memory on the device for a message that a transport receives there.

        Only for devices whose memory the transport can access, so not on the CPU.
        """
        raise NotImplementedError

    def fetch(self, edge: Any, shape: tuple[int, ...], dtype: Any, place: bytes) -> Any:
        """Begin to copy a message from memory of another process; return the copy.

        ``place``: `DeviceMessage.place` there. Its owner may write to it after `in_place` of the
        copy has returned. The next but one call for the edge reuses the memory of the copy.
        """
        raise NotImplementedError


def _now(begin: Any) -> float:
    return perf_counter()


class Clock:
    """The time at which a block's work is done.

    A mark is a point in the work that was handed to the device; `seconds`, `read` and `time_of`
    wait until the device has reached it.
    """

    # By how many rounds the host may be ahead of the device, those of all blocks counted; 0: none.
    lag = 0

    # Several calls per step, so on the CPU a mark is the time itself.
    mark: Callable[[], Any] = staticmethod(perf_counter)
    begin: Callable[[], Any] = staticmethod(perf_counter)  # a mark before the block's next work

    # A mark after that work; on a GPU the mark of `begin` if the block has launched nothing, and
    # the next `begin` may return that mark once more.
    mark_after: Callable[[Any], Any] = staticmethod(_now)

    def seconds(self, first: Any, last: Any) -> float:
        """Return the time between two marks."""
        return last - first

    def read(self, spans: Sequence[tuple[Any, Any, float]]) -> tuple[float, float, float]:
        """Return when the first span begins and the last one ends, and the sum of their times.

        Spans are different marks of `begin` and `mark_after`, in order, and the share of the time
        between them that counts. Times are those of `time.perf_counter`.
        """
        return spans[0][0], spans[-1][1], sum([share * (b - a) for a, b, share in spans])

    def time_of(self, mark: Any) -> float:
        """Return the time of a mark, as `time.perf_counter` gives it."""
        return mark


class Device(Memory, Buffers, Clock):
    """A device as one block uses it.

    Pickled by its name, and whether it shares a queue, so that blocks can migrate.
    """

    name = "cpu"

    shares_queue = False

    def share_queue(self) -> bool:
        """Do the block's work in one queue with that of other blocks of the process, if it has one.

        Returns whether it does: then one launch can do the work of them all. Called before the
        block has arrays.
        """
        return False

    def synchronize(self) -> None:
        """Wait until all work that was handed to the device is done."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.name, self.shares_queue), {"staged_bytes": self.staged_bytes}


class Backend:
    """A kind of device in this process; the driver opens it.

    ``one_queue``: whether devices that are made from now on work in one queue, so that the time of
    a block's work contains no wait for that of another.
    """

    name = "cpu"
    one_queue = False

    def require(self, least: int = 1) -> None:
        """Raise DeviceUnavailable if this host has fewer devices; allocates nothing on them."""

    def select(self, local_rank: int, per_host: int | None) -> None:
        """Use one of this host's devices from now on.

        ``local_rank``: the number of this process on its host. The processes of a host use its
        first ``per_host`` devices in turn, or all of them if that is None.
        """

    def described(self) -> str | None:
        """Return the name of the selected device; None for the CPU."""
        return None

    def offer(self) -> tuple[bytes, bytes] | None:
        """Have messages in memory that other processes can open; None: there is no such memory.

        Returns the device's UUID, and a place in this memory for a try.
        """
        return None

    def opens(self, place: bytes) -> bool:
        """Return whether this process can read a place that another one has offered."""
        return False

    def end_sharing(self) -> None:
        """Close memory of other processes; all copies from it have ended."""

    def compile(self, module: ModuleType) -> None:
        """Compile the kernels of a module and all that they call, so that no step has to."""

    def device(self) -> Device:
        """Return a device for one block. Raises DeviceUnavailable."""
        return Device()

    def pack(self, block: Any, lent: bool = False) -> tuple[bytes, Any] | None:
        """Return a block, or what contains it, pickled without its arrays, and all these in bytes.

        The bytes are valid until the next such call or `unpack`. ``lent``: return a DeviceMessage
        with the bytes if possible, which other processes can open once `offer` was called.
        None if the device has no memory of its own: then the block is pickled as it is.
        """
        return None

    def unpack(self, pickled: bytes, pieces: Sequence[np.ndarray]) -> Any:
        """Return what `pack` was given, with its arrays on the device of this process.

        ``pieces``: the bytes, which may be in several arrays.
        """
        raise NotImplementedError

    def unpack_lent(self, pickled: bytes, place: bytes, nbytes: int) -> tuple[Any, Any]:
        """Return the same where the bytes are in memory of another process, and their copy.

        Its owner may write to it once ``is_written()`` of the copy is true, or ``in_place()`` has
        returned.
        """
        raise NotImplementedError


class Opened:
    """The backends of this process, by name.

    A device is pickled by its name: where its block arrives, it finds the backend of that process.
    """

    def __init__(self) -> None:
        self.backends: dict[str, Backend] = {}

    def get(self, name: str) -> Backend:
        """Return the backend of that name, which is created at the first call."""
        if name not in self.backends:
            self.backends[name] = _packages()[name].create()
        return self.backends[name]


OPENED = Opened()


def _packages() -> dict[str, Any]:
    """Return the modules and packages in `devices` that have a backend, by device name."""
    from miniapps import devices

    found = {}
    for module in pkgutil.iter_modules(devices.__path__, f"{devices.__name__}."):
        if module.name != __name__:
            package = importlib.import_module(module.name)
            if hasattr(package, "DEVICE"):
                found[package.DEVICE] = package
    return found


def names() -> list[str]:
    """Return the names of all kinds of devices."""
    return sorted(_packages())


def open_backend(name: str, local_rank: int = 0, per_host: int | None = None) -> Backend:
    """Return a backend that is ready to use, with a device selected for this process.

    ``local_rank``, ``per_host``: see `Backend.select`. Raises DeviceUnavailable.
    """
    backend = OPENED.get(name)
    backend.require()
    backend.select(local_rank, per_host)
    return backend


def get(name: str) -> Device:
    """Return a device of that name for one block. Raises DeviceUnavailable."""
    return OPENED.get(name).device()


def _again(name: str, shares_queue: bool) -> Device:
    """Return a device for a block that has migrated."""
    device = get(name)
    if shares_queue:
        device.share_queue()
    return device
