"""The toolkits that run kernels for a GPU: numba-cuda with CuPy, and numba's simulator.

A `Toolkit` compiles kernels and makes arrays, streams and marks. The rest of `devices.cuda` and all
kernels use only what it returns, so another toolkit can replace it. `chosen` selects the one that a
process uses.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import sys
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import numpy as np

from miniapps.devices.backend import DeviceUnavailable
from miniapps.devices.cuda import driver_info, streams
from miniapps.devices.cuda.compiler import Kernel, cuda, simulated
from miniapps.devices.cuda.exports import Exports
from miniapps.devices.cuda.memory import PinnedRing

CHOICE = "MINIAPPS_CUDA_TOOLKIT"  # names another toolkit, as module:class
Launcher = Callable[[tuple[Any, ...]], Callable[..., None]]  # of (blocks, threads, stream)


class Launchers(dict[Kernel, Launcher]):
    """The launchers of a toolkit by kernel, which is compiled when it is first looked up."""

    def __init__(self, toolkit: Toolkit) -> None:
        self.toolkit = toolkit

    def __missing__(self, kernel: Kernel) -> Launcher:
        found = self[kernel] = self.toolkit.compile(kernel)
        return found


class Toolkit:
    """The interface of a toolkit.

    Arrays have ``shape``, ``dtype``, ``size``, slices, ``reshape``, ``view``, ``copy_to_host(array,
    stream=)`` and ``copy_to_device(array, stream=)``; streams have ``synchronize()``; marks have
    ``synchronize()``, ``query()`` (whether they are reached), ``wait(stream)`` and
    ``elapsed_time(later mark)`` in milliseconds.
    """

    def __init__(self) -> None:
        self.number: int | None = None  # of the selected GPU
        self.launchers = Launchers(self)
        self.idle: list[Any] = []  # streams of the selected GPU whose blocks are gone
        self.shared: Any = None  # the stream of blocks that share one

    def missing(self) -> str | None:
        """Return in one line what is missing to run kernels; None if nothing is. Opens no GPU."""
        return None

    def count(self) -> int:
        """Return how many GPUs there are. Opens none of them: this process may be forked yet."""
        raise NotImplementedError

    def select(self, number: int) -> None:
        """Open this GPU and use it from now on. Processes that are forked later cannot use any."""
        if number != self.number:
            self.number, self.launchers = number, Launchers(self)
            self.idle = []  # blocks on the GPU used before return their streams to the old list
            self.shared = None

    def described(self) -> str:
        """Return the name of the selected GPU."""
        raise NotImplementedError

    def compile(self, kernel: Kernel) -> Launcher:
        """Compile a kernel for its signatures.

        Returns ``launcher((blocks, threads, stream))``, which returns a function that launches the
        kernel with its arguments and does not wait for it.
        """
        raise NotImplementedError

    def compile_all(self, kernels: Iterable[Kernel]) -> None:
        """Compile kernels before they are first launched."""
        for kernel in kernels:
            self.launchers[kernel]

    def new_stream(self) -> Any:
        """Return a new stream that is independent of all others, the default stream included.

        Its ``launches``: those that are prepared (`devices.cuda.launches`), None if none can be.
        """
        raise NotImplementedError

    def stream(self) -> Any:
        """Return a stream that no other block uses: an idle one, or a new one.

        Idle streams are used again because CuPy keeps memory that was freed in a stream for that
        stream alone, and blocks come and go.
        """
        if self.idle:
            return self.idle.pop()
        stream = self.new_stream()
        stream.toolkit, stream.tables, stream.groups = self, None, {}
        stream.pinned = PinnedRing(self, math.inf)
        return stream

    def shared_stream(self) -> Any:
        """Return the stream of all blocks that share one."""
        if self.shared is None:
            self.shared = self.stream()
            streams.set_clock(self.shared)
        return self.shared

    def prepared(
        self, kernel: Kernel, how: tuple[Any, ...], arguments: tuple[Any, ...]
    ) -> Callable[[], None]:
        """See `Kernel.prepared`; without a driver nothing is packed."""
        return partial(self.launchers[kernel](how), *arguments)

    def mark(self, stream: Any, timed: bool = False) -> Any:
        """Return a mark at the current end of a stream's work; ``timed``: that has a time."""
        raise NotImplementedError

    def latest(self, stream: Any) -> Any:
        """Return a mark after all work of a stream so far, perhaps one from some time ago."""
        return self.mark(stream)

    def begin(self, stream: Any) -> Any:
        """Return a mark, with a time, before the next work of a stream."""
        return self.mark(stream, timed=True)

    def mark_after(self, stream: Any, begin: Any) -> Any:
        """Return a mark with a time, or ``begin`` if there is no work since then."""
        return self.mark(stream, timed=True)

    def array(self, how: str, size: int, dtype: Any, stream: Any) -> Any:
        """Return an array with one axis in device memory; ``how`` is "empty" or "zeros"."""
        raise NotImplementedError

    def pinned(self, count: int) -> np.ndarray:
        """Return ``count`` bytes of host memory that the device can copy from and to directly."""
        return np.empty(count, np.uint8)

    def address(self, array: Any) -> int:
        """Return the address of a device array."""
        raise NotImplementedError

    def share(self) -> Any:
        """Have messages in memory that other processes can open; returns its `exports.Exports`.

        Raises DeviceUnavailable if there is no such memory.
        """
        raise DeviceUnavailable("no other process can open the memory of messages")

    def message_array(self, size: int, dtype: Any, stream: Any) -> Any:
        """Return an array for messages, with one axis, in device memory."""
        return self.array("empty", size, dtype, stream)

    def is_last_user(self, array: Any) -> bool:
        """Return whether no other array is known to share its memory."""
        return False

    def for_mpi(self, array: Any) -> Any:
        """Return a device array in a form that MPI accepts, by its address."""
        return array

    def free_unused(self) -> None:
        """Return memory that no array uses to the device, for other processes."""


