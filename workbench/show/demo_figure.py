"""The figure of ``miniapps demo``: scaling of the apps, and what balancing a load gains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from miniapps import drivers
from miniapps.workbench.show.captions import machine_text, problem_text, wrapped
from miniapps.workbench.show.marks import CLEAR, blank_figure, styled
from miniapps.workbench.show.plots import COLOURS
from miniapps.workbench.study.cells import number

WAITING = "#D9D9D9"
BELOW: Mapping[str, Any] = {
    "loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2, "frameon": False
}  # fmt: skip


def named(driver: str, pes: int, odf: int = 1, balancer: str | None = None, unit: str = "") -> str:
    """A configuration in a few words; ``unit``: after the number of PEs."""
    blocks = f", {odf} blocks per PE" if odf > 1 else ""
    balanced = ", balanced" if balancer else ""
    return f"{driver} {pes}{unit}{blocks}{balanced}" if pes > 1 else driver


@styled()
def figure_of(scaling: list[dict[str, Any]], uneven: list[dict[str, Any]]) -> Any:
    """A figure of the records of several apps, and of one problem with an uneven load."""
    figure = blank_figure(11, 4.6)
    left, right = figure.subplots(1, 2)
    _draw_scaling(left, [record for record in scaling if record["valid"]])
    _draw_uneven(right, [record for record in uneven if record["valid"]])
    machine = machine_text(record["host"] for record in (*scaling, *uneven))
    figure.supxlabel(f"on {machine}", fontsize=8, x=0.99, ha="right")
    return figure


def step_ms(record: dict[str, Any]) -> float:
    """The mean time of a step, ms."""
    return float(record["wall_s"] / record["steps"] * 1e3)


def _draw_scaling(axes: Any, records: list[dict[str, Any]]) -> None:
    """Bars of speed-up over the first driver, by app, of the drivers that studies compare."""
    apps = list(dict.fromkeys(record["app"] for record in records))
    described = [(drivers.of_record(record["driver"]), record) for record in records]
    several = [r for driver, r in described if driver.studied and not driver.one_pe]
    names = list(dict.fromkeys(record["driver"] for record in several))
    alone = {r["app"]: step_ms(r) for r in reversed(records) if r["pes"] == 1}
    width = 0.8 / max(1, len(names))
    for place, name in enumerate(names):
        mine = [r for r in several if r["driver"] == name and r["app"] in alone]
        places = [apps.index(r["app"]) + (place - (len(names) - 1) / 2) * width for r in mine]
        gains = [alone[r["app"]] / step_ms(r) for r in mine]
        bars = axes.bar(places, gains, 0.92 * width, color=COLOURS[place], label=name)
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize=9, bbox=CLEAR)
    pes = max((r["pes"] for r in several), default=1)
    axes.axhline(pes, color="black", linewidth=1, linestyle="--", label="ideal")
    axes.set_xticks(range(len(apps)), apps)
    for place, app in enumerate(apps):
        problem = problem_text(app, (r["problem"] for r in records if r["app"] == app))
        where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (0, -20)}
        small: dict[str, Any] = {
            "textcoords": "offset points",
            "ha": "center",
            "va": "top",
            "fontsize": 7.5,
        }
        axes.annotate(wrapped(problem, 20), (place, 0), **where, **small)
    axes.set_ylim(0, 1.15 * max([pes, *(bar.get_height() for bar in axes.patches)]))
    axes.set_ylabel(f"speed-up of {pes} PEs over one process")
    axes.set_title("The same problem, the same kernels, the same bits", fontsize=9)
    axes.legend(**{**BELOW, "bbox_to_anchor": (0.5, -0.22), "ncols": 3})


def _draw_uneven(axes: Any, records: list[dict[str, Any]]) -> None:
    """A bar per configuration: time per step, of which the PEs computed and waited."""
    for place, record in enumerate(records):
        busy = step_ms(record) * record["utilisation"]
        waited = step_ms(record) - busy
        labels = ("computing", "waiting") if not place else (None, None)
        axes.barh(place, busy, color=COLOURS[0], label=labels[0])
        axes.barh(place, waited, left=busy, color=WAITING, label=labels[1])
        axes.text(
            step_ms(record), place, f" {number(step_ms(record), 3)} ms", va="center", fontsize=9
        )
    names = [named(r["driver"], r["pes"], r["odf"], r["balancer"], " PEs") for r in records]
    axes.set_yticks(range(len(names)), [name.replace(", ", ",\n", 1) for name in names])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.2 * max(map(step_ms, records), default=1))
    axes.set_xlabel("time per step, mean over PEs [ms]")
    problems = {r["app"]: problem_text(r["app"], [r["problem"]]) for r in records}
    said = " and ".join(f"{app}, {problem}" for app, problem in problems.items())
    axes.set_title(f"An uneven load\n{wrapped(said, 66)}", fontsize=9)
    axes.legend(**BELOW)
