"""Figures of records and of one run. matplotlib draws without a display."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from miniapps.parameters import require
from workbench.run.spec import check_writable
from workbench.show.saved import SavedRun, opened, periods_of_steps
from workbench.show.thumbnails import Sides, counts, shown_name, thumbnail_of

PERIODS = 200  # periods of steps over which the loads of blocks are averaged
SUFFIXES = (".png", ".svg", ".pdf")

# Okabe and Ito's palette: distinguishable with colour-vision deficiency.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def write_figure(source: Path, target: Path) -> Path:
    """Draw a saved run, in the format given by the target's suffix. Raises InputError."""
    require(target.suffix in SUFFIXES, "--figure", target, f"must end in {', '.join(SUFFIXES)}")
    check_writable("--figure", target)
    run_figure(source).savefig(target, dpi=150)
    return target


def run_figure(source: Path) -> Any:
    """A Figure of a run: final state, loads of PEs and blocks, step times, placement, migrations.

    Raises InputError if ``source`` is not a file of ``miniapps run --output``.
    """
    from matplotlib.figure import Figure

    run = SavedRun.read(source)
    figure = Figure(figsize=(13, 7.2), layout="constrained")
    state, load, time, blocks, homes, moves = figure.subplots(2, 3).flat
    with opened(source) as file:
        _draw_state(state, file["state"], run)
    _draw_load(load, run)
    _draw_step_times(time, run)
    _draw_blocks(blocks, homes, run)
    _draw_migrations(moves, run)
    figure.suptitle(run.command())
    return figure


def _draw_state(axes: Any, states: Any, run: SavedRun) -> None:
    """Draw the density of particles or the values of a field; of a 3-d field the middle slice.

    If the domain has one axis, draw a line over it.
    """
    name = shown_name(states)
    data = states[name]
    unit = "cells"
    if "box" in run.record:
        shown, extent = _column_density(data, run.sides)
        title, unit = "atoms per sigma$^2$ at the end, seen along z", "sigma"
    elif f"{name}.id" in states:
        shown, extent = _column_density(data, run.sides)
        title = "particles per cell at the end"
    else:
        title, extent = f"{name} at the end", _extent(data.shape[:2])
        if data.ndim == 1:
            shown = thumbnail_of(states, run.sides)
        else:
            shown = data[...] if data.ndim == 2 else data[..., data.shape[-1] // 2]
    axes.set(title=title, xlabel=f"x [{unit}]")
    if shown.ndim == 1:
        _draw_profile(axes, shown, extent, name)
        return
    image = axes.imshow(shown.T, origin="lower", extent=extent, cmap="viridis", aspect="auto")
    axes.figure.colorbar(image, ax=axes)
    axes.set_ylabel(f"y [{unit}]")


def _draw_profile(axes: Any, values: np.ndarray, extent: tuple[float, ...], name: str) -> None:
    """Draw values over the only axis, each in the middle of its pixel."""
    x = np.linspace(extent[0], extent[1], 2 * len(values) + 1)[1::2]
    axes.plot(x, values, color=COLOURS[0], linewidth=1)
    axes.set(ylabel=name, xlim=extent[:2])


def _column_density(rows: Any, sides: Sides) -> tuple[np.ndarray, tuple[float, ...]]:
    """Particles per unit of volume, averaged along z, and the extent of the image or line."""
    count = counts(rows, sides, 100)
    return count * count.size / np.prod(sides), _extent(sides)


def _extent(sides: Sides) -> tuple[float, ...]:
    """The lower and upper end of each axis."""
    return tuple(edge for side in sides for edge in (0, side))


def _draw_load(axes: Any, run: SavedRun) -> None:
    """Draw the compute time of each PE per step, and mark the load-balancing steps."""
    compute = run.compute() / run.rounds[:, 1]
    for pe, seconds in enumerate(compute):
        colour = COLOURS[pe % len(COLOURS)]
        axes.plot(run.rounds[:, 0], seconds * 1e3, color=colour, linewidth=0.8, label=f"PE {pe}")
    for step in run.lb_steps:
        axes.axvline(step, color="black", linewidth=0.5, linestyle=":")
    axes.set(title="load of each PE", xlabel="step", ylabel="computing [ms per step]")
    axes.set_ylim(0, 1.5e3 * float(np.quantile(compute.max(axis=0), 0.9)))
    if run.record["pes"] <= len(COLOURS):
        axes.legend(loc="upper right")


def _draw_step_times(axes: Any, run: SavedRun) -> None:
    """Draw the wall time per step."""
    seconds = run.wall_s / run.rounds[:, 1]
    axes.plot(run.rounds[:, 0], seconds * 1e3, color=COLOURS[0], linewidth=0.8)
    axes.set(title="time of each step", xlabel="step", ylabel="wall [ms per step]")
    axes.set_ylim(0, 1.5e3 * float(np.quantile(seconds, 0.9)))


def _draw_blocks(loads: Any, homes: Any, run: SavedRun) -> None:
    """Draw each block's compute time and its PE over steps, with a line at each migration."""
    from matplotlib import colormaps
    from matplotlib.colors import BoundaryNorm, ListedColormap

    periods = periods_of_steps(run.rounds[:, 0], run.end, run.lb_steps, PERIODS)
    load, pe = run.by_block(periods)
    steps = np.array([*(first for first, _ in periods), periods[-1][1]])
    numbers = np.arange(run.blocks + 1) - 0.5
    image = loads.pcolormesh(steps, numbers, load, cmap="cividis", vmin=0, rasterized=True)
    loads.figure.colorbar(image, ax=loads)
    block, period = np.nonzero(np.diff(pe, axis=1))
    loads.vlines(steps[period + 1], block - 0.5, block + 0.5, color="white", linewidth=1)
    loads.set(title="load of each block [ms per step]", xlabel="step", ylabel="block")
    pes = run.record["pes"]
    few = pes <= len(COLOURS)
    colours = ListedColormap(COLOURS[:pes]) if few else colormaps["viridis"].resampled(pes)
    norm = BoundaryNorm(np.arange(pes + 1) - 0.5, pes)
    image = homes.pcolormesh(steps, numbers, pe, cmap=colours, norm=norm, rasterized=True)
    homes.figure.colorbar(image, ax=homes, ticks=range(pes) if few else None)
    homes.set(title="PE of each block", xlabel="step", ylabel="block")


def _draw_migrations(axes: Any, run: SavedRun) -> None:
    """Draw the number of blocks that each load-balancing step moved."""
    moved = [entry["moved"] for entry in run.record["lb"]]
    width = 0.4 * min(np.diff(run.lb_steps), default=10)
    axes.bar(run.lb_steps, moved, width=width, color=COLOURS[0])
    axes.set(title=f"migrations: {sum(moved)}", xlabel="step", ylabel="blocks moved")
    axes.set_xlim(run.rounds[0, 0], run.end)
    axes.set_ylim(0, 1.1 * max([*moved, 1]))
