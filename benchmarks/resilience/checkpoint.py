"""How fast checkpoints are written and read: beside the disk itself, plain h5py and NumPy.

All write the same bytes, a field of float64 in blocks, bring them to the disk, and remove the file.
The disk itself is written in order, from one buffer. A checkpoint is also hashed, which is shown by
itself. Writers take turns. Exit status 1 if a checkpoint has less than half of the bandwidth of the
disk. ``python -m benchmarks.resilience.checkpoint [MB] [FOLDER]``: 1000 MB in the current folder by
default.

``... --steps [MB] [FOLDER]`` measures what checkpoints cost a run instead: runs of jacobi2d without
them, and with one every `EVERY_S` seconds, written at once or beside the steps, take turns. The
cost of a checkpoint is the time in which steps stood still, and what rounds took longer than the
median round, over `EVERY_S`; of runs without checkpoints, it is what else disturbs them. Exit
status 1 if it is more than 5 % beside the steps of one PE.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from benchmarks.common import in_turn, interleaved, median, run, seconds, spread, write
from miniapps.contract import Piece
from miniapps.drivers.shares import Extent, Share, hashed
from miniapps.workbench.run.checkpoint import Hdf5Checkpoints, read_checkpoint

TRIALS, BLOCKS, CHUNK = 5, 16, 1 << 23
LEAST = 0.5  # of the bandwidth of the disk
EVERY_S, MOST = 20.0, 0.05  # between two checkpoints of a run, and their cost
RUNS, MADE = 3, 2  # of each kind, and checkpoints of each


def pieces_of(megabytes: int) -> list[Piece]:
    """A square field of so many MB, in blocks of rows."""
    side = max(BLOCKS, math.isqrt(megabytes * 10**6 // 8) // BLOCKS * BLOCKS)
    values = np.random.default_rng(1).random((side, side))
    rows = side // BLOCKS
    cuts = range(0, side, rows)
    return [Piece("u", values[low : low + rows], (low, 0), (side, side)) for low in cuts]


def of_disk(path: Path, pieces: list[Piece]) -> None:
    """Write as many bytes in order, without a library."""
    left, buffer = sum(piece.values.nbytes for piece in pieces), bytes(CHUNK)
    with path.open("wb", buffering=0) as file:
        while left > 0:
            left -= file.write(buffer[: min(left, CHUNK)])
        os.fsync(file.fileno())


def of_numpy(path: Path, pieces: list[Piece]) -> None:
    """Write the blocks one after another by NumPy."""
    with path.open("wb") as file:
        for piece in pieces:
            piece.values.tofile(file)
        file.flush()
        os.fsync(file.fileno())


def of_h5py(path: Path, pieces: list[Piece]) -> None:
    """Write the blocks into one dataset by h5py."""
    with h5py.File(path, "w") as file:
        data = file.create_dataset("u", pieces[0].shape, "f8")
        for piece in pieces:
            assert piece.origin is not None
            data[piece.origin[0] : piece.origin[0] + len(piece.values)] = piece.values
    with path.open("rb") as written:
        os.fsync(written.fileno())


def of_checkpoint(share: Share, path: Path, pieces: list[Piece]) -> None:
    """Write a checkpoint, whose hashes are known, as a run on one PE does."""
    writer = Hdf5Checkpoints(path, 1, 1, {"resumed": []})
    writer.create(1, False, share)
    writer.write(pieces)
    writer.flush()
    writer.finish()


def share_of(pieces: list[Piece]) -> Share:
    """What a run states of its pieces before it writes them: their hashes, which takes time."""
    words = np.array([hashed([piece]) for piece in pieces]).sum(axis=0)
    return Share({"u"}, {"u": Extent.of(pieces[0])}, {"u": words})


def beside_steps(megabytes: int, folder: str) -> int:
    """Measure what checkpoints cost runs, print and save; returns the exit status."""
    side = math.isqrt(megabytes * 10**6 // 8)
    words = ["jacobi2d", "--size", f"{side}x{side}", "--time-tile", 8, "--warmup", 16, "--audit", 0]
    results: dict[str, Any] = {"megabytes": side**2 * 8e-6, "every_s": EVERY_S, "runs": RUNS}
    for driver in ("serial", "mpi -n 2"):
        case = [*words, "--driver", *driver.split()]
        results[driver] = costs(case, folder)
        print(driver, results[driver], flush=True)
    write("checkpoint_steps", results)
    return int(results["serial"]["beside the steps"]["median"] > MOST)


def costs(case: list[object], folder: str) -> dict[str, Any]:
    """The cost of checkpoints of a run, as a share of `EVERY_S`, and how long steps stood still."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        tried = run(*case, "--steps", 64)
        every = 8 * round(EVERY_S * tried["steps"] / tried["wall_s"] / 8)
        steps = ["--steps", MADE * every + every // 4]
        kept = ["--checkpoint", f"{scratch}/c.h5", "--checkpoint-every", every]
        kinds = {
            "none": [*case, *steps],
            "at once": [*case, *steps, *kept],
            "beside the steps": [*case, *steps, *kept, "--checkpoint-async"],
        }
        found = interleaved(kinds, RUNS)
    shares: dict[str, Any] = {
        kind: spread(cost_s(record) / (MADE * EVERY_S) for record in records)
        for kind, records in found.items()
    }
    for kind in shares:
        for key in ("checkpoints_s", "checkpoints_written_s", "checkpoints_waited_s"):
            each = (record[key] / MADE for record in found[kind])
            shares[kind][f"{key} of each"] = median(each)
        shares[kind]["agreements_s"] = median(record["agreements_s"] for record in found[kind])
    return {"seconds without": spread(r["wall_s"] for r in found["none"]), **shares}


def cost_s(record: dict[str, Any]) -> float:
    """How long steps stood still, and how much longer they took than as many of median length."""
    rounds = record["rounds"]["wall_s"]
    return record["checkpoints_s"] + sum(rounds) - len(rounds) * median(rounds)


def main() -> int:
    """Measure, print and save; returns the exit status."""
    given = [word for word in sys.argv[1:] if word != "--steps"]
    megabytes = int(given[0]) if given else 1000
    within = given[1] if len(given) > 1 else "."
    if "--steps" in sys.argv:
        return beside_steps(megabytes, within)
    pieces = pieces_of(megabytes)
    share = share_of(pieces)
    with tempfile.TemporaryDirectory(dir=within) as folder:
        path = Path(folder) / "c.h5"

        def writing(writer: Callable[[Path, list[Piece]], None]) -> float:
            path.unlink(missing_ok=True)
            return seconds(lambda: writer(path, pieces))

        writers: dict[str, Callable[[Path, list[Piece]], None]] = {
            "disk": of_disk,
            "NumPy": of_numpy,
            "h5py": of_h5py,
            "checkpoint": partial(of_checkpoint, share),
        }
        calls = {name: partial(writing, writer) for name, writer in writers.items()}
        calls["verifying it"] = lambda: seconds(read_checkpoint("FILE", path).verify)
        calls["hashing"] = lambda: seconds(lambda: share_of(pieces))
        took = {name: median(found) for name, found in in_turn(calls, TRIALS).items()}
    size = sum(piece.values.nbytes for piece in pieces) / 1e6
    rates = {f"{name}, MB/s": size / found for name, found in took.items()}
    for name, rate in rates.items():
        print(f"{name:24}{rate:8.0f}")
    write("checkpoint", {"megabytes": size, "trials": TRIALS, **rates})
    return int(rates["checkpoint, MB/s"] < LEAST * rates["disk, MB/s"])


if __name__ == "__main__":
    raise SystemExit(main())
