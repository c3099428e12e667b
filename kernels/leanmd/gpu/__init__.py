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
    pair_forces,
    pair_forces_in_single,
    rows_of,
    shifted,
    tell,
)

__all__ = [
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
    "forces_in_single",
    "gather",
    "kick",
    "kick_and_drift",
    "pair_forces",
    "pair_forces_in_single",
    "place",
    "rows_of",
    "shifted",
    "sort_into_bins",
    "sums_of_motion",
    "tell",
]
