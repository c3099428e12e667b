"""Figures of records. matplotlib is imported here only, and draws without a display."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Okabe and Ito's palette, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def plot_step_times(records: list[dict[str, Any]], path: Path) -> Path:
    """One panel per app: the median step time of each run, a line down to the fastest."""
    from matplotlib.figure import Figure

    apps = list(dict.fromkeys(record["app"] for record in records))
    figure = Figure(figsize=(3.6 * len(apps), 3.4), layout="constrained")
    for axes, app in zip(figure.subplots(1, len(apps), squeeze=False)[0], apps, strict=True):
        mine = [record for record in records if record["app"] == app and record["valid"]]
        for place, record in enumerate(mine):
            step = {name: seconds * 1e3 for name, seconds in record["step_time_s"].items()}
            axes.bar(place, step["median"], color=COLOURS[place % len(COLOURS)])
            axes.vlines(place, step["min"], step["median"], color="black", linewidth=1)
        axes.set_xticks(range(len(mine)), [_label(record) for record in mine], fontsize=8)
        axes.set_ylabel("step time, median down to fastest [ms]")
        axes.set_title(app)
    figure.savefig(path, dpi=150)
    return path


def _label(record: dict[str, Any]) -> str:
    """A run in two or three short lines."""
    lines = [record["driver"], f"{record['pes']} PE"]
    if record["driver"] == "charm":
        lines.append(f"ODF {record['odf']}")
    if record["balancer"]:
        lines.append(record["balancer"])
    return "\n".join(lines)
