"""Parallel scientific mini-apps, for programs and notebooks: `run`, `campaign` and their errors.

They belong to the workbench, which is imported when one of them is first used. No module of the
program imports from here; `miniapps.apps` finds apps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from miniapps import apps
from miniapps.parameters import InputError as InputError

if TYPE_CHECKING:
    from miniapps.workbench.api import RunError as RunError
    from miniapps.workbench.api import campaign as campaign
    from miniapps.workbench.api import run as run

apps.read_path()


def __getattr__(name: str) -> Any:
    """What programs use."""
    if name not in apps.FOR_PROGRAMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from miniapps.workbench import api

    return getattr(api, name)
