"""Numba, set up as kernels for the CPU need it: they take ``njit`` and ``vectorize`` from here.

Importing this takes longer than anything else that a run imports, so only those processes do it
that run kernels, and not one that checks a command line and launches others.
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


def _leave_blas_alone() -> None:
    """Keep Numba from loading SciPy's linear algebra, to see whether it is there.

    No kernel multiplies matrices, and loading it takes a fifth of the time of a run's start.
    """
    if "scipy.linalg" not in sys.modules:
        sys.modules["scipy.linalg"] = None  # type: ignore[assignment]  # as if there were none
        importlib.import_module("numba.np.arraymath")
        del sys.modules["scipy.linalg"]


# Options of njit that guarantee to LLVM that a kernel's arguments share no memory. It vectorises a
# gather only where it knows that the stores beside it do not touch what is gathered.
DISTINCT: dict[str, Any] = {"noalias": True}

_use_full_vectors()
_offer_noalias()
_leave_blas_alone()
