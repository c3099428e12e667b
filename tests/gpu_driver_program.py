"""Checks of `devices.cuda.driver`, in a process that uses the stub driver.

Prints the names of the checks that passed.
"""

from __future__ import annotations

import importlib.util
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import gpu_stub
import numpy as np
import pytest

from miniapps.contract import Pause
from miniapps.devices import backend
from miniapps.devices.cuda.buffers import SPARE, roomy
from miniapps.devices.cuda.compiler import Kernel
from miniapps.devices.cuda.driver import DriverError
from miniapps.devices.cuda.launches import MOST
from miniapps.devices.cuda.memory import zeros
from miniapps.devices.cuda.primitives import _fill, fill, launch
from miniapps.devices.cuda.streams import latest, mark
from miniapps.devices.messages import HEADER_BYTES
from miniapps.drivers.timing import PELog, Stepper
from miniapps.kernels.jacobi2d import gpu as stencil

VALUES = np.arange(12.0).reshape(4, 3)
GPU = backend.get("gpu")
TOOLKIT = GPU.stream.toolkit  # type: ignore[attr-defined]


def slices() -> None:
    """Parts of an array have its values, and lie in its memory."""
    there = GPU.to_device(VALUES)
    for part in (np.s_[1:3], np.s_[2], np.s_[-1], np.s_[3:1], np.s_[:0], np.s_[2:9]):
        assert np.array_equal(GPU.to_host(there[part]), VALUES[part])
        assert there[part].stream is GPU.stream
    assert np.array_equal(GPU.to_host(there[1:].reshape(9)), VALUES[1:].ravel())
    assert np.array_equal(GPU.to_host(there.view(np.int64)), VALUES.view(np.int64))
    there[3].copy_to_device(there[0], stream=GPU.stream)
    assert np.array_equal(GPU.to_host(there)[3], VALUES[0])


def refused() -> None:
    """What would read or write beyond an array, or in another order, is an error."""
    there = GPU.to_device(VALUES)
    for wrong in (
        lambda: there[::2],
        lambda: there.reshape(11),
        lambda: there.view(np.int32),
        lambda: there.copy_to_host(np.empty((5, 3)), stream=GPU.stream),
        lambda: there.copy_to_device(VALUES.T, stream=GPU.stream),
        lambda: there.copy_to_device(there[:2], stream=GPU.stream),
    ):
        with pytest.raises(ValueError, match="device array|elements|long|bytes"):
            wrong()
    with pytest.raises(IndexError):
        there[4]


def types() -> None:
    """Arrays of another type than the kernel takes are an error, not memory taken for theirs."""
    whole = GPU.to_device(np.ones((4, 4), np.int64))
    with pytest.raises(TypeError, match="_sweep takes arrays 1<f8, 1<f8 or 1<f4, 1<f4, not 1<i8"):
        stencil.sweep(whole, whole, 1, 3, 1, 3)


def parameters() -> None:
    """A wrong parameter is noticed, though the stub driver does not look at parameters."""
    old, new = (GPU.to_device(np.ones((4, 4))) for _ in range(2))
    stencil.sweep(old, new, 1, 3, 1, 3)
    words = old.flat_array.words
    old.flat_array.words = (*words[:4], words[4] + 8, *words[5:])
    with pytest.raises(AssertionError, match="parameter 4 is not"):
        stencil.sweep(old, new, 1, 3, 2, 3)  # not the launch that is packed already
    array = zeros((4,), np.int64, GPU.stream)
    array.words = (*array.words[:4], array.words[4] + 8, *array.words[5:])
    with pytest.raises(AssertionError, match="parameter 5 is not"):
        fill(4, array, 0)


def repeated_launches() -> None:
    """A launch is packed once for arrays, region and numbers; it keeps no memory of an array."""
    device = backend.get("gpu")
    launches = device.stream.launches  # type: ignore[attr-defined]
    old, new, more = (device.to_device(np.ones((4, 4))) for _ in range(3))
    for _ in range(2):
        stencil.sweep(old, new, 1, 3, 1, 3)
    assert len(launches) == 1
    for number, arguments in enumerate(
        (
            (new, old, 1, 3, 1, 3),
            (more, new, 1, 3, 1, 3),
            (old, more, 1, 3, 1, 3),
            (old, new, 1, 3, 1, 2),
            (old.reshape((8, 2)), new.reshape((8, 2)), 1, 3, 1, 3),
        )
    ):
        stencil.sweep(*arguments)
        assert len(launches) == 2 + number
    with pytest.raises(TypeError, match="_sweep takes arrays"):  # the same memory as another type
        stencil.sweep(old.view(np.int64), new.view(np.int64), 1, 3, 1, 3)
    memory = weakref.ref(more.memory)
    del more, arguments
    assert memory() is None
    old, new = (device.to_device(np.ones((19, 19))) for _ in range(2))
    for rows, columns in np.ndindex(17, 17):
        stencil.sweep(old, new, 1, 2 + rows, 1, 2 + columns)
    assert len(launches) == MOST < 17 * 17
    del old, new, device
    assert not launches  # a block that is gone keeps no tables


