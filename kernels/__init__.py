"""Numerical kernels: numpy, numba, and of this project what `devices` offers them.

Each app has one file or package per device, ``<app>/<device>.py`` or ``<app>/<device>/``, with the
same public names and signatures; the files of a package have the same names on all devices.
Importing those for the CPU compiles them (or loads them from numba's cache on disk), and `load` has
the backend compile those for other devices, so a kernel that was loaded never compiles inside a
timed step.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

from devices.backend import OPENED


def exist(app: str, device: str) -> bool:
    """Whether an app has kernels for a device."""
    package = importlib.util.find_spec(f"kernels.{app}")
    return package is not None and importlib.util.find_spec(f"{package.name}.{device}") is not None


def import_compiler() -> None:
    """Import what compiles kernels; `load` does so too, where nobody asked how long it takes."""
    importlib.import_module("devices.cpu.compiler")


def load(app: str, device: str) -> ModuleType:
    """The kernels of an app for a device ("cpu" or "gpu"), compiled."""
    module = importlib.import_module(f"kernels.{app}.{device}")
    OPENED.get(device).compile(module)
    return module
