"""The mini-apps: problems and their blocks. They are found by search; nothing is registered.

An app is a package that exports Problem, Block, reference and validate, may export Audit, and
exports nothing else. It lies here, or in one of the folders that the environment variable
MINIAPPS_APPS names, separated by colons. Either way it is imported as ``miniapps.NAME``.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from miniapps.parameters import InputError

APP_FOLDERS = "MINIAPPS_APPS"

__path__ += [folder for folder in os.environ.get(APP_FOLDERS, "").split(os.pathsep) if folder]


def names() -> list[str]:
    """The names of all apps, sorted. Raises InputError if a folder of apps does not exist."""
    for folder in __path__:
        if not Path(folder).is_dir():
            raise InputError(APP_FOLDERS, folder, "must be a folder with packages of apps")
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def load(name: str) -> ModuleType:
    """Import one app. Raises InputError if there is none of that name."""
    module = sys.modules.get(f"{__name__}.{name}")
    # Every block loads its app, and a search takes half a millisecond.
    if module is not None and hasattr(module, "Problem"):
        return module
    if name not in names():
        raise InputError("APP", name, f"must be one of {', '.join(names())}")
    return importlib.import_module(f"miniapps.{name}")
