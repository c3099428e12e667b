"""The programs that have started this process."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

from miniapps.devices import system

# Programs that start processes and tell them by PMIx who they are.
PMIX_LAUNCHERS = ("orted", "prte", "prted", "prterun", "prun", "slurmstepd")


def under(programs: Collection[str]) -> bool:
    """Whether one of some programs, by their names as Linux shows them, is an ancestor."""
    return any(name in programs for name in _ancestors())


def _ancestors() -> Iterator[str]:
    """The names of this process's ancestors, the nearest first."""
    parent = os.getppid()
    while parent > 1:
        name, words = system.stat_of(parent)
        if not words:
            return
        yield name
        parent = int(words[1])
