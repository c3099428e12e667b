"""Kernels of LeanMD on the CPU."""

from __future__ import annotations

from collections.abc import Mapping

from miniapps.devices.cpu.vectors import WIDTH
from miniapps.kernels.leanmd.cpu.exchange import (
    arrange,
    choose,
    end_here,
    first_outside,
    gather,
    place,
)
from miniapps.kernels.leanmd.cpu.interactions import energies, forces
from miniapps.kernels.leanmd.cpu.motion import (
    adjust,
    clear,
    draw,
    kick,
    kick_and_drift,
    sums_of_motion,
)
from miniapps.kernels.leanmd.cpu.neighbours import fill_lists, sort_into_bins
from miniapps.kernels.leanmd.cpu.pairs import (
    pack_positions,
    pair_forces,
    pair_forces_in_single,
    pair_lists,
    rows_of,
    sent_positions,
)
from miniapps.kernels.leanmd.cpu.single import Quanta, forces_in_single
from miniapps.kernels.leanmd.interface import Forces, PairForces, QuantaOf

FORCES: Mapping[str, Forces] = {"float64": forces, "float32": forces_in_single}
QUANTA: Mapping[str, QuantaOf] = {"float32": Quanta}
PAIR_FORCES: Mapping[str, PairForces] = {
    "float64": pair_forces,
    "float32": pair_forces_in_single,
}
