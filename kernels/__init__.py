"""Numerical kernels: numpy, numba and cupy, and nothing of this project.

Each app has one file per device, ``<app>_<device>.py``, with the same public names and signatures.
Importing such a file compiles its kernels (or loads them from numba's cache on disk), so a kernel
that was loaded never compiles inside a timed step.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite.binding
import numba.core.config
import numba.core.cpu
import numba.core.options


def _use_full_vectors() -> None:
    """Let LLVM use 512-bit vectors where there are any; it prefers 256 bits on Intel.

    That is worth 20 to 35 % to kernels that run in cache. It must be said before anything is
    compiled; numba's cache on disk keeps the two kinds of code apart.
    """
    if "NUMBA_CPU_FEATURES" in os.environ or numba.core.config.CPU_NAME:  # type: ignore[attr-defined]
        return
    try:
        features = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot tell on this machine
        return
    if features.get("avx512f"):
        wide = features.flatten() + ",-prefer-256-bit"
        numba.core.config.CPU_FEATURES = wide  # type: ignore[attr-defined]


def _offer_noalias() -> None:
    """Give ``njit`` the option of `DISTINCT`, which Numba knows but does not offer."""
    numba.core.cpu.CPUTargetOptions.noalias = numba.core.options._mapping("noalias")


# Options of njit that promise LLVM that a kernel's arguments share no memory. It vectorises a
# gather only where it knows that the stores beside it do not touch what is gathered.
DISTINCT: dict[str, Any] = {"noalias": True}

_use_full_vectors()
_offer_noalias()


def exist(app: str, device: str) -> bool:
    """Whether an app has kernels for a device."""
    return Path(__file__).with_name(f"{app}_{device}.py").exists()


def load(app: str, device: str) -> ModuleType:
    """The kernels of an app for a device ("cpu" or "gpu"), compiled."""
    return importlib.import_module(f"kernels.{app}_{device}")
