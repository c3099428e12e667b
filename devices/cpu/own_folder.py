"""Where files are kept between runs: a user's home, or a folder that is this user's alone."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

LAST = Path(f"/tmp/miniapps-kernels-{os.getuid()}")  # not TMPDIR, which a launched run removes
NOWHERE = Path("/proc/nowhere")  # where nothing is, and nothing can be made


def home() -> Path | None:
    """The user's home, if HOME or the system names one."""
    found = Path(os.path.expanduser("~"))  # stays "~" if neither does
    return found if found.is_absolute() else None


def last_folder() -> Path:
    """The folder of a user whose home cannot be written to; one that cannot be made if not safe."""
    return LAST if is_own(LAST) else NOWHERE


def is_own(folder: Path) -> bool:
    """Whether a folder is this user's alone, so that code may be loaded from it."""
    try:
        require_own(folder)
    except OSError:
        return False
    return True


def require_own(folder: Path) -> None:
    """Make a folder, if there is none. Raises OSError unless it is this user's alone."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not mine or found.st_mode & 0o022:
        raise PermissionError(errno.EPERM, f"{folder} is not this user's alone")
