"""Joins the ranks that share a folder."""

from __future__ import annotations

from collections.abc import Callable

from miniapps.communication.file.world import Ranks
from miniapps.communication.session import World
from miniapps.communication.settings import Settings
from miniapps.drivers.file import FileOptions
from miniapps.drivers.file.driver import fail, joined_group

__all__ = ["fail", "run"]


def run(settings: Settings, own: FileOptions, session: Callable[[World], int]) -> int:
    """Call ``session`` on this rank; returns its status."""
    with joined_group(own.dir) as group:
        return session(Ranks(group, settings))