def events() -> None:
    """Marks that nobody has any more are used again, and only these."""
    TOOLKIT.events[True].clear()
    array = zeros((4,), np.int64, GPU.stream)

    def mark() -> Any:
        fill(4, array, 0)
        return GPU.mark()

    marks = [mark() for _ in range(4)]
    handles = [mark.handle for mark in marks]
    assert len(set(map(int, handles))) == 4
    del marks[1:]
    again = [mark() for _ in range(3)]
    assert {int(mark.handle) for mark in again} == set(map(int, handles[1:]))
    assert GPU.seconds(marks[0], again[-1]) >= 0.0
    assert latest(GPU.stream) is again[-1]
    now = GPU.mark()  # others may have handed work to CuPy's stream
    assert latest(GPU.stream) is now is not again[-1]
    again[0].wait(GPU.stream)
    assert latest(GPU.stream) is not now


def waits_of_the_host() -> None:
    """The host waits for a mark once, and not if it has waited for a later one, or the stream."""

    def waits(*marks: Any) -> int:
        before = gpu_stub.calls()["synchronizations"]
        for one in marks:
            one.synchronize()
        return gpu_stub.calls()["synchronizations"] - before

    other = backend.get("gpu")
    first, second, third, beside = (d.mark() for d in (GPU, GPU, GPU, other))
    assert waits(second, second, first) == 1
    assert waits(third) == waits(beside) == 1
    last = GPU.mark()
    GPU.stream.synchronize()
    assert waits(last) == 0 and waits(GPU.mark()) == 1


def untimed() -> None:
    """A mark that only orders work has no time, and none is used where a time is wanted."""
    order, begin = mark(GPU.stream), GPU.begin()
    assert latest(GPU.stream) is order
    array = zeros((4,), np.int64, GPU.stream)
    order = mark(GPU.stream)
    end = GPU.mark_after(begin)
    assert GPU.seconds(begin, end) >= 0.0 and latest(GPU.stream) is end is not order
    order.synchronize()
    with pytest.raises(DriverError, match="INVALID_HANDLE"):
        begin.elapsed_time(order)
    handle = order.handle
    del order, array
    assert GPU.mark().handle is not handle is mark(GPU.stream).handle


def openings() -> None:
    """A mark before work is recorded with it, and not if there is none."""
    old, new = (GPU.to_device(np.ones((4, 4))) for _ in range(2))
    idle = GPU.begin()
    assert GPU.mark_after(idle) is idle is GPU.begin() and idle.handle is None
    for work in (
        lambda: stencil.sweep(old, new, 1, 3, 1, 3),
        lambda: old.copy_to_host(np.empty((4, 4)), stream=GPU.stream),
        lambda: old.copy_to_device(np.ones((4, 4)), stream=GPU.stream),
        lambda: old.copy_to_device(new, stream=GPU.stream),
        lambda: zeros((4,), np.int64, GPU.stream),
    ):
        begin = GPU.begin()
        work()
        end = GPU.mark_after(begin)
        assert begin.handle and end is not begin and GPU.mark_after(begin) is not begin
        assert GPU.read([(begin, end, 1.0)])[0] == GPU.time_of(begin)
    GPU.synchronize()


def idle_rounds() -> None:
    """A round that gives the device no work has the host's times, at once, and no compute."""

    class Block:
        index, device = (0,), GPU

        def step(self, count: int) -> Iterator[Pause]:
            yield Pause()

    stepper, log, before = Stepper(Block()), PELog(0), perf_counter()
    stepper.start(1)
    stepper.resume(None)
    log.add(0, 0, stepper)
    ((*_, begin_s, end_s, compute_s),) = log.rows
    assert before <= log.origin + begin_s < log.origin + end_s <= perf_counter()
    assert compute_s == 0.0 and not log.running


