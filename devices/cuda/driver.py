"""Launches, arrays, streams and marks on NVIDIA's driver, called through cuda.bindings.

numba-cuda compiles kernels, but its launches, arrays and events cost the host far more than the
driver does, because they look at types again and again: a launch with seven arrays 50 us. Here a
kernel's parameters are packed into memory that is reserved once per kernel, or once for launches
that come again; an array knows the words that describe it to a kernel; and events are used again.
`benchmarks/gpu/host.py` measures what that saves.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from struct import Struct, calcsize
from typing import Any

import numpy as np
from cuda.bindings import driver as _driver
from numba.core import sigutils
from numba.cuda.core import caching

from miniapps.devices.cpu.disk_cache import use_checked_files
from miniapps.devices.cuda.compiler import Kernel

driver: Any = _driver
ROOT = Path(__file__).parents[2]
WORD = 8  # bytes; every parameter begins at a multiple
HANDLE = 64  # bytes of an IPC handle
CODES = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float32": "f",
    "float64": "d",
}  # of `struct`, by numba's names of types
UNTIMED = 2  # CU_EVENT_DISABLE_TIMING: cheaper to record and to wait for
NO_OBJECT = 0, 0  # what an array's first two words would be for: objects of numba's own allocator


def sources() -> str:
    """Return a hash of all files from which this project's kernels are compiled.

    numba's cache on disk looks only at the file of the kernel itself.
    """
    files = [file for name in ("devices", "kernels") for file in (ROOT / name).rglob("*.py")]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in sorted(files))).hexdigest()


use_checked_files(caching, sources())


class DriverError(RuntimeError):
    """NVIDIA's driver has refused a call; the message has its name of the error."""


def name_of(result: tuple[Any, ...]) -> str:
    """Return the driver's name for the error of a call, or its number if it has none."""
    name = driver.cuGetErrorName(result[0])[1]
    return name.decode() if name else f"error {int(result[0])}"


def checked(result: tuple[Any, ...]) -> Any:
    """Return what a call of the driver returned beside its status. Raises DriverError."""
    if result[0]:
        raise DriverError(name_of(result))
    return result[1] if len(result) > 1 else None


class Stream:
    """A queue of work; ``queue`` is CuPy's object for it, ``handle`` the driver's.

    ``opening``: a mark to be recorded before the next work. ``last``: the last mark, if neither
    work nor a wait has come after it, except work that others hand to ``queue``. ``number``: its
    own among the streams of the process; ``marks``: how many have been recorded in it; ``reached``:
    how many of them the host knows to be reached; ``after``: by the numbers of other streams, the
    last of their marks that it waits for. ``launches``: see `devices.cuda.launches`;
    ``tables``: see `devices.cuda.tasks`; ``groups``: see `devices.cuda.host_copies`; ``pinned``:
    see `devices.cuda.memory.sent`.
    """

    toolkit: Any
    tables: Any
    groups: dict[Any, Any]
    pinned: Any
    numbers = itertools.count()

    def __init__(self, queue: Any) -> None:
        self.queue, self.handle = queue, driver.CUstream(queue.ptr)
        self.opening: Event | None = None
        self.last: Event | None = None
        self.number, self.after = next(self.numbers), dict[int, int]()
        self.marks = self.reached = 0
        self.launches: dict[Any, Callable[[], None]] = {}

    def for_work(self) -> Any:
        """Return the handle, to hand over a launch, a copy or a fill."""
        if self.opening is not None:
            self.opening.record(self)
            self.opening = None
        self.last = None
        return self.handle

    def synchronize(self) -> None:
        """Wait until all work in it has ended."""
        checked(driver.cuStreamSynchronize(self.handle))
        self.reached = self.marks


