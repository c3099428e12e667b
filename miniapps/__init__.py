"""Parallel scientific mini-apps, for programs and notebooks: `run`, `campaign` and their errors.

The workbench offers them, by entry points of the installed distribution: when one of them is first
used, it is imported by its name. `__init__.pyi` has their types. No module of the program imports
from here; `miniapps.apps` finds apps.
"""

from __future__ import annotations

from typing import Any

from miniapps import apps
from miniapps.parameters import InputError as InputError

apps.read_path()


def __getattr__(name: str) -> Any:
    """What programs use. Raises ImportError if the distribution is not installed."""
    if name not in apps.FOR_PROGRAMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import entry_points

    for entry in entry_points(group=apps.INTERFACE, name=name):
        return entry.load()
    raise ImportError(f"miniapps.{name} is not installed: make install, or pip install .")
