"""The figure of ``miniapps replay``: predicted time per step over the number of PEs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from miniapps.workbench.quoting import figure as quoted
from miniapps.workbench.show.captions import wrapped
from miniapps.workbench.show.marks import BELOW, blank_figure, styled
from miniapps.workbench.show.plots import COLOURS

MARKERS = "osD^vPX"


@styled()
def figure_of(points: Sequence[dict[str, Any]], title: str) -> Any:
    """A curve for each balancer and period, and for each ODF if there are several on some PEs.

    ``points``: the keys of a `Choice`, and ``step_s``. The bound of any placement is dashed.
    """
    figure = blank_figure(7, 4.8)
    axes = figure.subplots()
    curves: dict[str, list[tuple[int, float]]] = {}
    pes = {point["pes"] for point in points}
    odfs = {(point["pes"], point["odf"]) for point in points}
    for point in points:
        name = point["balancer"]
        name += f" every {point['period']}" if point["period"] else ""
        name += f", ODF {point['odf']:g}" if len(odfs) > len(pes) else ""
        curves.setdefault(name, []).append((point["pes"], 1e3 * point["step_s"]))
    for place, (name, curve) in enumerate(curves.items()):
        look: dict[str, Any] = {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "markersize": 4,
            "fillstyle": "none",
        }
        if name.startswith("optimal"):
            look = {"color": "black", "linestyle": "--", "marker": "_"}
        axes.plot(*zip(*curve, strict=True), label=name, **look)
    if len(pes) > 1:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
    axes.set_xticks(sorted(pes), [str(count) for count in sorted(pes)])
    axes.tick_params(axis="x", labelrotation=45 if len(pes) > 8 else 0)
    axes.set_xlabel("PEs")
    axes.set_ylabel("predicted time per step [ms]")
    axes.set_title(quoted(wrapped(title, 78)), fontsize=9)
    axes.legend(bbox_to_anchor=(0.5, -0.2), ncols=3, **BELOW)
    return figure
