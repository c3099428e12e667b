"""The mpi driver: one block per rank, messages sent by MPI directly from buffers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from miniapps.drivers import slurm
from miniapps.drivers.ancestors import PMIX_LAUNCHERS, under
from miniapps.drivers.descriptor import (
    Asked,
    Driver,
    Launcher,
    MemoryOptions,
    Start,
    listed,
    pip_install,
    require_gpu,
)
from miniapps.drivers.hosts import REMOTE_SHELL, Hosts, Place
from miniapps.parameters import parameter, require

# Rank and size as set by PMI (MPICH, Intel MPI, srun --mpi=pmi2), Open MPI, MVAPICH2, Slurm.
VARIABLES = (
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    slurm.STEP,
)
MPIEXEC = "mpiexec"
HYDRA, OPEN_MPI = "HYDRA", "Open MPI"  # in the version of the launcher of MPICH, of Open MPI


@dataclass(frozen=True)
class RankOptions(MemoryOptions):
    """Options of this driver alone."""

    shared_from = 1 << 19
    gpu_aware: str = parameter(
        "--gpu-aware",
        "auto",
        str,
        "pass GPU memory to MPI; auto: if the MPI library states that it accepts it",
        choices=("on", "off", "auto"),
    )

    def check(self, asked: Asked) -> None:
        """Raise InputError if an option is given without a GPU."""
        super().check(asked)
        require_gpu(asked, "--gpu-aware", self.gpu_aware)


def around() -> Launcher | None:
    """The MPI launcher that started this process, if any."""
    name = "MPI launcher"
    return slurm.launched(name, VARIABLES) or with_unknown_size(name)


def with_unknown_size(name: str) -> Launcher | None:
    """A launcher that tells by PMIx alone; a variable that is left over in a shell is none."""
    rank = os.environ.get("PMIX_RANK", "")
    here = rank.isdigit() and under(PMIX_LAUNCHERS)
    return Launcher(name, None, int(rank)) if here else None


def command(start: Start) -> list[str]:
    """The command that starts the ranks. Raises InputError if mpiexec is not found."""
    mpiexec = DRIVER.launcher_path(start.launcher)
    where = _on_hosts(mpiexec, start.places) if start.places else []
    return [mpiexec, "-n", str(start.pes), *where, *start.runtime, *start.program]


def _on_hosts(mpiexec: str, places: Sequence[Place]) -> list[str]:
    """The options that start ranks on hosts. Raises InputError for an unknown launcher."""
    named, said = str(Hosts(places)), _version(mpiexec)
    if HYDRA in said:
        return ["-launcher", "ssh", "-launcher-exec", REMOTE_SHELL, "-hosts", named]
    allowed = f"is not known to {mpiexec}: it needs that of MPICH or Open MPI"
    require(OPEN_MPI in said, "--hosts", named, allowed)
    return ["--host", named, "--map-by", "slot", "--prtemca", "plm_ssh_agent", REMOTE_SHELL]


@cache
def _version(mpiexec: str) -> str:
    """What a launcher says about itself."""
    return subprocess.run([mpiexec, "--version"], capture_output=True, encoding="utf-8").stdout


def library() -> str:
    """The MPI library that ranks of this host use, without starting it."""
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    return MPI.Get_library_version().splitlines()[0].strip()


def pin(cores: Sequence[int]) -> list[str]:
    """The options of mpiexec that pin ranks to cores; none if it is of neither MPI.

    Raises InputError if mpiexec is not found.
    """
    said = _version(DRIVER.launcher_path(None))
    if HYDRA in said:
        return ["-bind-to", f"user:{listed(cores)}"]
    return ["--map-by", f"pe-list={listed(cores)}:ordered"] if OPEN_MPI in said else []


# MPICH 5 creates 1.06 MB for each rank, and dies by SIGBUS where that is not there.
SHARED_BYTES = 1_100_000

DRIVER = Driver(
    name="mpi",
    summary="one block per rank, mpi4py",
    file="miniapps.drivers.mpi.driver",
    without="no runs on several ranks",
    modules=("mpi4py",),
    install=f": {pip_install('mpi4py', 'mpich')}",
    program=MPIEXEC,
    runtime="MPI library",
    gpu_aware="miniapps.drivers.mpi.gpu_aware",
    example="--driver mpi -n 4",
    options=RankOptions,
    several_kinds=False,
    waits_alone=True,
    shared_bytes=SHARED_BYTES,
    command=command,
    pin=pin,
    around=around,
    library=library,
)
