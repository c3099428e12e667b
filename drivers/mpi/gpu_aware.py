"""Whether this MPI is GPU-aware, i.e. sends messages directly from GPU memory.

An MPI that was built without CUDA accepts device pointers and then crashes. So the answer is no
unless the library states its support in one of three sources, the most reliable first:

1. the info key ``mpi_memory_alloc_kinds`` of a communicator (MPI 4.1), if it names ``cuda``. A
   library may omit kinds that were not requested, so a list without ``cuda`` decides nothing;
2. ``MPIX_Query_cuda_support``, a function of Open MPI and MPICH, in the library that is loaded;
3. environment variables that enable the support in Cray's MPICH and MVAPICH2.

``python -m miniapps.drivers.mpi.gpu_aware`` prints the answer as JSON. It starts MPI, which a
process can do only once.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from miniapps.devices import system

KINDS = "mpi_memory_alloc_kinds"
QUERY = "MPIX_Query_cuda_support"
VARIABLES = ("MPICH_GPU_SUPPORT_ENABLED", "MV2_USE_CUDA")


def gpu_aware(
    comm: Any,
    environment: Mapping[str, str] = os.environ,
    libraries: Iterable[Any] | None = None,
) -> tuple[bool, str]:
    """Whether messages of a communicator may lie in device memory, and the evidence for it.

    ``libraries``: the MPI libraries to query, as ctypes objects; those of this process if None.
    """
    looks: tuple[Callable[[], tuple[bool, str] | None], ...] = (
        lambda: by_info(comm),
        lambda: by_query(loaded_libraries() if libraries is None else libraries),
        lambda: by_environment(environment),
    )
    answers = (look() for look in looks)
    unknown = False, "the MPI library does not say that it can read device memory"
    return next((answer for answer in answers if answer is not None), unknown)


def by_info(comm: Any) -> tuple[bool, str] | None:
    """True if the communicator's info names the memory kind ``cuda``, else no answer."""
    kinds = comm.Get_info().Get(KINDS)
    named = {kind.split(":")[0].strip() for kind in (kinds or "").split(",")}
    return (True, f"{KINDS} is {kinds}") if "cuda" in named else None


def by_query(libraries: Iterable[Any]) -> tuple[bool, str] | None:
    """The answer of the library's query function; none if it has no such function."""
    for library in libraries:
        function = getattr(library, QUERY, None)  # ctypes raises AttributeError where it is missing
        if function is not None:
            answer = bool(function())
            return answer, f"{QUERY} says {'yes' if answer else 'no'}"
    return None


def by_environment(environment: Mapping[str, str]) -> tuple[bool, str] | None:
    """The answer of the environment variables that configure the library."""
    for name in VARIABLES:
        if name in environment:
            return environment[name] == "1", f"{name} is {environment[name]}"
    return None


def loaded_libraries(maps: str = "/proc/self/maps") -> list[ctypes.CDLL]:
    """The MPI libraries that are mapped into this process; CDLL(None) would not find them."""
    return [ctypes.CDLL(path) for path in mpi_libraries(system.text(maps))]


def mpi_libraries(maps: str) -> list[str]:
    """Paths of MPI libraries in the text of /proc/PID/maps, each once, in their order there."""
    columns = [line.split(None, 5) for line in maps.splitlines()]
    paths = [row[5] for row in columns if len(row) == 6]
    named = [path for path in paths if Path(path).name.startswith("libmpi")]
    return list(dict.fromkeys(path for path in named if ".so" in Path(path).name))


def main() -> None:
    """Start MPI and print the answer."""
    from mpi4py import MPI

    print(json.dumps(gpu_aware(MPI.COMM_WORLD)))


if __name__ == "__main__":
    main()
