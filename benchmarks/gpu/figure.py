"""Draw docs/figures/gpu.png from results/gpu.json: shares of a copy, blocks, sizes."""

from __future__ import annotations

import json
import sys
from typing import Any

from matplotlib.figure import Figure

from benchmarks.common import RESULTS
from benchmarks.gpu.cases import FIGURE, FULL
from miniapps.workbench.show.marks import blank_figure
from miniapps.workbench.show.plots import COLOURS

NO_RESULTS = 2


def draw_bars(axes: Any, values: dict[str, float], what: str) -> None:
    """Draw a bar for each name."""
    bars = axes.barh(list(values), list(values.values()), color=COLOURS[0])
    axes.bar_label(bars, fmt="%.3g", padding=3)
    axes.margins(x=0.15)  # for the labels
    axes.invert_yaxis()
    axes.set_xlabel(what)


def draw_sizes(axes: Any, app: str, entries: dict[str, dict[str, Any]]) -> None:
    """Plot rates on CPU and GPU over sizes."""
    sizes = [size for size in FULL["sizes"][app] if size in entries]
    for device, colour in zip(("cpu", "gpu"), COLOURS, strict=False):
        ranks = f", {entries[sizes[-1]]['ranks']} ranks" if device == "cpu" else ""
        rates = [entries[size][device] for size in sizes]
        axes.plot(sizes, rates, "o-", color=colour, label=device.upper() + ranks)
    axes.set_yscale("log")
    axes.set_xticks(range(len(sizes)), sizes, rotation=20, ha="right", rotation_mode="anchor")
    axes.set_title(app)
    axes.set_ylabel(entries[sizes[0]]["unit"])
    axes.legend()


def figure(document: dict[str, Any]) -> Figure:
    """The whole figure, of the cases that were measured."""
    results = document["results"]
    kernels, apps = results["kernels"], results.get("sizes", {})
    shares = {name: k["share_of_copy"] for name, k in kernels.items() if k["share_of_copy"]}
    rates = {
        configuration: found["rate"] / 1e9
        for configuration, found in results.get("blocks", {}).items()
    }
    drawn = blank_figure(4 * max(2, len(apps)), 7)
    top, bottom = drawn.subfigures(2, 1)
    left, right = top.subplots(1, 2)
    draw_bars(left, shares, "share of a copy's bytes per second")
    left.axvline(1, color="0.6")
    draw_bars(right, rates, "in blocks, 10^9 points or particles per second")
    if apps:
        panels = bottom.subplots(1, len(apps), squeeze=False)[0]
        for axes, (app, entries) in zip(panels, apps.items(), strict=True):
            draw_sizes(axes, app, entries)
    drawn.suptitle(results["device"])
    return drawn


def main() -> int:
    """Draw the figure if there are results."""
    file = RESULTS / "gpu.json"
    if not file.exists():
        print(f"{file.name} is not there; make gpu-bench on a GPU", file=sys.stderr)
        return NO_RESULTS
    figure(json.loads(file.read_text())).savefig(FIGURE, dpi=120)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
