"""Durations of the command line, such as 90s, 55m or 1h30m."""

from __future__ import annotations

import math
import re

from numpy import format_float_positional

from miniapps.parameters import Number

MINUTES = Number(zero=True)
UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0}
FORM = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in UNITS_S))


class Duration(float):
    """Seconds, which the command line writes with their unit."""

    def __str__(self) -> str:
        return f"{format_float_positional(self, trim='-')}s"


def duration(text: str) -> Duration:
    """Read a duration; 0 is none. Raises ValueError with what is allowed."""
    found = FORM.fullmatch(text)
    numbers = found.groups("0") if found and text else ("0" if text == "0" else "inf",)
    seconds = sum(float(n) * s for n, s in zip(numbers, UNITS_S.values(), strict=False))
    if seconds == math.inf:
        raise ValueError("hours, minutes and seconds, such as 55m, 90s or 1h30m; 0: none")
    return Duration(seconds)
