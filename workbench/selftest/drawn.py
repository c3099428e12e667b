"""Which faults are tried on a day, where all would take too long: others each day."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from time import time
from typing import TypeVar

from miniapps.parameters import integer

Fault = TypeVar("Fault")
DAY_S = 86400


class Part(int):
    """One of so many parts of the faults; each day has the next one, so all have their turn."""

    def __str__(self) -> str:
        return f"1/{int(self)}"


def part_or_number(text: str) -> int:
    """Parse ``1/4``, a `Part`, or a number. Raises ValueError that says what is wrong."""
    try:
        return Part(integer(text[2:])) if text.startswith("1/") else integer(text)
    except ValueError:
        raise ValueError("an integer, or a part such as 1/4") from None


def of_day(faults: Sequence[Fault], some: int | None) -> list[Fault]:
    """The faults to try today: a part of them, so many, or all (None)."""
    day = int(time() // DAY_S)
    if isinstance(some, Part):
        return list(faults[day % some :: some])
    if some is None or some >= len(faults):
        return list(faults)
    return Random(day).sample(faults, some)
