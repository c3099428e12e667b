"""Faults of LeanMD's GPU kernels."""

from __future__ import annotations

from typing import Any

from miniapps.faults import ACTED, fault, in_place_of, reporting
from miniapps.gpu_faults import kernel_fault

KERNELS = "miniapps.kernels.leanmd.gpu"
EXCHANGE, MOTION, PAIRS = f"{KERNELS}.exchange", f"{KERNELS}.motion", f"{KERNELS}.pairs"
INTERACTIONS, NEIGHBOURS = f"{KERNELS}.interactions", f"{KERNELS}.neighbours"
PROBLEMS = {
    "tiny": {
        "cells": (3, 3, 3),  # the fewest that pairs need
        "per_cell": 2,
        "temperature": 30.0,
        "cutoff": 1.6,
        "skin": 0.5,
        "shift": True,
        "rebuild": 2,
        "thermo": 2,
        "steps": 2,
        "warmup": 0,
    }
}
TILES = {
    **{f"{file}:FEW_THREADS": 8 for file in (EXCHANGE, MOTION, INTERACTIONS, NEIGHBOURS)},
    f"{MOTION}:SUMMING": 8,  # so that threads add up several atoms
    f"{INTERACTIONS}:SUMMING": 8,
    "miniapps.devices.cuda.primitives:WARP": 4,
    "miniapps.devices.cuda.primitives:CHUNK": 4,
    f"{EXCHANGE}:CHUNK": 4,
    f"{PAIRS}:TASK_THREADS": 8,
    f"{PAIRS}:FEW_THREADS": 8,
}
IN_BLOCKS = {"decomposition": "blocks"}
IN_PAIRS = {"decomposition": "pairs", "rebuild": 20}
FAST = {"rebuild": 20, "temperature": 200.0}


# Forces and sums ---------------------------------------------------------------------------------


@kernel_fault(
    f"{INTERACTIONS}:_forces",
    "= fx, fy, fz\n",
    "= fx >> 8 << 8, fy >> 8 << 8, fz >> 8 << 8\n",
    given=IN_BLOCKS,
)
def rounded_forces() -> None:
    """The exact sums of forces lose their last bits."""


@kernel_fault(f"{INTERACTIONS}:_forces", "place >=", "place + np.uint64(1) >=", given=IN_BLOCKS)
def last_cluster_without_forces() -> None:
    """The last cluster keeps the forces of the step before: off by one."""


@fault(f"{KERNELS}:FORCES", given=IN_BLOCKS, conditional=True)
def forces_in_single_precision(right: Any) -> Any:
    """The forces of pairs are computed in float32."""
    return right | {"float64": reporting(right["float32"])}


@kernel_fault(f"{INTERACTIONS}:_energies", "WIDTH if own else 0", "0")
def energy_of_the_cluster_dropped() -> None:
    """The energy lacks the pairs inside a cluster."""


@kernel_fault(
    f"{INTERACTIONS}:_add_shares",
    "cuda.atomic.add(totals, 2 * row + 1, low)",
    "totals[2 * row + 1] = low",
)
def atomic_add_of_energies_lost() -> None:
    """Of the threads that add to a sum at the same time, the last one's counts."""


# Motion ------------------------------------------------------------------------------------------


@kernel_fault(f"{MOTION}:_kick_and_drift", "i >= count", "i + np.uint64(1) >= count")
def last_atom_at_rest() -> None:
    """The last thread does nothing: off by one."""


@kernel_fault(f"{MOTION}:_kick", "force[axis, i]", "force[2 - axis, i]")
def axes_of_the_force_swapped() -> None:
    """The second half of a kick takes the forces along x, y and z for each other."""


@kernel_fault(f"{MOTION}:_kick", "_note(far2, allowed2, flags, FORESEEN)", "pass", given=FAST)
def stray_atom_not_foreseen() -> None:
    """The kick does not say that the next drift takes an atom too far: lists are kept too long."""


@kernel_fault(f"{MOTION}:_kick", "= place -", "= position[axis, i] -", given=FAST)
def present_position_foreseen() -> None:
    """The kick looks how far atoms are, not how far they will be after the drift."""


@in_place_of(f"{MOTION}:launch", conditional=True)
def thread_block_missing(right: Any, count: int, *arguments: Any) -> Any:
    """Grids of several thread blocks lack the last one."""
    size, threads, stream = right(count, *arguments)
    if size > 1:
        ACTED.now()
    return max(1, size - 1), threads, stream


@kernel_fault(f"{MOTION}:_sums_of_motion", "push += force[axis, i]", "push = force[axis, i]")
def momentum_of_the_first_atoms() -> None:
    """Threads that add up several atoms take one less."""


# Ghosts, lists and domains -----------------------------------------------------------------------


@kernel_fault(f"{EXCHANGE}:_gather", " + over if row == axis else value", "", given=IN_BLOCKS)
def wrong_image() -> None:
    """Ghosts across the edge of the box are not shifted."""


@kernel_fault(
    f"{EXCHANGE}:_place", "np.int64(size_a) + np.int64(size_b)", "size_a + np.int64(size_b) - 1"
)
def last_column_not_placed() -> None:
    """The last atom or ghost of the second message is left out."""


@kernel_fault(f"{EXCHANGE}:_number_groups", "if under:", "if under or over:")
def counted_twice() -> None:
    """Those on the high side are numbered among those on the low side, too."""


@kernel_fault(f"{NEIGHBOURS}:_fill_bins", "= i\n", "= i if i + np.uint64(1) < count else 0\n")
def last_atom_in_no_bin() -> None:
    """In the place of the last atom the first one is put, so it is in two bins."""


@kernel_fault(f"{NEIGHBOURS}:_is_near", "first + np.uint64(WIDTH)", "first + np.uint64(1)")
def list_of_the_first_atom() -> None:
    """The list of a cluster has what is near its first atom only."""


@kernel_fault(f"{NEIGHBOURS}:_finish", "max(highest, neighbors[n])", "highest", given=IN_BLOCKS)
def forces_before_ghosts_arrive() -> None:
    """Clusters near ghosts are taken for inner ones: their forces are of old ghosts."""


@kernel_fault(f"{PAIRS}:_tasks", " + from_bits(words[row + np.uint64(SHIFT)])", "", given=IN_PAIRS)
def wrong_image_of_a_pair() -> None:
    """Pairs of cells across the edge of the box along x are not shifted."""
