"""Kernels of LeanMD on the GPU."""

from __future__ import annotations

from collections.abc import Mapping

from miniapps.kernels.leanmd.gpu.exchange import (
    arrange,
    choose,
    end_here,
    first_outside,
    gather,
    place,
)
from miniapps.kernels.leanmd.gpu.interactions import WIDTH, energies, forces, forces_in_single
from miniapps.kernels.leanmd.gpu.motion import (
    adjust,
    clear,
    draw,
    kick,
    kick_and_drift,
    sums_of_motion,
)
from miniapps.kernels.leanmd.gpu.neighbours import fill_lists, sort_into_bins
from miniapps.kernels.leanmd.gpu.pairs import (
    pack_positions,
    pair_forces,
    pair_forces_in_single,
    pair_lists,
    rows_of,
    sent_positions,
)
from miniapps.kernels.leanmd.gpu.single import Quanta
from miniapps.kernels.leanmd.interface import Forces, PairForces, QuantaOf

FORCES: Mapping[str, Forces] = {"float64": forces, "float32": forces_in_single}
QUANTA: Mapping[str, QuantaOf] = {"float32": Quanta}
PAIR_FORCES: Mapping[str, PairForces] = {
    "float64": pair_forces,
    "float32": pair_forces_in_single,
}