def retire(idle: list[Any], streams: list[Any]) -> None:
    """Add the streams of a block that is gone to the idle ones."""
    for stream in streams:
        if stream.launches:
            stream.launches.clear()
    idle.extend(streams)


class HostMark:
    """A mark in work that ends before the call that starts it returns."""

    def __init__(self) -> None:
        self.time = perf_counter()
        self.time_s: float | None = None

    def synchronize(self) -> None:
        """Do nothing: the work has ended."""

    def query(self) -> bool:
        """Return that it is reached: the work has ended."""
        return True

    def wait(self, stream: Any) -> None:
        """Do nothing: the work has ended."""

    def elapsed_time(self, later: HostMark) -> float:
        """Return the milliseconds from this mark to a later one."""
        return 1000.0 * (later.time - self.time)


class Simulator(Toolkit):
    """Numba's simulator: kernels run as Python, one thread at a time, on arrays in host memory."""

    def count(self) -> int:
        """Return more than any test selects."""
        return 1 << 10

    def described(self) -> str:
        """Return the name for the record."""
        return "numba's simulator"

    def compile(self, kernel: Kernel) -> Launcher:
        """Return the launcher of the kernel as the simulator interprets it.

        The kernel's options are about machine code, which there is none of.
        """
        turns = importlib.import_module("miniapps.devices.cuda.turns")  # where numba simulates
        turns.take_turns()
        return cuda.jit(list(kernel.signatures))(kernel.function).__getitem__

    def new_stream(self) -> Any:
        """Return a stream without a queue: nothing waits."""
        stream = cuda.stream()
        stream.launches = None
        return stream

    def mark(self, stream: Any, timed: bool = False) -> HostMark:
        """Return the current time: all work has ended."""
        return HostMark()

    def array(self, how: str, size: int, dtype: Any, stream: Any) -> Any:
        """Return an array in host memory that the simulator accepts as a device array."""
        return cuda.to_device(getattr(np, how)(size, dtype)).bind(stream)

    def address(self, array: Any) -> int:
        """Return the address in host memory."""
        return array._ary.ctypes.data

    def for_mpi(self, array: Any) -> Any:
        """Return the NumPy array."""
        return array._ary


