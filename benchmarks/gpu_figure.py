"""Draw docs/figures/gpu.png from results/gpu.json: shares of a copy; CPU and GPU over sizes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from common import RESULTS
from matplotlib.figure import Figure

from workbench.plots import COLOURS

TARGET = Path(__file__).parents[1] / "docs" / "figures" / "gpu.png"
NO_RESULTS = 2


def draw_shares(axes: Any, kernels: dict[str, dict[str, Any]]) -> None:
    """What each kernel moves, over what a copy moves."""
    shown = {name: k["share_of_copy"] for name, k in kernels.items() if k["share_of_copy"]}
    bars = axes.barh(list(shown), list(shown.values()), color=COLOURS[0])
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.invert_yaxis()
    axes.axvline(1, color="0.6")
    axes.set_xlabel("share of a copy's bytes per second")


def draw_sizes(axes: Any, app: str, entries: list[dict[str, Any]]) -> None:
    """Rates on CPU and GPU from small to large."""
    sizes = [str(entry["size"]) for entry in entries]
    for device, colour in zip(("cpu", "gpu"), COLOURS, strict=False):
        ranks = f", {entries[-1]['ranks']} ranks" if device == "cpu" else ""
        rates = [entry[device] for entry in entries]
        axes.plot(sizes, rates, "o-", color=colour, label=device.upper() + ranks)
    axes.set_yscale("log")
    axes.set_title(app)
    axes.set_ylabel(entries[0]["unit"])
    axes.legend()


def figure(document: dict[str, Any]) -> Figure:
    """The whole figure."""
    results = document["results"]
    drawn = Figure(figsize=(4 * len(results["sizes"]), 7), layout="constrained")
    top, bottom = drawn.subfigures(2, 1)
    draw_shares(top.subplots(), results["kernels"])
    panels = bottom.subplots(1, len(results["sizes"]), squeeze=False)[0]
    for axes, (app, entries) in zip(panels, results["sizes"].items(), strict=True):
        draw_sizes(axes, app, entries)
    drawn.suptitle(results["device"])
    return drawn


def main() -> int:
    """Draw it, if there are results."""
    file = RESULTS / "gpu.json"
    if not file.exists():
        print(f"gpu_figure: {file.name} is not there; make gpu-bench on a GPU", file=sys.stderr)
        return NO_RESULTS
    figure(json.loads(file.read_text())).savefig(TARGET, dpi=120)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
