"""The cases and sizes that `make gpu-bench` measures, and the rates that it requires of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "gpu.png"
SINGLE, DOUBLE = "float32", "float64"
CUPY = "CuPy expression"


class Bar(NamedTuple):
    """The required rates of a kernel in float64, for one H200 and data well over its 60 MB of L2.

    ``bytes_each``: bytes that a unit of work must move, None if memory is not the limit; ``passes``
    and ``good``: 10^9 units per second. Units: cells times sweeps, particles, atoms times steps.
    """

    bytes_each: float | None
    passes: float
    good: float


BARS = {
    "jacobi2d": Bar(16.0, 190, 235),
    "jacobi2d, residual": Bar(16.0, 190, 235),
    "jacobi2d, 2 at once": Bar(9.5, 300, 350),
    "jacobi2d, 4 at once": Bar(5.5, 300, 350),
    "stencil3d": Bar(16.0, 175, 225),
    "stencil3d, residual": Bar(16.0, 175, 225),
    "stencil3d, 2 at once": Bar(9.5, 300, 350),
    "stencil3d, 4 at once": Bar(9.5, 300, 350),
    "pic push": Bar(72.0, 30, 48),
    "pic push, 4 steps at once": Bar(18.0, 30, 48),
    "leanmd melt, 1 M atoms": Bar(None, 0.3, 0.7),
    "leanmd melt, 4 M atoms": Bar(None, 0.3, 0.7),
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
    "sizes": {"jacobi2d": ["9x9"], "stencil3d": ["5x5x5"], "pic": ["50"], "leanmd": ["3x3x3"]},
    "blocks": (8, 8),
    "streams": ((16, 16),),
    "steps": 2,
}


def in_words(size: Iterable[int]) -> str:
    """A size in the format of options, such as 64x64."""
    return "x".join(map(str, size))


def share_of_copy(name: str, dtype: str, per_s: float, ceiling: float) -> float | None:
    """A kernel's bytes per second over those of a copy; None if memory is not its limit."""
    bytes_each = BARS[name].bytes_each
    if bytes_each is None:
        return None
    return per_s * bytes_each * (0.5 if dtype == SINGLE else 1.0) / ceiling


def verdict(name: str, per_s: float) -> str:
    """A rate in float64 compared with those required: good, passes or below."""
    bar = BARS[name]
    return "good" if per_s >= 1e9 * bar.good else "passes" if per_s >= 1e9 * bar.passes else "below"


def pays_from(entries: Mapping[str, Mapping[str, float]], sizes: Iterable[str]) -> str | None:
    """The smallest size from which on the GPU is never slower than the CPU; None: no size."""
    found = None
    for size in sizes:
        faster = size in entries and entries[size]["gpu"] >= entries[size]["cpu"]
        found = (found or size) if faster else None
    return found
