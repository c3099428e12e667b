"""How many sweeps to make per halo exchange, measured once per machine, app and block shape.

More sweeps while a tile is in cache cost less memory traffic; but the halo that they need is wider,
is swept several times, and weighs more the smaller the block. Where the two balance depends on the
caches, so it is measured, and kept in a file of the user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import kernels
from devices.backend import get
from miniapps.arrays import ghosted

UNTUNED = 8  # never far from the best on the machines seen so far
CANDIDATES = (1, 2, 4, 8, 16, 32)
GOOD_ENOUGH = 0.97  # of the best rate: the narrowest halo that reaches this is taken
MOST_CELLS = 1 << 23  # of an array that is measured on; well beyond the caches
REPEATS = 3


def best_tile(
    app: str, device: str, shape: tuple[int, ...], grow: Sequence[bool], limit: int, dtype: str
) -> int:
    """The best number of sweeps per exchange, at most ``limit``, for blocks of a shape.

    ``grow`` says per axis whether such a block has neighbours there.
    """
    file = cache_file()
    key = _key(app, device, shape, grow, dtype)
    known = _read(file)
    if known.get(key) not in CANDIDATES:
        rates = measured_rates(app, device, shape, grow, dtype)
        enough = GOOD_ENOUGH * max(rates.values())
        known[key] = next(tile for tile, rate in rates.items() if rate >= enough)
        _write(file, known)
    return min(known[key], limit)


def measured_rates(
    app: str, device: str, shape: tuple[int, ...], grow: Sequence[bool], dtype: str = "float64"
) -> dict[int, float]:
    """Cells per second, per number of sweeps, of a block of a shape.

    A large block is measured by a part of it, cut along the first axes, which sweeps more ghosts
    per cell; so what is measured is seconds per swept cell, ghosts included.
    """
    sweep_tile, where = kernels.load(app, device).sweep_tile, get(device)
    sides = np.repeat(np.array(grow, np.int64), 2)
    part = measured_part(shape)
    rates = {}
    for tile in (tile for tile in CANDIDATES if tile <= min(shape)):
        field, region = ghosted(part, [(tile, tile)] * len(part), tile, dtype, where.line)
        field[...] = 1.0
        old, new = where.to_device(field), where.to_device(field.copy())
        seconds = []
        for _ in range(REPEATS):
            before = where.mark()
            sweep_tile(old, new, tile, *region, sides)
            seconds.append(where.seconds(before, where.mark()))
        per_cell = min(seconds) / swept_cells(part, grow, tile)
        rates[tile] = tile * math.prod(shape) / (per_cell * swept_cells(shape, grow, tile))
    return rates


def measured_part(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The part of a block that is measured: at most MOST_CELLS, the last axes whole if possible."""
    part: list[int] = []
    left = MOST_CELLS
    for cells in reversed(shape):
        part.insert(0, max(1, min(cells, left)))
        left //= part[0]
    return tuple(part)


def swept_cells(shape: tuple[int, ...], grow: Sequence[bool], tile: int) -> int:
    """Cells that ``tile`` sweeps of a block update, the ghosts that are swept again included."""
    return sum(
        math.prod(n + 2 * more * bool(g) for n, g in zip(shape, grow, strict=True))
        for more in range(tile)
    )


def cache_folder() -> Path:
    """Where things are kept from run to run."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "parallel-miniapps"


def cache_file() -> Path:
    """Where measured tiles are kept."""
    return cache_folder() / "time_tiles.json"


def _key(app: str, device: str, shape: tuple[int, ...], grow: Sequence[bool], dtype: str) -> str:
    """What a measurement depends on; other kernels or another machine measure anew."""
    source = Path(kernels.__file__).with_name(app).joinpath(f"{device}.py").read_bytes()
    machine = f"{platform.node()} {platform.machine()}"
    sides = "".join("01"[g] for g in grow)
    block = f"{'x'.join(map(str, shape))} {sides}"
    return f"{app} {device} {dtype} {block} {hashlib.sha256(source).hexdigest()[:12]} {machine}"


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
