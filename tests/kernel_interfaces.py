"""Compares modules of kernels with the interface of their app, `kernels/<app>/interface.py`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any, get_args, get_type_hints

import support

FOLDER = support.ROOT / "kernels"
APPS = sorted(file.parent.name for file in FOLDER.glob("*/interface.py"))


def interface(app: str) -> Any:
    """The Protocol of an app's kernels."""
    found = vars(importlib.import_module(f"miniapps.kernels.{app}.interface"))
    (protocol,) = (value for name, value in found.items() if name.endswith("Kernels"))
    return protocol


def members(protocol: Any) -> set[str]:
    """The names of all functions and constants of a Protocol."""
    functions = {name for name in vars(protocol) if not name.startswith("_")}
    return functions | set(get_type_hints(protocol))


def arguments(function: Any) -> list[str] | None:
    """A function's arguments without their types; None for what cannot be called."""
    function = getattr(function, "py_func", function)  # of what Numba has compiled
    if not callable(function):
        return None
    parameters = inspect.signature(function).parameters.values()
    return [str(p.replace(annotation=p.empty)) for p in parameters if p.name != "self"]


def types(function: Any) -> dict[str, Any]:
    """The annotations of a Python function; none of a class, or of what Numba has compiled."""
    return get_type_hints(function) if inspect.isfunction(function) else {}


def differences(protocol: Any, module: Any) -> list[str]:
    """What a module lacks, and functions with other arguments than in the Protocol."""
    found = []
    hints = get_type_hints(protocol)
    for name in sorted(members(protocol)):
        if not hasattr(module, name):
            found.append(f"{name} is missing")
        elif name not in hints:
            found += _compared(name, getattr(protocol, name), getattr(module, name))
        elif isinstance(getattr(module, name), Mapping):
            kind = get_args(hints[name])[1]
            for key, function in getattr(module, name).items():
                found += _compared(f"{name}[{key}]", kind.__call__, function)
    return found


def _compared(name: str, wanted: Any, function: Any) -> list[str]:
    """A line if a function has other arguments than wanted, or of other types where it has any."""
    there, here = arguments(wanted), arguments(function)
    if there != here:
        return [f"{name} has arguments {here}, not {there}"]
    there, here = types(wanted), types(function)
    return [] if not here or there == here else [f"{name} has types {here}, not {there}"]


def load(app: str, device: str) -> ModuleType:
    """The module of an app's kernels for a device, as it is imported and not compiled for it."""
    return importlib.import_module(f"miniapps.kernels.{app}.{device}")