class Event:
    """A mark at the end of a stream's work, once it is recorded there.

    ``timed``: whether its time can be asked for; if not, it only says that something has ended.
    ``unused``: events of the driver of this kind that nobody needs. One of them is used, and comes
    back when nobody has the mark any more. A stream that waits for it does not need it: the driver
    notes what to wait for when it is asked to wait.
    """

    __slots__ = "handle", "number", "stream", "time_s", "timed", "unused"

    def __init__(self, unused: list[Any], timed: bool) -> None:
        self.unused, self.timed, self.handle = unused, timed, None
        self.time_s: float | None = None  # when it was reached, once that is asked

    def record(self, stream: Stream) -> None:
        """Record it at the current end of a stream's work."""
        if self.unused:
            self.handle = self.unused.pop()
        else:
            self.handle = checked(driver.cuEventCreate(0 if self.timed else UNTIMED))
        checked(driver.cuEventRecord(self.handle, stream.handle))
        stream.marks += 1
        self.stream, self.number = stream, stream.marks

    def __del__(self) -> None:
        if self.handle is not None:
            self.unused.append(self.handle)

    def synchronize(self) -> None:
        """Wait on the host until it is reached, unless it is known to be.

        Times of a round are read some rounds later, when the host has waited for the stream.
        """
        if self.stream.reached < self.number:
            checked(driver.cuEventSynchronize(self.handle))
            self.stream.reached = self.number

    def query(self) -> bool:
        """Return whether it is reached, without a wait."""
        if self.stream.reached < self.number:
            result = driver.cuEventQuery(self.handle)
            if result[0] == driver.CUresult.CUDA_ERROR_NOT_READY:
                return False
            checked(result)
            self.stream.reached = self.number
        return True

    def wait(self, stream: Stream) -> None:
        """Let a stream wait until it is reached, unless it waits for it or a later one already.

        Blocks of a process wait for each other's marks twice: before they read a message, and
        before its memory is written again.
        """
        if stream.after.get(self.stream.number, 0) >= self.number:
            return
        stream.after[self.stream.number] = self.number
        stream.last = None
        checked(driver.cuStreamWaitEvent(stream.handle, self.handle, 0))

    def elapsed_time(self, later: Event) -> float:
        """Return the milliseconds from this mark to a later one; both are timed and reached."""
        return checked(driver.cuEventElapsedTime(self.handle, later.handle))


