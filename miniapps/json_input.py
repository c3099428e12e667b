"""Reads JSON that others may have written: what is no JSON raises one kind of error."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, with the reason in one line.

    Python's reader accepts NaN and Infinity, which JSON does not have, and raises RecursionError
    for brackets nested a thousand deep.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def parsed_object(text: str | bytes) -> dict[str, Any]:
    """The object of a JSON text. Raises ValueError if it is another value or no JSON."""
    found = parsed(text)
    if not isinstance(found, dict):
        raise ValueError("is no JSON object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")
