"""Broadcast and gather by files, as trees and flat, beside mpi; and a model of their cost to 768.

    python -m benchmarks.messages.trees [ranks ...]

Three sizes, as in pPython (Byun et al., 2023). The model takes the cost of a message from the
ping-pong on two ranks (`communication/file/model.py`). More ranks than cores share the cores, which
the model does not know. Numbers of ranks that are not named keep their results.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from benchmarks.common import MINIAPPS, earlier, save
from miniapps.communication.file import FLAT, TREE
from miniapps.communication.file.model import Line, broadcast_s, gather_s

SIZES = (8, 8192, 8 << 20)  # bytes; the last is 1024 times the one before, as that is
FACTOR = 1024
RANKS = (2, 4, 8)
MODELLED = (2, 4, 8, 16, 32, 64, 128, 256, 512, 768)
MODELS: dict[str, Any] = {"bcast": broadcast_s, "gather": gather_s}
TRIALS, ITERATIONS = 3, 5
US = 1e6


def measured(name: str, driver: str, ranks: int, *words: object) -> dict[int, float]:
    """Microseconds by size: of the slowest rank, as all wait for it. Raises RuntimeError."""
    span = f"{SIZES[0]}:{SIZES[-1]}:{FACTOR}"
    options = ["-n", ranks, "-m", span, "-i", ITERATIONS, "-x", 2, "--trials", TRIALS, *words]
    line = [*MINIAPPS, "comm", name, "--driver", driver, *map(str, options), "--json", "-"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)}: status {done.returncode}: {done.stderr}")
    return {row["size"]: row["most"] for row in json.loads(done.stdout)["results"]}


def main() -> None:
    """Measure, and compute the model."""
    counts = [int(word) for word in sys.argv[1:]] or list(RANKS)
    messages = {driver: measured("latency", driver, 2) for driver in ("file", "mpi")}
    found = earlier("trees")
    found["latency, us"] = messages
    ends = [(size, messages["file"][size] / US) for size in (SIZES[0], SIZES[-1])]
    line = Line.through(*ends)
    for name, model in MODELS.items():
        for method in (TREE, FLAT):
            found.setdefault(f"{name}, {method}, us", {}).update(
                (str(ranks), measured(name, "file", ranks, "--method", method)) for ranks in counts
            )
            found[f"{name}, {method}, model, us"] = {
                ranks: {size: US * model(ranks, method, size, line) for size in SIZES}
                for ranks in MODELLED
            }
        found.setdefault(f"{name}, mpi, us", {}).update(
            (str(ranks), measured(name, "mpi", ranks)) for ranks in counts
        )
    save("trees", found)


if __name__ == "__main__":
    main()
