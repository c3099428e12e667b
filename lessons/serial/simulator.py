"""Numba's simulator of a GPU, changed: threads take turns, and each access to memory is noted.

The threads of a block run one after the other, each to the next barrier, and blocks one after the
other too. So a kernel always returns the same bits here, also if they would depend on the order of
threads on a GPU. Such a kernel is refused, by what its threads have read and written.

The process must have set ``NUMBA_ENABLE_CUDASIM`` before it imports this.
"""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.simulator import kernel, kernelapi
from numba.cuda.simulator.cudadrv import devicearray

from miniapps.devices.cuda.barriers import has_barrier
from miniapps.lessons.lesson import UNSET
from miniapps.lessons.serial.gpu import GPU, MOST_SHARED, Access, KernelError, Place

STACK = 1 << 19  # bytes, of a thread
Array = devicearray.FakeCUDAArray


def prepare() -> None:
    """Change the simulator, for the rest of this process."""
    _thread.stack_size(STACK)
    to_device, device_array = counting_in(devicearray.to_device), unset(devicearray.device_array)
    for module, name, change in (
        (kernel, "FakeWithinKernelCUDAArray", cells_of),
        (kernel, "FakeCUDAModule", Launch),
        (kernel, "BlockManager", Block),
        (kernelapi.FakeCUDAShared, "array", shared_array),
        (kernelapi, "vector_types", {}),  # to copy them takes most of the time of a launch
        (devicearray, "to_device", to_device),
        (devicearray, "device_array", device_array),
        (cuda, "to_device", to_device),
        (cuda, "device_array", device_array),
        (Array, "copy_to_device", counting_in(Array.copy_to_device)),
        (Array, "copy_to_host", counting_out(Array.copy_to_host)),
    ):
        setattr(module, name, change)


class Launch(kernelapi.FakeCUDAModule):
    """What a kernel calls ``cuda``."""

    def __init__(self, grid: Any, threads: Any, shared_bytes: int) -> None:
        GPU.begin_launch(grid, threads)
        super().__init__(grid, threads, shared_bytes)

    @property
    def threadIdx(self) -> Any:  # noqa: N802
        """The thread's place in its block."""
        return GPU.running.place

    @property
    def blockIdx(self) -> Any:  # noqa: N802
        """The block's place in the grid."""
        return GPU.running.block.place

    def syncthreads(self) -> None:
        """Wait until all threads of the block wait here."""
        GPU.running.wait(sys._getframe(1).f_lineno)


class Block(kernel.BlockManager):
    """A thread block."""

    def run(self, place: Any, *arguments: Any) -> None:
        """Run all threads, from barrier to barrier."""
        GPU.begin_block()
        self.place, self.shared = kernelapi.Dim3(*place), dict[Any, Cells]()
        x, y, z = self._block_dim
        points = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
        live = [Thread(self, number, point) for number, point in enumerate(points)]
        act = partial(self._f, *arguments)
        if not has_barrier(self._f):
            for thread in live:
                GPU.running = thread
                act()
            return
        try:
            while live:
                for thread in live:
                    thread.go_on(act)
                live = self._waiting(live)
        finally:
            for thread in live:
                thread.give_up()

    @staticmethod
    def _waiting(threads: list[Thread]) -> list[Thread]:
        """The threads that wait. Raises KernelError if not all wait at the same barrier."""
        waiting = [thread for thread in threads if thread.barrier]
        for thread in threads if waiting else []:
            if thread.barrier != waiting[0].barrier:
                does = "waits in another one" if thread.barrier else "has ended"
                raise KernelError(
                    f"{waiting[0].access} waits in syncthreads, and {thread.access} {does}"
                )
        return waiting


