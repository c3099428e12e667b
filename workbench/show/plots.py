"""Figures of records and of one run. matplotlib draws without a display."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from miniapps.workbench.run.writable import check_figure
from miniapps.workbench.show.captions import run_title
from miniapps.workbench.show.marks import (
    blank_figure,
    draw_curve,
    finish_curves,
    integer_ticks,
    most_of,
    styled,
    upper_limit,
    write,
)
from miniapps.workbench.show.reading import opened
from miniapps.workbench.show.saved import SavedRun, periods_of_steps
from miniapps.workbench.show.thumbnails import (
    Sides,
    are_counted,
    counts,
    density,
    shown_name,
    thumbnail_of,
)

PERIODS = 200  # periods of steps over which the loads of blocks are averaged
BLOCKS = 64  # rows of a panel; of more blocks, those with the largest load are drawn
LETTERS = 140  # of a line of the title

# Okabe and Ito's palette: distinguishable with colour-vision deficiency.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def write_figure(source: Path, target: Path) -> Path:
    """Draw a saved run, in the format given by the target's suffix. Raises InputError."""
    check_figure(target)
    return write(run_figure(source), target)


@styled()
def run_figure(source: Path) -> Any:
    """A Figure of a run: final state, loads of PEs and blocks, step times, placement, migrations.

    Placement only on several PEs, migrations only if the load was balanced. Raises InputError if
    ``source`` is not a file of ``miniapps run --output``.
    """
    run = SavedRun.read(source)
    figure = blank_figure(13, 7.6)
    halves: Any = figure.subfigures(2, 1)
    upper, lower = halves
    state, load, time = upper.subplots(1, 3)
    panels = [_draw_blocks]
    panels += [_draw_homes] if run.record["pes"] > 1 else []
    panels += [_draw_migrations] if run.lb_steps else []
    below = lower.subplots(1, len(panels), squeeze=False)[0]
    with opened(source) as file:
        _draw_state(state, file["state"], run)
    _draw_load(load, run)
    _draw_step_times(time, run)
    for axes, draw in zip(below, panels, strict=True):
        draw(axes, run)
    figure.suptitle(run_title(run.record, LETTERS), fontsize=11)
    return figure


