"""Wrong host programs, which the stub driver refuses as a real one does, beside right ones.

Prints as JSON what the driver answers to each: the name of an error. Each pair is tried in a forked
process of its own, before CUDA is open in this one, because some errors stay.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
from collections.abc import Callable
from typing import Any

LIBRARY: Any = ctypes.CDLL("libcuda.so.1")
HOST = (ctypes.c_char * 64)()
GRID, BLOCK = (1, 1, 1), (32, 1, 1)
SHAREABLE = 2 << 20  # bytes: the stub driver gives handles of multiples


def name_of(error: int) -> str:
    """The driver's name of an error."""
    name = ctypes.c_char_p()
    LIBRARY.cuGetErrorName(error, ctypes.byref(name))
    return (name.value or b"").decode()


def opened() -> None:
    """Open CUDA, and make a context current."""
    context = ctypes.c_void_p()
    LIBRARY.cuInit(0)
    LIBRARY.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    LIBRARY.cuCtxSetCurrent(context)


def made(call: Callable[..., int], *arguments: Any) -> ctypes.c_void_p:
    """The handle or address that a call makes."""
    handle = ctypes.c_void_p()
    assert call(ctypes.byref(handle), *arguments) == 0
    return handle


def memory(size: int = 64) -> ctypes.c_void_p:
    """Device memory."""
    return made(LIBRARY.cuMemAlloc, ctypes.c_size_t(size))


def allocated(size: int = 64) -> int:
    """What an allocation of a size is answered."""
    return LIBRARY.cuMemAlloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size))


def left(before: int) -> int:
    """The device memory, in bytes, that is left after an allocation."""
    unused, everything = ctypes.c_size_t(), ctypes.c_size_t()
    assert before == LIBRARY.cuMemGetInfo(ctypes.byref(unused), ctypes.byref(everything)) == 0
    return unused.value


def copied(to: Any, source: Any, call: str = "cuMemcpyHtoDAsync") -> int:
    """What a copy of 64 bytes is answered."""
    return getattr(LIBRARY, call)(to, source, ctypes.c_size_t(64), None)


def filled(place: Any) -> int:
    """What a fill of 64 bytes is answered."""
    return LIBRARY.cuMemsetD8Async(place, 0, ctypes.c_size_t(64), None)


def launched(grid: Any = GRID, block: Any = BLOCK, shared: int = 0, stream: Any = None) -> int:
    """What a launch is answered."""
    return LIBRARY.cuLaunchKernel(ctypes.c_void_p(1), *grid, *block, shared, stream, None, None)


def in_a_thread(prepare: Callable[[], Any]) -> int:
    """What an allocation is answered in another thread."""
    answers: list[int] = []
    thread = threading.Thread(target=lambda: (prepare(), answers.append(allocated())))
    thread.start()
    thread.join()
    return answers[0]


