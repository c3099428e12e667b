"""The mini-apps: problems and their blocks, found by looking, never registered.

An app is a package here that exports exactly Problem, Block, reference and validate.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from miniapps.parameters import InputError


def names() -> list[str]:
    """The apps there are, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def load(name: str) -> ModuleType:
    """Import one app. Raises InputError where there is none of that name."""
    if name not in names():
        raise InputError("APP", name, f"must be one of {', '.join(names())}")
    return importlib.import_module(f"miniapps.{name}")