def spares() -> None:
    """Memory of messages is used again for as many, unless somebody has a part of it."""
    shapes = {edge: (5, edge) for edge in (1, 2)}
    addresses = [GPU.messages(shapes, np.float64).address for _ in range(3)]
    assert len(set(addresses)) == 1
    kept = GPU.messages(shapes, np.float64)
    assert kept.address == addresses[0] != GPU.messages(shapes, np.float64).address
    part = kept[1].array
    del kept
    assert GPU.messages(shapes, np.float64).address != part.address - HEADER_BYTES
    del part
    for more, kind in ((81, np.float64), (0, np.int64)):
        flat = GPU.messages(shapes | {3: (more,)}, kind).flat
        assert flat.dtype == kind and flat.size >= 15 + more
    for size in range(1, 9):
        GPU.messages({0: (size,)}, np.float64)
    assert len(GPU.spare.arrays) == SPARE
    assert [roomy(size) for size in (3, 64, 65, 72, 73, 1000, 4096, 4097)] == [
        *(3, 64, 72, 72, 80, 1024, 4096, 4608)
    ]
    many = GPU.messages({1: (3000,)}, np.float64)
    place = many.address
    del many
    assert GPU.messages({1: (3050,)}, np.float64).address == place  # counts vary a little


class Traveller:
    """A block with two arrays, which migrates."""

    def __init__(self, device: Any) -> None:
        self.device, self.arrays = device, [device.to_device(VALUES) for _ in range(2)]

    def __getstate__(self) -> dict[str, Any]:
        arrays = [self.device.leaving(array) for array in self.arrays]
        return {"device": self.device, "arrays": arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.device = state["device"]
        self.arrays = [self.device.arriving(array) for array in state["arrays"]]


def migrations() -> None:
    """A block leaves with one wait and arrives with one copy, by memory that is used again."""
    backend: Any = GPU.backend  # type: ignore[attr-defined]
    backend.one_queue = True  # as where blocks migrate
    block, room, seen = Traveller(backend.device()), None, []
    for _ in range(3):
        before = gpu_stub.calls()
        pickled, buffer = backend.pack(block)
        left = gpu_stub.calls()
        block = backend.unpack(pickled, [buffer.copy()])
        there = gpu_stub.calls()
        seen = [
            {name: after[name] - first[name] for name in ("copies", "synchronizations")}
            for first, after in ((before, left), (left, there))
        ]
        assert room is None or backend.room.memory is room
        room = backend.room.memory
    # Before the memory is used again, the host waits for the copy of the block that came before.
    assert seen == [{"copies": 2, "synchronizations": 2}, {"copies": 1, "synchronizations": 0}], (
        seen
    )
    first, second = block.arrays
    assert first.memory is second.memory and second.address - first.address == 512
    assert np.array_equal(GPU.to_host(second), VALUES)
    backend.one_queue = False


def cache_on_disk() -> None:
    """Compiled kernels are in files with checksums, and one that is damaged is replaced."""
    values = zeros((1,), np.int64, GPU.stream)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.py")
        file.write_text("def kernel(values, value):\n    values[0] = value\n")
        for value in (7, 8):
            spec: Any = importlib.util.spec_from_file_location("kernel", file)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            filling = Kernel(module.kernel, ("void(int64[::1], int64)",), {})
            TOOLKIT.compile(filling)((1, 1, GPU.stream))(values, value)
            assert GPU.to_host(values) == [value]
            (index,) = Path(folder, "__pycache__").glob("*.checked.nbi")
            assert index.stat().st_size > 100
            index.write_bytes(b"")


def errors() -> None:
    """A launch that the driver refuses is an error with its name."""
    device = backend.get("gpu")  # it has prepared no launch
    old, new = (device.to_device(np.ones((4, 4))) for _ in range(2))
    stencil.THREADS = 2048
    why = r"_sweep, \(1, 1, 1\) blocks of \(2048, 1, 1\) threads: CUDA_ERROR_INVALID_VALUE"
    with pytest.raises(DriverError, match=why):
        stencil.sweep(old, new, 1, 3, 1, 3)
    many = zeros((5000,), np.int64, GPU.stream)
    where = launch(many.size, GPU.stream, 2048)
    with pytest.raises(DriverError, match=r"_fill, \(3, 1, 1\) blocks of \(2048, 1, 1\) threads"):
        _fill[where](many.size, many, 1)


CHECKS = (
    slices,
    refused,
    types,
    parameters,
    repeated_launches,
    events,
    waits_of_the_host,
    untimed,
    openings,
    idle_rounds,
    spares,
    migrations,
    cache_on_disk,
    errors,
)

if __name__ == "__main__":
    for check in CHECKS:
        check()
        print(check.__name__)
