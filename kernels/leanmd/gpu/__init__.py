"""Kernels of LeanMD on the GPU."""

from kernels.leanmd.gpu.exchange import (
    arrange,
    choose,
    end_here,
    first_outside,
    gather,
    place,
)
from kernels.leanmd.gpu.interactions import WIDTH, energies, forces, forces_in_single
from kernels.leanmd.gpu.motion import adjust, draw, kick, kick_and_drift, sums_of_motion
from kernels.leanmd.gpu.neighbours import fill_lists, sort_into_bins
from kernels.leanmd.gpu.pairs import (
    pack_positions,
    pair_forces,
    pair_forces_in_single,
    rows_of,
    sent_positions,
)

# By the data type of the problem: in which precision the force of a pair is found.
FORCES = {"float64": forces, "float32": forces_in_single}
PAIR_FORCES = {"float64": pair_forces, "float32": pair_forces_in_single}

__all__ = [
    "FORCES",
    "PAIR_FORCES",
    "WIDTH",
    "adjust",
    "arrange",
    "choose",
    "draw",
    "end_here",
    "energies",
    "fill_lists",
    "first_outside",
    "forces",
    "gather",
    "kick",
    "kick_and_drift",
    "pack_positions",
    "pair_forces",
    "place",
    "rows_of",
    "sent_positions",
    "sort_into_bins",
    "sums_of_motion",
]
