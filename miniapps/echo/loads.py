"""The loads of Echo: messages, and the checks of each."""

from __future__ import annotations

import numpy as np

from miniapps.decomposition import Layout
from miniapps.echo.problem import PHASES, EchoProblem
from miniapps.loads import Flow, Loads, edges, product, sides, widths


def loads(problem: EchoProblem, layout: Layout, step: int = 0) -> Loads:
    """What blocks compute and send in a step: ``bytes`` created and compared, and ``checks``."""
    there = edges(layout, diagonals=False)
    size = np.full(layout.grid, float(problem.bytes))
    sent = tuple(Flow(edge, size, float(len(PHASES))) for edge in there)
    each = sides(layout)
    messages = len(PHASES) * (each[0][:, np.newaxis] + each[1])
    units = {"checks": messages, "bytes": messages * problem.bytes}
    return Loads(units, 8.0 * product(widths(layout)), sent)
