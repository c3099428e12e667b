"""The environment variables of other software that change results or speed, in one table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

DISABLE_JIT = "NUMBA_DISABLE_JIT"
MOST_CHARACTERS = 200  # of a value, in a record

# What each changes, by its name, or by how the names of several begin. The longest one counts.
KNOWN: Mapping[str, str] = MappingProxyType(
    {
        DISABLE_JIT: "kernels for the CPU run as plain Python, some 1000 times slower",
        "NUMBA_ENABLE_CUDASIM": "kernels for a GPU run in Numba's simulator",
        "NUMBA_BOUNDSCHECK": "compiled code checks every index",
        "NUMBA_CPU_": "the processor for which kernels are compiled",
        "NUMBA_": "how Numba compiles, keeps or runs kernels",
        "OMP_": "threads of OpenMP, and their places",
        "GOMP_": "threads of GNU's OpenMP, and their places",
        "KMP_": "threads of Intel's and LLVM's OpenMP, and their places",
        "OPENBLAS_": "threads and kernels of OpenBLAS",
        "GOTO_NUM_THREADS": "threads of OpenBLAS",
        "BLIS_": "threads and kernels of BLIS",
        "MKL_": "threads and kernels of Intel's MKL",
        "NPY_": "vector instructions and memory of NumPy",
        "MPIR_CVAR_": "how MPICH moves messages",
        "MPICH_": "how MPICH, or Cray's MPI, moves messages",
        "HYDRA_": "how MPICH's mpiexec starts and places ranks",
        "MPIEXEC_": "how MPICH's mpiexec starts and ends ranks",
        "MPI4PY_": "how mpi4py starts MPI, and pickles",
        "OMPI_MCA_": "how Open MPI moves messages",
        "PRTE_MCA_": "how Open MPI's mpiexec starts and places ranks",
        "PMIX_MCA_": "how Open MPI's ranks find each other",
        "I_MPI_": "how Intel's MPI moves messages",
        "MV2_": "how MVAPICH moves messages",
        "UCX_": "which network UCX uses for MPI, and how",
        "FI_": "which network libfabric uses for MPI, and how",
        "UCC_": "how UCC makes collectives for MPI",
        "PSM2_": "how MPI moves messages over Omni-Path",
        "PSM3_": "how MPI moves messages over Ethernet with RDMA",
        "HWLOC_": "which cores and caches MPI's launchers see",
        "CUDA_": "which GPUs there are, and how they are used",
        "NVIDIA_": "which GPUs a container has, and how they compute",
        "CUPY_": "how CuPy compiles and allocates",
        "PYTHONDEVMODE": "Python checks itself, and is slower",
        "PYTHONMALLOC": "how Python allocates memory",
        "PYTHONTRACEMALLOC": "Python notes every allocation, and is slower",
        "PYTHONOPTIMIZE": "Python leaves assertions out",
        "MALLOC_": "how the C library allocates memory",
        "GLIBC_TUNABLES": "how the C library allocates and copies memory",
        "LD_PRELOAD": "libraries that replace functions of others",
    }
)


def changed_by(name: str) -> str | None:
    """What a variable changes; None if the table does not have it."""
    begun = (known for known in KNOWN if known.endswith("_") and name.startswith(known))
    found = name if name in KNOWN else max(begun, key=len, default=None)
    return None if found is None else KNOWN[found]


def set_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of the table that an environment has, each as one line of printable text."""
    return {
        name: _shown(environment[name])
        for name in sorted(environment)
        if environment[name] and name.isascii() and changed_by(name) is not None
    }


def _shown(value: str) -> str:
    shown = "".join(char if char.isascii() and char.isprintable() else "?" for char in value)
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 3]}..."


def kernels_are_python(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether Numba compiles nothing, so that kernels for the CPU run as plain Python."""
    try:
        return bool(int(environment.get(DISABLE_JIT) or 0))
    except ValueError:  # Numba says so, and compiles
        return False
