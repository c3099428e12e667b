"""Shapes of data read from JSON: which keys an object must have, and what their values are.

A shape is a `Kind` of value; a dict of shapes for the keys of an object, of which a key with "?"
may be missing; or a list of one shape, for all entries. Long ones are in files (`shape_in`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miniapps.parameters import printable

LARGEST = 1 << 53  # of integers: up to here they are exact as floats, too
MOST = 1e300  # of numbers: sums of them are finite
NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
UNITS = re.compile(r"\w[\w /*^.%()-]{0,99}")
DIGITS = re.compile("[0-9a-f]{64}")
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True)
class Kind:
    """A kind of value: in words, and the predicate that values must satisfy."""

    allowed: str
    fits: Callable[[Any], bool]

    def or_null(self) -> Kind:
        """The kind of a value that may also be null."""
        return Kind(f"{self.allowed}, or null", lambda value: value is None or self.fits(value))


def _integer(value: Any, least: int) -> bool:
    return type(value) is int and least <= value <= LARGEST  # true and false are of type bool


def _number(value: Any, least: float) -> bool:
    return type(value) in (int, float) and least <= value <= MOST  # false for NaN


def fits(pattern: re.Pattern[str], value: Any) -> bool:
    """Whether a value is a text that a pattern describes."""
    return isinstance(value, str) and bool(pattern.fullmatch(value))


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _are_values(value: Any) -> bool:
    """Whether an object has names as keys, and numbers, texts of one line or lists of them."""
    if not isinstance(value, dict) or not all(fits(KEY, key) for key in value):
        return False
    return all(unprintable(one) is None for one in value.values())


def unprintable(value: Any, name: str = "it") -> str | None:
    """Where a value of JSON has a text of several lines or with control characters, in words."""
    waiting = [(value, name)]
    while waiting:
        value, name = waiting.pop()
        if isinstance(value, dict):
            waiting += [(key, f"a key of {name}") for key in value]
            waiting += [(inner, f"{name}.{key}") for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(inner, name) for inner in value if type(inner) not in (int, float)]
        elif isinstance(value, str) and not value.isprintable():
            return f"{name} must be {LINE.allowed}"
    return None


def in_lines(value: Any) -> Any:
    """A value of JSON whose texts are `LINE`: what libraries and files say of themselves."""
    if isinstance(value, str):
        return printable(value).strip()
    if isinstance(value, dict):
        return {key: in_lines(inner) for key, inner in value.items()}
    if isinstance(value, list) and not (value and isinstance(value[0], int | float)):
        return [in_lines(inner) for inner in value]
    return value


# Texts: TEXT is free, and each output quotes it; the others have an alphabet.
TEXT = Kind("a text", lambda value: isinstance(value, str))
LINE = Kind("a text of one line, without control characters", _is_line)
NAME = Kind("a name of letters, digits and _.+-", lambda value: fits(NAMED, value))
UNIT = Kind("a unit", lambda value: fits(UNITS, value))
PARAMETERS = Kind("an object of names with values of one line", _are_values)
VERSIONS = Kind(
    "an object of texts of one line",
    lambda value: isinstance(value, dict) and all(map(_is_line, [*value, *value.values()])),
)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
COUNT = Kind("an integer of 0 or more", lambda value: _integer(value, 0))
SEVERAL = Kind("an integer of 1 or more", lambda value: _integer(value, 1))
NUMBER = Kind("a finite number", lambda value: _number(value, -MOST))
AMOUNT = Kind("a finite number of 0 or more", lambda value: _number(value, 0))
POSITIVE = Kind("a finite number above 0", lambda value: _number(value, 1 / MOST))
HASH = Kind("64 hexadecimal digits", lambda value: fits(DIGITS, value))
KINDS = {name.lower(): kind for name, kind in [*globals().items()] if isinstance(kind, Kind)}


def shape_in(file: Path, **more: Kind) -> Any:
    """The shape in a file of JSON, in which kinds are words: "count", or "count or null".

    ``more``: kinds that only this file has.
    """
    return _shape(json.loads(file.read_text(encoding="utf-8")), KINDS | more)


def _shape(words: Any, kinds: Mapping[str, Kind]) -> Any:
    if isinstance(words, dict):
        return {key: _shape(inner, kinds) for key, inner in words.items()}
    if isinstance(words, list):
        return [_shape(inner, kinds) for inner in words]
    name, null, _ = words.partition(" or null")
    return kinds[name].or_null() if null else kinds[name]


def misfit(value: Any, shape: Any, name: str) -> str | None:
    """Where a value departs from a shape, in a few words; None if it fits."""
    if isinstance(shape, Mapping):
        return _misfit_of_object(value, shape, name)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{name} must be a list"
        found = (misfit(one, shape[0], f"{name}[{n}]") for n, one in enumerate(value))
        return next((words for words in found if words), None)
    return None if shape.fits(value) else f"{name} must be {shape.allowed}"


def unknown(value: Any, shape: Any, name: str) -> str | None:
    """The first key that a shape does not have, in words; None if there is none."""
    if isinstance(shape, Mapping) and isinstance(value, dict):
        known = {key.removesuffix("?"): inner for key, inner in shape.items()}
        for key, inner in value.items():
            if key not in known:
                return f"{name} has the key {key}, which must be of {', '.join(known)}"
            if words := unknown(inner, known[key], f"{name}.{key}"):
                return words
    if isinstance(shape, list) and isinstance(value, list):
        found = (unknown(one, shape[0], f"{name}[{n}]") for n, one in enumerate(value))
        return next((words for words in found if words), None)
    return None


def _misfit_of_object(value: Any, shape: Mapping[str, Any], name: str) -> str | None:
    """Where a value departs from the shape of an object."""
    if not isinstance(value, dict):
        return f"{name} must be an object"
    for key, inner in shape.items():
        plain = key.removesuffix("?")
        if plain in value:
            if words := misfit(value[plain], inner, f"{name}.{plain}"):
                return words
        elif plain == key:
            return f"{name} has no {plain}"
    return None
