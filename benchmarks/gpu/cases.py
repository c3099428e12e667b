"""The cases and sizes that `make gpu-bench` measures, and what it requires of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from benchmarks.common import ROOT

FIGURE = ROOT / "docs/figures/gpu.png"
SINGLE, DOUBLE = "float32", "float64"
CUPY = "CuPy expression"


class Bar(NamedTuple):
    """What is required of a kernel, for data well over the 60 MB of L2.

    ``bytes_each``: bytes that a unit of work must move in float64, None if memory is not the limit;
    ``least``: required in float64, and ``single`` in float32 if that is not None: bytes per second
    as a share of those that a copy moves on the same GPU, or with ``is_rate`` 10^9 units per second
    on an H200; ``estimated``: 10^9 units per second that memory, instructions and occupancy allow
    on an H100 and an H200, empty where nobody has estimated it. Units: cells times sweeps,
    particles, atoms times steps, points, elements, products.
    """

    bytes_each: float | None
    least: float
    estimated: str = ""
    single: float | None = None
    is_rate: bool = False


BARS = {
    "jacobi2d": Bar(16.0, 0.92, "165 to 175, 235 to 250"),
    "jacobi2d, residual": Bar(16.0, 0.87, "165 to 175, 235 to 250"),
    "jacobi2d, 2 at once": Bar(9.5, 0.77, "310 to 340, 400 to 450"),
    "jacobi2d, 4 at once": Bar(5.5, 1000, "450 to 540, 600 to 750", is_rate=True),
    "stencil3d": Bar(16.0, 0.85, "155 to 165, 220 to 235"),
    "stencil3d, residual": Bar(16.0, 0.82, "155 to 165, 220 to 235"),
    "stencil3d, 2 at once": Bar(9.5, 420, "250 to 300, 290 to 340", is_rate=True),
    "stencil3d, 4 at once": Bar(9.5, 500, "250 to 300, 290 to 340", is_rate=True),
    "pic push": Bar(72.0, 0.80, "33 to 38, 45 to 50"),
    "pic push, 4 steps at once": Bar(18.0, 150, "60 to 75", is_rate=True),
    "cg operator, 27 points": Bar(16.0, 0.85),
    "cg operator, 7 points": Bar(16.0, 0.85),
    "cg exact dot": Bar(16.0, 0.80),
    "cg advance": Bar(56.0, 0.85),
    "transpose take": Bar(24.0, 0.85),
    "transpose add": Bar(24.0, 0.85),
    "transpose turn": Bar(32.0, 0.85),
    "amr sweep": Bar(32.0, 0.85),
    "exact dot": Bar(16.0, 0.80, single=0.80),
    "leanmd melt, 1 M atoms": Bar(None, 0.7, "1.2 to 2.0, forces alone", is_rate=True),
    "leanmd melt, 4 M atoms": Bar(None, 1.5, "1.2 to 2.0, forces alone", 3.0, is_rate=True),
}
MELTS = [name for name in BARS if name.startswith("leanmd")]
IN_SINGLE = "amr sweep", "exact dot"  # kernels of `FULL["kernels"]` that are for float32, too
ODFS = (1, 2, 4, 8)
STREAMS = 8  # of blocks beside each other
CONFIGURATIONS = {  # of Jacobi2D: blocks in one process, and processes that share a GPU
    "serial": (),
    "serial, 8 blocks": ("--pe-grid", "8x1"),
    **{f"charm, ODF {odf}": ("--driver", "charm", "--odf", odf) for odf in ODFS},
    "mpi, 2 ranks": ("--driver", "mpi", "-n", 2),
    "charm, 2 PEs, ODF 1": ("--driver", "charm", "-n", 2, "--odf", 1),
    "charm, 2 PEs, ODF 4": ("--driver", "charm", "-n", 2, "--odf", 4),
}
PIC_CONFIGURATIONS = {"pic, 1 block": (), "pic, 8 blocks": ("--pe-grid", "4x2")}
GOALS = {  # the least share of the rate of another configuration
    "serial, 8 blocks": (0.9, "serial"),
    "charm, ODF 8": (0.9, "charm, ODF 1"),
    "mpi, 2 ranks": (0.85, "serial"),
    "charm, 2 PEs, ODF 1": (0.85, "charm, ODF 1"),
    "pic, 8 blocks": (0.6, "pic, 1 block"),
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
    "kernels": {
        "cg operator, 27 points": (320, 320, 320),
        "cg operator, 7 points": (320, 320, 320),
        "cg exact dot": (320, 320, 320),
        "cg advance": (320, 320, 320),
        "transpose take": (8192,),
        "transpose add": (8192,),
        "transpose turn": (8192,),
        "amr sweep": (8192, 8192),
        "exact dot": (10_000_000,),
    },
    "melts": ((64, 64, 64), (100, 100, 100)),
    "sizes": {
        "jacobi2d": [f"{n}x{n}" for n in (128, 2048, 8192)],
        "stencil3d": [f"{n}x{n}x{n}" for n in (16, 128, 320)],
        "pic": ["600", "6000000"],
        "leanmd": ["8x8x8", "20x20x20", "40x40x40"],
    },
    "blocks": (8192, 8192),
    "pic_blocks": (5998, 20_000_000),  # as the preset large
    "streams": ((512, 512), (8192, 8192)),
    "steps": 100,
}
FEW = {1: (40,), 2: (12, 14), 3: (6, 7, 8)}  # by axes
SMOKE: dict[str, Any] = {
    "copy": 1 << 10,
    "jacobi2d": (20, 24),
    "stencil3d": (6, 7, 8),
    "pic": (20, 100),
    "kernels": {name: FEW[len(size)] for name, size in FULL["kernels"].items()},
    "melts": ((5, 5, 5), (3, 3, 3)),  # the first has three cells across
    "sizes": {"jacobi2d": ["9x9"], "stencil3d": ["5x5x5"], "pic": ["50"], "leanmd": ["4x4x4"]},
    "blocks": (8, 8),
    "pic_blocks": (20, 100),
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


def reaches(name: str, dtype: str, per_s: float, ceiling: float | None) -> bool | None:
    """Whether a rate is what is required; None if nothing is, or no copy was timed."""
    bar = BARS[name]
    least = bar.single if dtype == SINGLE else bar.least
    found = per_s / 1e9 if bar.is_rate else share_of_copy(name, dtype, per_s, ceiling)
    return None if least is None or found is None else found >= least


def in_word(reached: bool | None) -> str:
    """The result of `reaches`, as pages have it."""
    return {True: "reached", False: "below", None: ""}[reached]


def pays_from(entries: Mapping[str, Mapping[str, float]], sizes: Iterable[str]) -> str | None:
    """The smallest size from which on the GPU is never slower than the CPU; None: no size."""
    found = None
    for size in sizes:
        faster = size in entries and entries[size]["gpu"] >= entries[size]["cpu"]
        found = (found or size) if faster else None
    return found
