"""Figures of records and runs. matplotlib is imported here only, and draws without a display."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from drivers.timing import compute_per_pe
from miniapps.parameters import InputError

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


def run_figure(source: Path) -> Any:
    """A Figure of the final state of a run, the load of its PEs and its step times.

    Raises InputError where ``source`` is no such file.
    """
    import h5py
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 3.6), layout="constrained")
    state, load, time = figure.subplots(1, 3)
    try:
        with h5py.File(source) as file:
            record = json.loads(file.attrs["record"])
            name = next(name for name in file["state"] if not name.endswith(".id"))
            _draw_state(state, file["state"], name, record)
            timing = {name: data[...] for name, data in file["timing"].items()}
    except (OSError, KeyError, StopIteration) as error:
        raise InputError("FILE.h5", source, f"must be written by --output ({error})") from None
    _draw_load(load, timing, record)
    _draw_step_times(time, timing, record)
    figure.suptitle(f"{record['app']}: {_label(record)}".replace("\n", ", "))
    return figure


def _draw_state(axes: Any, states: Any, name: str, record: dict[str, Any]) -> None:
    """Particles by their density, a field by its values; of three axes the middle along z."""
    data = states[name]
    unit = "cells"
    if "box" in record:
        shown, extent = _column_density(data, record["box"][:2])
        title, unit = "atoms per sigma$^2$ at the end, seen along z", "sigma"
    elif f"{name}.id" in states:
        shown, extent = _column_density(data, [record["problem"]["size"]] * 2)
        title = "particles per cell at the end"
    else:
        shown = data[...] if data.ndim == 2 else data[..., data.shape[-1] // 2]
        title, extent = f"{name} at the end", (0, shown.shape[0], 0, shown.shape[1])
    image = axes.imshow(shown.T, origin="lower", extent=extent, cmap="viridis", aspect="auto")
    axes.figure.colorbar(image, ax=axes)
    axes.set(title=title, xlabel=f"x [{unit}]", ylabel=f"y [{unit}]")


def _column_density(rows: Any, sides: list[float]) -> tuple[np.ndarray, tuple[float, ...]]:
    """Particles per unit of area of x and y, and the extent of the picture."""
    bins = [max(1, min(int(side), 100)) for side in sides]
    span = [(0.0, side) for side in sides]
    count, *_ = np.histogram2d(rows[:, 0], rows[:, 1], bins=bins, range=span)
    return count * np.prod(bins) / np.prod(sides), (0, sides[0], 0, sides[1])


def _draw_load(axes: Any, timing: dict[str, Any], record: dict[str, Any]) -> None:
    """What each PE computed per step, and where balancings were."""
    rounds = timing["rounds"]
    compute = compute_per_pe(timing["blocks"], record["pes"], len(rounds)) / rounds[:, 1]
    for pe, seconds in enumerate(compute):
        colour = COLOURS[pe % len(COLOURS)]
        axes.plot(rounds[:, 0], seconds * 1e3, color=colour, linewidth=0.8, label=f"PE {pe}")
    for entry in record["lb"]:
        axes.axvline(entry["step"], color="black", linewidth=0.5, linestyle=":")
    axes.set(title="load of each PE", xlabel="step", ylabel="computing [ms per step]")
    axes.set_ylim(0, 1.5e3 * float(np.quantile(compute.max(axis=0), 0.9)))
    if record["pes"] <= len(COLOURS):
        axes.legend(loc="upper right")


def _draw_step_times(axes: Any, timing: dict[str, Any], record: dict[str, Any]) -> None:
    """The wall of each step."""
    rounds = timing["rounds"]
    seconds = timing["wall_s"] / rounds[:, 1]
    axes.plot(rounds[:, 0], seconds * 1e3, color=COLOURS[0], linewidth=0.8)
    axes.set(title="time of each step", xlabel="step", ylabel="wall [ms per step]")
    axes.set_ylim(0, 1.5e3 * float(np.quantile(seconds, 0.9)))
