"""Launched runs on a GPU: all paths of messages, sums over PEs, migration of what is on a device.

`test_drivers_gpu.py` makes them on a GPU, `tests/test_gpu_stub.py` on a driver without one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

GRID = "--initial noise --warmup 0"
PARTICLES = (
    "pic --size 24 --particles 60 -k 1 -m -2 --distribution geometric:0.9 --steps 4 --warmup 0 "
    "--event inject:1:50:2,9,3,8:0,3 --event remove:3:0,23,0,11:0.5"
)
BUNCHED = (  # all particles are in one cell, and go from block to block together
    "pic --size 24 --particles 200 -k 0 -m 3 --distribution patch:11,11,5,5 --steps 6 --warmup 0"
)
ATOMS = (  # atoms on a block's border leave it in the first step, others feel those beyond it
    "leanmd --lattice 4x2x2 --density 0.5 --cutoff 1.5 --skin 0.3 --temperature 9 --rebuild 1 "
    "--steps 2 --warmup 0"
)
STRAYING = (  # an atom uses up the skin in the fifth step, before it is time for new lists
    "leanmd --lattice 4x2x2 --density 0.5 --cutoff 1.5 --skin 0.3 --temperature 9 --rebuild 9 "
    "--steps 6 --warmup 0"
)
PAIRS = (
    "leanmd --decomposition pairs --cells 3x3x3 --per-cell 1 --cutoff 1.3 --skin 0.2 --dt 0.01 "
    "--temperature 6 --thermo 1 --rebuild 9 --steps 2 --warmup 0"
)
SOLVED = "cg --size 7x6x5 --solution noise --steps 4 --warmup 0"
MATRIX = "transpose --size 13 --steps 4 --warmup 0"
REFINED = (
    "amr --size 9x8 --refinement 4x3 --level 1 --period 3 --duration 2 --sub-iterations 1 "
    "--initial noise --steps 5 --warmup 0"
)
AWARE = "--driver mpi -n 2 --gpu-aware on"
ON_PES = "--driver charm -n 2"
ROTATE = f"{ON_PES} --balancer Rotate --lb-period 1"
SELDOM = f"{ON_PES} --balancer Rotate --lb-period 3"
STAGED = "--gpu-ipc off"


class Run(NamedTuple):
    """A problem, how it runs on the GPU, and how many blocks migrate on the way."""

    problem: str
    how: str
    migrations: int = 0

    @property
    def app(self) -> str:
        """The app."""
        return self.problem.split()[0]

    @property
    def words(self) -> list[str]:
        """The arguments of ``miniapps run``."""
        return f"{self.problem} {self.how} --device gpu".split()


TWO_RANKS = Run(f"jacobi2d --size 9x7 {GRID} --steps 6 --boundary periodic", "--driver mpi -n 2")
TWO_PES = Run(TWO_RANKS.problem, ON_PES)
MOVING = Run(f"jacobi2d --size 9x11 {GRID} --steps 4", f"--time-tile 1 {ROTATE} --odf 4", 24)
RUNS = [
    Run(
        f"jacobi2d --size 9x7 {GRID} --steps 4 --tolerance 1e-30 --check-every 3",
        "--pe-grid 2x2 --time-tile 3",
    ),
    Run(f"jacobi2d --size 9x7 {GRID} --steps 2 --boundary periodic", f"--time-tile 1 {AWARE}"),
    TWO_RANKS,
    TWO_PES,
    MOVING,
    Run(
        f"stencil3d --size 4x3x5 {GRID} --steps 4 --dtype float32",
        f"--time-tile 2 --driver mpi -n 2 {STAGED}",
    ),
    Run(f"stencil3d --size 4x3x5 {GRID} --steps 2", f"--time-tile 1 {ON_PES} --odf 2"),
    Run(f"stencil3d --size 4x3x5 {GRID} --steps 2", f"--time-tile 1 {ROTATE} --odf 2", 4),
    Run(PARTICLES, AWARE),
    Run(PARTICLES, "--driver file -n 2"),
    Run(PARTICLES, f"{ON_PES} --odf 2"),
    Run(PARTICLES, f"{ROTATE} --odf 2", 12),
    Run(BUNCHED, "--driver file -n 2"),
    Run(BUNCHED, f"{SELDOM} --odf 2", 4),
    Run(ATOMS, AWARE),
    Run(ATOMS, f"{ON_PES} --odf 2"),
    Run(ATOMS, f"{ROTATE} --odf 2", 4),
    Run(STRAYING, "--driver file -n 2"),
    Run(STRAYING, f"{SELDOM} --odf 2", 4),
    Run(PAIRS, ROTATE, 14 * 27 + 27),
    Run(f"{SOLVED} --pipelined", AWARE),
    Run(f"{SOLVED} --preconditioner sgs", f"{ROTATE} --odf 2 {STAGED}", 12),
    Run(f"{SOLVED} --preconditioner sgs", "--pe-grid 2x3x1"),
    Run(MATRIX, AWARE),
    Run(MATRIX, f"{ON_PES} --odf 2 {STAGED}"),
    Run(MATRIX, f"{ROTATE} --odf 2", 12),
    Run(f"{REFINED} --dtype float32", AWARE),
    Run(REFINED, "--pe-grid 2x2"),
    Run(f"{REFINED} --placement no-talk", f"{ROTATE} --odf 2", 20),
]


def check(run: Run, on_cpu: dict[str, Any], on_gpu: dict[str, Any]) -> None:
    """Compare the records of a serial run on the CPU and one on the GPU."""
    assert on_gpu["valid"] and on_gpu["device"] == "gpu"
    assert on_gpu["state_hash"] == on_cpu["state_hash"]
    assert on_gpu["migrations"] == run.migrations
    assert on_cpu["transport"] is None and on_cpu["gpu"] is None
    path = on_gpu["transport"]["path"] if "-n 2" in run.how else None
    wanted = "gpu-aware" if AWARE in run.how else "staged" if STAGED in run.how else "ipc"
    assert path in (wanted, None)
    # mpi copies a message to the host that comes before the block collects its phase. The host adds
    # forces of pairs.
    on_host = (run.app == "amr" and "mpi" in run.how) or run.problem == PAIRS
    assert on_host or (on_gpu["transport"]["staged_bytes"] > 0) == (path == "staged")
    if "leanmd" in run.problem:
        assert on_gpu["thermo"] == on_cpu["thermo"] and on_cpu["thermo"]
    if run.problem == ATOMS:
        assert on_cpu["thermo"][-1]["potential"] < -1
