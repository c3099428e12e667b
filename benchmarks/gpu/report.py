"""Numbers of the section of docs/performance.md on GPUs, from the results of `make gpu-bench`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import table
from benchmarks.gpu import cases

NOT = "not measured"
PUBLISHED_MELT = Path(__file__).with_name("published_melt.json")
OUR_MELTS = {  # where the results have them, by number of atoms
    "32 k": ("sizes", "leanmd", "20x20x20", "gpu"),
    "256 k": ("sizes", "leanmd", "40x40x40", "gpu"),
    "1.02 M": ("rates", "leanmd melt, 1 M atoms", cases.DOUBLE),
    "4.00 M": ("rates", "leanmd melt, 4 M atoms", cases.DOUBLE),
}


def numbers(results: Mapping[str, Any]) -> dict[str, str]:
    """The numbers and tables of the section; marks those that were not measured."""
    copied = results.get("copy_bytes_per_s")
    ceiling = f"a copy moves {copied / 1e12:.2f} TB/s there" if copied else "its copy not timed"
    revision = f", revision {results['revision']}" if "revision" in results else ""
    failures = [
        f"* {part}: {why.rpartition('run failed: ')[2]}\n"
        for part, why in results.get("failures", {}).items()
    ]
    return {
        "measured": f"{results['device']}{revision}",
        "ceiling": ceiling,
        "kernels": kernels(results),
        **sizes(results),
        **melts(results),
        "size": cases.in_words(cases.FULL["blocks"]),
        "particles": f"{cases.FULL['pic_blocks'][1] / 1e6:g}",
        "blocks": blocks(results.get("blocks", {})),
        "streams": streams(results.get("streams", {})),
        "copies": copies(results.get("copies")),
        "failed": f"\nThese parts failed:\n\n{''.join(failures)}" if failures else "",
    }


def number(value: float | None, unit: float = 1.0, form: str = ".3g") -> str:
    """A number in a unit, as text with three digits that count; empty for None."""
    text = "" if value is None else format(value / unit, form)
    return f"{float(text):.0f}" if "e+" in text else text


def kernels(results: Mapping[str, Any]) -> str:
    """Kernels, and what is required of them."""
    ceiling, rows = results.get("copy_bytes_per_s"), []
    for name, bar in cases.BARS.items():
        entry = results.get("kernels", {}).get(name)
        single = results.get("rates", {}).get(name, {}).get(cases.SINGLE)
        found = [NOT, "", "", number(single, 1e9), "", ""]
        if entry:
            share, over = number(entry["share_of_copy"], form=".2f"), number(entry["over_cupy"])
            reached = cases.in_word(cases.reaches(name, cases.DOUBLE, entry["per_s"], ceiling))
            found[:3], found[5] = [number(entry["per_s"], 1e9), share, reached], over
        if single:
            found[4] = cases.in_word(cases.reaches(name, cases.SINGLE, single, ceiling))
        rows.append([name, number(bar.bytes_each), *found, required(bar), bar.estimated])
    columns = [
        "kernel", "bytes per unit", "10^9/s", "share", "result", "float32, 10^9/s",
        "float32, result",
        "over CuPy", "required", "estimated, 10^9/s",
    ]  # fmt: skip
    return table(columns, rows)


def required(bar: cases.Bar) -> str:
    """What is required of a kernel, in words."""
    numbers = [f"{least:g}" for least in (bar.least, bar.single) if least is not None]
    return f"{' and '.join(numbers)}{' * 10^9/s' if bar.is_rate else ''}"


def sizes(results: Mapping[str, Any]) -> dict[str, str]:
    """Rates on CPU and GPU over problem sizes, and the size from which the GPU is faster."""
    rows, pays = [], []
    for app, each in cases.FULL["sizes"].items():
        entries = results.get("sizes", {}).get(app, {})
        for size in each:
            found = [NOT, "", "", ""]
            if entry := entries.get(size):
                cpu, gpu = entry["cpu"], entry["gpu"]
                found = [number(cpu, 1e6), f"{entry['ranks']}", number(gpu, 1e6), number(gpu / cpu)]
            rows.append([app, size, *found])
        where = cases.pays_from(entries, each) or "none of these" if entries else NOT
        pays.append(f"{app} {where}")
    columns = ["app", "size", "CPU, 10^6/s", "ranks", "GPU, 10^6/s", "GPU over CPU"]
    return {"sizes": table(columns, rows), "pays": ", ".join(pays)}


def melts(results: Mapping[str, Any]) -> dict[str, str]:
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
    return {
        "melts": table(columns, rows),
        "melts_unit": published["unit"],
        "melts_source": published["source"],
        "melts_share": span,
    }


def _count(atoms: str) -> float:
    """The number of atoms in words such as 1.02 M."""
    digits, unit = atoms.split()
    return float(digits) * {"k": 1e3, "M": 1e6}[unit]


def blocks(measured: Mapping[str, Any]) -> str:
    """Several blocks, ranks or PEs on one GPU."""
    rows = []
    for configuration in (*cases.CONFIGURATIONS, *cases.PIC_CONFIGURATIONS):
        found = [NOT, "", ""]
        if entry := measured.get(configuration):
            staged = number(entry["staged_bytes_per_step"], 1e3)
            found = [number(entry["rate"], 1e9), staged, entry["path"]]
        rows.append([configuration, *found, *goal(configuration, measured)])
    columns = [
        "configuration", "10^9 points or particles/s", "staged, kB per step", "path of messages",
        "share", "goal",
    ]  # fmt: skip
    return table(columns, rows)


def goal(configuration: str, measured: Mapping[str, Any]) -> list[str]:
    """The share of another configuration's rate, and the one that the project wants."""
    if configuration not in cases.GOALS:
        return ["", ""]
    least, other = cases.GOALS[configuration]
    both = [measured.get(name) for name in (configuration, other)]
    share = f"{both[0]['rate'] / both[1]['rate']:.2f}" if both[0] and both[1] else ""
    return [share, f"{least:g} of {other}"]


def streams(results: Mapping[str, Any]) -> str:
    """The gain from one stream per block."""
    rows = []
    for size in map(cases.in_words, cases.FULL["streams"]):
        found = [NOT, "", ""]
        if entry := results.get(size, {}).get(str(cases.STREAMS)):
            times = [number(entry[name], 1e-6) for name in ("one_stream_s", "own_streams_s")]
            found = [*times, number(entry["gain"], form=".2f")]
        rows.append([size, str(cases.STREAMS), *found])
    columns = ["size", "blocks", "in one stream, us", "in a stream each, us", "gain"]
    return table(columns, rows)


def copies(took: Mapping[str, float] | None) -> str:
    """How much of the copies overlaps with the sweep."""
    if not took:
        return NOT
    alone, sweep, both = (took[name] * 1e6 for name in ("copies_s", "sweep_s", "both_s"))
    hidden = f"{took['hidden']:.0%} of the shorter is hidden"
    return f"{alone:.0f} us alone, the sweep {sweep:.0f}, both {both:.0f}; {hidden}"
