"""The cases and sizes that `make gpu-bench` measures, and what it requires of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from benchmarks.common import ROOT

FIGURE = ROOT / "docs/figures/gpu.png"
SINGLE, DOUBLE = "float32", "float64"
CUPY = "CuPy expression"


class Bar(NamedTuple):
    """What is required of a kernel in float64, for data well over the 60 MB of L2.

    ``bytes_each``: bytes that a unit of work must move, None if memory is not the limit; ``passes``
    and ``good``: bytes per second as shares of those that a copy moves on the same GPU, without
    ``bytes_each`` 10^9 units per second; ``estimated``: 10^9 units per second that memory,
    instructions and occupancy allow on an H100 and an H200. Units: cells times sweeps, particles,
    atoms times steps.
    """

    bytes_each: float | None
    passes: float
    good: float
    estimated: str


BARS = {
    "jacobi2d": Bar(16.0, 0.70, 0.87, "165 to 175, 235 to 250"),
    "jacobi2d, residual": Bar(16.0, 0.70, 0.87, "165 to 175, 235 to 250"),
    "jacobi2d, 2 at once": Bar(9.5, 0.66, 0.77, "310 to 340, 400 to 450"),
    "jacobi2d, 4 at once": Bar(5.5, 0.38, 0.45, "450 to 540, 600 to 750"),
    "stencil3d": Bar(16.0, 0.65, 0.84, "155 to 165, 220 to 235"),
    "stencil3d, residual": Bar(16.0, 0.65, 0.84, "155 to 165, 220 to 235"),
    "stencil3d, 2 at once": Bar(9.5, 0.66, 0.77, "250 to 300, 290 to 340"),
    "stencil3d, 4 at once": Bar(9.5, 0.66, 0.77, "250 to 300, 290 to 340"),
    "pic push": Bar(72.0, 0.50, 0.80, "33 to 38, 45 to 50"),
    "pic push, 4 steps at once": Bar(18.0, 0.125, 0.20, "60 to 75"),
    "leanmd melt, 1 M atoms": Bar(None, 0.3, 0.7, "1.2 to 2.0, forces alone"),
    "leanmd melt, 4 M atoms": Bar(None, 0.3, 0.7, "1.2 to 2.0, forces alone"),
}
MELTS = [name for name in BARS if name.startswith("leanmd")]
ODFS = (1, 2, 4, 8)
CONFIGURATIONS = {  # of Jacobi2D: a stream per block of a PE, and processes that share a GPU
    "serial": (),
    **{f"charm, ODF {odf}": ("--driver", "charm", "--odf", odf) for odf in ODFS},
    "mpi, 2 ranks": ("--driver", "mpi", "-n", 2),
    "charm, 2 PEs, ODF 4": ("--driver", "charm", "-n", 2, "--odf", 4),
}
SIZE_OPTIONS = {
    "jacobi2d": "--size",
    "stencil3d": "--size",
    "pic": "--particles",
    "leanmd": "--lattice",
}
FULL: dict[str, Any] = {
    "copy": 1 << 32,  # bytes
    "jacobi2d": (16384, 16384),
    "stencil3d": (800, 800, 800),
    "pic": (5998, 50_000_000),  # cells along an axis, particles
    "melts": ((64, 64, 64), (100, 100, 100)),
    "sizes": {
        "jacobi2d": [f"{n}x{n}" for n in (128, 512, 2048, 8192)],
        "stencil3d": [f"{n}x{n}x{n}" for n in (16, 64, 128, 320)],
        "pic": ["600", "60000", "6000000"],
        "leanmd": ["8x8x8", "20x20x20", "40x40x40"],
    },
    "blocks": (8192, 8192),
    "streams": ((512, 512), (8192, 8192)),
    "steps": 100,
}
SMOKE: dict[str, Any] = {
    "copy": 1 << 10,
    "jacobi2d": (20, 24),
    "stencil3d": (6, 7, 8),
    "pic": (20, 100),
    "melts": ((5, 5, 5), (3, 3, 3)),  # the first has three cells across
    "sizes": {"jacobi2d": ["9x9"], "stencil3d": ["5x5x5"], "pic": ["50"], "leanmd": ["4x4x4"]},
    "blocks": (8, 8),
    "streams": ((16, 16),),
    "steps": 2,
}


def in_words(size: Iterable[int]) -> str:
    """A size in the format of options, such as 64x64."""
    return "x".join(map(str, size))


def share_of_copy(name: str, dtype: str, per_s: float, ceiling: float | None) -> float | None:
    """A kernel's bytes per second over those of a copy; None if memory is not its limit."""
    bytes_each = BARS[name].bytes_each
    if bytes_each is None or ceiling is None:
        return None
    return per_s * bytes_each * (0.5 if dtype == SINGLE else 1.0) / ceiling


def result(name: str, per_s: float, ceiling: float | None) -> str:
    """A rate in float64 compared with what is required: good, passes, below, or no copy timed."""
    bar, reached = BARS[name], share_of_copy(name, DOUBLE, per_s, ceiling)
    if bar.bytes_each is None:
        reached = per_s / 1e9
    if reached is None:
        return "no copy timed"
    return "good" if reached >= bar.good else "passes" if reached >= bar.passes else "below"


def pays_from(entries: Mapping[str, Mapping[str, float]], sizes: Iterable[str]) -> str | None:
    """The smallest size from which on the GPU is never slower than the CPU; None: no size."""
    found = None
    for size in sizes:
        faster = size in entries and entries[size]["gpu"] >= entries[size]["cpu"]
        found = (found or size) if faster else None
    return found
