"""Numerical kernels: numpy, numba, and of this project what `devices` offers them.

Each app has one file or package per device, ``<app>/<device>.py`` or ``<app>/<device>/``, with the
same public names and signatures; the files of a package have the same names on all devices.
Importing it compiles its kernels (or loads them from numba's cache on disk), so a kernel that was
loaded never compiles inside a timed step.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType


def exist(app: str, device: str) -> bool:
    """Whether an app has kernels for a device."""
    folder = Path(__file__).with_name(app)
    return (folder / f"{device}.py").exists() or (folder / device / "__init__.py").exists()


def import_compiler() -> None:
    """Import what compiles kernels; `load` does so too, where nobody asked how long it takes."""
    importlib.import_module("devices.cpu.compiler")


def load(app: str, device: str) -> ModuleType:
    """The kernels of an app for a device ("cpu" or "gpu"), compiled."""
    return importlib.import_module(f"kernels.{app}.{device}")
