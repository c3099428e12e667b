"""Predictions of the performance model, drawn over the measured points of a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from miniapps.workbench.study import analysis
from miniapps.workbench.study.analysis import Result
from miniapps.workbench.study.drawing import draw_line, styles_of, to_the_right
from miniapps.workbench.study.statistics import Interval
from miniapps.workbench.table import Table

GAINS = 13  # rows of a figure of gains, at most
NOTE = "crosses: the model's prediction of each point from the others, with 99 % intervals"


@dataclass(frozen=True)
class Overlay:
    """Seconds per step that the model predicts, by the number of a point, and their errors."""

    predicted: Mapping[int, Interval]
    table: Table

    def draw(self, name: str, axes: Any, found: Sequence[Result], weak: bool) -> bool:
        """Draw crosses into a figure of this name; whether it has any."""
        if name == "step-time":
            self._lines(axes, found, lambda result: result.pes, self._ms)
        elif name == "odf":
            self._lines(axes, found, lambda result: result.case.odf, self._ms)
        elif name in ("speed-up", "efficiency"):
            self._scaled(axes, found, weak, name == "efficiency")
        elif name == "gain":
            self._gains(axes, found)
        else:
            return False
        return True

    def _ms(self, result: Result) -> Interval:
        return self.predicted[result.number].times(1e3)

    def _lines(self, axes: Any, found: Sequence[Result], position: Any, value: Any) -> None:
        """A cross per point, in the colour of its configuration."""
        groups = analysis.by_configuration([r for r in found if r.number in self.predicted])
        styles = styles_of(list(analysis.by_configuration(list(found))))
        for configuration, mine in groups.items():
            beside_it = {"color": styles[configuration]["color"], "transform": to_the_right(axes)}
            places, values = list(map(position, mine)), list(map(value, mine))
            draw_line(axes, places, values, {**LOOK, **beside_it, "elinewidth": 0.7, "capsize": 0})

    def _scaled(self, axes: Any, found: Sequence[Result], weak: bool, efficiency: bool) -> None:
        """Predicted speed-up or efficiency, over the measured base of the figure."""
        rows = {row.result.number: row.base for row in analysis.scaling(list(found), weak)}
        measured = [r for r in found if r.number in rows and rows[r.number] is not r]

        def value(result: Result) -> Interval:
            base, step = rows[result.number], self.predicted[result.number]
            growth = result.pes / base.pes
            factor = (growth if weak else 1.0) / (growth if efficiency else 1.0)
            own = base.step.value * factor
            return Interval(own / step.value, own / step.high, own / step.low)

        self._lines(axes, measured, lambda result: result.pes, value)

    def _gains(self, axes: Any, found: Sequence[Result]) -> None:
        """Predicted gains, on the bars of the measured ones."""
        rows = analysis.gains(list(found))
        if len(rows) > GAINS:  # the figure has not all of them
            return
        for position, row in enumerate(rows):
            one, other = (self.predicted[r.number] for r in (row.balanced, row.other))
            axes.plot([other.value / one.value], [position - 0.19], **LOOK, color="black")


LOOK: dict[str, Any] = {
    "marker": "x", "markersize": 8, "markeredgewidth": 1.6, "linestyle": "none", "zorder": 5,
    "label": "_model",
}  # fmt: skip
