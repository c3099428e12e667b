"""Cores and threads that this process may use, and variables that its user has set."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from miniapps.devices import system, variables

CORES_VARIABLE = "MINIAPPS_CORES"  # set by the launching process for the PEs
SET_VARIABLE = "MINIAPPS_SET"  # likewise: `set_variables` of the launching process
HOSTS_VARIABLE = "MINIAPPS_HOSTS"  # likewise, if it was given hosts: name, PEs and cores of each
PIN_VARIABLE = "MINIAPPS_PIN"  # likewise: each PE takes a core of its host
SLURM_CORES = "SLURM_JOB_CPUS_PER_NODE"  # such as 4(x2),3
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def one_thread() -> None:
    """Limit numerical libraries to one thread per process, unless the user has set a number."""
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")


def set_variables() -> dict[str, str]:
    """The variables of `devices.variables` that the user has set, with their values.

    Launchers set more of them for their ranks, which are left out where this program starts it.
    """
    if SET_VARIABLE in os.environ:
        found: dict[str, str] = json.loads(os.environ[SET_VARIABLE])
        return found
    found = variables.set_in(os.environ)
    return {name: value for name, value in found.items() if name not in ONE_THREAD or value != "1"}


@contextmanager
def variables_kept() -> Iterator[None]:
    """Give this process its environment back at the end."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def cores() -> int:
    """The number of cores that this process may use; at least 1."""
    return max(1, whole_cores())


def whole_cores() -> int:
    """As `cores`, but 0 if a quota of the process's control group is less than a core's time."""
    allowed, quota = len(os.sched_getaffinity(0)), system.cpu_quota()
    return allowed if quota is None else min(allowed, int(quota))


def cores_of_run() -> int:
    """The number of cores that all PEs of the current run may use together, on all nodes.

    A pinned PE sees only its own core, so the launching process passes the number.
    """
    if CORES_VARIABLE in os.environ:
        return int(os.environ[CORES_VARIABLE])
    if SLURM_CORES in os.environ:
        return sum(counts_of_nodes(os.environ[SLURM_CORES]))
    return whole_cores()


def hosts() -> list[dict[str, Any]]:
    """The hosts that the current run was given: name, PEs, cores and memory; empty if none."""
    found: list[dict[str, Any]] = json.loads(os.environ.get(HOSTS_VARIABLE, "[]"))
    return found


def oversubscribed(pes: int) -> bool:
    """Whether PEs share cores, on any host."""
    named = hosts()
    return any(one["pes"] > one["cores"] for one in named) if named else pes > cores_of_run()


def counts_of_nodes(text: str) -> list[int]:
    """Parse Slurm's counts per node: ``4(x2),3`` is [4, 4, 3]."""
    counts = []
    for part in text.split(","):
        count, _, times = part.rstrip(")").partition("(x")
        counts += [int(count)] * int(times or 1)
    return counts


def core_numbers() -> list[int]:
    """The numbers of the cores that this process may use; second hardware threads come last."""
    return sorted(os.sched_getaffinity(0), key=lambda core: (_siblings(core).index(core), core))


def take_core(folder: Path) -> None:
    """Pin this process to a core of its host that no other PE with this folder has taken."""
    for number in core_numbers():
        with suppress(FileExistsError):
            (folder / f"core-{number}").touch(exist_ok=False)
            os.sched_setaffinity(0, {number})
            return


def _siblings(number: int) -> list[int]:
    """The hardware threads of a core, ascending; only the core itself if the system lists none."""
    path = f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"
    spans = [span.partition("-") for span in system.text(path).split(",") if span.strip()]
    listed = [n for low, _, high in spans for n in range(int(low), int(high or low) + 1)]
    return listed if number in listed else [number]
