"""Whether this process was started by a launcher, as far as its environment tells."""

from __future__ import annotations

import os

# Rank and size as set by PMI (MPICH, Intel MPI, srun --mpi=pmi2), Open MPI, MVAPICH2, Slurm.
MPI_VARIABLES = (
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
SLURM_NO_STEPS = ("4294967290", "4294967291")  # salloc's interactive step and batch scripts
CHARM_VARIABLE = "NETSTART"  # set by charmrun for every process it starts
CORES_VARIABLE = "MINIAPPS_CORES"  # set by the launching process for what it launches
SLURM_CORES = "SLURM_JOB_CPUS_PER_NODE"  # such as 4(x2),3
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def mpi_size() -> int | None:
    """How many ranks the MPI launcher around this process has started; None outside one.

    Slurm sets SLURM_PROCID for batch scripts too; only inside a step (srun) does it count.
    """
    if os.environ.get("SLURM_STEP_ID") in SLURM_NO_STEPS:
        return None
    for rank, size in MPI_VARIABLES:
        if rank in os.environ and size in os.environ:
            return int(os.environ[size])
    return None


def inside_charmrun() -> bool:
    """Whether charmrun started this process."""
    return CHARM_VARIABLE in os.environ


def rank() -> int:
    """The rank that a launcher gave this process, 0 outside one."""
    for name, size in MPI_VARIABLES:
        if name in os.environ and size in os.environ:
            return int(os.environ[name])
    return 0


def one_thread() -> None:
    """Ask all numerical libraries for one thread per process, unless the user asked otherwise."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")


def cores() -> int:
    """Cores this process may use."""
    return len(core_numbers())


def cores_of_run() -> int:
    """Cores that all PEs of the run around this process may use together, on all its nodes.

    A PE that is tied to a core may use one itself, so whoever started it must say.
    """
    if CORES_VARIABLE in os.environ:
        return int(os.environ[CORES_VARIABLE])
    if SLURM_CORES in os.environ:
        return sum(counts_of_nodes(os.environ[SLURM_CORES]))
    return cores()


def counts_of_nodes(text: str) -> list[int]:
    """Read Slurm's numbers per node: ``4(x2),3`` is [4, 4, 3]."""
    counts = []
    for part in text.split(","):
        count, _, times = part.rstrip(")").partition("(x")
        counts += [int(count)] * int(times or 1)
    return counts


def core_numbers() -> list[int]:
    """Which cores those are; those that share a core's hardware with an earlier one come last."""

    def place(number: int) -> tuple[int, int]:
        return _siblings(number).index(number), number

    return sorted(os.sched_getaffinity(0), key=place)


def _siblings(number: int) -> list[int]:
    """The hardware threads of a core, ascending: itself alone where the system does not say."""
    path = f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"
    try:
        with open(path) as file:
            spans = [span.partition("-") for span in file.read().strip().split(",")]
    except OSError:
        return [number]
    return [n for low, _, high in spans for n in range(int(low), int(high or low) + 1)]


def age_s() -> float:
    """Seconds since this process was started."""
    with open("/proc/self/stat") as file:
        started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    with open("/proc/uptime") as file:
        return float(file.read().split()[0]) - started
