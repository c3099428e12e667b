"""The figure of where a PE's time goes: stacked bars of compute, wait and load balancing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from miniapps.workbench.show.marks import CLEAR
from miniapps.workbench.show.plots import COLOURS
from miniapps.workbench.study.analysis import Result, by_configuration
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.cells import number, problem_cell
from miniapps.workbench.study.drawing import OVERSUBSCRIBED, broken, fitted_legend, new_figure

PARTS = (  # of a PE's time: name, colour, hatch
    ("compute", COLOURS[0], ""),
    ("wait", "#ffffff", "////"),
    ("balance", COLOURS[1], "xxxx"),
)
FAR_APART = 12.0  # longest over shortest step above which stacked bars are drawn as percentages
MOST_BARS = 14  # of a panel
PANELS = 3  # beside each other
WIDEST, NARROW, TITLE = 60, 26, 36  # letters of a line of a label; where panels are narrow
FEW = 4  # points of a configuration, for which it gets no panel of its own

Panels = list[tuple[str, list[Result]]]  # titles, and the points of each


def parts_figure(campaign: Campaign, found: list[Result]) -> Any:
    """Stacked bars of compute, wait and load balancing per point; oversubscribed ones come last.

    Bars are in ms per step. If steps differ so much in length that short ones would be invisible,
    bars are percentages of the step, annotated with its length. If there are more than `MOST_BARS`,
    each configuration has panels of its own.
    """
    order = sorted(found, key=lambda result: (result.oversubscribed, result.number))
    panels = _panels(order)
    labels = [[_label(campaign, result, title) for result in mine] for title, mine in panels]
    lines = 1 + max(label.count("\n") for mine in labels for label in mine)
    width, height, rows, columns = _layout(panels, lines)
    figure, grid = new_figure(width, height, rows, columns)
    parts = [part for part in PARTS if any(result.parts[part[0]] for result in order)]
    shares = _are_shares(order)
    longest = 100.0 if shares else 1e3 * max(sum(result.parts.values()) for result in order)
    for axes, (title, mine), own in zip(grid.flat, panels, labels, strict=False):
        _draw_panel(axes, mine, parts, shares)
        axes.set_yticks(axes.get_yticks(), own, fontsize=8)
        axes.set_title(broken(title, TITLE))
        axes.set_xlim(0, 1.3 * longest)
        if shares:
            axes.set_xticks(np.linspace(0, 100, 5))
        axes.set_xlabel("share of a step [%]" if shares else "a PE's time per step [ms]")
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    fitted_legend(figure, *grid.flat[0].get_legend_handles_labels())
    return figure


def _layout(panels: Panels, lines: int) -> tuple[float, float, int, int]:
    """Width and height, inches, and rows and columns of a figure with labels of so many lines."""
    in_threes = panels[0][0] and len(panels) != 4  # four are two above two
    columns = min(PANELS if in_threes else 2, len(panels))
    rows = -(-len(panels) // columns)
    highest = max(len(mine) for _, mine in panels)
    return (
        5.6 if columns == 1 else 11.2,
        0.9 + rows * (0.6 + (0.13 + 0.14 * lines) * highest),
        rows,
        columns,
    )


def _panels(order: Sequence[Result]) -> Panels:
    """Titles and points of the panels.

    If the points are few, or few have the same configuration, titles are empty.
    """
    groups = by_configuration(list(order))
    if len(order) <= MOST_BARS or len(order) < FEW * len(groups):
        groups = {"": list(order)}
    panels = []
    for configuration, mine in groups.items():
        counts = {result.pe_count for result in mine}
        if configuration and len(counts) == 1:
            configuration = ", ".join((configuration, *counts))
        parts = -(-len(mine) // MOST_BARS)
        length = -(-len(mine) // parts)
        for first in range(0, len(mine), length):
            more = ", continued" if first and configuration else ""
            panels.append((configuration + more, mine[first : first + length]))
    return panels


def _are_shares(found: Sequence[Result]) -> bool:
    """Whether bars are percentages, because some would be too short to see."""
    lengths = [result.step.value for result in found]
    return max(lengths) > FAR_APART * min(lengths)


def _draw_panel(
    axes: Any, mine: Sequence[Result], parts: Sequence[tuple[str, str, str]], shares: bool
) -> None:
    """Draw the bars of points, with the length of each step; oversubscribed ones after a line."""
    apart = [result.oversubscribed for result in mine]
    positions = np.arange(len(mine)) + 0.8 * np.array(apart)
    left = np.zeros(len(mine))
    for name, colour, hatch in parts:
        widths = np.array([_part(result, name, shares) for result in mine])
        look = {"color": colour, "hatch": hatch, "edgecolor": "black", "linewidth": 0.5}
        axes.barh(positions, widths, 0.72, left, label=name, **look)
        left += widths
    for position, end, result in zip(positions, left, mine, strict=True):
        length = number(result.step.value * 1e3, 3)
        look = {"xytext": (3, 0), "textcoords": "offset points", "bbox": CLEAR}
        axes.annotate(f"{length} ms", (end, position), va="center", fontsize=7.5, **look)
    axes.set_yticks(positions)
    axes.set_ylim(positions[-1] + 0.7, positions[0] - 0.7)
    axes.grid(axis="y", visible=False)
    if 0 < sum(apart) < len(mine):
        first = positions[apart.index(True)]
        axes.axhline(first - 0.9, color="#777777", linewidth=0.8)


def _part(result: Result, name: str, shares: bool) -> float:
    """The width of a part's bar."""
    return result.parts[name] * (100 / sum(result.parts.values()) if shares else 1e3)


def _label(campaign: Campaign, result: Result, title: str) -> str:
    """The label of a point: what the title of its panel does not say."""
    study = campaign.head["study"]
    words = [] if title else [result.configuration]
    if f", {result.pe_count}" not in title:
        words.append(result.pe_count)
    if study["kind"] == "granularity" or "vary" in study:
        words.append(problem_cell(campaign, result.number))
    label = broken(", ".join(words) or result.pe_count, NARROW if title else WIDEST)
    if not result.oversubscribed:
        return label
    return f"{label}\n({OVERSUBSCRIBED})" if title else f"{label} ({OVERSUBSCRIBED})"
