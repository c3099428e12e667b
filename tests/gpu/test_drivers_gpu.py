"""Launched runs on the GPU: staging, GPU-aware MPI, sums over PEs, migration of device state."""

from __future__ import annotations

from typing import Any

import pytest

from devices.cuda.compiler import simulated

# Real MPI here may not take a GPU's memory, and then only the simulator's, which is the host's.
AWARE = "on" if simulated() else "auto"
LAUNCHES = [
    ("jacobi2d", "--size 9x7 --time-tile 1 --boundary periodic", f"mpi -n 2 --gpu-aware {AWARE}"),
    ("stencil3d", "--size 4x3x5 --time-tile 2 --dtype float32", "mpi -n 2"),
    ("jacobi2d", "--size 9x11 --time-tile 1", "charm -n 2 --odf 4 --balancer Rotate --lb-period 1"),
    (
        "stencil3d",
        "--size 4x3x5 --time-tile 1",
        "charm -n 2 --odf 2 --balancer Rotate --lb-period 1",
    ),
]
ATOMS = (  # atoms on a block's border leave it in the first step, others feel those beyond it
    "leanmd --lattice 4x2x2 --density 0.5 --cutoff 1.5 --skin 0.3 --temperature 9 --rebuild 1 "
    "--steps 2 --warmup 0 --timeout 200"
)


@pytest.mark.parametrize(("app", "problem", "driver"), LAUNCHES)
def test_same_bits_under_every_driver(app: str, problem: str, driver: str, run_record: Any) -> None:
    """Catches staging that loses, doubles or mixes up messages, and migrations that lose state."""
    words = [app, *problem.split(), "--initial", "noise", "--steps", "2", "--driver"]
    cpu = run_record(*words, *driver.split("--gpu-aware")[0].split())
    gpu = run_record(*words, *driver.split(), "--device", "gpu")
    assert gpu["valid"] and gpu["state_hash"] == cpu["state_hash"]
    assert gpu["migrations"] == cpu["migrations"]
    assert (gpu["migrations"] > 0) == ("Rotate" in driver)
    assert cpu["transport"] is None and cpu["gpu"] is None
    assert (gpu["gpu"] == "numba's simulator") == simulated()
    staged = "-n 2" in driver and gpu["transport"]["path"] == "staged"
    assert (gpu["transport"]["staged_bytes"] > 0) == staged
    assert ("aware on" in driver) <= (gpu["transport"]["path"] == "gpu-aware")


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "driver",
    [f"mpi -n 2 --gpu-aware {AWARE}", "charm -n 2 --odf 2 --balancer Rotate --lb-period 1"],
)
def test_atoms_in_blocks_under_every_driver(driver: str, run_record: Any) -> None:
    """Catches ghosts and leavers that are lost on their way over the host, or with their block."""
    words = [*ATOMS.split(), "--driver"]
    cpu = run_record(*words, *driver.split("--gpu-aware")[0].split())
    gpu = run_record(*words, *driver.split(), "--device", "gpu", timeout=300)
    assert gpu["valid"] and gpu["state_hash"] == cpu["state_hash"]
    assert gpu["migrations"] == cpu["migrations"] and (gpu["migrations"] > 0) == ("odf" in driver)
    assert gpu["thermo"] == cpu["thermo"] and cpu["thermo"][-1]["potential"] < -1
    staged = gpu["transport"]["path"] == "staged"
    assert staged == (gpu["transport"]["staged_bytes"] > 0)
    assert staged or "aware" in driver
    assert ("aware on" in driver) <= (not staged)


PAIRS = (
    "leanmd --decomposition pairs --cells 3x3x3 --per-cell 1 --cutoff 1.3 --skin 0.2 --dt 0.01 "
    "--density 0.7 --temperature 6 --thermo 1 --rebuild 9 --steps 2 --warmup 0 --timeout 200"
)


@pytest.mark.timeout(400)
def test_pairs_of_cells_on_several_pes(run_record: Any) -> None:
    """Catches sums that reach another PE early, twice or not at all, and computes that cannot move.

    Cells get sums from their own PE, on the device, and from the other, over the host.
    """
    words = PAIRS.split()
    right = run_record(*words)
    charm = "--driver", "charm", "-n", "2", "--balancer", "Rotate", "--lb-period", "1"
    seen = run_record(*words, *charm, "--device", "gpu", timeout=300)
    assert seen["valid"] and seen["state_hash"] == right["state_hash"]
    assert seen["thermo"] == right["thermo"] and seen["migrations"] == 14 * 27 + 27
    assert seen["transport"]["path"] == "staged" and seen["transport"]["staged_bytes"] > 0
