"""Messages between two PEs of a host: in shared memory, by MPI, and in Charm4Py's datagrams.

    python -m benchmarks.messages.shared_memory [messages] [apps] [tried]

``messages``: microseconds per message of a ping-pong, and of a window of messages that go forth
before one comes back. Every message is written before and read after, pack and unpack included;
with mpi4py alone, too. ``apps``: milliseconds per step of apps under mpi, and ratios to it of charm
and of mpi without shared memory, in runs made in turn, with the smallest and the largest one, and
what others took of the cores.
``tried``: the same ratio at ODF 8 with other options, and what as many blocks cost in one process,
where no message leaves it. The parts that are not named keep their results. `page.py`
writes the tables of the docs.

Runs are not audited: of so few rounds, those in which messages are hashed would be a large part.
Each run is checked against its reference, and the states of an app's runs with each other.
"""

from __future__ import annotations

import itertools
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import (
    earlier,
    in_turn,
    interleaved,
    median,
    printed,
    require_same_state,
    run,
    save,
    spread,
)
from miniapps.drivers.descriptor import program

HERE = Path(__file__).parent
TRIALS = 3
RUNS = 7  # of an app: the smallest and the largest are a 98 % interval of the median
TURNS = 20  # of `apps/pingpong`, per step
WINDOWS = 1, 16
SIZES = {1 << 10: 100, 1 << 16: 100, 1 << 18: 50, 1 << 19: 40, 1 << 20: 30, 1 << 22: 10}
SHARED, NOT_SHARED = ("--shared-memory", 1), ("--shared-memory", 0)
CHARM: tuple[object, ...] = ("--driver", "charm", "-n", 2)
MPI: tuple[object, ...] = ("--driver", "mpi", "-n", 2)
MPI_ALONE = "mpi, nothing shared"
UNAUDITED: tuple[object, ...] = ("--audit", 0)
APPS: dict[str, list[object]] = {
    "stencil3d 256x256x256, one sweep per exchange": [
        "stencil3d", "--size", "256x256x256", "--time-tile", 1, "--steps", 48, "--warmup", 8,
    ],
    "stencil3d 256x256x256, 8 sweeps per exchange": [
        "stencil3d", "--size", "256x256x256", "--time-tile", 8, "--steps", 96, "--warmup", 8,
    ],
    "stencil3d 256x256x256, 4 sweeps per exchange": [
        "stencil3d", "--size", "256x256x256", "--time-tile", 4, "--steps", 80, "--warmup", 8,
    ],
    "leanmd, a melt of 32000 atoms": [
        "leanmd", "--preset", "melt", "--steps", 200, "--warmup", 20,
    ],
    "leanmd, the published load": ["leanmd", "--preset", "paper", "--steps", 100, "--warmup", 20],
}  # fmt: skip
ODFS = (1, 8)
ODF_8: tuple[object, ...] = (*CHARM, "--odf", 8)
TRIED: dict[str, tuple[object, ...]] = {
    "ODF 8": ODF_8,
    "ODF 8, PEs pinned": (*ODF_8, "--pin"),
    "ODF 8, domain cut along z": (*ODF_8, "--pe-grid", "1x1x2"),
    "ODF 4": (*CHARM, "--odf", 4),
}
SKIN: dict[str, tuple[object, ...]] = {"ODF 8, a skin of 0.4": (*ODF_8, "--skin", 0.4)}
TRIED_WITH = {
    "stencil3d 256x256x256, 8 sweeps per exchange": TRIED,
    "leanmd, a melt of 32000 atoms": TRIED | SKIN,
    "leanmd, the published load": TRIED,
}
IN_ONE = "16 blocks over 2, in one process"
BLOCKS = {"2 blocks": "2x1x1", "16 blocks": "4x2x2"}  # in one process