class DeviceArray:
    """A contiguous array in device memory, for use in a stream.

    ``memory`` is what keeps the memory allocated, ``address`` where the array begins in it. Slices
    are along the first axis, with step 1, and share the memory.
    """

    def __init__(
        self, memory: Any, address: int, shape: tuple[int, ...], dtype: np.dtype, stream: Any
    ) -> None:
        self.memory, self.address, self.stream = memory, address, stream
        self.shape, self.dtype, self.size = shape, dtype, math.prod(shape)

    @cached_property
    def kind(self) -> str:
        """Number of axes and type of the elements."""
        return f"{len(self.shape)}{self.dtype.str}"

    @cached_property
    def place(self) -> tuple[int, tuple[int, ...], str]:
        """Where it begins, shape and type: all that a kernel is given of it."""
        return self.address, self.shape, self.kind

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The parameters of a kernel that numba makes of an array, in their order."""
        strides = [self.dtype.itemsize]
        for size in self.shape[:0:-1]:
            strides.insert(0, strides[0] * size)
        return (*NO_OBJECT, self.size, self.dtype.itemsize, self.address, *self.shape, *strides)

    def __getitem__(self, where: Any) -> DeviceArray:
        if isinstance(where, slice):
            first, end, step = where.indices(self.shape[0])
            if step != 1:
                raise ValueError(f"a slice of a device array has step 1, not {step}")
            shape = (max(0, end - first), *self.shape[1:])
        else:
            first, shape = range(self.shape[0])[operator.index(where)], self.shape[1:]
        begin = first * math.prod(self.shape[1:]) * self.dtype.itemsize
        return DeviceArray(self.memory, self.address + begin, shape, self.dtype, self.stream)

    def reshape(self, shape: int | tuple[int, ...]) -> DeviceArray:
        """Return the same memory in another shape, of as many elements."""
        shape = (shape,) if isinstance(shape, int) else shape
        if math.prod(shape) != self.size:
            raise ValueError(f"{self.size} elements have no shape {shape}")
        return DeviceArray(self.memory, self.address, shape, self.dtype, self.stream)

    def view(self, dtype: Any) -> DeviceArray:
        """Return the same memory as another type; of as many bytes, if it has several axes."""
        dtype, shape = np.dtype(dtype), self.shape
        if dtype.itemsize != self.dtype.itemsize:
            length, rest = divmod(self.size * self.dtype.itemsize, dtype.itemsize)
            if rest or len(shape) > 1:
                raise ValueError(f"{self.dtype} is not as long as {dtype}")
            shape = (length,)
        return DeviceArray(self.memory, self.address, shape, dtype, self.stream)

    def copy_to_host(self, host: np.ndarray, stream: Stream) -> None:
        """Begin to copy to a contiguous array of the host."""
        place, size = self._beside(host)
        checked(driver.cuMemcpyDtoHAsync(place, self.address, size, stream.for_work()))

    def copy_to_device(self, source: Any, stream: Stream) -> None:
        """Begin to copy from a contiguous array of the host, or of the device."""
        if isinstance(source, DeviceArray):
            size = self.size * self.dtype.itemsize
            if source.size * source.dtype.itemsize != size:
                raise ValueError(f"{size} bytes are needed, not {source.size} elements")
            checked(driver.cuMemcpyDtoDAsync(self.address, source.address, size, stream.for_work()))
            return
        place, size = self._beside(source)
        checked(driver.cuMemcpyHtoDAsync(self.address, place, size, stream.for_work()))

    def _beside(self, host: np.ndarray) -> tuple[int, int]:
        """Return the address of an array of the host, and its bytes; they must be as many."""
        size = self.size * self.dtype.itemsize
        if host.nbytes != size or not host.flags.c_contiguous:
            raise ValueError(f"{size} contiguous bytes are needed on the host, not {host.nbytes}")
        return host.__array_interface__["data"][0], size

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """What CuPy and MPI take."""
        data = self.address, False
        return {"shape": self.shape, "typestr": self.dtype.str, "data": data, "version": 3}


def zeroed(array: DeviceArray) -> DeviceArray:
    """Begin to fill an array with zeros; returns it."""
    size = array.size * array.dtype.itemsize
    checked(driver.cuMemsetD8Async(array.address, 0, size, array.stream.for_work()))
    return array


def allocated(nbytes: int) -> int:
    """Return the address of new memory, which has an IPC handle. Raises MemoryError."""
    result = driver.cuMemAlloc(nbytes)
    if result[0] == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise MemoryError(f"{nbytes} bytes for messages on the GPU: {name_of(result)}")
    return int(checked(result))


def handle_of(address: int) -> bytes:
    """Return the IPC handle of memory that `allocated` returned."""
    return ctypes.string_at(checked(driver.cuIpcGetMemHandle(address)).getPtr(), HANDLE)


def opened(handle: bytes) -> int:
    """Return the address here of memory that another process has allocated."""
    shared = driver.CUipcMemHandle()
    ctypes.memmove(shared.getPtr(), handle, HANDLE)
    how = driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
    return int(checked(driver.cuIpcOpenMemHandle(shared, how.value)))


def close(address: int) -> None:
    """Close memory that was `opened`."""
    checked(driver.cuIpcCloseMemHandle(address))


def uuid() -> bytes:
    """Return the UUID of the GPU of the current context."""
    return bytes(checked(driver.cuDeviceGetUuid(checked(driver.cuCtxGetDevice()))).bytes)


class ParameterMemory:
    """Memory for the parameters of a launch, and the pointers to them that the driver takes."""

    def __init__(self, count: int) -> None:
        self.bytes = ctypes.create_string_buffer(WORD * count)
        first = ctypes.addressof(self.bytes)
        self.places = (ctypes.c_void_p * count)(*(first + WORD * n for n in range(count)))
        self.pointers = ctypes.addressof(self.places)


class Parameters:
    """A kernel compiled for one signature, and how its parameters are packed.

    The driver copies them when the kernel is launched, so launches that are not prepared use the
    same ``memory``.
    """

    def __init__(self, types: tuple[Any, ...], function: Any) -> None:
        self.types, self.handle = types, function.handle
        codes = [code for kind in types for code in _codes(kind)]
        self.pack_into = Struct("=" + "".join(f"{c}{WORD - calcsize(c)}x" for c in codes)).pack_into
        self.memory = ParameterMemory(len(codes))


def _codes(kind: Any) -> Iterator[str]:
    """The codes of the parameters that numba makes of an argument."""
    if _is_array(kind):
        yield from "q" * (5 + 2 * kind.ndim)
    elif _is_tuple(kind):
        yield from CODES[kind.dtype.name] * kind.count
    else:
        yield CODES[kind.name]


def _is_array(kind: Any) -> bool:
    return hasattr(kind, "ndim")


def _is_tuple(kind: Any) -> bool:
    return hasattr(kind, "count")


class Launcher:
    """Launches a kernel that numba-cuda has compiled: ``launcher((blocks, threads, stream))(...)``.

    Arguments are of the types that the kernel declares. Raises TypeError for arrays of other types.
    """

    def __init__(self, kernel: Kernel, compiled: Any) -> None:
        self.name, self.compiled = kernel.function.__qualname__, compiled
        every = [sigutils.normalize_signature(text)[0] for text in kernel.signatures]
        # By argument: whether it takes several words.
        self.several = [_is_array(kind) or _is_tuple(kind) for kind in every[0]]
        self.arrays = [n for n, kind in enumerate(every[0]) if _is_array(kind)]
        self.parameters = {
            tuple(_kind(types[n]) for n in self.arrays): Parameters(
                types, compiled.overloads[types]._codelibrary.get_cufunc()
            )
            for types in every
        }

    def __call__(self, how: tuple[Any, ...]) -> Callable[..., None]:
        """Return the function that launches the kernel."""
        return partial(self._launch, *how)

    def _launch(self, blocks: Any, threads: Any, stream: Stream, *arguments: Any) -> None:
        """Launch the kernel on a grid, given as a number or up to three of them."""
        found, values = self._values(arguments)
        found.pack_into(found.memory.bytes, 0, *values)
        grid, block = _three(blocks), _three(threads)
        result = driver.cuLaunchKernel(
            found.handle, *grid, *block, 0, stream.for_work(), found.memory.pointers, 0
        )
        if result[0]:
            raise DriverError(refused(self.name, grid, block, result))

    def prepared(self, how: tuple[Any, ...], arguments: tuple[Any, ...]) -> Prepared:
        """Return the launch with these arguments, packed."""
        found, values = self._values(arguments)
        memory = ParameterMemory(len(found.memory.places))
        found.pack_into(memory.bytes, 0, *values)
        blocks, threads, stream = how
        return Prepared(self.name, found.handle, (blocks, threads), stream, memory)

    def _values(self, arguments: tuple[Any, ...]) -> tuple[Parameters, list[Any]]:
        """Return the signature that takes some arguments, and the numbers to pack."""
        values: list[Any] = []
        kinds: list[str] = []
        for several, argument in zip(self.several, arguments, strict=True):
            if not several:
                values.append(argument)
            elif type(argument) is tuple:
                values += argument
            else:
                values += argument.words
                kinds.append(argument.kind)
        found = self.parameters.get(tuple(kinds))
        if found is None:
            taken = " or ".join(", ".join(one) for one in self.parameters)
            raise TypeError(f"{self.name} takes arrays {taken}, not {', '.join(kinds)}")
        return found, values


class Prepared:
    """A launch of a kernel whose parameters are packed: ``launch()``."""

    def __init__(
        self, name: str, handle: Any, sizes: Any, stream: Stream, memory: ParameterMemory
    ) -> None:
        grid, block = map(_three, sizes)
        self.name, self.stream, self.memory = name, stream, memory
        self.sizes = *grid, *block
        self.before = handle, *self.sizes, 0  # what the driver is given before the stream

    def __call__(self) -> None:
        """Launch the kernel. Raises DriverError."""
        stream = self.stream.for_work()
        result = driver.cuLaunchKernel(*self.before, stream, self.memory.pointers, 0)
        if result[0]:
            raise DriverError(refused(self.name, self.sizes[:3], self.sizes[3:], result))


def refused(name: str, grid: tuple[int, ...], block: tuple[int, ...], result: Any) -> str:
    """Say which launch the driver has refused, and why."""
    return f"{name}, {grid} blocks of {block} threads: {name_of(result)}"


def _kind(array: Any) -> str:
    """`DeviceArray.kind` of arrays of a type of numba's."""
    return f"{array.ndim}{np.dtype(array.dtype.name).str}"


def _three(sizes: Any) -> tuple[int, int, int]:
    """Sizes along x, y and z, given as a number or up to three of them; the others are 1."""
    x, y, z = (*sizes, 1, 1)[:3] if type(sizes) is tuple else (sizes, 1, 1)
    return x, y, z
