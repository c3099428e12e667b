"""Baselines of LeanMD: LAMMPS, and LeanMD's own force loop without exact sums."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from benchmarks.common import stepped
from miniapps.devices.backend import Device
from miniapps.devices.cpu.compiler import DISTINCT
from miniapps.devices.cpu.vectors import WIDTH, broadcast, fma, load, numbers, store
from miniapps.kernels.leanmd import cpu as leanmd_cpu
from miniapps.kernels.leanmd.cpu.interactions import pipelined
from miniapps.kernels.leanmd.units import FAR, FORCE_UNIT
from miniapps.leanmd import Problem
from miniapps.leanmd.block import LeanmdBlock
from miniapps.workbench.reproduce.peers import INPUT, LISTS

BIN = Path(sys.executable).parent


@njit(inline="always")
def _add_floats(pairs, sums):
    """The kernel's function, with sums of floats."""
    dx, dy, dz, inverse2 = pairs
    fx, fy, fz = sums
    inverse6 = inverse2 * inverse2 * inverse2
    pull = fma(broadcast(48.0), inverse6, broadcast(-24.0)) * (inverse6 * inverse2)
    return fma(pull, dx, fx), fma(pull, dy, fy), fma(pull, dz, fz)


@njit(error_model="numpy", **DISTINCT)
def float_forces(position, clusters, starts, neighbors, cutoff, force):
    """The kernel `forces` with sums of floats, whose last bits depend on the order."""
    x, y, z = position[0], position[1], position[2]
    cutoff2, always = broadcast(cutoff * cutoff), numbers() != broadcast(-1)
    closest, zero = broadcast(FAR), broadcast(0.0)
    for k in clusters:
        first = np.uint64(k) * np.uint64(WIDTH)
        xi, yi, zi = load(x, first), load(y, first), load(z, first)
        no_pairs = zero, zero, zero, zero
        state = (zero, zero, zero), closest, no_pairs, no_pairs
        for n in range(np.uint64(starts[k]), np.uint64(starts[k + 1])):
            j = neighbors[n]
            dx, dy, dz = xi - broadcast(x[j]), yi - broadcast(y[j]), zi - broadcast(z[j])
            state = pipelined(_add_floats, dx, dy, dz, always, cutoff2, state)
        for member in range(WIDTH):
            j = first + np.uint64(member)
            dx, dy, dz = xi - broadcast(x[j]), yi - broadcast(y[j]), zi - broadcast(z[j])
            others_only = numbers() != broadcast(member)
            state = pipelined(_add_floats, dx, dy, dz, others_only, cutoff2, state)
        sums, closest, before_last, last = state
        fx, fy, fz = _add_floats(last, _add_floats(before_last, sums))
        store(force[0], first, fx)
        store(force[1], first, fy)
        store(force[2], first, fz)


def melted(lattice: tuple[int, int, int], steps: int, where: Device) -> LeanmdBlock:
    """A block with all atoms of a melt after some steps."""
    return stepped("leanmd", Problem(lattice=lattice), steps, where)


def cost_of_exactness(cells: int, steps: int, trials: int) -> dict[str, float]:
    """Nanoseconds per atom of the force loop with exact and float sums, and their difference."""
    block = melted((cells,) * 3, steps, Device())
    atoms, lists = block.atoms, block.lists
    exact, floating = atoms.force.copy(), np.zeros(atoms.force.shape)
    clusters, where_to = lists.all_clusters, (lists.starts, lists.neighbors)
    seconds: dict[str, list[float]] = {"exact": [], "float": []}
    for _ in range(trials + 1):
        start = time.perf_counter()
        leanmd_cpu.forces(
            atoms.position, atoms.position, clusters, 0, clusters.size, *where_to, True, 2.5, exact,
            atoms.error_flags,
        )  # fmt: skip
        middle = time.perf_counter()
        float_forces(atoms.position, clusters, *where_to, 2.5, floating)
        seconds["exact"].append(middle - start)
        seconds["float"].append(time.perf_counter() - middle)
    own = slice(None), slice(atoms.count)
    difference = np.abs(exact[own] * FORCE_UNIT - floating[own]).max()
    if difference > 1e-9 * np.abs(floating[own]).max():
        raise RuntimeError(f"the two loops differ by {difference}")
    result: dict[str, Any] = {
        f"{name}_ns_per_atom": float(np.median(times[1:])) / atoms.count * 1e9
        for name, times in seconds.items()
    }
    return result | {"largest_difference": float(difference)}


def lammps_rdf(
    cells: int, steps: int, frames: int, between: int, farthest: float, bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and g(r) there of LAMMPS's own melt, averaged over the last frames of a run."""
    every = LISTS["in time"]
    script = INPUT.format(cells=cells, steps=steps, warmup=0, **every).replace("run 0\n", "")
    script = script.replace(
        f"run {steps}",
        f"comm_modify cutoff {farthest + 0.5}\n"
        f"compute rdf all rdf {bins} cutoff {farthest}\n"
        f"fix rdf all ave/time {between} {frames} {steps} c_rdf[*] file rdf.txt mode vector\n"
        f"run {steps}",
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "in.lj").write_text(script)
        command = [str(BIN / "lmp"), "-in", "in.lj", "-log", "none"]
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
        table = np.loadtxt(Path(folder) / "rdf.txt", skiprows=4)
    return table[:, 1], table[:, 2]