def in_a_child(call: Callable[[], int]) -> int:
    """What a call is answered in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, str(call()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return int(answer)


def freed() -> ctypes.c_void_p:
    """Device memory that has been freed."""
    gone = memory()
    assert LIBRARY.cuMemFree(gone) == 0
    return gone


class Handle(ctypes.Structure):
    """An IPC handle of memory."""

    _fields_ = (("words", ctypes.c_uint64 * 8),)


def exported(place: Any, handle: Handle | None = None) -> int:
    """What is answered to a request for a handle."""
    return LIBRARY.cuIpcGetMemHandle(ctypes.byref(handle or Handle()), place)


def handle_of(place: Any) -> Handle:
    """The handle of memory."""
    handle = Handle()
    assert exported(place, handle) == 0
    return handle


def of_another_process(free: bool = False) -> Handle:
    """The handle of memory of a process that ends with this one; ``free``: that it has freed."""
    reading, writing = os.pipe()
    waiting, held = os.pipe()
    if os.fork() == 0:
        os.close(held)
        opened()
        place = memory(SHAREABLE)
        handle = handle_of(place)
        if free:
            LIBRARY.cuMemFree(place)
        os.write(writing, bytes(handle))
        os.close(writing)
        os.read(waiting, 1)  # until the other process has ended
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        handle = Handle.from_buffer_copy(pipe.read())
    opened()
    return handle


def open_of(handle: Handle) -> int:
    """What the opening of a handle is answered."""
    return LIBRARY.cuIpcOpenMemHandle(ctypes.byref(ctypes.c_void_p()), handle, 1)


def imported() -> ctypes.c_void_p:
    """Memory of another process."""
    return made(LIBRARY.cuIpcOpenMemHandle, of_another_process(), 1)


def closed() -> ctypes.c_void_p:
    """Memory of another process that has been opened and closed."""
    place = imported()
    assert LIBRARY.cuIpcCloseMemHandle(place) == 0
    return place


def event(recorded: bool = True, flags: int = 0) -> ctypes.c_void_p:
    """An event; flags of 2: without a time."""
    new = made(LIBRARY.cuEventCreate, flags)
    if recorded:
        assert LIBRARY.cuEventRecord(new, None) == 0
    return new


def stream(destroyed: bool = False) -> ctypes.c_void_p:
    """A stream."""
    new = made(LIBRARY.cuStreamCreate, 0)
    if destroyed:
        assert LIBRARY.cuStreamDestroy(new) == 0
    return new


def elapsed(first: Any, last: Any) -> int:
    """What the time between two events is answered."""
    return LIBRARY.cuEventElapsedTime(ctypes.byref(ctypes.c_float()), first, last)


def kernel(place: Any, offset: int = 0, size: int = 8) -> int:
    """What the host is answered that waits for a kernel after it has accessed memory."""
    address = (place.value or 0) + offset
    LIBRARY.accessed(ctypes.c_size_t(address), ctypes.c_size_t(size), ctypes.c_size_t(8))
    assert launched() == allocated()  # the error stays
    return LIBRARY.cuStreamSynchronize(None)


def host() -> ctypes.c_void_p:
    """Memory of the host, not pinned."""
    return ctypes.cast(HOST, ctypes.c_void_p)


def opened_and(program: Callable[[], int]) -> Callable[[], int]:
    """The program, with CUDA open and a context."""

    def run() -> int:
        opened()
        return program()

    return run


UNOPENED: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {  # wrong, and right
    "opened nothing": (allocated, opened_and(allocated)),
    "forked after CUDA was opened": (
        opened_and(lambda: in_a_child(opened_and(allocated))),
        lambda: in_a_child(opened_and(allocated)),
    ),
    "handle of one's own memory": (
        opened_and(lambda: open_of(handle_of(memory(SHAREABLE)))),
        lambda: open_of(of_another_process()),
    ),
    "handle of freed memory": (
        lambda: open_of(of_another_process(free=True)),
        lambda: open_of(of_another_process()),
    ),
    "copy to closed memory": (lambda: copied(closed(), HOST), lambda: copied(imported(), HOST)),
    "kernel on closed memory": (lambda: kernel(closed()), lambda: kernel(imported())),
    "closed twice": (
        lambda: LIBRARY.cuIpcCloseMemHandle(closed()),
        lambda: LIBRARY.cuIpcCloseMemHandle(imported()),
    ),
    "another process's memory freed": (
        lambda: LIBRARY.cuMemFree(imported()),
        lambda: LIBRARY.cuIpcCloseMemHandle(imported()),
    ),
}
OPENED: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {
    "no context in this thread": (lambda: in_a_thread(lambda: None), lambda: in_a_thread(opened)),
    "copy to freed memory": (lambda: copied(freed(), HOST), lambda: copied(memory(), HOST)),
    "copy beyond an allocation": (
        lambda: copied(memory(63), HOST),
        lambda: copied(memory(64), HOST),
    ),
    "host's memory as a device's": (lambda: copied(HOST, HOST), lambda: copied(memory(), HOST)),
    "device's memory as a host's": (
        lambda: copied(memory(), memory()),
        lambda: copied(memory(), memory(), "cuMemcpyDtoDAsync"),
    ),
    "fill of the host's memory": (lambda: filled(HOST), lambda: filled(memory())),
    "freed twice": (lambda: LIBRARY.cuMemFree(freed()), lambda: LIBRARY.cuMemFree(memory())),
    "kernel on freed memory": (lambda: kernel(freed()), lambda: kernel(memory())),
    "kernel on the host's memory": (lambda: kernel(host()), lambda: kernel(memory())),
    "kernel beyond an allocation": (
        lambda: kernel(memory(64), 8, 64),
        lambda: kernel(memory(64), 8, 56),
    ),
    "kernel on misaligned memory": (lambda: kernel(memory(), 4), lambda: kernel(memory(), 8)),
    "allocation that does not fit": (lambda: allocated(1 << 35), lambda: allocated(1 << 20)),
    "no thread blocks": (lambda: launched((0, 1, 1)), lambda: launched((1, 1, 1))),
    "too many thread blocks": (
        lambda: launched((1, 65536, 1)),
        lambda: launched((65536, 65535, 65535)),
    ),
    "too many threads": (lambda: launched(block=(32, 33, 1)), lambda: launched(block=(32, 32, 1))),
    "too many threads along z": (
        lambda: launched(block=(1, 1, 65)),
        lambda: launched(block=(1, 1, 64)),
    ),
    "too much shared memory": (lambda: launched(shared=49153), lambda: launched(shared=49152)),
    "launch in a destroyed stream": (
        lambda: launched(stream=stream(destroyed=True)),
        lambda: launched(stream=stream()),
    ),
    "wait for no event": (
        lambda: LIBRARY.cuStreamWaitEvent(None, stream(), 0),
        lambda: LIBRARY.cuStreamWaitEvent(None, event(), 0),
    ),
    "wait inside an event's handle": (
        lambda: LIBRARY.cuEventSynchronize(ctypes.c_void_p((event().value or 0) + 8)),
        lambda: LIBRARY.cuEventSynchronize(event()),
    ),
    "handle of a pool's memory": (
        lambda: exported(made(LIBRARY.cuMemAllocAsync, ctypes.c_size_t(SHAREABLE), None)),
        lambda: exported(memory(SHAREABLE)),
    ),
    "handle of an address inside": (
        lambda: exported(ctypes.c_void_p((memory(SHAREABLE).value or 0) + 512)),
        lambda: exported(memory(SHAREABLE)),
    ),
    "own memory closed": (
        lambda: LIBRARY.cuIpcCloseMemHandle(memory(SHAREABLE)),
        lambda: LIBRARY.cuMemFree(memory(SHAREABLE)),
    ),
    "allocation of more than is left": (
        lambda: allocated(left(allocated(1 << 20)) + 1),
        lambda: allocated(left(allocated(1 << 20))),
    ),
    "time of an event that was not recorded": (
        lambda: elapsed(event(), event(recorded=False)),
        lambda: elapsed(event(), event()),
    ),
    "time until an event without a time": (
        lambda: elapsed(event(), event(flags=2)),
        lambda: elapsed(event(), event(flags=1)),  # which lets the host sleep
    ),
    "time since an event without a time": (
        lambda: elapsed(event(flags=2), event()),
        lambda: LIBRARY.cuStreamWaitEvent(None, event(flags=2), 0),
    ),
}
PAIRS = UNOPENED | {name: tuple(map(opened_and, pair)) for name, pair in OPENED.items()}


def main() -> None:
    """Try all pairs."""
    found = {name: [name_of(in_a_child(one)) for one in pair] for name, pair in PAIRS.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
