"""What a call between two ranks consists of, in a table: each way to send, and its parts.

A *path* is a way to send an array of bytes and to receive it. Its time per message is measured
whole, in a ping-pong, and of its parts what they take alone. What is left is the *rest*: waiting,
messages that a path sends besides the data, and caches that are colder than in a short loop. It
can be negative, because a part may take less time while the other rank still works. The paths of a
runtime are in its description (`communication.Runtime`); the first one is the library alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from miniapps import communication

LIBRARY, PYTHON, BUFFERS, PICKLING, COPIES, HEADER, REST = PARTS = (
    "library",
    "python",
    "buffers",
    "pickling",
    "copies",
    "header",
    "rest",
)
OWN = "own"  # in place of a size: calls of nothing, which a rank makes to itself


@dataclass(frozen=True)
class Row:
    """The times of one path and size at one thread level, us per message.

    ``size`` is None for a call of nothing to the own rank, ``call`` the name of the path for
    readers, ``trials`` the whole, by trial. ``parts``: by name, without those that the path does
    not have; None for those that are not known because the library was not measured alone.
    """

    level: str | None
    size: int | None
    path: str
    call: str
    trials: tuple[float, ...]
    parts: Mapping[str, float | None]

    @property
    def whole(self) -> float:
        """The fastest trial: parts are measured without disturbance, too."""
        return min(self.trials)


def rows(launches: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """The rows of what the ranks measured in some launches at one thread level.

    Of each, ``["whole"]`` are the times by size, path and trial, and ``["alone"]`` those of parts
    by size, path and name; all in us per message. Of parts, the median of the launches counts,
    because they are differences.
    """
    first = launches[0]
    runtime = communication.get(first["driver"])
    names = {**runtime.anatomy, **runtime.own_calls}
    for size, paths in first["whole"].items():
        library = None
        for path in paths:
            trials = [us for one in launches for us in one["whole"][size][path]]
            whole = min(trials)
            if path == runtime.library_alone:
                library = whole
                parts: dict[str, float | None] = {LIBRARY: whole}
            else:
                alone = [one["alone"][size][path] for one in launches]
                parts = {LIBRARY: library}
                parts |= {name: median(part[name] for part in alone) for name in alone[0]}
                known = [value for value in parts.values() if value is not None]
                parts[REST] = None if parts[LIBRARY] is None else whole - math.fsum(known)
            nbytes = None if size == OWN else int(size)
            yield Row(first["thread_level"], nbytes, path, names[path], tuple(trials), parts)
