"""A folder for temporary files of a command that starts other processes."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from miniapps.workbench.environment import variables_kept

REMOVE = 'read -r _; sleep "$1"; shift; rm -rf -- "$@"'
ENDED_S = 2  # until then, those who watch the processes that write to a folder have ended them


@contextmanager
def scratch_folder(
    prefix: str = "miniapps-", parts: Iterable[Path] = (), ended_s: float = ENDED_S
) -> Iterator[Path]:
    """A new folder, which is removed at the end, and by a shell if this process is killed.

    The shell reads from a pipe that closes when this process has ended. Then it also removes
    ``parts``, files that are not complete. ``ended_s``: until other processes have ended, too.
    """
    find_temporary_folder()
    folder = Path(tempfile.gettempdir(), f"{prefix}{secrets.token_hex(6)}")
    command = ["/bin/sh", "-c", REMOVE, "sh", str(ended_s), str(folder), *map(str, parts)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as guard:
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            guard.kill()  # there was no moment at which nobody would have removed the folder


def find_temporary_folder() -> None:
    """Choose the folder for temporary files as Python does, but without a file to test it.

    That file would stay if the process was killed at this moment.
    """
    for folder in (os.environ.get("TMPDIR"), "/tmp"):
        if tempfile.tempdir is None and folder and os.path.isdir(folder):
            if os.access(folder, os.W_OK | os.X_OK):
                tempfile.tempdir = os.path.abspath(folder)


@contextmanager
def scratch_for_all() -> Iterator[Path]:
    """A `scratch_folder` for all temporary files, also those of processes that this one starts."""
    usual = tempfile.tempdir
    with scratch_folder() as folder, variables_kept():
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
        try:
            yield folder
        finally:
            tempfile.tempdir = usual
