"""The animation of a run: one self-contained HTML page, drawn by plotly.

A slider selects a period of steps. Each PE is a stacked bar of its blocks, so a migrated block
appears in another bar. The length and colour of a block show its compute time. Below are the state
at that time (a heat map, or a line if the domain has one axis), and curves of imbalance and step
time. A second run of the same problem can be shown beside the first. No period spans a
load-balancing step.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.colors import sample_colorscale
from plotly.subplots import make_subplots

from miniapps.drivers.timing import imbalance
from miniapps.parameters import InputError
from miniapps.workbench.quoting import markup
from miniapps.workbench.run.record import fixed_parameters
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.show.captions import fitted, machine_text, wrapped
from miniapps.workbench.show.marks import most_of, upper_limit
from miniapps.workbench.show.page import LETTERS, SMALL_LETTERS, page_of
from miniapps.workbench.show.saved import Period, SavedRun, periods_of_steps

MOST_PERIODS = 80
POINTS = 1000  # per curve
BLOCKS = 64  # that have a part of a bar; the others of each PE, with less load, have one together
OTHERS = "#BBBBBB"  # the colour of that part
SCALE = "Cividis"  # readable with colour-vision deficiency
PANELS = BARS, STATE, IMBALANCE, STEP_TIME = 1, 2, 3, 4  # rows of the page
LINE = {"color": "#0072B2", "width": 1}
NOW = {"color": "#D55E00", "width": 2}
WIDTH, LINE_HEIGHT = 1250, 17  # pixels
OUTSIDE: dict[str, Any] = {"mode": "markers+text", "textfont_size": 11, "cliponaxis": False}
TITLE_LETTERS = 140, 170  # of a line of the title, and of its small letters
COMMAND_LETTERS = {1: 125, 2: 60}  # of the command line above a column, by the number of columns


def write_animation(source: Path, other: Path | None, target: Path) -> Path:
    """Write the animation of one run, or of two side by side. Raises InputError."""
    runs = [SavedRun.read(source)]
    if other is not None:
        runs.append(SavedRun.read(other))
        check_same(runs[0], runs[1], other)
    write_text(target, page(runs))
    return target


def page(runs: list[SavedRun]) -> str:
    """The HTML page of the animation of runs side by side."""
    named = f"miniapps: {runs[0].record['app']}, {runs[0].problem()}"
    return page_of(animation(runs), len(runs), named, _title(runs, LETTERS, SMALL_LETTERS))


def check_same(one: SavedRun, other: SavedRun, name: Path) -> None:
    """Raise InputError unless two runs have the same app, problem and final state."""
    for what, same in (
        ("app", one.record["app"] == other.record["app"]),
        ("problem", fixed_parameters(one.record) == fixed_parameters(other.record)),
        ("final state", one.record["state_hash"] == other.record["state_hash"]),
    ):
        if not same:
            raise InputError("--compare", name, f"must have the same {what}")


def animation(runs: list[SavedRun], most: int = MOST_PERIODS) -> Any:
    """The animation of runs side by side: a plotly Figure with one frame per period."""
    lb_steps = sorted({step for run in runs for step in run.lb_steps})
    periods = periods_of_steps(runs[0].rounds[:, 0], runs[0].end, lb_steps, most)
    figure = _page(runs)
    columns = [RunPanels(figure, run, number, periods) for number, run in enumerate(runs, 1)]
    shared = Shared(columns)
    for column in columns:
        column.draw(shared)
    frames = []
    for k in range(len(periods)):
        parts = [column.frame(k, shared) for column in columns]
        data = [trace for traces, _ in parts for trace in traces]
        moving = [number for column in columns for number in column.moving]
        layout = {name: axis for _, axes in parts for name, axis in axes.items()}
        frames.append(go.Frame(name=str(k), data=data, traces=moving, layout=layout))
    figure.frames = frames
    _add_slider(figure, periods)
    _share_axes(figure, columns, shared)
    return figure


def _page(runs: list[SavedRun]) -> Any:
    """A figure of empty panels with titles, one column per run."""
    commands = [wrapped(_column_title(run), COMMAND_LETTERS[len(runs)], "<br>") for run in runs]
    figure = make_subplots(
        rows=len(PANELS),
        cols=len(runs),
        row_heights=[0.3, 0.4, 0.15, 0.15],
        vertical_spacing=0.08,
        horizontal_spacing=0.14,
        column_titles=commands,
    )
    figure.update_annotations(font_size=12)
    figure.update_xaxes(ticks="outside", ticklen=6)
    figure.update_yaxes(ticks="outside", ticklen=6)
    title = _title(runs, *TITLE_LETTERS)
    lines = title.count("<br>") + max(command.count("<br>") for command in commands) + 3
    figure.update_layout(
        title={"text": title, "font": {"size": 14}, "y": 1, "yanchor": "top", "pad": {"t": 20}},
        template="plotly_white",
        width=WIDTH,
        height=1000 + LINE_HEIGHT * lines,
        margin={"l": 80, "r": 190, "t": 30 + LINE_HEIGHT * lines, "b": 120},
        showlegend=False,
        barmode="overlay",
        coloraxis={
            "colorscale": SCALE,
            "cmin": 0,
            "colorbar": {
                "title": {"text": "block [ms per step]", "side": "right"},
                "x": 1.07,
                "y": 0.88,
                "len": 0.26,
            },
        },
        coloraxis2={
            "colorscale": "Viridis",
            "colorbar": {
                "title": {"text": wrapped(runs[0].quantity, 30, "<br>"), "side": "right"},
                **{"x": 1.07, "y": 0.52, "len": 0.36},
            },
        },
    )
    return figure


def _column_title(run: SavedRun) -> str:
    """The command line of a run, and which of its blocks have no part of their own."""
    rule = f"; grey: all but the {BLOCKS} most loaded blocks"
    return markup(run.command()) + (rule if run.blocks > BLOCKS else "")


def _title(runs: list[SavedRun], width: int, small: int) -> str:
    """The app, its problem, the machine, and in small letters the versions.

    Lines have at most ``width`` letters, or ``small`` ones if they are small.
    """
    record = runs[0].record
    machine = markup(machine_text(run.record["host"] for run in runs))
    versions = record["versions"].items()
    listed = ", ".join(f"{name} {version}" for name, version in versions if version[:1].isdigit())
    about = markup(f"{record['app']}: {runs[0].problem()}")
    said = fitted([about, machine], width, "<br>")
    listed = wrapped(markup(listed), small, "<br>")
    return f'{said}<br><span style="font-size:11px">{listed}</span>'


class RunPanels:
    """The panels of one run, and their contents in each of the ``periods``."""

    def __init__(self, figure: Any, run: SavedRun, number: int, periods: list[Period]) -> None:
        self.figure, self.run, self.number, self.periods = figure, run, number, periods
        self.loads, self.pes = run.by_block(periods)
        self.shown = run.heaviest(BLOCKS)
        self.others = run.record["pes"] if len(self.shown) < run.blocks else 0  # parts of bars
        self.moving: list[int] = []  # indices of the traces that frames change

    def draw(self, shared: Shared) -> None:
        """Add all traces, as they are in the first period."""
        traces, axes = self.frame(0, shared)
        traces[0].update(
            orientation="h",
            textposition="none",
            customdata=[*map(self.run.name_of, self.shown), *["other blocks"] * self.others],
            hovertemplate="%{customdata} on %{y}<br>%{x:.3g} ms per step<extra></extra>",
            marker_line={"color": "white", "width": 0 if self.others else 0.5},
        )
        rows = BARS, STATE, IMBALANCE, STEP_TIME, BARS
        for trace, row in zip(traces, rows, strict=True):
            self.moving.append(len(self.figure.data))
            self.figure.add_trace(trace, row=row, col=self.number)
        self.figure.update_layout(axes)
        curves = (self.curves["imbalance"], IMBALANCE), (self.curves["step_ms"], STEP_TIME)
        for ((steps, values), row), top in zip(curves, shared.heights, strict=True):
            self._add_curve(steps, values, row, top, " ms" if row == STEP_TIME else "")
        for step in self.run.lb_steps:
            for row in (IMBALANCE, STEP_TIME):
                self.figure.add_vline(
                    x=step, line={"dash": "dot", "width": 1}, row=row, col=self.number
                )
        for row, title in ((IMBALANCE, "imbalance"), (STEP_TIME, "step [ms]")):
            self.figure.update_yaxes(title=title, row=row, col=self.number)
        marks = ", dotted: load balancing" if self.run.lb_steps else ""
        marked = f"step (orange: shown above{marks})"
        self.figure.update_xaxes(title=marked, row=STEP_TIME, col=self.number)

    def _add_curve(
        self, steps: np.ndarray, values: np.ndarray, row: int, top: float, unit: str
    ) -> None:
        """Add a curve, a triangle where it is beyond the axis, and the largest value there."""
        curve = go.Scatter(x=steps, y=values, mode="lines", line=LINE)
        self.figure.add_trace(curve, row=row, col=self.number)
        beyond = np.flatnonzero(values > top)
        if not len(beyond):
            return
        largest = int(values[beyond].argmax())
        text = [f"{values[n]:.3g}{unit}" if k == largest else "" for k, n in enumerate(beyond)]
        left = steps[beyond[largest]] < (steps[0] + steps[-1]) / 2
        marks = go.Scatter(
            x=steps[beyond],
            y=np.full(len(beyond), top),
            text=text,
            textposition=f"middle {'right' if left else 'left'}",
            customdata=values[beyond],
            hovertemplate=f"%{{customdata:.3g}}{unit}<extra>beyond the axis</extra>",
            marker={"symbol": "triangle-up", "color": LINE["color"], "size": 9},
            **OUTSIDE,
        )
        self.figure.add_trace(marks, row=row, col=self.number)

    def frame(self, k: int, shared: Shared) -> tuple[list[Any], dict[str, Any]]:
        """The traces of period ``k``, in the order of `moving`, and its changes of axes."""
        period = self.periods[k]
        thumbnail, at = self._thumbnail(period)
        marks = [self._mark(period[0], top) for top in shared.heights]
        compute = self.compute[:, self.run.rounds_in(period)]
        beyond = self._beyond(k, shared.longest)
        said = f"computing [ms per step], imbalance {imbalance(compute):.3f}"
        return [self._bars(k, shared.heaviest), thumbnail, *marks, beyond], {
            self._axis(BARS): {"title": {"text": said}},
            self._axis(STATE): {"title": {"text": f"x [{self.run.unit}], state after {at} steps"}},
        }

    def _axis(self, row: int) -> str:
        """The name of a panel's x axis in the layout."""
        return str(self.figure.get_subplot(row, self.number).xaxis.plotly_name)

    def _bars(self, k: int, heaviest: float) -> Any:
        """A stacked bar per PE: its blocks in the order of their numbers, then all others together.

        Colours are computed here, because plotly.js 4 rejects numbers as bar colours.
        """
        loads, pes = self._parts(k)
        shown = [float(f"{load:.5g}") for load in loads]
        base = np.zeros(len(loads))
        for pe in range(self.run.record["pes"]):
            mine = pes == pe
            base[mine] = np.cumsum(loads[mine]) - loads[mine]
        blocks = loads[: len(self.shown)]
        colours = sample_colorscale(SCALE, np.minimum(blocks / heaviest, 1).tolist())
        where = {"base": base.astype(np.float32), "y": [f"PE {pe}" for pe in pes]}
        return go.Bar(x=shown, **where, marker={"color": [*colours, *[OTHERS] * self.others]})

    def _parts(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The parts of all bars in period ``k``: how long each takes, ms per step, and its PE."""
        loads, pes = self.loads[self.shown, k], self.pes[self.shown, k]
        every = np.arange(self.others)
        rest = self.totals[every, k] - np.bincount(pes, loads, self.run.record["pes"])[every]
        return np.concatenate([loads, rest.clip(0)]), np.concatenate([pes, every])

    def _beyond(self, k: int, longest: float) -> Any:
        """A triangle at the end of the axis, and the length, for each bar that is longer."""
        long = {pe: ms for pe, ms in enumerate(self.totals[:, k]) if ms > longest}
        return go.Scatter(
            x=[longest] * len(long),
            y=[f"PE {pe}" for pe in long],
            text=[f"{ms:.3g} ms" for ms in long.values()],
            textposition="middle right",
            hoverinfo="skip",
            marker={"symbol": "triangle-right", "color": NOW["color"], "size": 10},
            **OUTSIDE,
        )

    def _thumbnail(self, period: Period) -> tuple[Any, int]:
        """The last thumbnail at or before the end of a period, else the first one; and its step."""
        steps = self.run.thumbnail_steps
        which = max(0, int(np.searchsorted(steps, period[1], side="right")) - 1)
        thumbnail = thin(self.run.shown[which])
        pixels = [side / n for side, n in zip(self.run.sides, thumbnail.shape, strict=True)]
        where = {"x0": pixels[0] / 2, "dx": pixels[0]}
        if len(pixels) == 1:
            line = go.Scatter(y=thumbnail, mode="lines", line=LINE, **where)
            return line, int(steps[which])
        where |= {"y0": pixels[1] / 2, "dy": pixels[1]}
        return go.Heatmap(z=thumbnail.T, coloraxis="coloraxis2", **where), int(steps[which])

    def _mark(self, step: int, top: float) -> Any:
        """A vertical line that marks the period's first step in the panel of a curve."""
        return go.Scatter(x=[step, step], y=[0, top], mode="lines", line=NOW, hoverinfo="skip")

    @cached_property
    def compute(self) -> np.ndarray:
        """Compute time of each PE in each round, s."""
        return self.run.compute()

    @cached_property
    def curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Imbalance and milliseconds per step over steps; each point averages several rounds."""
        run = self.run
        points = periods_of_steps(run.rounds[:, 0], run.end, run.lb_steps, POINTS)
        parts = [run.rounds_in(period) for period in points]
        steps = np.array([first for first, _ in points])
        even = np.array([imbalance(self.compute[:, part]) for part in parts])
        wall = np.array([run.wall_s[part].sum() / run.rounds[part, 1].sum() for part in parts])
        return {
            "imbalance": (steps, even.astype(np.float32)),
            "step_ms": (steps, (1e3 * wall).astype(np.float32)),
        }

    @cached_property
    def tops(self) -> list[float]:
        """The upper limits of the curves' axes; single slow steps may exceed them."""
        return [upper_limit(self.curves[name][1]) for name in ("imbalance", "step_ms")]

    @cached_property
    def totals(self) -> np.ndarray:
        """The length of each PE's bar in each period, ms: (PEs, periods)."""
        pes = range(self.run.record["pes"])
        return np.array([(self.loads * (self.pes == pe)).sum(axis=0) for pe in pes])

    @property
    def longest(self) -> float:
        """The upper limit of the bars' axis; single slow periods may exceed it."""
        return most_of(self.totals.max(axis=0))


def thin(thumbnail: np.ndarray) -> np.ndarray:
    """The values in a small dtype: an integer dtype if all are integers, else float32."""
    with np.errstate(invalid="ignore"):  # a wrong run may contain NaN
        whole = thumbnail.astype(np.int64)
    small = whole.astype(np.min_scalar_type(whole.max()))
    return small if np.array_equal(small, thumbnail) else thumbnail.astype(np.float32)


class Shared:
    """Limits of axes and colour scales that all runs share, so that they can be compared."""

    def __init__(self, columns: list[RunPanels]) -> None:
        self.longest = 1.03 * max(column.longest for column in columns)
        self.heaviest = max(most_of(column.loads.max(axis=0)) for column in columns)
        self.all_shown = self.heaviest >= max(column.loads.max() for column in columns)
        self.heights = np.max([column.tops for column in columns], axis=0).tolist()
        shown = [column.run.shown for column in columns]
        self.darkest = min(float(np.nanmin(thumbnails)) for thumbnails in shown)
        self.brightest = max(float(np.nanmax(thumbnails)) for thumbnails in shown)
        run = columns[0].run
        self.state_axis: dict[str, Any] = {"title": f"y [{run.unit}]"}
        if len(run.sides) == 1:
            margin = 0.05 * (self.brightest - self.darkest) or 1.0
            limits = [self.darkest - margin, self.brightest + margin]
            self.state_axis = {"title": run.quantity, "range": limits}


def _share_axes(figure: Any, columns: list[RunPanels], shared: Shared) -> None:
    """Give the axes of all runs the same ranges, and add the colour bar of loads."""
    figure.update_xaxes(range=[0, shared.longest], row=BARS)
    figure.layout.coloraxis.cmax = shared.heaviest
    if not shared.all_shown:
        figure.layout.coloraxis.colorbar.title.text += "<br>yellow: or more"
    nothing = {"color": [0], "coloraxis": "coloraxis"}  # draws only the colour bar
    figure.add_trace(go.Scatter(x=[None], y=[None], mode="markers", marker=nothing), BARS, 1)
    figure.layout.coloraxis2.update(cmin=shared.darkest, cmax=shared.brightest)
    for row, top in zip((IMBALANCE, STEP_TIME), shared.heights, strict=True):
        figure.update_yaxes(range=[0, top], row=row)
    span = [min(c.run.rounds[0, 0] for c in columns), max(c.run.end for c in columns)]
    for column in columns:
        names = [f"PE {pe}" for pe in reversed(range(column.run.record["pes"]))]
        axes = {"categoryorder": "array", "categoryarray": names}
        figure.update_yaxes(axes, row=BARS, col=column.number)
        figure.update_yaxes(shared.state_axis, row=STATE, col=column.number)
        figure.update_xaxes(range=[0, column.run.sides[0]], row=STATE, col=column.number)
        for row in (IMBALANCE, STEP_TIME):
            ticks = {"tick0": 0, "dtick": whole_tick(span[1] - span[0])}
            figure.update_xaxes(range=span, **ticks, row=row, col=column.number)


def whole_tick(span: float) -> int:
    """A distance of ticks on an axis of steps: 1, 2 or 5 times a power of ten, 8 ticks at most."""
    ticks = (digit * 10**power for power in count() for digit in (1, 2, 5))
    return next(tick for tick in ticks if span < 8 * tick)


def _add_slider(figure: Any, periods: Iterable[Period]) -> None:
    """Add a slider with one position per period, and buttons that play and stop."""
    at_once = {"mode": "immediate", "transition": {"duration": 0}}
    show = at_once | {"frame": {"duration": 0, "redraw": True}}
    play = at_once | {"fromcurrent": True, "frame": {"duration": 400, "redraw": True}}
    steps = [
        {
            "method": "animate",
            "args": [[str(k)], show],
            "label": f"{first} to {end - 1}" if end > first + 1 else str(first),
        }
        for k, (first, end) in enumerate(periods)
    ]
    prefix = {"prefix": "step ", "xanchor": "center"}
    figure.update_layout(
        sliders=[{"steps": steps, "currentvalue": prefix, "pad": {"t": 50, "l": 150}}],
        updatemenus=[
            {
                "type": "buttons",
                "direction": "left",
                "x": 0,
                "y": 0,
                "pad": {"t": 85, "r": 10},
                "xanchor": "left",
                "yanchor": "top",
                "buttons": [
                    {"label": "play", "method": "animate", "args": [None, play]},
                    {"label": "stop", "method": "animate", "args": [[None], show]},
                ],
            }
        ],
    )