def messages() -> dict[str, Any]:
    """Microseconds per message, by size and path."""
    os.environ["MINIAPPS_PATH"] = str(HERE / "apps")
    results: dict[str, Any] = {}
    for (size, most), window in itertools.product(SIZES.items(), WINDOWS):
        steps = max(1, most // window)
        words: list[object] = ["pingpong", "--bytes", size, "--window", window]
        words += ["--steps", steps, "--warmup", 5, *UNAUDITED]
        calls = {
            MPI_ALONE: partial(one_way, *words, *MPI, *NOT_SHARED),
            "mpi, shared memory": partial(one_way, *words, *MPI, *SHARED),
            "charm, datagrams": partial(one_way, *words, *CHARM, *NOT_SHARED),
            "charm, shared memory": partial(one_way, *words, *CHARM, *SHARED),
            "bare mpi4py": partial(bare, size, TURNS * steps, window),
        }
        found = in_turn(calls, TRIALS)
        case = f"{size} B, window {window}"
        results[case] = {name: median(values) for name, values in found.items()}
        for name in (MPI_ALONE, "charm, datagrams"):
            shared = found[f"{name.split(',')[0]}, shared memory"]
            ratios = (other / mine for other, mine in zip(found[name], shared, strict=True))
            results[case][f"{name} over shared memory"] = median(ratios)
    return results


def one_way(*words: object) -> float:
    """Microseconds per message of one run."""
    record = run(*words)
    messages = TURNS * (record["problem"]["window"] + 1)
    return float(record["wall_s"] / record["steps"] / messages * 1e6)


def bare(size: int, turns: int, window: int) -> float:
    """Microseconds per message with mpi4py alone."""
    peer = [sys.executable, HERE / "bare_pingpong.py", size, turns, window]
    return float(printed([program("mpiexec"), "-n", 2, *peer]))


def apps() -> dict[str, Any]:
    """Milliseconds per step under mpi, and other runs over mpi, by app, ODF and path."""
    results: dict[str, Any] = {}
    for name, words in APPS.items():
        problem = [*words, *UNAUDITED]
        runs = {"mpi": [*problem, *MPI], MPI_ALONE: [*problem, *MPI, *NOT_SHARED]}
        for odf in ODFS:
            for path, option in (("datagrams", NOT_SHARED), ("shared memory", ())):
                runs[f"ODF {odf}, {path}"] = [*problem, *CHARM, "--odf", odf, *option]
        results[name] = compared(name, interleaved(runs, RUNS))
    return results


def tried() -> dict[str, Any]:
    """Charm over mpi with other options, and 16 blocks over 2 in one process, by app."""
    results: dict[str, Any] = {}
    for name, options in TRIED_WITH.items():
        problem = [*APPS[name], *UNAUDITED]
        runs = {"mpi": [*problem, *MPI]}
        runs |= {option: [*problem, *words] for option, words in options.items()}
        serial = [*problem, "--driver", "serial", "--pe-grid"]
        runs |= {blocks: [*serial, grid] for blocks, grid in BLOCKS.items()}
        records = interleaved(runs, RUNS)
        found = compared(name, records)
        few, many = ([r["wall_s"] for r in records[blocks]] for blocks in BLOCKS)
        ratios = {option: found[f"{option} over mpi"] for option in options}
        ratios[IN_ONE] = spread(b / a for a, b in zip(few, many, strict=True))
        results[name] = ratios
    return results


def compared(name: str, records: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The results of an app from the records of its runs. Raises RuntimeError if states differ."""
    every = [record for found in records.values() for record in found]
    require_same_state(name, every)
    times = {run: [1e3 * r["wall_s"] / r["steps"] for r in found] for run, found in records.items()}
    ratios = {
        f"{run} over mpi": spread(
            mine / mpi for mine, mpi in zip(times[run], times["mpi"], strict=True)
        )
        for run in records
        if run != "mpi"
    }
    taken = {key: max(r["disturbance"][key] or 0.0 for r in every) for key in ("waited", "steal")}
    return {"mpi_step_ms": spread(times["mpi"])} | ratios | {"disturbance": taken}


def main() -> None:
    """Measure the parts named on the command line, or all."""
    parts = {"messages": messages, "apps": apps, "tried": tried}
    results = earlier("shared_memory")
    for name in sys.argv[1:] or parts:
        results[name] = parts[name]()
    save("shared_memory", results)


if __name__ == "__main__":
    main()
