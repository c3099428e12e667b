"""Checks of the delays of the stub driver, whose file the environment names.

A call spends its own delay, and work that takes a time is not done before. Except for a least time,
only what the driver reports is looked at, and work that never ends within this process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import gpu_stub
from gpu_wrong_programs import HOST, LIBRARY, elapsed, event, launched, made, memory, opened, stream

NOT_READY = 600
LINES = [line.split() for line in Path(os.environ[gpu_stub.COSTS]).read_text().splitlines()]
DELAYS = {name: [int(float(number)) for number in numbers] for name, *numbers in LINES}
SIZE = 64  # bytes


def counted(name: str, call: Callable[[], object]) -> int:
    """How much one of the driver's times grows by a call."""
    before = gpu_stub.calls(gpu_stub.TIMES)[name]
    call()
    return gpu_stub.calls(gpu_stub.TIMES)[name] - before


def calls() -> dict[str, Callable[[], object]]:
    """A call for each delay, on things that are there."""
    first, last, order, queue = event(), event(), event(flags=2), stream()
    there, more, size, handle = memory(), memory(), ctypes.c_size_t(SIZE), ctypes.c_void_p()
    return {
        "cuLaunchKernel": lambda: launched(stream=queue),
        "cuEventCreate": lambda: LIBRARY.cuEventCreate(ctypes.byref(handle), 0),
        "cuEventCreate-untimed": lambda: LIBRARY.cuEventCreate(ctypes.byref(handle), 2),
        "cuEventRecord": lambda: LIBRARY.cuEventRecord(first, None),
        "cuEventRecord-untimed": lambda: LIBRARY.cuEventRecord(order, None),
        "cuEventQuery": lambda: LIBRARY.cuEventQuery(first),
        "cuEventElapsedTime": lambda: elapsed(first, last),
        "cuEventSynchronize": lambda: LIBRARY.cuEventSynchronize(last),
        "cuStreamWaitEvent": lambda: LIBRARY.cuStreamWaitEvent(stream(), last, 0),
        "cuStreamSynchronize": lambda: LIBRARY.cuStreamSynchronize(None),
        "cuMemcpyDtoHAsync": lambda: LIBRARY.cuMemcpyDtoHAsync(HOST, there, size, queue),
        "cuMemcpyHtoDAsync": lambda: LIBRARY.cuMemcpyHtoDAsync(there, HOST, size, queue),
        "cuMemcpyDtoDAsync": lambda: LIBRARY.cuMemcpyDtoDAsync(more, there, size, queue),
        "cuMemsetD8Async": lambda: LIBRARY.cuMemsetD8Async(there, 0, size, queue),
        "array": lambda: LIBRARY.pooled(0),
        "pinned": lambda: LIBRARY.pooled(1),
    }


def each_call() -> None:
    """A call spends the delay of its name, and its work takes the time of its bytes."""
    every = calls()
    assert set(every) == set(DELAYS)
    for name, call in every.items():
        host, device, byte = DELAYS[name]
        assert counted("spent_ns", call) == host, name
        assert counted("worked_ns", call) == device + SIZE * byte, name


def endless() -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    """An event behind work that does not end within this process, and its stream."""
    queue, end = stream(), event(recorded=False)
    assert LIBRARY.cuMemsetD8Async(memory(), 0, ctypes.c_size_t(SIZE), queue) == 0
    assert LIBRARY.cuEventRecord(end, queue) == 0
    return end, queue


def order() -> None:
    """Work is done in the order of a stream, and after what the stream waits for."""
    end, queue = endless()
    assert LIBRARY.cuEventQuery(end) == NOT_READY == elapsed(event(), end)
    other, behind = stream(), event(recorded=False)
    LIBRARY.cuEventRecord(behind, other)
    assert LIBRARY.cuEventQuery(behind) == 0  # streams are independent
    assert LIBRARY.cuStreamWaitEvent(other, end, 0) == 0
    LIBRARY.cuEventRecord(behind, other)
    assert LIBRARY.cuEventQuery(behind) == NOT_READY
    assert launched(stream=queue) == 0
    LIBRARY.cuEventRecord(end, queue)
    assert LIBRARY.cuEventQuery(end) == NOT_READY


def waits() -> None:
    """The host waits for all work of a stream, and not if there is none."""
    queue = stream()
    begin, end = (made(LIBRARY.cuEventCreate, 0) for _ in range(2))
    kernel_s = DELAYS["cuLaunchKernel"][1] * 1e-9
    for wait in (
        lambda: LIBRARY.cuStreamSynchronize(queue),
        lambda: LIBRARY.cuEventSynchronize(end),
    ):
        before = perf_counter()
        LIBRARY.cuEventRecord(begin, queue)
        assert launched(stream=queue) == launched(stream=queue) == 0
        LIBRARY.cuEventRecord(end, queue)
        assert wait() == 0 and perf_counter() - before >= 2 * kernel_s
        ms = ctypes.c_float()
        assert LIBRARY.cuEventElapsedTime(ctypes.byref(ms), begin, end) == 0
        assert ms.value >= 0.999 * 2e3 * kernel_s
        assert counted("waited_ns", wait) == 0


if __name__ == "__main__":
    opened()
    for check in (each_call, order, waits):
        check()
