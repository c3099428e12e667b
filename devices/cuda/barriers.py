"""Which kernels have barriers, so that a simulator must let their threads wait for each other."""

from __future__ import annotations

from types import FunctionType
from typing import Any


def has_barrier(function: FunctionType) -> bool:
    """Return whether a kernel's function has a barrier, or one that it calls."""
    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    called: list[Any] = [function.__globals__.get(name) for name in code.co_names]
    called += [cell.cell_contents for cell in cells.values()]
    inner = [one.fn for one in called if isinstance(getattr(one, "fn", None), FunctionType)]
    waits = any(name.startswith("syncthreads") for name in code.co_names)
    return waits or any(map(has_barrier, inner))
