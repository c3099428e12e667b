"""What it saves that PEs of Charm4Py give up their cores while they wait.

    python -m benchmarks.messages.yielding

Milliseconds per step of runs in turn, and of runs whose PEs keep their cores, over them: with more
PEs than cores, and with a core for each PE. In about two minutes, on two cores.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.common import in_turn, run, save, spread

TRIALS = 7  # the smallest and the largest ratio are a 98 % interval of the median
KEEPS = "import os\nos.sched_yield = lambda: None\n"
CHARM: list[object] = ["--driver", "charm", "--audit", 0, "-n"]
CASES: dict[str, list[object]] = {
    "jacobi2d 256x256, 4 PEs": ["jacobi2d", "--size", "256x256", "--steps", 200, *CHARM, 4],
    "leanmd, preset tiny, 3 PEs": ["leanmd", "--preset", "tiny", *CHARM, 3],
    "jacobi2d 256x256, 2 PEs": ["jacobi2d", "--size", "256x256", "--steps", 400, *CHARM, 2],
    "echo, 1 KB, 2 PEs": ["echo", "--bytes", 1024, "--steps", 400, *CHARM, 2],
}


def step_ms(words: list[object]) -> float:
    """Milliseconds per step of a run."""
    record = run(*words)
    return float(record["wall_s"] / record["steps"] * 1e3)


def keeping(words: list[object], folder: str) -> float:
    """The same if PEs keep their cores; ``folder``: with a program that every process begins by."""
    with mock.patch.dict(os.environ, PYTHONPATH=folder):
        return step_ms(words)


def main() -> None:
    """Measure every case."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(KEEPS)
        for name, words in CASES.items():
            calls = {"gives up": partial(step_ms, words), "keeps": partial(keeping, words, folder)}
            found = in_turn(calls, TRIALS)
            ratios = (keeps / mine for mine, keeps in zip(*found.values(), strict=True))
            results[name] = {f"{how}, ms": spread(times) for how, times in found.items()}
            results[name]["keeps over gives up"] = spread(ratios)
    save("yielding", results)


if __name__ == "__main__":
    main()
