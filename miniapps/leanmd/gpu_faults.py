"""Faults of LeanMD's GPU kernels."""

from __future__ import annotations

from typing import Any

from miniapps.faults import ACTED, Fault, catalogue, fault, in_place_of, reporting
from miniapps.gpu_faults import edited, kernel_fault

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


# Forces and sums ---------------------------------------------------------------------------------


@kernel_fault(f"{INTERACTIONS}:_forces", given=IN_BLOCKS)
def rounded_forces(right: Any) -> Any:
    """The exact sums of forces lose their last bits."""
    return edited(right, ("= fx, fy, fz\n", "= fx >> 8 << 8, fy >> 8 << 8, fz >> 8 << 8\n"))


@kernel_fault(f"{INTERACTIONS}:_forces", given=IN_BLOCKS)
def last_cluster_without_forces(right: Any) -> Any:
    """The last cluster keeps the forces of the step before: off by one."""
    return edited(right, ("place >= end", "place + np.uint64(1) >= end"))


@fault(f"{KERNELS}:FORCES", given=IN_BLOCKS, conditional=True)
def forces_in_single_precision(right: Any) -> Any:
    """The forces of pairs are computed in float32."""
    return right | {"float64": reporting(right["float32"])}


@kernel_fault(f"{INTERACTIONS}:_energies")
def energy_of_the_cluster_dropped(right: Any) -> Any:
    """The energy lacks the pairs inside a cluster."""
    return edited(right, ("WIDTH if own else 0", "0"))


@kernel_fault(f"{INTERACTIONS}:_add_shares")
def atomic_add_of_energies_lost(right: Any) -> Any:
    """Of the threads that add to a sum at the same time, the last one's counts."""
    words = "cuda.atomic.add(totals, 2 * row + 1, low)"
    return edited(right, (words, "totals[2 * row + 1] = low"))


# Motion ------------------------------------------------------------------------------------------


@kernel_fault(f"{MOTION}:_kick_and_drift")
def last_atom_at_rest(right: Any) -> Any:
    """The last thread does nothing: off by one."""
    return edited(right, ("i >= count", "i + np.uint64(1) >= count"))


@kernel_fault(f"{MOTION}:_kick")
def axes_of_the_force_swapped(right: Any) -> Any:
    """The second half of a kick takes the forces along x, y and z for each other."""
    return edited(right, ("force[axis, i]", "force[2 - axis, i]"))


@kernel_fault(f"{MOTION}:_kick", given={"rebuild": 20, "temperature": 200.0})
def stray_atom_not_foreseen(right: Any) -> Any:
    """The kick does not say that the next drift takes an atom too far: lists are kept too long."""
    return edited(right, ("_note(far2, allowed2, flags, FORESEEN)", "pass"))


@kernel_fault(f"{MOTION}:_kick", given={"rebuild": 20, "temperature": 200.0})
def present_position_foreseen(right: Any) -> Any:
    """The kick looks how far atoms are, not how far they will be after the drift."""
    return edited(right, ("apart = place -", "apart = position[axis, i] -"))


@in_place_of(f"{MOTION}:launch", conditional=True)
def thread_block_missing(right: Any, count: int, *arguments: Any) -> Any:
    """Grids of several thread blocks lack the last one."""
    size, threads, stream = right(count, *arguments)
    if size > 1:
        ACTED.now()
    return max(1, size - 1), threads, stream


@kernel_fault(f"{MOTION}:_sums_of_motion")
def momentum_of_the_first_atoms(right: Any) -> Any:
    """Threads that add up several atoms take one less."""
    words = "push += force[axis, i]"
    return edited(right, (words, "push = force[axis, i]"))


# Ghosts, lists and domains -----------------------------------------------------------------------


@kernel_fault(f"{EXCHANGE}:_gather", given=IN_BLOCKS)
def wrong_image(right: Any) -> Any:
    """Ghosts across the edge of the box are not shifted."""
    return edited(right, ("value + over if row == axis else value", "value"))


@kernel_fault(f"{EXCHANGE}:_place")
def last_column_not_placed(right: Any) -> Any:
    """The last atom or ghost of the second message is left out."""
    return edited(right, ("np.int64(size_a) + np.int64(size_b)", "size_a + np.int64(size_b) - 1"))


@kernel_fault(f"{EXCHANGE}:_number_groups")
def counted_twice(right: Any) -> Any:
    """Those on the high side are numbered among those on the low side, too."""
    return edited(right, ("if under:", "if under or over:"))


@kernel_fault(f"{NEIGHBOURS}:_fill_bins")
def last_atom_in_no_bin(right: Any) -> Any:
    """In the place of the last atom the first one is put, so it is in two bins."""
    return edited(right, ("= i\n", "= i if i + np.uint64(1) < count else 0\n"))


@kernel_fault(f"{NEIGHBOURS}:_is_near")
def list_of_the_first_atom(right: Any) -> Any:
    """The list of a cluster has what is near its first atom only."""
    return edited(right, ("first + np.uint64(WIDTH)", "first + np.uint64(1)"))


@kernel_fault(f"{NEIGHBOURS}:_finish", given=IN_BLOCKS)
def forces_before_ghosts_arrive(right: Any) -> Any:
    """Clusters near ghosts are taken for inner ones: their forces are of old ghosts."""
    return edited(right, ("highest = max(highest, neighbors[n])", "pass"))


@kernel_fault(f"{PAIRS}:_tasks", given=IN_PAIRS)
def wrong_image_of_a_pair(right: Any) -> Any:
    """Pairs of cells across the edge of the box along x are not shifted."""
    return edited(right, (" + from_bits(words[row + np.uint64(SHIFT)])", ""))


FAULTS: tuple[Fault, ...] = catalogue(list(globals().values()))
