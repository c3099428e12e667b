"""Lets numba's simulator compute what is launched on the hollow driver, in the same memory.

Kernels are loaded twice: first as the simulator runs them, under their own names, which are then
forgotten; then as on a machine with a GPU. A launch goes to the driver, with all checks of types
and grids, and then to the twin. So all that is around kernels runs as on a GPU, but for CuPy.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.machinery
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

APPS = ("halo", "jacobi2d", "stencil3d", "pic", "leanmd")
FILES = (*(f"kernels.{app}.gpu" for app in APPS), "devices.cuda.primitives", "devices.cuda.sums")


class Hook:
    """Finds ``devices.cuda.compiler`` and, the first time, loads the twins before."""

    def __init__(self) -> None:
        self.twins: dict[str, list[Any]] = {}  # kernels of each file, in their order
        self.simulated: Callable[[Any], Any]
        self.state = "waiting"

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """As the usual finder, but that kernels of the file are noted."""
        if name != "devices.cuda.compiler" or self.state == "finding":
            return None
        if self.state == "waiting":
            self.state = "simulating"
            self.load_twins()
            self.state = "real"
        before, self.state = self.state, "finding"
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        self.state = before
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module
        wrap = note_kernels if before == "simulating" else launch_twins

        def exec_module(module: ModuleType) -> None:
            execute(module)
            wrap(module, self)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def load_twins(self) -> None:
        """Load all kernels as in the simulator, and forget the modules."""
        import numba
        from numba.core import config

        before = set(sys.modules)
        config.ENABLE_CUDASIM = 1
        for name in FILES:
            importlib.import_module(name)
        let_functions_swap(sys.modules["numba.cuda"])
        fake = sys.modules["numba.cuda.simulator.cudadrv.devicearray"].FakeCUDAArray  # type: ignore
        self.simulated = lambda value: fake(host_view(value)) if on_device(value) else value
        config.ENABLE_CUDASIM = 0
        for name in sorted(set(sys.modules) - before):
            if name.startswith(("numba.cuda", "devices.", "kernels.")):
                del sys.modules[name]
                package, _, module = name.rpartition(".")
                if package in sys.modules:
                    vars(sys.modules[package]).pop(module, None)
        vars(numba).pop("cuda", None)


def let_functions_swap(simulator: ModuleType) -> None:
    """Have twins see the simulator in a kernel, though ``numba.cuda`` is another module by then."""

    @contextmanager
    def swapped(function: Any, inside: Any) -> Iterator[None]:
        names = function.__globals__
        usual = {name: value for name, value in names.items() if value is simulator}
        names.update(dict.fromkeys(usual, inside))
        try:
            yield
        finally:
            names.update(usual)

    for name in ("kernel", "kernelapi"):
        sys.modules[f"numba.cuda.simulator.{name}"].swapped_cuda_module = swapped  # type: ignore


def note_kernels(toolkit: ModuleType, hook: Hook) -> None:
    """Keep the twins, file by file."""
    make = toolkit.Kernel.__init__

    def noting(kernel: Any, function: Any, *rest: Any) -> None:
        make(kernel, function, *rest)
        simulated = toolkit.cuda.jit(list(kernel.signatures), **kernel.options)(function)
        hook.twins.setdefault(function.__module__, []).append(simulated)

    toolkit.Kernel.__init__ = noting


def launch_twins(toolkit: ModuleType, hook: Hook) -> None:
    """Let every launch be one of the twin too."""
    make, launch = toolkit.Kernel.__init__, toolkit.Kernel.__getitem__
    made: dict[str, int] = {}

    def paired(kernel: Any, function: Any, *rest: Any) -> None:
        make(kernel, function, *rest)
        file = function.__module__
        kernel.twin = hook.twins[file][made.setdefault(file, 0)]
        made[file] += 1

    def both(kernel: Any, how: tuple[Any, ...]) -> Any:
        on_driver, in_simulator = launch(kernel, how), kernel.twin[how[:2]]

        def run(*arguments: Any) -> None:
            on_driver(*arguments)
            in_simulator(*map(hook.simulated, arguments))

        return run

    toolkit.Kernel.__init__, toolkit.Kernel.__getitem__ = paired, both


def on_device(value: Any) -> bool:
    """Whether an argument of a launch is an array."""
    return hasattr(value, "__cuda_array_interface__")


def host_view(array: Any) -> Any:
    """The same memory as an array of NumPy."""
    import numpy as np

    told = array.__cuda_array_interface__
    shape, kind = told["shape"], np.dtype(told["typestr"])
    if not math.prod(shape):
        return np.empty(shape, kind)
    assert told.get("strides") is None or array.is_c_contiguous()
    memory = ctypes.c_char * (math.prod(shape) * kind.itemsize)
    return np.ndarray(shape, kind, memory.from_address(told["data"][0]))


sys.meta_path.insert(0, Hook())
