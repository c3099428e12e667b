"""Shapes of data read from JSON: which keys an object must have, and what their values are.

A shape is a `Kind` of value; a dict of shapes for the keys of an object, of which a key with "?"
may be missing; or a list of one shape, for all entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

LARGEST = 1 << 53  # of integers: up to here they are exact as floats, too
MOST = 1e300  # of numbers: sums of them are finite


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


TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
OBJECT = Kind("an object", lambda value: isinstance(value, dict))
COUNT = Kind("an integer of 0 or more", lambda value: _integer(value, 0))
SEVERAL = Kind("an integer of 1 or more", lambda value: _integer(value, 1))
NUMBER = Kind("a finite number", lambda value: _number(value, -MOST))
AMOUNT = Kind("a finite number of 0 or more", lambda value: _number(value, 0))
POSITIVE = Kind("a finite number above 0", lambda value: _number(value, 1 / MOST))
HASH = Kind("64 hexadecimal digits", lambda value: bool(re.fullmatch("[0-9a-f]{64}", str(value))))


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
