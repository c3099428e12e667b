"""The section of docs/performance.md on GPUs, from the results of `make gpu-bench`, if any."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import table
from benchmarks.gpu.cases import (
    BARS,
    CONFIGURATIONS,
    DOUBLE,
    FIGURE,
    FULL,
    ODFS,
    SINGLE,
    in_words,
    pays_from,
)

NOT = "not measured"
PUBLISHED_MELT = Path(__file__).with_name("published_melt.json")
OUR_MELTS = {  # where the results have them, by number of atoms
    "32 k": ("sizes", "leanmd", "20x20x20", "gpu"),
    "256 k": ("sizes", "leanmd", "40x40x40", "gpu"),
    "1.02 M": ("rates", "leanmd melt, 1 M atoms", DOUBLE),
    "4.00 M": ("rates", "leanmd melt, 4 M atoms", DOUBLE),
}


def section(document: Mapping[str, Any] | None) -> str:
    """The whole section; marks the numbers that were not measured."""
    results = document["results"] if document else {}
    parts = [introduction(results), kernels(results)]
    if results:
        parts += [sizes(results), melts(results), blocks(results)]
    if results.get("failures"):
        failed = "\n".join(
            f"* {part}: {why.rpartition('run failed: ')[2]}"
            for part, why in results["failures"].items()
        )
        parts.append(f"These parts failed:\n\n{failed}\n")
    return "\n".join(parts)


def introduction(results: Mapping[str, Any]) -> str:
    """The introduction: the GPU, if there was one, and the rate of a copy."""
    said = "No GPU was available, so nothing was measured."
    if results:
        copied = results.get("copy_bytes_per_s")
        ceiling = f"a copy moves {copied / 1e12:.2f} TB/s there" if copied else "its copy not timed"
        revision = f", revision {results['revision']}" if "revision" in results else ""
        said = f"They are of one {results['device']}{revision}; {ceiling}."
        if FIGURE.exists():
            said += "\n\n![Rates on a GPU](figures/gpu.png)"
    return f"## GPU\n\n`make gpu-bench` measures the numbers of this section. {said}\n"


def number(value: float | None, unit: float = 1.0, form: str = ".3g") -> str:
    """A number in a unit, as text with three digits that count; empty for None."""
    text = "" if value is None else format(value / unit, form)
    return f"{float(text):.0f}" if "e+" in text else text


def kernels(results: Mapping[str, Any]) -> str:
    """Kernels, and what is required of them."""
    rows = []
    for name, bar in BARS.items():
        entry = results.get("kernels", {}).get(name)
        single = results.get("rates", {}).get(name, {}).get(SINGLE)
        found = [NOT, "", "", number(single, 1e9), ""]
        if entry:
            share, over = number(entry["share_of_copy"], form=".2f"), number(entry["over_cupy"])
            found = [number(entry["per_s"], 1e9), share, entry["result"], found[3], over]
        rows.append(
            [
                name,
                number(bar.bytes_each),
                *found,
                f"{bar.passes:g}",
                f"{bar.good:g}",
                bar.estimated,
            ]
        )
    columns = [
        "kernel", "bytes per unit", "10^9/s", "share", "result", "float32", "over CuPy",
        "passes", "good", "estimated, 10^9/s",
    ]  # fmt: skip
    return f"""Rates are in units per second: cells times sweeps, or particles or atoms times
steps. They are in float64, except in the column *float32*. *Share*: bytes per second divided by
those of a copy on the same GPU in the same run. *Over CuPy*: the rate divided by that of array
expressions (for the melt, of the forces only). *Passes*, *good*: the smallest share for this
result. LeanMD is bound by arithmetic, so its thresholds are rates, 10^9 atom-steps per second.
*Estimated*: calculated from memory bandwidth, instruction counts and occupancy; nothing was run.
Of two ranges, the first is for an H100 and the second for an H200. The estimates assume that their
copies move 3.0 and 4.3 TB/s. stencil3d makes four sweeps in two passes of two.

