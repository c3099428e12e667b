"""All that is around kernels as it runs on a GPU, on a driver that has none.

numba's simulator has device arrays, streams and copies of its own. Here they are those of
numba-cuda, kernels are compiled, linked and launched by it, and only NVIDIA's driver
(gpu/hollow/libcuda.c) and CuPy (gpu/hollow/python/cupy.py) stand in. The simulator computes what is
launched. What CuPy itself does, machine code and the order of streams stay unchecked.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import skips
import support

HOLLOW = Path(__file__).parent / "gpu" / "hollow"
RUN_S = 280.0
ATOMS = (
    "leanmd --lattice 3x2x2 --density 0.5 --cutoff 1.3 --skin 0.2 --temperature 9 --rebuild 1 "
    "--steps 2 --warmup 0"
)
PAIRS = (
    "leanmd --cells 3x3x3 --per-cell 1 --cutoff 1.3 --skin 0.2 --dt 0.01 --density 0.7 "
    "--temperature 6 --thermo 1 --rebuild 9 --steps 1 --warmup 0"
)
GRID = "--initial noise --steps 4 --warmup 0"
PARTICLES = "pic --size 24 --particles 60 -k 1 -m -2 --steps 4 --warmup 0"
ROTATE = "--driver charm -n 2 --odf 2 --balancer Rotate --lb-period 1"
RUNS = [  # a problem, and how it runs on the GPU
    (f"jacobi2d --size 9x7 {GRID} --tolerance 1e-30 --check-every 3", "--blocks 2x2 --time-tile 3"),
    (f"jacobi2d --size 9x11 {GRID}", f"--time-tile 1 {ROTATE}"),
    (f"stencil3d --size 4x3x5 {GRID} --dtype float32", "--time-tile 2 --driver mpi -n 2"),
    (PARTICLES, "--driver mpi -n 2 --gpu-aware on"),  # which takes the host's memory
    (PARTICLES, ROTATE),
    (ATOMS, ROTATE),
    (PAIRS, "--decomposition pairs"),
]


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which there is a GPU, as far as Python's packages can tell."""
    skips.without("hollow")
    folder = tmp_path_factory.mktemp("hollow")
    compiler = ["cc", "-shared", "-fPIC", "-w", "-o", str(folder / "libcuda.so.1")]
    subprocess.run([*compiler, str(HOLLOW / "libcuda.c"), "-ldl"], check=True)
    paths = {"LD_LIBRARY_PATH": folder, "PYTHONPATH": HOLLOW / "python"}
    before = {name: os.environ[name].split(":") for name in paths if name in os.environ}
    found = {name: ":".join([str(path), *before.get(name, [])]) for name, path in paths.items()}
    return found | {"NUMBA_CACHE_DIR": str(folder / "cache")}


@pytest.mark.timeout(2 * RUN_S + 60)
@pytest.mark.parametrize(("problem", "way"), RUNS)
def test_runs_end_as_on_the_cpu(
    problem: str, way: str, run_record: Callable[..., Any], surroundings: dict[str, str]
) -> None:
    """Catches calls of numba-cuda that are wrong, or right in its simulator only."""
    cpu = run_record(*problem.split())
    words = [*problem.split(), *way.split(), "--device", "gpu"]
    gpu = run_record(*words, timeout=RUN_S, env=surroundings)
    assert gpu["gpu"] == "hollow" and gpu["valid"]
    assert gpu["state_hash"] == cpu["state_hash"]
    assert (gpu["migrations"] > 0) == ("Rotate" in way)
    staged = "-n 2" in way and "aware" not in way
    assert (gpu["transport"]["staged_bytes"] > 0) == staged
    assert (gpu["transport"]["path"] == "gpu-aware") == ("aware" in way)


def test_memory_that_nobody_has_written_shows(surroundings: dict[str, str]) -> None:
    """Catches a stand-in whose fresh memory is zeros, so that reading it looks right."""
    program = "import cupy; print(cupy.empty(3, 'f8').max() > 1e300, cupy.zeros(2, 'i8').sum())"
    done = support.execute([support.BIN / "python", "-c", program], env=surroundings)
    assert done.stdout.split() == ["True", "0"]


@pytest.mark.parametrize(("threads", "status"), [(128, 0), (2048, 1)])
def test_launches_that_no_gpu_takes_fail(
    threads: int, status: int, surroundings: dict[str, str]
) -> None:
    """Catches a driver that takes any grid, and warnings of grids that are small."""
    program = (
        "import numba, numpy as np\nfrom devices import backend as device\n"
        "from kernels import load\n"
        "gpu, stencil = device.get('gpu'), load('jacobi2d', 'gpu')\n"
        "field, other = (gpu.to_device(np.ones((4, 4))) for _ in range(2))\n"
        f"stencil.THREADS = {threads}\nstencil.sweep(field, other, 1, 3, 1, 3)"
    )
    done = support.execute([support.BIN / "python", "-c", program], env=surroundings)
    assert done.returncode == status
    assert ("HOLLOW_ERROR" in done.stderr) if status else (done.stderr == "")
