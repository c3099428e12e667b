"""GROMACS on LeanMD's melt: argon atoms on a lattice, Lennard-Jones with a plain cutoff.

Its mixed precision has forces in float32. Lists reach 0.3 sigma beyond the cutoff and are rebuilt
every `NSTLIST` steps; the automatic buffer, which would choose another reach, is off.
"""

from __future__ import annotations

import itertools
import math
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

NSTLIST = 10
SIGMA, EPSILON, MASS = 0.34, 0.996, 39.948  # nm, kJ/mol, u: argon
TAU = SIGMA * math.sqrt(MASS / EPSILON)  # ps
KELVIN = EPSILON / 0.00831446  # of one epsilon / k
SETTINGS, TOPOLOGY = (Path(__file__).with_suffix(kind).read_text() for kind in (".mdp", ".top"))


def is_there() -> bool:
    """Whether GROMACS is installed."""
    return shutil.which("gmx") is not None


def rate(cells: int, cores: int, steps: int, warmup: int) -> dict[str, float]:
    """Atom-steps per second of a melt after a warm-up, and the energy drift.

    The drift is in epsilon per atom and step.
    """
    atoms = 4 * cells**3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, cells, steps + warmup)
        _gmx(folder, "grompp", "-f", "melt.mdp", "-c", "melt.gro", "-p", "melt.top", "-maxwarn", 9)
        pinned = "-ntmpi", 1, "-ntomp", cores, "-pin", "on"
        _gmx(folder, "mdrun", *pinned, "-s", "topol.tpr", "-resetstep", warmup, "-noconfout")
        log = (folder / "md.log").read_text()
    (seconds,) = re.findall(r"^ +Time: +\S+ +(\S+) ", log, re.MULTILINE)
    (drift,) = re.findall(r"Conserved energy drift: (\S+) kJ/mol/ps per atom", log)
    return {
        "atom_steps_per_s": atoms * (steps + 1) / float(seconds),  # it counts the last forces, too
        "drift": float(drift) / EPSILON * 0.005 * TAU,
    }


def _write(folder: Path, cells: int, steps: int) -> None:
    """Write the input: settings, topology and a face-centred cubic lattice of density 0.8442."""
    side = (4 / 0.8442) ** (1 / 3) * SIGMA
    corners = (0, 0, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0)
    sites = itertools.product(itertools.product(range(cells), repeat=3), corners)
    lines = ["melt", str(4 * cells**3)]
    for number, (cell, corner) in enumerate(sites, 1):
        at = (f"{(a + b) * side:12.7f}" for a, b in zip(cell, corner, strict=True))
        lines.append(f"{number % 100000:5}Ar      Ar{number % 100000:5}{''.join(at)}")
    lines.append(" ".join([f"{cells * side:.7f}"] * 3))
    (folder / "melt.gro").write_text("\n".join(lines) + "\n")
    topology = TOPOLOGY.format(mass=MASS, sigma=SIGMA, epsilon=EPSILON, atoms=4 * cells**3)
    (folder / "melt.top").write_text(topology)
    settings = SETTINGS.format(
        steps=steps, dt=0.005 * TAU, nstlist=NSTLIST, cutoff=2.5 * SIGMA, rlist=2.8 * SIGMA,
        kelvin=1.44 * KELVIN,
    )  # fmt: skip
    (folder / "melt.mdp").write_text(settings)


def _gmx(folder: Path, *words: object) -> None:
    """Run GROMACS in a folder. Raises CalledProcessError."""
    command = ["gmx", "-quiet", *map(str, words)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
