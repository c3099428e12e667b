"""Layout of figures, limits and ticks of axes, marks where a value lies beyond its axis."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.workbench.run.replaced import replacing

BEYOND = "beyond"  # gid of the marks
FEW = 40  # points of a curve; if there are not more, each has a dot
COLUMNS = 3  # of a legend
CLEAR = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}  # a label that no line crosses
BELOW: dict[str, Any] = {"loc": "upper center", "frameon": False, "fontsize": 8}


@contextmanager
def words_kept() -> Iterator[None]:
    """A context in which matplotlib keeps to itself where its cache is if there is no home."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def styled(**more: Any) -> Iterator[None]:
    """A context, or decorator, in which figures have matplotlib's own style and ``more`` settings.

    So a user's ``matplotlibrc`` changes no figure; outside, the user's settings are as before.
    """
    with words_kept():
        import matplotlib as mpl

    usual: dict[Any, Any] = {
        name: value for name, value in mpl.rcParamsDefault.items() if "backend" not in name
    }
    with mpl.rc_context(usual | more):
        yield


def blank_figure(width: float, height: float) -> Any:
    """An empty matplotlib Figure whose texts do not overlap; sizes in inches.

    The layout is computed twice: the first pass changes the size of the axes, with it their ticks,
    and with them the room that the labels of the ticks need.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    class Layout(ConstrainedLayoutEngine):
        def execute(self, fig: Any) -> Any:
            super().execute(fig)
            return super().execute(fig)

    return Figure(figsize=(width, height), layout=Layout())


@styled()
def write(figure: Any, path: Path) -> Path:
    """Write a figure to a file, which is complete or as before; returns its path."""
    with replacing(path) as part:
        figure.savefig(part, dpi=150, format=path.suffix[1:])
    return path


def upper_limit(values: np.ndarray) -> float:
    """The upper limit of an axis from 0: the largest value, unless single ones are far above.

    Then it is 1.5 times the 90 % quantile, and `draw_curve` marks what lies beyond.
    """
    largest, usual = float(np.max(values)), 1.5 * float(np.quantile(values, 0.9))
    return 1.05 * largest if largest <= usual or usual == 0 else usual


def most_of(values: np.ndarray) -> float:
    """The largest value, limited to 1.5 times the 98 % quantile so that outliers do not count.

    A lower quantile would cut off the bars before the first load-balancing step. The quantile is
    one of the values, as between the two largest of a few it would grow with the outlier.
    """
    return min(float(values.max()), 1.5 * float(np.quantile(values, 0.98, method="lower")))


def draw_curve(axes: Any, steps: np.ndarray, values: np.ndarray, top: float, **look: Any) -> None:
    """Draw values over steps, and a triangle at ``top`` for each value above it."""
    dots = {"marker": "."} if len(steps) <= FEW else {}
    axes.plot(steps, values, **dots, **look)
    beyond = values > top
    if beyond.any():
        mark = {"marker": "^", "linestyle": "none", "clip_on": False, "zorder": 3}
        at = steps[beyond]
        axes.plot(at, np.full(len(at), top), color=look["color"], **mark, gid=BEYOND, markersize=4)


def finish_curves(axes: Any, top: float, largest: float, lb_steps: Sequence[int] = ()) -> None:
    """Set the limits of curves over steps, in ms, and mark the load-balancing steps.

    The legend, with all marks, is below the curves.
    """
    from matplotlib.lines import Line2D

    for step in lb_steps:
        label = "load balancing" if step == lb_steps[0] else None
        axes.axvline(step, color="black", linewidth=0.5, linestyle=":", label=label)
    axes.set_ylim(0, top or 1.0)
    integer_ticks(axes.xaxis)
    handles, labels = axes.get_legend_handles_labels()
    if largest > top:
        handles.append(Line2D([], [], color="#555555", marker="^", markersize=4, linestyle="none"))
        labels.append(f"beyond the axis, up to {largest:.3g} ms")
    if handles:
        axes.legend(handles, labels, bbox_to_anchor=(0.5, -0.16), ncols=COLUMNS, **BELOW)


def integer_ticks(*several: Any) -> None:
    """Put the ticks of axes at integers only: steps, blocks, PEs."""
    from matplotlib.ticker import MaxNLocator

    for axis in several:
        steps = (1, 2, 5, 10)
        axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1, steps=steps))
