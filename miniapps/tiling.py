"""How many sweeps to make per halo exchange, measured once per machine, app and block shape.

More sweeps while a tile is in cache cost less memory traffic; but the halo that they need is wider,
is swept several times, and weighs more the smaller the block. Where the two balance depends on the
caches, so it is measured, and kept in a file of the user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from pathlib import Path
from time import perf_counter

import numpy as np

import kernels
from miniapps.arrays import ghosted

UNTUNED = 8  # never far from the best on the machines seen so far
CANDIDATES = (1, 2, 4, 8, 16, 32)
GOOD_ENOUGH = 0.97  # of the best rate: the narrowest halo that reaches this is taken
MOST_CELLS = 1 << 22  # of an array that is measured on; larger ones behave alike
REPEATS = 3


def best_tile(app: str, device: str, shape: tuple[int, ...], limit: int) -> int:
    """The best number of sweeps per exchange, at most ``limit``, for blocks of a shape."""
    file = cache_file()
    key = _key(app, device, shape)
    known = _read(file)
    if key not in known:
        rates = measured_rates(app, device, shape)
        known[key] = next(
            t for t, rate in rates.items() if rate >= GOOD_ENOUGH * max(rates.values())
        )
        _write(file, known)
    return min(known[key], limit)


def measured_rates(app: str, device: str, shape: tuple[int, ...]) -> dict[int, float]:
    """Cells per second, per number of sweeps, of a block with neighbours on all sides."""
    cells = max(1, MOST_CELLS // int(np.prod(shape[1:])))
    shape = (min(shape[0], cells), *shape[1:])
    tiles = [tile for tile in CANDIDATES if tile <= min(shape)]
    sweep_tile = kernels.load(app, device).sweep_tile
    grow = np.ones(2 * len(shape), np.int64)
    rates = {}
    for tile in tiles:
        old, region = ghosted(shape, [(tile, tile)] * len(shape), tile)
        old[...] = 1.0
        new = old.copy()
        seconds = []
        for _ in range(REPEATS):
            before = perf_counter()
            sweep_tile(old, new, tile, *region, grow)
            seconds.append(perf_counter() - before)
        rates[tile] = tile * float(np.prod(shape)) / min(seconds)
    return rates


def cache_file() -> Path:
    """Where measured tiles are kept."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "parallel-miniapps" / "time_tiles.json"


def _key(app: str, device: str, shape: tuple[int, ...]) -> str:
    """What a measurement depends on; other kernels or another machine measure anew."""
    source = Path(kernels.__file__).with_name(f"{app}_{device}.py").read_bytes()
    machine = f"{platform.node()} {platform.machine()}"
    return " ".join(
        (app, device, "x".join(map(str, shape)), hashlib.sha256(source).hexdigest()[:12], machine)
    )


def _read(file: Path) -> dict[str, int]:
    """What is known; nothing where the file is missing or not what was written."""
    try:
        known = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(file: Path, known: dict[str, int]) -> None:
    """Keep what is known; a home that cannot be written to costs a measurement per run."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f"{file.name}.{os.getpid()}")
        aside.write_text(json.dumps(known, indent=1))
        os.replace(aside, file)
    except OSError:
        return
