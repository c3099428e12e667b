"""The mini-apps: problems and their blocks. They are found by search; nothing is registered.

An app is a package that exports Problem, Block, reference and validate, may export Audit and loads,
and exports nothing else. It is in one of three places:

- here;
- in a folder that the environment variable MINIAPPS_PATH names (several are separated by colons);
  like those here, it is imported as ``miniapps.NAME``;
- in an installed distribution, as the entry point NAME of the group ``miniapps.apps``.

If several apps have the same name, the one that comes first in this order is used. But the names of
the packages and modules here are taken.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import sys
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

from miniapps.parameters import InputError, require

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

APP_PATH = "MINIAPPS_PATH"
ENTRY_POINTS = "miniapps.apps"
EXPORTS = "Problem", "Block", "reference", "validate"
INTERFACE = "miniapps.interface"  # the entry points of what the package offers besides
FOR_PROGRAMS = "run", "campaign", "RunError"  # their names

HERE = str(Path(__file__).parent)
PACKAGE = sys.modules[__package__]  # it has, as Python itself, its own search path
# Packages that are no apps; in the source tree they are beside this one, with links here.
PARTS = "devices", "kernels", "drivers", "communication", "lessons", "workbench", "studies"


def read_path() -> None:
    """Look for apps in the folders that MINIAPPS_PATH names now, besides this one."""
    named = os.environ.get(APP_PATH, "").split(os.pathsep)
    PACKAGE.__path__[1:] = [folder for folder in named if folder]


def folders() -> list[str]:
    """The folders that MINIAPPS_PATH named when it was last read."""
    return [*PACKAGE.__path__][1:]


def names() -> list[str]:
    """The names of all apps, sorted.

    Raises InputError if a folder of apps does not exist, or if an app has a name that is taken.
    """
    taken = taken_names()
    found = {name for name, is_package in taken.items() if is_package and name not in PARTS}
    for folder in folders():
        require(Path(folder).is_dir(), APP_PATH, folder, "must be a folder with packages of apps")
        if not Path(folder).samefile(HERE):
            own = {module.name for module in pkgutil.iter_modules([folder]) if module.ispkg}
            _require_free(own, taken, APP_PATH, folder)
            found |= own
    _require_free(installed(), taken, "entry points", ENTRY_POINTS)
    return sorted(found | set(installed()))


@cache  # a search of a folder takes half a millisecond
def taken_names() -> Mapping[str, bool]:
    """What no other app may be called, and whether it is a package here."""
    here = {module.name: module.ispkg for module in pkgutil.iter_modules([HERE])}
    return MappingProxyType(here | dict.fromkeys(FOR_PROGRAMS, False))


def _require_free(
    own: Mapping[str, object] | set[str], taken: Mapping[str, bool], option: str, where: str
) -> None:
    """Raise InputError if one of the apps of a folder or of an installation has a taken name."""
    clash = sorted(set(own) & set(taken))
    require(not clash, option, where, f"an app must not be called {', '.join(clash)}")


@cache
def installed(group: str = ENTRY_POINTS) -> Mapping[str, EntryPoint]:
    """The entry points of installed distributions in a group, by name: apps, or commands."""
    from importlib.metadata import entry_points  # takes 30 ms to import

    return MappingProxyType({entry.name: entry for entry in entry_points(group=group)})


def load_all() -> tuple[dict[str, ModuleType], list[str]]:
    """All apps that can be imported, by name; and a line for each that cannot, with the reason."""
    loaded, left_out = {}, []
    for name in names():
        try:
            loaded[name] = load(name)
        except InputError as error:
            left_out.append(f"left out: {str(error).removeprefix('APP ')}")
    return loaded, left_out


def _place(error: Exception) -> str:
    """The file and line of an app in which its import failed; empty if no file was opened."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: "
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename != __file__ and "importlib" not in frame.filename]  # fmt: skip
    if not frames:
        return ""
    folder = Path(frames[0].filename).parent  # the app's, whose modules import other packages
    frame = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)][-1]
    return f"{frame.filename}:{frame.lineno}: "


@cache  # every block loads its app
def load(name: str) -> ModuleType:
    """Import one app.

    Raises InputError if there is none of that name, if its import fails, or if it is no app.
    """
    if name not in names():
        raise InputError("APP", name, f"must be one of {', '.join(names())}")
    try:
        if importlib.util.find_spec(f"{__package__}.{name}") is not None:
            package = importlib.import_module(f"{__package__}.{name}")
        else:
            package = installed()[name].load()
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise InputError("APP", name, f"import fails: {_place(error)}{what}") from error
    missing = [export for export in EXPORTS if not hasattr(package, export)]
    require(not missing, "APP", name, f"must export {', '.join(missing)}")
    return package
