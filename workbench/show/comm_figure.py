"""Figures of communication benchmarks: values over the size of messages, and ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from miniapps.communication.catalogue import CATALOGUE, RATE
from miniapps.workbench.plural import counted
from miniapps.workbench.show.captions import machine_text, wrapped
from miniapps.workbench.show.marks import styled
from miniapps.workbench.study.drawing import (
    LETTERS,
    bounds_of,
    decimal_log_axis,
    draw_line,
    fitted_legend,
    new_figure,
    styles_of,
)
from miniapps.workbench.study.statistics import Interval

UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"))
TICKS = 8  # sizes that have a label
APART, NEAR = 0.015, 0.4  # between two lines, of the axis; between all, of the closest two sizes


@styled()
def figure_of(records: Sequence[dict[str, Any]], ratios: Sequence[Sequence[Interval]] = ()) -> Any:
    """Values of one benchmark's records with their intervals; beside them ``ratios``, if any."""
    figure, axes = new_figure(9.0 if ratios else 5.2, 4.4, 1, 2 if ratios else 1)
    names = [record.get("name", record["driver"]) for record in records]
    looks = styles_of(names)
    left = axes[0][0]
    sizes = [record["sizes"] for record in records]
    draw_over_sizes(left, list(zip(names, sizes, map(_intervals, records), strict=True)), looks)
    rate = records[0]["measures"] == RATE
    left.set_ylabel("bandwidth [MB/s]" if rate else "latency [us]")
    if ratios:
        right = axes[0][1]
        draw_over_sizes(right, list(zip(names, sizes, ratios, strict=True))[1:], looks, 1)
        right.set_ylabel(f"ratio to {names[0]}")
    if len(records) > 1:
        fitted_legend(figure, *left.get_legend_handles_labels())
    about = wrapped(_title(records), int(LETTERS * figure.get_figwidth()))
    machine = machine_text(record["host"] for record in records)
    shifted = ", shifted a little against each other" if len(records) > 1 else ""
    figure.suptitle(f"{about}\n99 % intervals{shifted}; {machine}", fontsize=9)
    return figure


def _title(records: Sequence[dict[str, Any]]) -> str:
    """The benchmark with what all records have in common."""
    benchmark, ranks = records[0]["benchmark"], counted(records[0]["pes"], "rank")
    common = [name for name in ("driver", "buffer") if len({r[name] for r in records}) == 1]
    said = [CATALOGUE[benchmark].title.lower(), *(str(records[0][name]) for name in common), ranks]
    return f"miniapps comm {benchmark}: {', '.join(said)}"


def _intervals(record: dict[str, Any]) -> list[Interval]:
    """The values of all sizes, with bounds; those without an interval have none."""
    rows = record["results"]
    nan = float("nan")
    return [
        Interval(row["value"], *(nan if row[end] is None else row[end] for end in ("low", "high")))
        for row in rows
    ]


def draw_over_sizes(
    axes: Any,
    lines: Sequence[tuple[str, Sequence[int], Sequence[Interval]]],
    looks: Mapping[str, dict[str, Any]],
    reference: float | None = None,
) -> None:
    """Draw lines, each with its name, sizes and values, over a logarithmic axis of sizes.

    Those with intervals are shifted a little against each other, so that no interval hides another.
    And a horizontal line at a reference.
    """
    every = sorted({size for _, sizes, _ in lines for size in sizes})
    shifts = iter(_shifts(every, sum(map(_has_intervals, lines))))
    for name, sizes, values in lines:
        look = {"label": name, "markersize": 3.5, "linewidth": 1} | looks[name]
        shift = next(shifts) if _has_intervals((name, sizes, values)) else 1.0
        draw_line(axes, [shift * max(size, 0.5) for size in sizes], values, look)
    axes.set_xscale("log", base=2)
    shown = every[:: max(1, -(-len(every) // TICKS))]
    axes.set_xticks([max(size, 0.5) for size in shown], [in_words(size) for size in shown])
    axes.set_yscale("log")
    low, high = bounds_of([value for _, _, values in lines for value in values])
    if reference:
        axes.axhline(reference, color="black", linewidth=1)
        low, high = min(low, reference), max(high, reference)
    decimal_log_axis(axes.yaxis, low, high, axes.set_ylim)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel("size of a message")


def _has_intervals(line: tuple[str, Sequence[int], Sequence[Interval]]) -> bool:
    """Whether any value of a line has an interval."""
    return any(value.low < value.high for value in line[2])


def _shifts(sizes: Sequence[int], lines: int) -> list[float]:
    """A factor for the sizes of each of so many lines, so that none hides another."""
    places = [math.log2(max(size, 0.5)) for size in sizes]
    closest = min((high - low for low, high in pairwise(places)), default=1.0)
    apart = min(APART * (places[-1] - places[0] or 1.0), NEAR * closest / max(1, lines - 1))
    return [2 ** (apart * (number - (lines - 1) / 2)) for number in range(lines)]


def in_words(size: int) -> str:
    """A number of bytes with its unit."""
    for factor, unit in UNITS:
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"
