"""The cost of a message under each driver, in runs of echo, whose messages identify themselves.

Seconds per step over messages per PE and step (two phases, one message per edge and phase; 4 edges
per block, because the grid is periodic). ``whole`` is all of it, ``block`` the time in which blocks
make and check messages, ``driver`` the rest, and ``uneven`` the part of ``driver`` in which PEs
wait for the PE whose blocks took longest in that step.

On one PE, all messages stay there; of two PEs, ``crossing`` is the share of a PE's messages that
go to the other one. The same exchange without this project (`bare_mpi4py.py`, `bare_charm4py.py`)
runs in the same turns.
"""

from __future__ import annotations

import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import in_turn, median, printed, run, save
from miniapps.drivers.charm.datagrams import transport_options
from miniapps.drivers.mpi import DRIVER

PHASES, EDGES = 2, 4
TRIALS = 3
BYTES = (64, 1024, 32768)
STEPS = 1000


def configurations(size: int) -> dict[str, list[object]]:
    """The runs for one message size."""
    base: list[object] = ["echo", "--bytes", size, "--steps", STEPS, "--warmup", 50]
    charm: list[object] = [*base, "--driver", "charm"]
    return {
        "serial, 1 block": [*base, "--pe-grid", "1x1"],
        "serial, 8 blocks": [*base, "--pe-grid", "4x2"],
        "mpi, 2 ranks": [*base, "--driver", "mpi", "-n", 2],
        "charm, 1 PE, ODF 1": [*charm, "-n", 1],
        "charm, 1 PE, ODF 4": [*charm, "-n", 1, "--odf", 4],
        "charm, 1 PE, ODF 8": [*charm, "-n", 1, "--odf", 8],
        "charm, 2 PEs, ODF 1": [*charm, "-n", 2],
        "charm, 2 PEs, ODF 4": [*charm, "-n", 2, "--odf", 4],
        "charm, 2 PEs, ODF 8": [*charm, "-n", 2, "--odf", 8],
    }


def cost(records: list[dict[str, Any]]) -> dict[str, float]:
    """Microseconds per message and PE: all, and inside the blocks, which make and check them."""
    blocks = records[0]["blocks"][0] * records[0]["blocks"][1]
    per_pe = PHASES * EDGES * blocks / records[0]["pes"]
    steps = records[0]["steps"]
    inside = [r["compute_s"] / r["pes"] / steps for r in records]
    whole = [r["wall_s"] / steps for r in records]
    uneven = [
        statistics.fmean(map(lag, zip(*r["rounds"]["compute_s"], strict=True))) for r in records
    ]
    return {
        "whole_us": median(1e6 * seconds / per_pe for seconds in whole),
        "block_us": median(1e6 * seconds / per_pe for seconds in inside),
        "driver_us": median(1e6 * (w - i) / per_pe for w, i in zip(whole, inside, strict=True)),
        "uneven_us": median(1e6 * seconds / per_pe for seconds in uneven),
        "crossing": 0.0 if records[0]["pes"] == 1 else crossing(records[0]["blocks"]),
    }


def lag(pes: tuple[float, ...]) -> float:
    """How much longer the slowest PE computed in a step than the average PE."""
    return max(pes) - statistics.fmean(pes)


def crossing(blocks: list[int]) -> float:
    """The share of messages that go to the other PE, of two PEs cut along the first axis."""
    rows = blocks[0] // 2
    return 2 * (2 / rows if rows > 1 else 2) / 2 / EDGES


def bare(size: int) -> dict[str, list[object]]:
    """The commands of the same exchange without this project."""
    here = Path(__file__).parent
    mpiexec: list[object] = [DRIVER.launcher_path(None), "-n", 2, sys.executable]
    charmrun: list[object] = [sys.executable, "-m", "charmrun.start", "+p2"]
    options = ["++local", "++quiet", *transport_options(2)]
    charm4py = [*charmrun, here / "bare_charm4py.py", size, STEPS]
    return {
        "bare mpi4py": [*mpiexec, here / "bare_mpi4py.py", size, STEPS],
        "bare Charm4Py": [*charm4py, "direct", *options],
        "bare Charm4Py, pickled": [*charm4py, "pickled", *options],
    }


def main() -> None:
    """Measure every message size."""
    results: dict[str, Any] = {}
    for size in BYTES:
        runs = {name: partial(run, *arguments) for name, arguments in configurations(size).items()}
        others = {name: partial(printed, command) for name, command in bare(size).items()}
        for name, found in in_turn(runs | others, TRIALS).items():
            value = cost(found) if name in runs else {"bare_us": median(found)}
            results[f"{name}, {size} B"] = value
    save("messages", results)


if __name__ == "__main__":
    main()
