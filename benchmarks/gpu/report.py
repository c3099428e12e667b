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
    GOALS,
    PIC_CONFIGURATIONS,
    SINGLE,
    STREAMS,
    Bar,
    in_word,
    in_words,
    pays_from,
    reaches,
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
    ceiling, rows = results.get("copy_bytes_per_s"), []
    for name, bar in BARS.items():
        entry = results.get("kernels", {}).get(name)
        single = results.get("rates", {}).get(name, {}).get(SINGLE)
        found = [NOT, "", "", number(single, 1e9), "", ""]
        if entry:
            share, over = number(entry["share_of_copy"], form=".2f"), number(entry["over_cupy"])
            reached = in_word(reaches(name, DOUBLE, entry["per_s"], ceiling))
            found[:3], found[5] = [number(entry["per_s"], 1e9), share, reached], over
        if single:
            found[4] = in_word(reaches(name, SINGLE, single, ceiling))
        rows.append([name, number(bar.bytes_each), *found, required(bar), bar.estimated])
    columns = [
        "kernel", "bytes per unit", "10^9/s", "share", "result", "float32, 10^9/s",
        "float32, result",
        "over CuPy", "required", "estimated, 10^9/s",
    ]  # fmt: skip
    return f"""Rates are in units per second: cells times sweeps, particles or atoms times
steps, points, elements, products. They are in float64, except in the columns *float32*. *Share*:
bytes per second divided by those of a copy on the same GPU in the same run. *Over CuPy*: the rate
divided by that of array expressions (for the melt, of the forces only). *Required*: a share, or a
rate on an H200; a second one is for float32. *Estimated*: calculated from memory bandwidth,
instruction counts and occupancy; nothing was run. Of two ranges, the first is for an H100 and the
second for an H200. The estimates assume that their copies move 3.0 and 4.3 TB/s, and were made for
the kernels of revision b3821c8. stencil3d makes four sweeps in two passes of two.

{table(columns, rows)}"""


def required(bar: Bar) -> str:
    """What is required of a kernel, in words."""
    numbers = [f"{least:g}" for least in (bar.least, bar.single) if least is not None]
    return f"{' and '.join(numbers)}{' * 10^9/s' if bar.is_rate else ''}"


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
    measured, rows = results.get("blocks", {}), []
    for configuration in (*CONFIGURATIONS, *PIC_CONFIGURATIONS):
        found = [NOT, "", ""]
        if entry := measured.get(configuration):
            staged = number(entry["staged_bytes_per_step"], 1e3)
            found = [number(entry["rate"], 1e9), staged, entry["path"]]
        rows.append([configuration, *found, *goal(configuration, measured)])
    size = in_words(FULL["blocks"])
    _, particles = FULL["pic_blocks"]
    columns = [
        "configuration", "10^9 points or particles/s", "staged, kB per step", "path of messages",
        "share", "goal",
    ]  # fmt: skip
    return f"""Jacobi2D, {size}, one sweep per exchange, and PIC with {particles / 1e6:g} million
particles. Ranks and PEs share the GPU. At revision b3821c8 each block of a PE had a stream of its
own; since then those of Jacobi2D share one
([gpu.md](gpu.md#several-processes-and-blocks-on-one-gpu)). *Share*: the rate divided by that of the
configuration that *goal* names.

{table(columns, rows)}
{streams(results.get("streams", {}))}
Copying the halo of one block of {size} to the host and back during the sweep of the interior:

{copies(results.get("copies"))}.
"""


def goal(configuration: str, measured: Mapping[str, Any]) -> list[str]:
    """The share of another configuration's rate, and the one that the project wants."""
    if configuration not in GOALS:
        return ["", ""]
    least, other = GOALS[configuration]
    both = [measured.get(name) for name in (configuration, other)]
    share = f"{both[0]['rate'] / both[1]['rate']:.2f}" if both[0] and both[1] else ""
    return [share, f"{least:g} of {other}"]


def streams(results: Mapping[str, Any]) -> str:
    """The gain from one stream per block."""
    rows = []
    for size in map(in_words, FULL["streams"]):
        found = [NOT, "", ""]
        if entry := results.get(size, {}).get(str(STREAMS)):
            times = [number(entry[name], 1e-6) for name in ("one_stream_s", "own_streams_s")]
            found = [*times, number(entry["gain"], form=".2f")]
        rows.append([size, str(STREAMS), *found])
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
