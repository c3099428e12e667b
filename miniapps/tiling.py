"""The best number of sweeps per halo exchange, measured once per machine, app and block shape.

More sweeps while a tile is in cache cause less memory traffic. But they need a wider halo, whose
cells are swept several times, and this costs more the smaller the block is. The best number depends
on the caches, so it is measured, and stored in the user's cache folder.
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

from miniapps import kernels
from miniapps.arrays import ghosted
from miniapps.devices import variables
from miniapps.devices.backend import get
from miniapps.devices.cpu import host_memory, own_folder
from miniapps.json_input import parsed_object

UNTUNED = 8  # close to the best on all machines measured so far
CANDIDATES = (1, 2, 4, 8, 16, 32)
GOOD_ENOUGH = 0.97  # of the best rate; the narrowest halo that reaches this is chosen
MOST_CELLS = 1 << 23  # of a measured array; much larger than the caches
LEAST_CELLS = 32  # along each axis of it, if the block has as many
REPEATS = 3


def best_tile(
    app: str, shape: tuple[int, ...], grow: Sequence[bool], limit: int, dtype: str
) -> int:
    """The best number of sweeps per exchange, at most ``limit``, for blocks of a shape on the CPU.

    ``grow``: per axis, whether the block has neighbours there. Blocks that do not fit into memory
    are not measured: the run will end when it allocates them. Nor is plain Python.
    """
    if not fits(shape, dtype) or variables.kernels_are_python():
        return min(UNTUNED, limit)
    file = cache_file()
    key = _key(app, shape, grow, dtype)
    known = _read(file)
    if key not in known:
        rates = measured_rates(app, shape, grow, dtype)
        enough = GOOD_ENOUGH * max(rates.values())
        known[key] = next(tile for tile, rate in rates.items() if rate >= enough)
        _write(file, known)
    return min(known[key], limit)


def fits(shape: tuple[int, ...], dtype: str) -> bool:
    """Whether both arrays of a block fit into the memory that this process may use."""
    needed = 2 * math.prod(shape) * np.dtype(dtype).itemsize
    return needed <= host_memory.memory_bytes()


def measured_rates(
    app: str, shape: tuple[int, ...], grow: Sequence[bool], dtype: str = "float64"
) -> dict[int, float]:
    """Cells per second of a block of a shape, for each number of sweeps per exchange.

    Of a large block only a part is measured, cut along the first axes. The part has more ghosts per
    cell than the block, so seconds per swept cell are measured, ghosts included.
    """
    sweep_tile, where = kernels.load(app, "cpu").sweep_tile, get("cpu")
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
    """The part of a block that is measured: at most MOST_CELLS, the last axes uncut if possible.

    It keeps LEAST_CELLS along the other axes, or its ghosts there would need far more memory.
    """
    part: list[int] = []
    left = MOST_CELLS
    for axis in reversed(range(len(shape))):
        part.insert(
            0, min(shape[axis], left // math.prod(min(n, LEAST_CELLS) for n in shape[:axis]))
        )
        left //= part[0]
    return tuple(part)


def swept_cells(shape: tuple[int, ...], grow: Sequence[bool], tile: int) -> int:
    """The number of cell updates in ``tile`` sweeps of a block, including those of ghosts."""
    return sum(
        math.prod(n + 2 * more * bool(g) for n, g in zip(shape, grow, strict=True))
        for more in range(tile)
    )


def cache_folder() -> Path:
    """The folder of files that are kept between runs; for a user without a home, one in /tmp."""
    home = own_folder.home()
    if home is None or not os.access(home, os.W_OK):
        usual = own_folder.last_folder()
    else:
        usual = home / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "parallel-miniapps"


def cache_file() -> Path:
    """The file that stores measured tiles."""
    return cache_folder() / "time_tiles.json"


def _key(app: str, shape: tuple[int, ...], grow: Sequence[bool], dtype: str) -> str:
    """All that a measurement depends on, so other kernels or another machine measure again."""
    source = Path(kernels.__file__).with_name(app).joinpath("cpu.py").read_bytes()
    machine = f"{platform.node()} {platform.machine()}"
    sides = "".join("01"[g] for g in grow)
    block = f"{'x'.join(map(str, shape))} {sides}"
    return f"{app} cpu {dtype} {block} {hashlib.sha256(source).hexdigest()[:12]} {machine}"


def _read(file: Path) -> dict[str, int]:
    """The stored tiles; none if the file is missing or damaged."""
    try:
        known = parsed_object(file.read_bytes())
    except (OSError, ValueError):
        return {}
    # true would count as 1: Python's bool is an int
    return {key: tile for key, tile in known.items() if type(tile) is int and tile in CANDIDATES}


def _write(file: Path, known: dict[str, int]) -> None:
    """Store the tiles. If the folder cannot be written to, each run measures again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f"{file.name}.{os.getpid()}")
        aside.write_text(json.dumps(known, indent=1), encoding="utf-8")
        os.replace(aside, file)
    except OSError:
        return
