"""What `make gpu-bench` measures and requires, as cases.toml lists it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
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

    least: float
    bytes_each: float | None = None
    estimated: str = ""
    single: float | None = None
    is_rate: bool = False


TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
BARS = {name: Bar(**bar) for name, bar in TABLES["bars"].items()}
MELTS = [name for name in BARS if name.startswith("leanmd")]
IN_SINGLE = "jacobi2d", "stencil3d", "amr", "exact_sum"  # apps with kernels for float32, too
STREAMS = 8  # of blocks beside each other
CONFIGURATIONS, PIC_CONFIGURATIONS = (
    {name: words.split() for name, words in TABLES[kind].items()}
    for kind in ("configurations", "pic_configurations")
)
GOALS, SIZE_OPTIONS = TABLES["goals"], TABLES["size_options"]


def tuples(value: Any) -> Any:
    """A value of TOML with tuples in place of lists, as sizes are."""
    if isinstance(value, dict):
        return {name: tuples(inner) for name, inner in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value


FULL, SMOKE = (tuples(TABLES[how]) for how in ("full", "smoke"))


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