{table(columns, rows)}"""


def sizes(results: Mapping[str, Any]) -> str:
    """Rates on CPU and GPU over problem sizes, and the size from which the GPU is faster."""
    rows, pays = [], []
    for app, each in FULL["sizes"].items():
        entries = results.get("sizes", {}).get(app, {})
        for size in each:
            found = [NOT, "", "", ""]
            if entry := entries.get(size):
                cpu, gpu = entry["cpu"], entry["gpu"]
                found = [number(cpu, 1e6), f"{entry['ranks']}", number(gpu, 1e6), number(gpu / cpu)]
            rows.append([app, size, *found])
        where = pays_from(entries, each) or "none of these" if entries else NOT
        pays.append(f"{app} {where}")
    columns = ["app", "size", "CPU, 10^6/s", "ranks", "GPU, 10^6/s", "GPU over CPU"]
    return f"""Whole runs of 100 steps, on the CPU under mpi (*ranks*: one per core, at most 8)
and on the GPU, with the same final state. Size from which the GPU is never slower:
{", ".join(pays)}.

{table(columns, rows)}"""


def melts(results: Mapping[str, Any]) -> str:
    """LeanMD's melt beside the best published rates, in double precision, by number of atoms."""
    published = json.loads(PUBLISHED_MELT.read_text())
    theirs = dict(zip(published["atoms"], published["rates"], strict=True))
    rows, shares = [], []
    for atoms in sorted({*OUR_MELTS, *theirs}, key=_count):
        found: Any = results if atoms in OUR_MELTS else None
        for key in OUR_MELTS.get(atoms, ()):
            found = found and found.get(key)
        rows.append([atoms, str(theirs.get(atoms, "")), number(found, 1e6)])
        shares += [found / 1e6 / theirs[atoms]] if found and atoms in theirs else []
    columns = ["atoms", f"LAMMPS KOKKOS, {published['device']}", f"leanmd, {results['device']}"]
    span = f"{min(shares):.2f} to {max(shares):.2f} times" if shares else NOT
    return f"""LeanMD's melt beside the highest published rates found, in {published["unit"]}, whole
steps in double precision: {published["source"]}.
LAMMPS rebuilds its lists every 20 steps without a check, LeanMD when an atom has moved too far.
Where both were measured, LeanMD has {span} their rate, less at small sizes. An H200 has the
multiprocessors of an H100, and faster memory.

{table(columns, rows)}"""


def _count(atoms: str) -> float:
    """The number of atoms in words such as 1.02 M."""
    digits, unit = atoms.split()
    return float(digits) * {"k": 1e3, "M": 1e6}[unit]


def blocks(results: Mapping[str, Any]) -> str:
    """Several blocks, ranks or PEs on one GPU; the gain from streams; hidden copies."""
    rows = []
    for configuration in CONFIGURATIONS:
        found = [NOT, "", ""]
        if entry := results.get("blocks", {}).get(configuration):
            staged = number(entry["staged_bytes_per_step"], 1e3)
            found = [number(entry["rate"], 1e9), staged, entry["path"]]
        rows.append([configuration, *found])
    size = in_words(FULL["blocks"])
    columns = ["configuration", "10^9 points/s", "staged, kB per step", "path of messages"]
    return f"""Jacobi2D, {size}, one sweep per exchange. Ranks and PEs share the GPU. At
revision b3821c8 each block of a PE had a stream of its own; since then they share one
([gpu.md](gpu.md#several-processes-and-blocks-on-one-gpu)).

{table(columns, rows)}
{streams(results.get("streams", {}))}
Copying the halo of one block of {size} to the host and back during the sweep of the interior:

{copies(results.get("copies"))}.
"""


def streams(results: Mapping[str, Any]) -> str:
    """The gain from one stream per block."""
    rows = []
    for size in map(in_words, FULL["streams"]):
        for odf in ODFS[1:]:
            entry = results.get(size, {}).get(str(odf))
            found = [NOT, "", ""]
            if entry:
                times = [number(entry[name], 1e-6) for name in ("one_stream_s", "own_streams_s")]
                found = [*times, number(entry["gain"], form=".2f")]
            rows.append([size, str(odf), *found])
    columns = ["size", "blocks", "in one stream, us", "in a stream each, us", "gain"]
    return f"""Sweeps of several independent blocks, in one stream and in one stream per block.
The gain shows how much the sweeps overlap:

{table(columns, rows)}"""


def copies(took: Mapping[str, float] | None) -> str:
    """How much of the copies overlaps with the sweep."""
    if not took:
        return NOT
    alone, sweep, both = (took[name] * 1e6 for name in ("copies_s", "sweep_s", "both_s"))
    hidden = f"{took['hidden']:.0%} of the shorter is hidden"
    return f"{alone:.0f} us alone, the sweep {sweep:.0f}, both {both:.0f}; {hidden}"
