"""Reads JSON that others may have written: what is no JSON raises one kind of error."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError, with the reason in one line.

    Python's reader accepts NaN and Infinity, which JSON does not have, and halves of characters,
    which no file can hold, and raises RecursionError for brackets nested a thousand deep.
    """
    try:
        found = json.loads(text, parse_constant=_refuse)
        if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it has half of a character (a surrogate)") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(in_words(error)) from None
    return found


def in_words(error: ValueError | RecursionError) -> str:
    """Why a text is no JSON or TOML, where the words of Python are about its own limits."""
    if isinstance(error, RecursionError):
        return "its brackets are nested too deeply"
    return "a number has too many digits" if "max_str_digits" in str(error) else str(error)


def parsed_object(text: str | bytes) -> dict[str, Any]:
    """The object of a JSON text. Raises ValueError if it is another value or no JSON."""
    found = parsed(text)
    if not isinstance(found, dict):
        raise ValueError("is no JSON object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")
