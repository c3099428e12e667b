"""The part of docs/performance.md that `make gpu-bench` has the numbers for, or has not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common import table
from gpu_cases import BARS, FIGURE, FULL, ODFS, SINGLE, WAYS, in_words, pays_from

NOT = "not measured"


def section(document: Mapping[str, Any] | None) -> str:
    """All of it; what nobody measured is said to be so."""
    results = document["results"] if document else {}
    parts = [introduction(results), kernels(results), sizes(results), blocks(results)]
    if results.get("failures"):
        failed = "\n".join(f"* {part}: {why}" for part, why in results["failures"].items())
        parts.append(f"These parts failed:\n\n{failed}\n")
    return "\n".join(parts)


def introduction(results: Mapping[str, Any]) -> str:
    """On what it was measured."""
    said = "No GPU has been at hand yet, so nothing was measured."
    if results:
        copied = results.get("copy_bytes_per_s")
        ceiling = f"where a copy moves {copied / 1e12:.2f} TB/s" if copied else "its copy not timed"
        said = f"On one {results['device']}, {ceiling}."
        if FIGURE.exists():
            said += " ![Rates on a GPU](figures/gpu.png)"
    return f"## GPU\n\nBy `make gpu-bench`. {said}\n"


def number(value: float | None, unit: float = 1.0, form: str = ".3g") -> str:
    """A number of units, or nothing."""
    return "" if value is None else format(value / unit, form)


def kernels(results: Mapping[str, Any]) -> str:
    """Kernels beside their bars."""
    rows = []
    for name, bar in BARS.items():
        entry = results.get("kernels", {}).get(name)
        single = results.get("rates", {}).get(name, {}).get(SINGLE)
        found = [NOT, "", "", number(single, 1e9), ""]
        if entry:
            share, over = number(entry["share_of_copy"], form=".2f"), number(entry["over_cupy"])
            found = [number(entry["per_s"], 1e9), share, entry["verdict"], found[3], over]
        rows.append([name, number(bar.bytes_each), *found, f"{bar.passes:g}", f"{bar.good:g}"])
    columns = [
        "kernel", "bytes of a unit", "10^9/s", "share", "result", "float32", "over CuPy",
        "passes", "good",
    ]  # fmt: skip
    return f"""Units are cells times sweeps, particles, and atoms times steps, in float64 where
nothing else is said; *share* is of what a copy could move, *over CuPy* over array expressions for
the same (for the melt its forces alone). Bars are for one H200, on which a copy was seen to move
4.3 TB/s, read and written.

{table(columns, rows)}"""


def sizes(results: Mapping[str, Any]) -> str:
    """CPU and GPU from small to large, and from which size on the GPU pays."""
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
    return f"""Whole runs of 100 steps on the CPU's cores under mpi and on the GPU, with the same
final state, from small to large. The GPU pays, which is that it is never slower, from:
{", ".join(pays)}.

{table(columns, rows)}"""


def blocks(results: Mapping[str, Any]) -> str:
    """Blocks of a PE, ranks and PEs that share the GPU, what streams gain, hidden copies."""
    rows = []
    for way in WAYS:
        found = [NOT, "", ""]
        if entry := results.get("blocks", {}).get(way):
            staged = number(entry["staged_bytes_per_step"], 1e3)
            found = [number(entry["rate"], 1e9), staged, entry["path"]]
        rows.append([way, *found])
    size = in_words(FULL["blocks"])
    columns = ["way", "10^9 points/s", "staged, kB a step", "messages travel"]
    return f"""Jacobi2D, {size}, one sweep per exchange: blocks of a PE have a stream each, ranks
and PEs share the GPU.

{table(columns, rows)}
{streams(results.get("streams", {}))}
A halo of one block of {size} to the host and back, beside the interior's sweep:
{copies(results.get("copies"))}.
"""


def streams(results: Mapping[str, Any]) -> str:
    """What blocks gain by a stream each."""
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
    return f"""Sweeps of several blocks that wait for nothing, in one stream and in a stream each,
which shows how far they overlap:

{table(columns, rows)}"""


def copies(took: Mapping[str, float] | None) -> str:
    """What of copies the sweep hides."""
    if not took:
        return NOT
    alone, sweep, both = (took[name] * 1e6 for name in ("copies_s", "sweep_s", "both_s"))
    hidden = f"{took['hidden']:.0%} of the shorter is hidden"
    return f"{alone:.0f} us alone, the sweep {sweep:.0f}, both {both:.0f}; {hidden}"
