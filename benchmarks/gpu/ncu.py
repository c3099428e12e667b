"""Profiles of kernels that are below their targets, by NVIDIA's Nsight Compute.

    python -m benchmarks.gpu.ncu    prints a table of values per launch as CSV, for each run

Launches of the first steps are skipped. The GPU's clocks are left as they are, so durations compare
with those of `bench.py`. Counting needs a right that some machines give to root only. Exit status:
0, 1 if a profile failed, 2 if there is no ``ncu``.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from benchmarks.common import MINIAPPS
from benchmarks.gpu.check import execute

SKIPPED, COUNTED = 150, 40  # launches
SECTIONS = "SpeedOfLight", "Occupancy", "LaunchStats", "WarpStateStats", "MemoryWorkloadAnalysis"
RUNS = {
    "stencil3d": "stencil3d --size 512x512x512 --time-tile 1 --steps 200 --warmup 2",
    "leanmd, float32": "leanmd --lattice 60x60x60 --dtype float32 --steps 60 --warmup 2",
}
RUN_S = 80.0  # the limit of a profile
PROFILED, FAILED, NO_PROFILER = 0, 1, 2


def profiler() -> str | None:
    """The path of ncu: from PATH, or from CUDA_HOME."""
    places = os.environ.get("PATH", ""), str(Path(os.environ.get("CUDA_HOME", ""), "bin"))
    return shutil.which("ncu", path=os.pathsep.join(places))


def command(program: str, words: str) -> list[str]:
    """The command that profiles a run."""
    options = ["--target-processes", "all", "--launch-skip", str(SKIPPED), "-c", str(COUNTED)]
    sections = [word for section in SECTIONS for word in ("--section", section)]
    options += [*sections, "--clock-control", "none", "--csv"]
    run = [*MINIAPPS, "run", *words.split(), "--audit", "0", "--device", "gpu"]
    return [program, *options, *run]


def main() -> int:
    """Profile all runs."""
    program, failed = profiler(), False
    if program is None:
        print("gpu-ncu: there is no ncu", file=sys.stderr)
        return NO_PROFILER
    for name, words in RUNS.items():
        print(f"{name}: {words}", flush=True)
        done = execute(command(program, words), RUN_S)  # with all that ncu has started
        print(done.stdout, done.stderr, sep="", flush=True)
        if done.status is None:
            print(f"{name} took longer than {RUN_S:.0f} s", flush=True)
        failed |= done.status != 0
    return FAILED if failed else PROFILED


if __name__ == "__main__":
    sys.exit(main())
