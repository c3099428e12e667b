"""A folder for temporary files of a command that starts other processes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Until then, those who watch the processes that write to the folder have ended them.
REMOVE = 'read -r _; sleep 2; rm -rf -- "$1"'


@contextmanager
def scratch_folder(prefix: str = "miniapps-") -> Iterator[Path]:
    """A new folder, which is removed at the end, and by a shell if this process is killed.

    The shell reads from a pipe that closes when this process has ended.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        command = ["/bin/sh", "-c", REMOVE, "sh", name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as guard:
            try:
                yield Path(name)
            finally:
                guard.kill()


@contextmanager
def scratch_for_all() -> Iterator[Path]:
    """A `scratch_folder` for all temporary files, also those of processes that this one starts."""
    usual = tempfile.tempdir, os.environ.get("TMPDIR")
    with scratch_folder() as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
        try:
            yield folder
        finally:
            tempfile.tempdir = usual[0]
            del os.environ["TMPDIR"]
            os.environ |= {} if usual[1] is None else {"TMPDIR": usual[1]}
