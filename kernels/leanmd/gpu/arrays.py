"""Small host arrays as arguments of LeanMD's kernels on a GPU."""

from __future__ import annotations

from typing import Any

Three = tuple[Any, Any, Any]


def triple(values: Any, kind: Any = float) -> Three:
    """Return three numbers of a host array as a tuple, which kernels take by value."""
    a, b, c = values
    return kind(a), kind(b), kind(c)
