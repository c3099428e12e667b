"""The cost of a message of the file driver, in memory and on disk, beside mpi's: runs of echo.

As `drivers.py`, on two ranks. ``python -m benchmarks.messages.files --disk FOLDER``: where the disk
is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.common import interleaved, save, table
from benchmarks.messages.drivers import cost

STEPS = {64: 1000, 8192: 1000, 8_388_608: 20}  # by bytes of a message
TRIALS = 5


def configurations(size: int, disk: Path) -> dict[str, list[object]]:
    """The runs for one message size."""
    # Without audits: of 20 rounds, those in which messages are hashed would be a large part.
    base: list[object] = ["echo", "--bytes", size, "--steps", STEPS[size], "-n", 2, "--pin"]
    base += ["--audit", 0]
    file: list[object] = [*base, "--driver", "file", "--file-dir"]
    return {
        "mpi": [*base, "--driver", "mpi"],
        "file, /dev/shm": [*file, "/dev/shm"],
        "file, disk": [*file, disk],
    }


def main() -> None:
    """Measure every message size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--disk", type=Path, default=Path("/tmp"), help="default: /tmp")
    disk = parser.parse_args().disk
    results = {
        f"{name}, {size} B": cost(found)
        for size in STEPS
        for name, found in interleaved(configurations(size, disk), TRIALS).items()
    }
    save("files", results)
    rows = [
        [name, *(f"{value[f'{part}_us']:.4g}" for part in ("whole", "block", "driver"))]
        for name, value in results.items()
    ]
    print(table(["case", "whole", "in the blocks", "driver"], rows))


if __name__ == "__main__":
    main()