class Thread:
    """A thread of a block. ``barrier``: the line of the program in which it waits; 0 if it ended.

    In a kernel with barriers it is a thread of Python, of which only one runs at a time.
    """

    def __init__(self, block: Block, number: int, point: Place) -> None:
        self.block, self.number, self.place = block, number, kernelapi.Dim3(*point)
        self.access = Access(tuple(block.place), point, 0)
        self.barrier = self.loads = 0
        self.error: Exception | None = None
        self.goes_on, self.stops = _thread.allocate_lock(), _thread.allocate_lock()
        self.started = self.given_up = False

    def go_on(self, act: Callable[[], None]) -> None:
        """Run to the next barrier or the end. Raises what the kernel raises."""
        GPU.running = self
        if self.started:
            self.goes_on.release()
        else:
            self.started = True
            self.goes_on.acquire()
            self.stops.acquire()
            _thread.start_new_thread(self._run, (act,))
        self.stops.acquire()
        if self.error is not None:
            raise self.error

    def give_up(self) -> None:
        """End a thread that waits at a barrier."""
        if self.barrier:
            self.given_up = True
            self.goes_on.release()
            self.stops.acquire()

    def _run(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self.error = error
        self.barrier = 0
        self.stops.release()

    def wait(self, line: int) -> None:
        """Wait at a barrier, which is in a line of the program."""
        self.barrier = line
        self.stops.release()
        self.goes_on.acquire()
        if self.given_up:
            raise KernelError("another thread has failed")
        self.access = self.access._replace(phase=self.access.phase + 1)


class Cells:
    """An array as a kernel sees it. ``shared``: whether it belongs to one thread block."""

    def __init__(self, array: np.ndarray, shared: bool) -> None:
        self._array, self._shared = array, shared
        self.shape, self.dtype, self.ndim, self.size = (
            array.shape, array.dtype, array.ndim, array.size,
        )  # fmt: skip
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        self._memory = id(root)
        self._start = array.ctypes.data - root.ctypes.data

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, at: Any) -> Any:
        index = self._index(at)
        found = self._array[index]
        if isinstance(found, np.ndarray):
            return Cells(found, self._shared)
        cell, thread = self._cell(index), GPU.running
        self._accesses().read(cell, thread.access, self._name(index))
        if not self._shared:
            GPU.load(cell, thread.number, thread.loads)
            thread.loads += 1
        return found

    def __setitem__(self, at: Any, value: Any) -> None:
        index = self._index(at)
        before = self._array[index]
        if isinstance(before, np.ndarray):
            raise KernelError(f"{GPU.running.access} sets several cells at once: {index}")
        self._array[index] = value
        changes = before.tobytes() != self._array[index].tobytes()
        name = self._name(index)
        self._accesses().write(self._cell(index), GPU.running.access, name, changes)
        GPU.stores += not self._shared

    def _accesses(self) -> Any:
        return GPU.shared_accesses if self._shared else GPU.accesses

    def _index(self, at: Any) -> tuple[Any, ...]:
        """An index as a tuple. Raises KernelError if it is beyond the array."""
        index = at if isinstance(at, tuple) else (at,)
        for number, size in zip(index, self.shape, strict=False):
            if isinstance(number, int | np.integer) and not 0 <= number < size:
                raise KernelError(f"{GPU.running.access} goes beyond an array: {self._name(index)}")
        return index

    def _cell(self, index: tuple[Any, ...]) -> tuple[int, int]:
        strides = zip(index, self._array.strides, strict=True)
        return self._memory, self._start + sum(int(i) * stride for i, stride in strides)

    def _name(self, index: tuple[Any, ...]) -> str:
        kind = "shared array" if self._shared else "array"
        return f"[{', '.join(map(str, index))}] of {kind} {' x '.join(map(str, self.shape))}"


def cells_of(array: Any) -> Cells:
    """A kernel's argument, as the kernel sees it."""
    return Cells(array._ary, False)


def shared_array(simulated: Any, shape: Any, dtype: Any, alignment: Any = None) -> Cells:
    """An array of the block: the same one for all of its threads."""
    at = sys._getframe(1)
    known, key = GPU.running.block.shared, (at.f_code, at.f_lineno)
    if key not in known:
        made = kernelapi.FakeCUDALocal().array(shape, dtype)
        size = made.nbytes + sum(one.size * one.dtype.itemsize for one in known.values())
        if size > MOST_SHARED:
            raise KernelError(f"its shared arrays have {size} bytes, more than {MOST_SHARED}")
        made.fill(UNSET if made.dtype.kind == "f" else 0)
        known[key] = Cells(made, True)
    found: Cells = known[key]
    return found


def counting_in(copy: Any) -> Any:
    """A function that copies an array to the GPU, and counts that."""

    @wraps(copy)
    def counted(*arguments: Any, **named: Any) -> Any:
        of_host = any(isinstance(one, np.ndarray) for one in (*arguments, *named.values()))
        GPU.copied_in += of_host and "to" not in named  # `to` is copied to by another call
        return copy(*arguments, **named)

    return counted


def counting_out(copy: Any) -> Any:
    """A function that copies an array from the GPU, and counts that."""

    @wraps(copy)
    def counted(*arguments: Any, **named: Any) -> Any:
        GPU.copied_out += 1
        return copy(*arguments, **named)

    return counted


def unset(make: Any) -> Any:
    """A function that makes an array, filled so that a cell that was never set is found."""

    @wraps(make)
    def made(*arguments: Any, **named: Any) -> Any:
        array = make(*arguments, **named)
        array._ary.fill(UNSET if array._ary.dtype.kind == "f" else 0)
        return array

    return made
