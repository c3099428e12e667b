"""Kernels of LeanMD on the CPU."""

from devices.cpu.vectors import WIDTH, fused
from kernels.leanmd.cpu.exchange import (
    arrange,
    choose,
    end_here,
    first_outside,
    gather,
    place,
)
from kernels.leanmd.cpu.interactions import energies, forces
from kernels.leanmd.cpu.motion import adjust, draw, kick, kick_and_drift, sums_of_motion
from kernels.leanmd.cpu.neighbours import fill_lists, sort_into_bins
from kernels.leanmd.cpu.pairs import pack_positions, pair_forces, rows_of, sent_positions

# By the data type of the problem: in which precision the force of a pair is found.
FORCES = {"float64": forces}
PAIR_FORCES = {"float64": pair_forces}

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
    "fused",
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
