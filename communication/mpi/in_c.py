"""The ping-pong in C, which mpi4py's ranks call.

It is compiled for the MPI that mpi4py is made to load (`LIBRARY`), else for the one beside Python.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).with_name("pingpong.c")
LIBRARY = "MPI4PY_LIBMPI"  # environment variable: the file of the MPI library
TEXT_BYTES = 8192  # more than MPI_MAX_LIBRARY_VERSION_STRING of any MPI


def compiled(folder: Path) -> Path:
    """Compile the ping-pong into a folder. Raises OSError with the reason if that fails."""
    folders = [Path(sys.executable).parent]
    if LIBRARY in os.environ:
        folders.insert(0, Path(os.environ[LIBRARY]).parents[1] / "bin")
    beside = [str(folder / "mpicc") for folder in folders if (folder / "mpicc").exists()]
    compiler = beside[0] if beside else shutil.which("mpicc")
    if compiler is None:
        raise OSError("no mpicc was found")
    made = folder / "pingpong.so"
    line = [compiler, "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(made)]
    done = subprocess.run(line, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise OSError(f"mpicc: {said[0]}")
    return made


class InC:
    """The compiled ping-pong, between this rank and ``other``."""

    def __init__(self, file: Path, mpi: Any, comm: Any, other: int) -> None:
        """Load it. Raises OSError if it cannot be, or belongs to another MPI library."""
        self.library = ctypes.CDLL(str(file))
        text = ctypes.create_string_buffer(TEXT_BYTES)
        self.library.library_of(text)
        if text.value.decode().strip() != mpi.Get_library_version().strip("\0 \n"):
            raise OSError("mpicc belongs to another MPI than mpi4py's")
        self.library.ping_pong.restype = ctypes.c_double
        self.comm, self.other = ctypes.c_void_p(mpi._addressof(comm)), other

    def seconds(self, sent: np.ndarray, received: np.ndarray, leads: bool, times: int) -> float:
        """Seconds per message of ``times`` round trips with arrays of bytes."""
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (sent, received)]
        numbers = map(ctypes.c_int, (sent.nbytes, self.other, 3, leads, times))
        return float(self.library.ping_pong(self.comm, *pointers, *numbers))
