"""``miniapps new``: writes the app that docs/adding-an-app.md builds, under another name."""

from __future__ import annotations

import keyword
import os
import re
from importlib.util import find_spec
from pathlib import Path

from miniapps import apps
from miniapps.parameters import InputError, require
from miniapps.workbench.run.replaced import write_text

SKELETON = Path(__file__).with_name("skeleton")
CALLED, FOLDER = "advect", Path("apps")


def new(name: str, folder: Path | None) -> list[str]:
    """Write a new app; returns lines that list its files and what to do next.

    ``folder``: where the app's package begins; None: the first folder of MINIAPPS_PATH, if it is
    set. Raises InputError if the app cannot have this name.
    """
    folder = folder or Path(next(iter(apps.folders()), FOLDER))
    written = write(name, folder)
    known = str(folder.resolve()) in {str(Path(found).resolve()) for found in apps.folders()}
    commands = [] if known else [f"export {apps.APP_PATH}={folder.resolve()}"]
    commands += [f"miniapps run {name} --preset tiny", f"miniapps verify {name}"]
    commands += [f"pytest {folder / name}"]
    return [*map(str, written), "now try:", *(f"  {command}" for command in commands)]


def write(name: str, folder: Path) -> list[Path]:
    """Write the package ``folder/name``; returns its files. Raises InputError."""
    plain = re.fullmatch("[a-z][a-z0-9_]*", name) is not None
    allowed = "must be a name of a Python package, in lower case, that begins with a letter"
    require(plain and not keyword.iskeyword(name), "NAME", name, allowed)
    require(name not in {*apps.names(), *apps.taken_names()}, "NAME", name, "is taken")
    module = find_spec(name)
    free = module is None or module.origin is None  # a plain folder in the current one
    require(free, "NAME", name, "is a Python module, which the app's tests would import instead")
    package = folder / name
    require(not os.path.lexists(package), "NAME", name, f"there is {package} already")
    try:
        package.mkdir(parents=True)
    except OSError as error:
        raise InputError("--folder", folder, f"cannot be written: {error.strerror}") from None
    files = sorted(SKELETON.glob("*.py"))
    return [_copy(file, package / renamed(file.name, name), name) for file in files]


def _copy(source: Path, target: Path, name: str) -> Path:
    write_text(target, renamed(source.read_text(encoding="utf-8"), name))
    return target


def renamed(text: str, name: str) -> str:
    """The text of a file of the skeleton, for an app of another name."""
    of_classes = "".join(word.capitalize() for word in name.split("_"))
    return text.replace(CALLED, name).replace(CALLED.capitalize(), of_classes)
