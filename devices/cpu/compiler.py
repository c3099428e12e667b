"""Numba, configured for kernels on the CPU, which take ``njit`` and ``vectorize`` from here.

This import takes longer than all others of a run, so only processes that run kernels import it, not
one that checks a command line and launches others.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import llvmlite.binding
import numba.core.config
import numba.core.cpu
import numba.core.options
from numba import njit as njit
from numba import vectorize as vectorize

from miniapps.devices.cpu.disk_cache import use_checked_files


def _use_full_vectors() -> None:
    """Let LLVM use 512-bit vectors where the CPU has them; on Intel it prefers 256 bits.

    That makes kernels that run in cache 20 to 35 % faster. It must be set before anything is
    compiled; Numba's cache on disk distinguishes the two kinds of code.
    """
    if "NUMBA_CPU_FEATURES" in os.environ or numba.core.config.CPU_NAME:  # type: ignore[attr-defined]
        return
    try:
        features = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:  # LLVM does not know this machine
        return
    if features.get("avx512f"):
        wide = features.flatten() + ",-prefer-256-bit"
        numba.core.config.CPU_FEATURES = wide  # type: ignore[attr-defined]


def _offer_noalias() -> None:
    """Add the option of `DISTINCT` to ``njit``: Numba implements it but does not accept it."""
    numba.core.cpu.CPUTargetOptions.noalias = numba.core.options._mapping("noalias")


def _leave_blas_alone() -> None:
    """Keep Numba from loading SciPy's linear algebra to see whether it is installed.

    No kernel multiplies matrices, and loading it takes a fifth of the time of a run's start.
    """
    if "scipy.linalg" not in sys.modules:
        sys.modules["scipy.linalg"] = None  # type: ignore[assignment]  # as if there were none
        importlib.import_module("numba.np.arraymath")
        del sys.modules["scipy.linalg"]


# Options of njit that guarantee to LLVM that a kernel's arguments share no memory. It vectorises a
# gather only if it knows that the stores in the same loop do not touch the gathered elements.
DISTINCT: dict[str, Any] = {"noalias": True}
# Options of njit of the apps' kernels. Division by 0 raises no error, as tests for it cost time.
OPTIONS: dict[str, Any] = {
    "cache": True, "nogil": True, "error_model": "numpy", "boundscheck": False,
}  # fmt: skip

use_checked_files()
_use_full_vectors()
_offer_noalias()
_leave_blas_alone()
