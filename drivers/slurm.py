"""Detects the launcher around this process by the variables that it sets, such as Slurm's."""

from __future__ import annotations

import os
from collections.abc import Iterable

from miniapps.drivers.descriptor import Launcher

STEP = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")  # set by srun: rank, and number of ranks
WITHIN_STEP = ("SLURM_PROCID", "SLURM_NTASKS")  # those of a batch script, too, which is no step
NO_STEPS = ("4294967290", "4294967291")  # salloc's interactive step and batch scripts


def launched(name: str, variables: Iterable[tuple[str, str]]) -> Launcher | None:
    """The launcher that has set a pair of variables, rank and number of ranks; None if none has.

    Slurm also sets SLURM_PROCID in batch scripts; it is a rank only inside a step (srun).
    """
    step = os.environ.get("SLURM_STEP_ID")
    if step in NO_STEPS:
        return None
    for names in (*variables, *([WITHIN_STEP] if step else [])):
        rank, size = (os.environ.get(variable, "") for variable in names)
        if rank.isdigit() and size.isdigit():
            return Launcher(name, int(size), int(rank))
    return None
