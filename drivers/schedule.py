"""Schedules: in which order the events of a simulated run happen, as data.

An *event* is a delivery of a message, a turn of a block, the begin of a block's round, or a
reduction. It is a tuple whose first word says what it is:

* ``("message", step, phase, place, edge)``: a message arrives at the block ``place`` (kind and
  index) on its ``edge``; ``("sum", ...)``: the same for a `PostSum`;
* ``("begin", step, place)``: a block begins the round at ``step``;
* ``("turn", step, place, n)``: a block's n-th request in this round is answered;
* ``("reduce", step, kind, n)``: the blocks of a kind get the result of an AllReduce;
* ``("batch", n)``: the tasks of all waiting blocks are done at once.

Without a schedule, events happen in the order in which they become possible. A schedule states the
exceptions: events that are held back until another one has happened, and migrations. Each
exception can be left out, and the rest is still a schedule; so a failing one can be made smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from miniapps.contract import Place
from miniapps.json_input import parsed_object
from miniapps.parameters import InputError, contents

Event = tuple[Any, ...]
VERSION = 1
LARGEST = 64 << 20  # bytes of a schedule file
FORMS = {  # the types of an event's parts after its first word
    "message": (int, str, "place", "edge"),
    "sum": (int, str, "place", "edge"),
    "begin": (int, "place"),
    "turn": (int, "place", int),
    "reduce": (int, str, int),
    "batch": (int,),
}


@dataclass(frozen=True)
class Schedule:
    """Exceptions from the usual order of events.

    ``holds``: by event, another one that it is held back for; ``moves``: by first step of a round
    and block, the virtual PE to which the block migrates before it begins that round.
    """

    holds: Mapping[Event, Event] = field(default_factory=dict)
    moves: Mapping[tuple[int, Place], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.holds) + len(self.moves)

    def plain(self) -> dict[str, Any]:
        """The schedule as plain data for JSON."""
        moves = [[step, list(place), pe] for (step, place), pe in self.moves.items()]
        return {"holds": [list(pair) for pair in self.holds.items()], "moves": moves}


def read_schedule(path: Path, option: str) -> tuple[Schedule, dict[str, Any]]:
    """The schedule in a file, and the other entries of the file.

    Raises InputError for ``option`` if the file is not a schedule.
    """
    text = contents(option, path, LARGEST)
    try:
        data = parsed_object(text)
    except ValueError:
        raise InputError(option, path, "is no JSON object") from None
    try:
        if data.get("schedule") != VERSION:
            raise ValueError(f"must have the entry schedule: {VERSION}")
        holds = dict(_pair(pair) for pair in _list(data.get("holds")))
        moves = dict(_move(move) for move in _list(data.get("moves")))
    except ValueError as error:
        raise InputError(option, path, f"is not a schedule: {error}") from None
    return Schedule(holds, moves), data


def _list(data: Any, length: int | None = None) -> list[Any]:
    """The data, if they are a list of this length. Raises ValueError."""
    if not isinstance(data, list) or length not in (None, len(data)):
        size = "" if length is None else f" of {length}"
        raise ValueError(f"expected a list{size}, found {str(data)[:40]}")
    return data


def _pair(data: Any) -> tuple[Event, Event]:
    """An event, and the one that it is held back for."""
    held, cause = _list(data, 2)
    return _event(held), _event(cause)


def _event(data: Any) -> Event:
    """An event. Raises ValueError if the data are none."""
    what, *parts = _list(data) or [None]
    form = FORMS.get(what) if isinstance(what, str) else None
    if form is None or len(form) != len(parts):
        raise ValueError(f"expected an event, found {str(data)[:40]}")
    return what, *(_part(kind, part) for kind, part in zip(form, parts, strict=True))


def _part(kind: Any, data: Any) -> Any:
    """One part of an event. Raises ValueError if it is not of its kind."""
    if kind == "place":
        name, index = _list(data, 2)
        return _part(str, name), _part("edge", index)
    if kind == "edge":
        return tuple(_part(int, number) for number in _list(data))
    if type(data) is not kind:
        raise ValueError(f"expected {kind.__name__}, found {str(data)[:40]}")
    return data


def _move(data: Any) -> tuple[tuple[int, Place], int]:
    """A migration."""
    step, place, pe = _list(data, 3)
    return (_part(int, step), _part("place", place)), _part(int, pe)