def _draw_state(axes: Any, states: Any, run: SavedRun) -> None:
    """Draw the density of particles or the values of a field; of a 3-d field the middle slice.

    If the domain has one axis, draw a line over it.
    """
    data, seen = states[shown_name(states)], ""
    if are_counted(states):
        shown, extent = density(counts(data, run.sides, 100), run.sides), _extent(run.sides)
        seen = ", seen along z" if "box" in run.record else ""
    else:
        extent = _extent(data.shape[:2])
        seen = ", middle slice along z" if data.ndim == 3 else ""
        if data.ndim == 1:
            shown = thumbnail_of(states, run.sides)
        else:
            shown = data[...] if data.ndim == 2 else data[..., data.shape[-1] // 2]
    axes.set(title=f"final state{seen}", xlabel=f"x [{run.unit}]")
    if shown.ndim == 1:
        _draw_profile(axes, shown, extent, run.quantity)
        return
    image = axes.imshow(shown.T, origin="lower", extent=extent, cmap="viridis", aspect="auto")
    bar = axes.figure.colorbar(image, ax=axes, label=run.quantity)
    if np.array_equal(shown, np.round(shown)):  # numbers of particles, counters
        integer_ticks(bar.ax.yaxis)
    axes.set_ylabel(f"y [{run.unit}]")


def _draw_profile(axes: Any, values: np.ndarray, extent: tuple[float, ...], name: str) -> None:
    """Draw values over the only axis, each in the middle of its pixel."""
    x = np.linspace(extent[0], extent[1], 2 * len(values) + 1)[1::2]
    axes.plot(x, values, color=COLOURS[0], linewidth=1)
    axes.set(ylabel=name, xlim=extent)


def _extent(sides: Sides) -> tuple[float, ...]:
    """The lower and upper end of each axis."""
    return tuple(edge for side in sides for edge in (0, side))


def _draw_load(axes: Any, run: SavedRun) -> None:
    """Draw the compute time of each PE per step."""
    compute = 1e3 * run.compute() / run.rounds[:, 1]
    top = upper_limit(compute.max(axis=0))
    named = len(compute) <= len(COLOURS)
    for pe, values in enumerate(compute):
        look = {"color": COLOURS[pe % len(COLOURS)], "linewidth": 0.8}
        label = f"PE {pe}" if named else f"_PE {pe}"
        draw_curve(axes, run.rounds[:, 0], values, top, label=label, **look)
    axes.set(title="load of each PE", xlabel="step", ylabel="computing [ms per step]")
    finish_curves(axes, top, compute.max(), run.lb_steps)


def _draw_step_times(axes: Any, run: SavedRun) -> None:
    """Draw the wall time per step."""
    values = 1e3 * run.wall_s / run.rounds[:, 1]
    top = upper_limit(values)
    draw_curve(axes, run.rounds[:, 0], values, top, color=COLOURS[0], linewidth=0.8)
    axes.set(title="time of each step", xlabel="step", ylabel="wall [ms per step]")
    finish_curves(axes, top, values.max(), run.lb_steps)


def _draw_blocks(axes: Any, run: SavedRun) -> None:
    """Draw each block's compute time over steps, with a line at each migration."""
    steps, edges, load, pe = _by_period(run)
    top = most_of(load)
    look = {"cmap": "cividis", "vmin": 0, "vmax": top or None, "rasterized": True}
    image = axes.pcolormesh(steps, edges, load, **look)
    beyond = "max" if load.max() > top else "neither"  # an arrow at the end of the colour bar
    axes.figure.colorbar(image, ax=axes, label="computing [ms per step]", extend=beyond)
    row, period = np.nonzero(np.diff(pe, axis=1))
    axes.vlines(steps[period + 1], row - 0.5, row + 0.5, color="white", linewidth=1)
    moves = "white line: it moved" if len(row) else ""
    _finish_blocks(axes, run, "load of each block", moves)


def _draw_homes(axes: Any, run: SavedRun) -> None:
    """Draw the PE of each block over steps."""
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm, ListedColormap

    steps, edges, _, pe = _by_period(run)
    pes = run.record["pes"]
    few = pes <= len(COLOURS)
    colours = ListedColormap(COLOURS[:pes]) if few else colormaps["viridis"].resampled(pes)
    norm = BoundaryNorm(np.arange(pes + 1) - 0.5, pes)
    image = axes.pcolormesh(steps, edges, pe, cmap=colours, norm=norm, rasterized=True)
    bar = axes.figure.colorbar(image, ax=axes, label="PE")
    bar.ax.minorticks_off()
    bar.set_ticks(np.unique(np.linspace(0, pes - 1, 6).astype(int)))
    _finish_blocks(axes, run, "PE of each block")


def _by_period(run: SavedRun) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Edges of periods and rows, compute times [ms per step] and PEs: (rows, periods).

    A row per block, of those with the largest load.
    """
    periods = periods_of_steps(run.rounds[:, 0], run.end, run.lb_steps, PERIODS)
    steps = np.array([*(first for first, _ in periods), periods[-1][1]])
    shown = run.heaviest(BLOCKS)
    load, pe = run.by_block(periods)
    return steps, np.arange(len(shown) + 1) - 0.5, load[shown], pe[shown]


def _finish_blocks(axes: Any, run: SavedRun, title: str, more: str = "") -> None:
    """Name the axes and rows of a panel of blocks; state in its title which blocks are shown."""
    from matplotlib.ticker import FuncFormatter

    shown = run.heaviest(BLOCKS)
    axes.set(title=f"{title} ({more})" if more else title, xlabel="step", ylabel="block")
    integer_ticks(axes.xaxis, axes.yaxis)
    if len(shown) < run.blocks:
        names = dict(enumerate(shown))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda row, _: str(names.get(row, ""))))
        axes.set_title(
            f"{axes.get_title()}\nthe {len(shown)} of {run.blocks} with the largest load"
        )


def _draw_migrations(axes: Any, run: SavedRun) -> None:
    """Draw the number of blocks that each load-balancing step moved."""
    moved = [entry["moved"] for entry in run.record["lb"]]
    width = 0.4 * min(np.diff(run.lb_steps), default=10)
    axes.bar(run.lb_steps, moved, width=width, color=COLOURS[0])
    axes.set(title=f"migrations: {sum(moved)}", xlabel="step", ylabel="blocks moved")
    ends = [run.lb_steps[0] - width / 2, run.lb_steps[-1] + width / 2]
    axes.set_xlim(min(run.rounds[0, 0], ends[0]), max(run.end, ends[1]))
    axes.set_ylim(0, 1.1 * max([*moved, 1]))
    integer_ticks(axes.xaxis, axes.yaxis)
