"""The hosts of a run: which PEs are where, and the shell by which launchers reach them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from miniapps.parameters import InputError

# In the place of `ssh`: it passes on what a launcher's environment does not take to other hosts.
REMOTE_SHELL = str(Path(__file__).with_name("remote_shell"))
IN_FOLDER = "$MINIAPPS_RUN_FOLDER/"  # in the words of a command: what lies in the folder of its run
NODES = "nodes"  # such a file: a driver's list of hosts
NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")  # neither an option nor quoted
MOST_PLACES = 1 << 16  # for PEs on a host


class Place(NamedTuple):
    """A host, and how many PEs are on it, or may be."""

    host: str
    pes: int


class Hosts(tuple[Place, ...]):
    """The hosts that a user has named, each with the number of PEs that it may have."""

    __slots__ = ()

    def __str__(self) -> str:
        return ",".join(f"{host}:{pes}" for host, pes in self)

    def filled(self, pes: int) -> list[Place]:
        """Where a number of PEs are: the first ones on the first host, until that is full."""
        found = []
        for host, most in self:
            if pes > 0:
                found.append(Place(host, min(pes, most)))
            pes -= most
        return found

    @property
    def pes(self) -> int:
        """How many PEs the hosts may have."""
        return sum(place.pes for place in self)


def hosts(text: str) -> Hosts:
    """Parse hosts: ``a:2,b`` or the name of a file with one in each line, also ``a slots=2``.

    A host without a number has one PE. Raises ValueError that says what is wrong.
    """
    words = _lines(Path(text)) if "/" in text or os.path.isfile(text) else text.split(",")
    places = [_place(word.strip()) for word in words]
    names = [place.host for place in places]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"hosts of different names; for two PEs on one give {twice}:2")
    if not places:
        raise ValueError("a file with a host in each line")
    return Hosts(places)


def _lines(path: Path) -> list[str]:
    """The hosts in a file, without comments. Raises ValueError if it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"a file that can be read: {error.strerror}") from None
    except ValueError:
        raise ValueError("a text file with a host in each line") from None
    words = (line.partition("#")[0].strip() for line in lines)
    return [re.sub(r"\s+slots\s*=\s*", ":", word) for word in words if word]


def _place(word: str) -> Place:
    """Parse one host. Raises ValueError."""
    host, colon, count = word.partition(":")
    most = int(count) if count.isascii() and count.isdigit() and len(count) < 7 else 0
    if not NAME.fullmatch(host) or (colon and not 1 <= most <= MOST_PLACES):
        allowed = "hosts such as a:2,b:2, or the name of a file with one in each line"
        raise ValueError(f"{allowed}, not {word!r}")
    return Place(host, most if colon else 1)


def one_by_one(places: Sequence[Place]) -> list[str]:
    """The host of each PE, in order."""
    return [place.host for place in places for _ in range(place.pes)]


def require_places(named: Hosts, pes: int) -> None:
    """Raise InputError if the hosts may not have so many PEs."""
    if pes > named.pes:
        allowed = f"has {named.pes} places for the {pes} PEs: give more, such as {named[0].host}:2"
        raise InputError("--hosts", str(named), allowed)
