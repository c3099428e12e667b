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
from kernels.leanmd.cpu.pairs import pair_forces, rows_of, shifted, tell

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
    "fused",
    "gather",
    "kick",
    "kick_and_drift",
    "pair_forces",
    "place",
    "rows_of",
    "shifted",
    "sort_into_bins",
    "sums_of_motion",
    "tell",
]
