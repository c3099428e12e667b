"""Options of the command line, each declared once, as a field of a frozen dataclass.

`parameter` stores in the field all that the command line needs to offer the option. The field may
belong to a problem, to a driver's options or to a run, so a new app or driver adds options without
a change of the command line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any


class InputError(ValueError):
    """Bad input: names the option, the value and what is allowed, in one line."""

    def __init__(self, option: str, value: Any, allowed: str) -> None:
        super().__init__(f"{option} {value}: {allowed}")


def parameter(
    option: str,
    default: Any,
    parse: Callable[[str], Any],
    help: str,
    choices: tuple[str, ...] | None = None,
    repeated: bool = False,
    flag: bool = False,
    group: str | None = None,
    metavar: str | None = None,
    former: str | None = None,
    key: str | None = None,
) -> Any:
    """Declare a dataclass field as an option of the command line.

    A ``repeated`` option may be given several times; its value is the tuple of all values. A
    ``flag`` may be given without a value and is then True. ``group``: the option's group in the
    help, if it belongs to no single app or driver; ``former``: the option's name in an earlier
    release; ``key``: the field's key in records, if it has one.
    """
    metadata = locals()
    return dataclasses.field(default=default, metadata=metadata)


def words(option: str, value: Any, repeated: bool = False) -> list[str]:
    """The words of a command line that set an option to a value; none for None."""
    if value is None:
        return []
    if repeated:
        return [word for one in value for word in words(option, one)]
    return [option, shown(value)]


def shown(value: Any) -> str:
    """A value as the command line writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def extents(text: str) -> tuple[int, ...]:
    """Read ``"4096x2048"`` as (4096, 2048). Raises ValueError with what is allowed."""
    try:
        return tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        raise ValueError("integers with an x between, such as 4096x2048") from None


def require(holds: bool, option: str, value: Any, allowed: str) -> None:
    """Raise InputError unless the condition holds."""
    if not holds:
        raise InputError(option, shown(value), allowed)


def require_tile(tile: int | str) -> None:
    """Raise InputError unless a time tile is "auto" or at least 1."""
    fits = tile == "auto" or (isinstance(tile, int) and tile >= 1)
    require(fits, "--time-tile", tile, "must be auto or 1 or more")


def yes_or_no(text: str) -> bool:
    """Read "yes" or "no". Raises ValueError with what is allowed."""
    if text not in ("yes", "no"):
        raise ValueError("yes or no")
    return text == "yes"


def integer_or_auto(text: str) -> int | str:
    """Read an integer, or return "auto" unchanged. Raises ValueError with what is allowed."""
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise ValueError("an integer, or auto") from None
