"""Numerical kernels: plain functions on arrays, per app and device.

``<app>/interface.py`` has the Protocol of the functions that blocks call, with their documentation;
``<app>/<device>.py`` or the package ``<app>/<device>/`` implements it. The files of a package have
the same names on all devices. Importing the kernels for the CPU compiles them, or loads them from
Numba's cache on disk; `load` makes the backend compile those for other devices. So a kernel that
was loaded never compiles in a timed step.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from miniapps.devices import variables
from miniapps.devices.backend import OPENED


def exist(app: str, device: str) -> bool:
    """Return whether an app has kernels for a device."""
    package = importlib.util.find_spec(f"miniapps.kernels.{app}")
    return package is not None and importlib.util.find_spec(f"{package.name}.{device}") is not None


def import_compiler() -> None:
    """Import Numba, as `load` does; by itself so that its time can be measured."""
    importlib.import_module("miniapps.devices.cpu.compiler")


def load(app: str, device: str) -> ModuleType:
    """Return the kernels of an app for a device ("cpu" or "gpu"), compiled.

    They are plain Python if the user has set ``NUMBA_DISABLE_JIT``.
    """
    if device == "cpu" and variables.kernels_are_python():
        importlib.import_module("miniapps.devices.cpu.plain").replace_intrinsics()
    module = importlib.import_module(f"miniapps.kernels.{app}.{device}")
    OPENED.get(device).compile(module)
    return module
