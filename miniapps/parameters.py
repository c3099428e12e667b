"""Options of the command line, each declared once, as a field of a frozen dataclass.

`parameter` stores in the field all that the command line needs to offer the option. The field may
belong to a problem, to a driver's options or to a run, so a new app or driver adds options without
a change of the command line.
"""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONGEST_LINE = 600  # characters of an error: a file or a value may hold millions
LARGEST = (1 << 63) - 1  # of an integer that an option takes: kernels and messages hold 64 bits


class InputError(ValueError):
    """Bad input: names the option, the value and what is allowed, in one line."""

    def __init__(self, option: str, value: Any, allowed: str) -> None:
        super().__init__(one_line(f"{option} {value}: {allowed}"))


def printable(text: str) -> str:
    """A text that a terminal shows as it is: blanks for ends of lines, escapes for control codes.

    Without it a file's text could move the cursor, change the window's title or hide other text.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else " " if c.isspace() else c.encode("unicode_escape").decode()
        for c in text
    )


def line(text: str) -> str:
    """A text in one line, without control characters."""
    return " ".join(printable(text).split())


def one_line(text: str) -> str:
    """The same; what is longer than `LONGEST_LINE` loses its middle."""
    whole, part = line(text), LONGEST_LINE // 2
    return whole if len(whole) <= LONGEST_LINE else f"{whole[:part]} ... {whole[-part:]}"


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


def integer(text: str) -> int:
    """Read an integer of 64 bits. Raises ValueError with what is allowed."""
    try:
        value = int(text)
    except ValueError:
        raise ValueError("an integer") from None
    if abs(value) > LARGEST:
        raise ValueError("an integer of at most 64 bits")
    return value


@dataclasses.dataclass(frozen=True)
class Number:
    """Reads the number of an option: from ``least`` to ``most``, never negative, and never NaN.

    ``zero``, ``infinite``: whether 0 and infinity are allowed besides.
    """

    zero: bool
    infinite: bool = False
    least: float = 0.0
    most: float = sys.float_info.max

    @property
    def allowed(self) -> str:
        """The numbers that the option takes, for messages and the help."""
        if self.least or self.most < sys.float_info.max:
            span = f"{'0, or ' if self.zero else ''}from {self.least:g} to {self.most:g}"
        else:
            span = "0 or more" if self.zero else "above 0"
        return f"{span}; {'inf, but not nan' if self.infinite else 'neither inf nor nan'}"

    def takes(self, value: float) -> bool:
        """Whether a number is allowed."""
        if math.isinf(value):
            return self.infinite and value > 0
        return self.zero if value == 0 else 0 < value and self.least <= value <= self.most

    def read(self, text: str) -> float:
        """Read any number. Raises ValueError."""
        return float(text)

    def __call__(self, text: str) -> float:
        """Read a number. Raises ValueError with what is allowed."""
        try:
            value = self.read(text)
        except ValueError:
            raise ValueError(f"a number {self.allowed}") from None
        if not self.takes(value):
            raise ValueError(self.allowed)
        return value


class Share(Number):
    """Reads a share, such as 2% or 0.02, between 0 and 1."""

    @property
    def allowed(self) -> str:
        """The shares that the option takes."""
        return "above 0% and below 100%; neither inf nor nan"

    def takes(self, value: float) -> bool:
        """Whether a share is allowed."""
        return 0 < value < 1

    def read(self, text: str) -> float:
        """Read a share or a percentage. Raises ValueError."""
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def require_allowed(spec: Any) -> None:
    """Raise InputError unless each `Number` and each choice of a dataclass is an allowed one.

    Parsing checks what the command line gives; this checks what a program gives.
    """
    for field in dataclasses.fields(spec):
        declared, value = field.metadata.get("parse"), getattr(spec, field.name)
        choices = field.metadata.get("choices")
        if isinstance(declared, Number):
            option = field.metadata["option"]
            require(declared.takes(value), option, value, f"must be {declared.allowed}")
        if choices:
            require(value in choices, field.metadata["option"], value, f"one of {choices}")


def extents(text: str) -> tuple[int, ...]:
    """Read ``"4096x2048"`` as (4096, 2048). Raises ValueError with what is allowed."""
    try:
        return tuple(integer(part) for part in text.lower().split("x"))
    except ValueError:
        raise ValueError("integers with an x between, such as 4096x2048") from None


def require(holds: bool, option: str, value: Any, allowed: str) -> None:
    """Raise InputError unless the condition holds."""
    if not holds:
        raise InputError(option, shown(value), allowed)


def require_no_device(option: str, path: Path) -> None:
    """Raise InputError for a directory, a device or a FIFO: reading it may take for ever."""
    require(path.is_file() or not path.exists(), option, path, "is not a file")


def require_permission(option: str, path: Path) -> None:
    """Raise InputError for a file that this user may not read."""
    readable = os.access(path, os.R_OK) or not path.exists()
    require(readable, option, path, "cannot be read: permission denied")


def contents(option: str, path: Path, most: int) -> str:
    """The text of a file of at most ``most`` bytes; its encoding is UTF-8. Raises InputError."""
    require_no_device(option, path)
    try:
        with path.open("rb") as file:
            found = file.read(most + 1)
    except OSError as error:
        raise InputError(option, path, f"cannot be read: {error.strerror}") from None
    require(len(found) <= most, option, path, f"is too large: more than {most} bytes")
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise InputError(option, path, "is not text") from None


def require_tile(tile: int | str) -> None:
    """Raise InputError unless a temporal-blocking depth is "auto" or at least 1."""
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
        return text if text == "auto" else integer(text)
    except ValueError:
        raise ValueError("an integer, or auto") from None
