"""The toolkit of the stub driver: numba-cuda's, and what is launched is computed on the CPU.

A launch goes to the driver, which looks at its grid; its parameters must be those that numba-cuda
would have handed over. Then it goes to `emulation`, which works in the same memory.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache, partial
from typing import Any

import numpy as np
from emulation import Emulated, alone
from pool import POISON, driver, host_view, watchers

from miniapps.devices.cuda.compiler import Kernel
from miniapps.devices.cuda.driver import WORD, DeviceArray
from miniapps.devices.cuda.exports import Piece
from miniapps.devices.cuda.toolkit import Launcher, Nvidia

SOME_ADDRESS = 1 << 40


class Stub(Nvidia):
    """``MINIAPPS_CUDA_TOOLKIT=stub:Stub`` chooses it."""

    computes = True  # if not, launches do nothing
    checks_parameters = True  # which takes longer than all else of a launch

    def __init__(self) -> None:
        super().__init__()
        self.on_driver: dict[Kernel, Any] = {}

    def compile(self, kernel: Kernel) -> Launcher:
        """A kernel that is launched on the driver and computed on the CPU."""
        with alone(kernel.function):
            on_driver = self.on_driver[kernel] = super().compile(kernel)
        on_cpu = Emulated(kernel.function, kernel.signatures, host_view)

        def launcher(how: tuple[Any, ...]) -> Any:
            launch = on_driver(how)
            if not self.computes:
                return launch

            def both(*arguments: Any, prepared: Any = None) -> None:
                if prepared is None:
                    launch(*arguments)
                else:
                    prepared()
                if self.checks_parameters:
                    check_parameters(on_driver, how[-1], arguments, prepared)
                if accesses(arguments):
                    on_cpu.launch(*how[:2], arguments)

            return both

        return launcher

    def message_array(self, size: int, dtype: Any, stream: Any) -> Any:
        """Memory that others can open is watched and poisoned as the pool's."""
        array = super().message_array(size, dtype, stream)
        piece = array.memory
        if isinstance(piece, Piece):
            piece.stream, piece.bytes = stream.queue.ptr, host_view(array).view(np.uint8)
            watchers.given(piece.address, piece.bytes.size, piece.stream)
            piece.bytes.fill(POISON)
        return array

    def prepared(self, kernel: Kernel, how: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """The launch, which keeps no memory, and is computed on the CPU, too."""
        launcher = self.launchers[kernel]
        on_driver = self.on_driver[kernel].prepared(how, arguments)
        if not self.computes:
            return on_driver
        return partial(launcher(how), *map(without_memory, arguments), prepared=on_driver)


def accesses(arguments: tuple[Any, ...]) -> bool:
    """Tell the driver which memory a kernel accesses; whether that is right.

    If not, a later call of the driver says so, as the kernel is still running.
    """
    library = driver()
    for array in [a for a in arguments if isinstance(a, DeviceArray) and a.size]:
        size = array.dtype.itemsize
        library.accessed(*map(ctypes.c_size_t, (array.address, array.size * size, size)))
    return library.cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p())) == 0


def without_memory(argument: Any) -> Any:
    """An argument of a launch; an array does not keep its memory."""
    if not isinstance(argument, DeviceArray):
        return argument
    a = argument
    return DeviceArray(None, a.address, a.shape, a.dtype, a.stream)


def check_parameters(
    launcher: Any, stream: Any, arguments: tuple[Any, ...], prepared: Any = None
) -> None:
    """Raise AssertionError unless the last launch had the parameters that numba-cuda makes.

    But for the stride of an axis of length 1: nothing depends on it. A prepared launch is compared
    with the arguments that it was prepared for: whether they are those of now, results must show.
    """
    used = launcher.parameters[tuple(arguments[n].kind for n in launcher.arrays)]
    memory = (used if prepared is None else prepared).memory
    seen = (ctypes.c_void_p * 3).in_dll(driver(), "last_launch")
    assert list(seen) == [int(used.handle), int(stream.handle), memory.pointers], launcher.name
    kernel, wanted = launcher.compiled.overloads[used.types], b""
    for number, argument in enumerate(arguments):
        if isinstance(argument, DeviceArray):
            before, after = around_address(kernel, used, number, argument.shape)
            wanted += before + _as_word(argument.address) + after
        else:
            wanted += of_value(kernel, used, number, argument, str(argument))
    places, end = memory.places[:], memory.places[0] + len(wanted)
    assert places == list(range(places[0], end, WORD)), f"{launcher.name}: {len(places)} parameters"
    given = ctypes.string_at(places[0], len(wanted))
    wrong = given != wanted and len(os.path.commonprefix([given, wanted])) // WORD
    assert wrong is False, f"{launcher.name}: parameter {wrong} is not numba-cuda's"


@cache
def of_value(kernel: Any, used: Any, number: int, argument: Any, shown: str) -> bytes:
    """The words that numba-cuda makes of numbers; ``shown``: they as text, as 0.0 equals -0.0."""
    return b"".join(_packed(kernel, used.types[number], argument))


@cache
def around_address(
    kernel: Any, used: Any, number: int, shape: tuple[int, ...]
) -> tuple[bytes, bytes]:
    """The words that numba-cuda makes of an array before and after its address.

    It knows of the array what `DeviceArray` shows it.
    """
    kind = used.types[number]
    array = DeviceArray(None, SOME_ADDRESS, shape, np.dtype(kind.dtype.name), None)
    words = _packed(kernel, kind, array)
    for axis, size in enumerate(shape):
        if size <= 1:
            words[axis - len(shape)] = _as_word(array.words[axis - len(shape)])
    place = words.index(_as_word(SOME_ADDRESS))
    return b"".join(words[:place]), b"".join(words[place + 1 :])


def _packed(kernel: Any, kind: Any, argument: Any) -> list[bytes]:
    """The words that numba-cuda makes of an argument."""
    words: list[Any] = []
    kernel._prepare_args(kind, argument, 0, [], words)
    return [_as_word(word) for word in words]


def _as_word(value: Any) -> bytes:
    """The bytes of a parameter as numba-cuda has it, filled up to a word."""
    simple = value if isinstance(value, ctypes._SimpleCData) else ctypes.c_int64(value)
    return bytes(simple).ljust(WORD, b"\0")