class Nvidia(Toolkit):
    """numba-cuda compiles kernels, `devices.cuda.driver` launches them, CuPy's pool has memory."""

    def __init__(self) -> None:
        super().__init__()
        self.events = unused_events()
        self.exports: Exports | None = None  # None: messages are in CuPy's pool

    @cached_property
    def driver(self) -> Any:
        """The module `devices.cuda.driver`; the simulator does without its packages."""
        return importlib.import_module("miniapps.devices.cuda.driver")

    @cached_property
    def cupy(self) -> Any:
        """CuPy.

        With ``MINIAPPS_NO_POOL`` in the environment every array has its own allocation, because
        sanitizers cannot see where in a pool an array ends.
        """
        cupy: Any = importlib.import_module("cupy")
        if "MINIAPPS_NO_POOL" in os.environ:
            cupy.cuda.set_allocator(None)
        return cupy

    def missing(self) -> str | None:
        """Check the driver, its version, the compiler and CuPy."""
        # The driver is checked first: without one, numba searches elsewhere, which takes long.
        takes = driver_info.cuda_version(driver_info.library())
        if takes and takes < driver_info.NEEDED:
            newest = ".".join(map(str, takes))
            needed = f"CUDA {driver_info.NEEDED[0]} is needed (driver 580 or later)"
            return f"NVIDIA's driver takes CUDA up to {newest}; {needed}"
        if not takes or not self.count():
            return "no NVIDIA GPU with a working driver was found"
        if not compiler_is_there():
            return "numba-cuda finds no compiler; pip install 'parallel-miniapps[gpu]'"
        if importlib.util.find_spec("cupy") is None:
            return "CuPy is not installed; pip install 'parallel-miniapps[gpu]'"
        return None

    def count(self) -> int:
        """Return how many GPUs there are, asked once, in another process."""
        return len(self.gpus)

    @cached_property
    def gpus(self) -> list[driver_info.Gpu]:
        """The GPUs that there are."""
        return driver_info.seen()

    def select(self, number: int) -> None:
        """Open this GPU and use it from now on."""
        if number != self.number:
            self.events, self.exports = unused_events(), None
        super().select(number)
        cuda.select_device(number)
        self.cupy.cuda.Device(number).use()

    def described(self) -> str:
        """Return the name of the selected GPU."""
        name = cuda.get_current_device().name
        return name.decode() if isinstance(name, bytes) else name

    def compile(self, kernel: Kernel) -> Launcher:
        """Compile to machine code for the selected GPU, or load it from numba's cache on disk."""
        driver = self.driver  # its import makes numba's cache on disk safe
        compiled = cuda.jit(list(kernel.signatures), cache=True, **kernel.options)(kernel.function)
        return driver.Launcher(kernel, compiled)

    def prepared(
        self, kernel: Kernel, how: tuple[Any, ...], arguments: tuple[Any, ...]
    ) -> Callable[[], None]:
        """Pack the parameters once."""
        return self.launchers[kernel].prepared(how, arguments)  # type: ignore[attr-defined]

    def new_stream(self) -> Any:
        """Return a stream of CuPy's, whose memory pool keeps what was freed in it."""
        cuda.current_context()  # calls of the driver need one
        return self.driver.Stream(self.cupy.cuda.Stream(non_blocking=True))

    def event(self, timed: bool) -> Any:
        """Return an event that is not recorded yet."""
        return self.driver.Event(self.events[timed], timed)

    def mark(self, stream: Any, timed: bool = False) -> Any:
        """Record an event in the stream."""
        stream.last = event = self.event(timed)
        event.record(stream)
        return event

    def latest(self, stream: Any, timed: bool = False) -> Any:
        """Return the last event, if the stream has got nothing since then that it knows of."""
        last = stream.last
        return self.mark(stream, timed) if last is None or timed > last.timed else last

    def begin(self, stream: Any) -> Any:
        """Return an event that is recorded as soon as there is work after it."""
        if stream.opening is None:
            stream.opening = self.event(timed=True)
        return stream.opening

    def mark_after(self, stream: Any, begin: Any) -> Any:
        """Return an event after all work, or the other one if there is no work after it."""
        return begin if stream.opening is begin else self.latest(stream, timed=True)

    def array(self, how: str, size: int, dtype: Any, stream: Any) -> Any:
        """Return an array in memory from CuPy's pool."""
        dtype = np.dtype(dtype)
        with stream.queue:
            memory = self.cupy.cuda.alloc(size * dtype.itemsize)
        array = self.driver.DeviceArray(memory, memory.ptr, (size,), dtype, stream)
        return self.driver.zeroed(array) if how == "zeros" else array

    def share(self) -> Exports:
        """Have messages in allocations of their own, from which arrays are cut as from a pool."""
        if "MINIAPPS_NO_POOL" in os.environ:
            raise DeviceUnavailable("MINIAPPS_NO_POOL is set")
        if self.exports is None:
            cuda.current_context()  # calls of the driver need one
            self.exports = Exports(self.driver)
        return self.exports

    def message_array(self, size: int, dtype: Any, stream: Any) -> Any:
        """Return an array in memory that other processes can open, once `share` was called."""
        dtype = np.dtype(dtype)
        if self.exports is None or not size:
            return self.array("empty", size, dtype, stream)
        nbytes = size * dtype.itemsize
        try:
            piece = self.exports.take(nbytes, stream)
        except MemoryError:
            self.free_unused()
            piece = self.exports.take(nbytes, stream)
        return self.driver.DeviceArray(piece, piece.address, (size,), dtype, stream)

    def pinned(self, count: int) -> np.ndarray:
        """Return memory from CuPy's pool of pinned memory.

        The pool reuses memory only for the same size, so sizes are rounded up to powers of two.
        """
        size = 1 << max(count - 1, 511).bit_length()
        return np.frombuffer(self.cupy.cuda.alloc_pinned_memory(size), np.uint8, count)

    def address(self, array: Any) -> int:
        """Return the address of a device array."""
        return array.address

    def is_last_user(self, array: Any) -> bool:
        """Count who has the object that keeps the memory: the array, and the call."""
        return sys.getrefcount(array.memory) == 2

    def free_unused(self) -> None:
        """Empty CuPy's pool."""
        self.cupy.get_default_memory_pool().free_all_blocks()


def unused_events() -> dict[bool, list[Any]]:
    """Return the events of a GPU that no mark uses: none yet; by whether they have times."""
    return {False: [], True: []}


def compiler_is_there() -> bool:
    """Return whether NVIDIA's compiler is installed."""
    from numba.cuda.cudadrv import nvvm

    return nvvm.is_available()


def chosen() -> Toolkit:
    """Return the toolkit that `CHOICE` names in the environment, otherwise one of numba's."""
    if CHOICE in os.environ:
        module, _, name = os.environ[CHOICE].partition(":")
        return getattr(importlib.import_module(module), name)()
    return Simulator() if simulated() else Nvidia()


def require(toolkit: Toolkit, least: int = 1) -> None:
    """Raise DeviceUnavailable if kernels cannot run, or there are fewer GPUs than ``least``."""
    missing = toolkit.missing()
    if missing is not None:
        raise DeviceUnavailable(missing)
    if least > 1 and least > toolkit.count():
        raise DeviceUnavailable(f"{least} GPUs are asked for, {toolkit.count()} found")
