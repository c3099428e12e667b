"""Draw docs/figures/leanmd.png: energy over time, g(r) beside LAMMPS, load before and after."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy.spatial import cKDTree

from benchmarks.apps.leanmd_baselines import lammps_rdf
from benchmarks.common import ROOT, run
from miniapps.drivers.timing import compute_per_pe
from miniapps.workbench.show.captions import command_text, machine_text, problem_text, wrapped
from miniapps.workbench.show.marks import blank_figure, draw_curve, finish_curves, upper_limit
from miniapps.workbench.show.plots import COLOURS

TARGET = ROOT / "docs/figures/leanmd.png"
LATTICE = "12x12x12"
MELT: list[object] = ["leanmd", "--lattice", LATTICE, "--shift"]
EQUILIBRATED = 50  # steps, after which energies change little
FRAMES, BETWEEN = 20, 50
LETTERS = 120  # of a line of the title
FARTHEST, BINS = 4.0, 160  # of g(r), sigma
GRADIENT: list[object] = [
    "leanmd", "--preset", "paper", "--gradient", "100,250", "--pe-grid", "2x1x1", "--odf", 8,
    "--driver", "charm", "-n", 2, "--balancer", "Greedy", "--lb-period", 100, "--steps", 200,
]  # fmt: skip


def radial_distribution(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Distances and g(r) there, averaged over the last frames of a trajectory."""
    edges = np.linspace(0, FARTHEST, BINS + 1)
    with h5py.File(path) as file:
        box = file["particles/atoms/box/edges"][...]
        position = file["particles/atoms/position/value"]
        counts = np.zeros(BINS)
        for frame in range(-FRAMES, 0):
            tree = cKDTree(position[frame + len(position)] % box, boxsize=box)
            counts += np.diff(tree.count_neighbors(tree, edges, cumulative=True))
        atoms = position.shape[1]
    shells = 4 / 3 * np.pi * np.diff(edges**3)
    ideal = atoms**2 / np.prod(box) * shells * FRAMES
    return (edges[1:] + edges[:-1]) / 2, counts / ideal


def draw_energy(axes: Any, thermo: list[dict[str, Any]]) -> None:
    """Plot kinetic, potential and total energy per atom, minus their means of the second half."""
    thermo = [row for row in thermo if row["step"] >= EQUILIBRATED]
    steps = [row["step"] for row in thermo]
    for name, colour in zip(("kinetic", "potential", "total"), COLOURS, strict=False):
        values = np.array([row[name] for row in thermo])
        axes.plot(steps, values - values[len(values) // 2 :].mean(), color=colour, label=name)
    title = "energy per atom minus its mean at the end"
    axes.set_title(title, fontsize=10)
    axes.set(xlabel="step", ylabel="energy [epsilon]")
    axes.legend()


def draw_load(axes: Any, path: Path) -> dict[str, Any]:
    """Plot each PE's compute time per step, before and after load balancing; returns the record."""
    with h5py.File(path) as file:
        record = json.loads(file.attrs["record"])
        rounds = file["timing/rounds"][...]
        compute = compute_per_pe(file["timing/blocks"][...], record["pes"], len(rounds))
    compute = 1e3 * compute / rounds[:, 1]
    top = upper_limit(compute.max(axis=0))
    for pe, values in enumerate(compute):
        look = {"color": COLOURS[pe], "linewidth": 0.8, "label": f"PE {pe}"}
        draw_curve(axes, rounds[:, 0], values, top, **look)
    axes.set_title("load of each PE", fontsize=10)
    axes.set(xlabel="step", ylabel="computing [ms per step]")
    finish_curves(axes, top, compute.max(), [entry["step"] for entry in record["lb"]])
    return record


def titled(where: str, record: dict[str, Any]) -> str:
    """Which panels show a run, its command line and its problem."""
    return f"{where}: {command_text(record)}, {problem_text('leanmd', [record['problem']])}"


def main() -> None:
    """Make the runs and draw the figure."""
    figure = blank_figure(12.5, 4.4)
    energy, rdf, load = figure.subplots(1, 3)
    with tempfile.TemporaryDirectory() as folder:
        trajectory, balanced = Path(folder) / "melt.h5", Path(folder) / "balanced.h5"
        steps = 2 * FRAMES * BETWEEN
        record = run(*MELT, "--steps", steps, "--thermo", 10, "--trajectory", BETWEEN,
                     "--output", trajectory)  # fmt: skip
        draw_energy(energy, record["thermo"])
        r, g = radial_distribution(trajectory)
        theirs_r, theirs_g = lammps_rdf(12, steps, FRAMES, BETWEEN, FARTHEST, BINS)
        rdf.plot(r, g, color=COLOURS[0], label="leanmd")
        rdf.plot(theirs_r, theirs_g, color=COLOURS[1], linestyle=":", label="LAMMPS")
        rdf.set_title("pair correlation of the melt", fontsize=10)
        rdf.set(xlabel="r [sigma]", ylabel="g(r)")
        rdf.legend()
        print("first peak", r[g.argmax()], g.max())
        print("LAMMPS", theirs_r[theirs_g.argmax()], theirs_g.max())
        print("largest difference", np.abs(np.interp(r, theirs_r, theirs_g) - g).max())
        run(*GRADIENT, "--output", balanced)
        titles = titled("left and middle", record), titled("right", draw_load(load, balanced))
    said = [*(wrapped(title, LETTERS) for title in titles), machine_text([record["host"]])]
    figure.suptitle("\n".join(said), fontsize=9)
    figure.savefig(TARGET, dpi=110)


if __name__ == "__main__":
    main()
