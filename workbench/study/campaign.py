"""The campaign file: everything that a study has measured, one JSON object per line.

Lines are only appended, and each is on the disk before the next run begins. So a study that is
killed loses at most the current run: an incomplete last line is cut off when the file is opened
again. (An HDF5 file that is open for writing when its process is killed may become unreadable.)

The first line is the head: ``campaign`` (version of this format), ``study`` (see
`plan.Study.head`) and ``points`` (the runs of one trial). Each later line has an ``event``:

``start``    a process began or resumed the study: ``versions``, ``host``, ``clock_tick_s``,
             ``pinned``, ``until_ci``
``noise``    ``seconds`` of the fixed work (`noise.sample`)
``run``      ``trial``, ``point``, ``command``, ``seconds``, ``record`` of a run that counts
``dropped``  ``trial``, ``point``, ``command``, ``reason`` of a run that does not count, and
             ``final``: whether repeating it is pointless

When a file is read, each run is validated again (`revalidation`); one that must not count is
read as ``dropped``.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from miniapps.json_input import parsed_object
from miniapps.parameters import InputError, require, require_no_device
from miniapps.workbench.run.output import append_line
from miniapps.workbench.run.record import with_few_rounds
from miniapps.workbench.run.schema import comparable, upgraded, upgraded_head
from miniapps.workbench.study import revalidation
from miniapps.workbench.study.revalidation import misfit_of_event, once

VERSION = 1


@dataclass
class Campaign:
    """The contents of a campaign file."""

    head: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)
    # Classes of other campaigns replace these.
    misfit_of_head = staticmethod(revalidation.misfit_of_head)
    revalidated = staticmethod(revalidation.revalidated)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file and validate its runs; an incomplete last line is ignored.

        Raises InputError.
        """
        require_no_device("campaign", path)
        try:
            text = path.read_bytes()
        except OSError as error:
            raise InputError("campaign", path, f"cannot be read: {error.strerror}") from None
        lines = text[: text.rfind(b"\n") + 1].splitlines()
        objects = [object_of(path, number, line) for number, line in enumerate(lines, 1)]
        require(bool(objects), "campaign", path, "holds no campaign")
        version = objects[0].get("campaign")
        require(version == VERSION, "campaign", path, f"has no head of version {VERSION}")
        wrong = cls.misfit_of_head(objects[0])
        require(wrong is None, "campaign", path, f"line 1 is no head: {wrong}")
        head = upgraded_head(objects[0])
        for number, entry in enumerate(objects[1:], 2):
            wrong = misfit_of_event(head, entry)
            require(wrong is None, "campaign", path, f"line {number}: {wrong}")
        return cls(head, once(cls.revalidated(head, list(map(_upgraded, objects[1:])))))

    def of(self, event: str) -> Iterator[dict[str, Any]]:
        """All events of a kind, in order."""
        return (entry for entry in self.events if entry["event"] == event)

    @property
    def records(self) -> dict[int, list[dict[str, Any]]]:
        """The records of the runs that count, by point."""
        found: dict[int, list[dict[str, Any]]] = {}
        for run in self.of("run"):
            found.setdefault(run["point"], []).append(run["record"])
        return found

    @property
    def wrong(self) -> set[int]:
        """Points with a run that it is pointless to repeat."""
        return {entry["point"] for entry in self.of("dropped") if entry["final"]}

    @property
    def completed(self) -> set[tuple[int, int]]:
        """Trial and point of every run that is not to be repeated."""
        made = [*self.of("run"), *(entry for entry in self.of("dropped") if entry["final"])]
        return {(entry["trial"], entry["point"]) for entry in made}

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Dropped runs without a later run that counts."""
        made = {(entry["trial"], entry["point"]) for entry in self.of("run")}
        last = {(entry["trial"], entry["point"]): entry for entry in self.of("dropped")}
        return [entry for key, entry in last.items() if key not in made]


def _upgraded(entry: dict[str, Any]) -> dict[str, Any]:
    """An event; if it is a run, its record has the keys of the current schema."""
    run = entry["event"] == "run"
    return entry | {"record": upgraded(entry["record"])} if run else entry


def object_of(path: Path, number: int, line: bytes | str) -> dict[str, Any]:
    """Parse a line of a file as a JSON object. Raises InputError."""
    try:
        return parsed_object(line)
    except ValueError:
        raise InputError("campaign", path, f"line {number} is no JSON object") from None


class Writer:
    """Appends to a campaign file; a second writer at the same time is refused."""

    def __init__(self, path: Path, head: dict[str, Any], reader: type[Campaign] = Campaign) -> None:
        """Create the file, or continue one of the same study. Raises InputError."""
        self.reader, self.path = reader, path
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._open(path, head)
        except Exception:
            self.close()
            raise

    def _open(self, path: Path, head: dict[str, Any]) -> None:
        """Lock the file, cut off an incomplete last line, and read the rest."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError("--campaign", path, "another study is writing to it") from None
        text = os.pread(self.file, os.fstat(self.file).st_size, 0)
        whole = text.rfind(b"\n") + 1
        if whole:
            self.campaign = self.reader.read(path)
            _require_same(path, self.campaign.head, head)
            os.ftruncate(self.file, whole)
        else:  # new, or killed while the head was being written
            require(_line(head).startswith(text), "--campaign", path, "is some other file")
            os.ftruncate(self.file, 0)
            head = json.loads(_line(head))  # as it will be read
            wrong = self.reader.misfit_of_head(head)
            require(wrong is None, "--campaign", path, f"no study to write: {wrong}")
            self.campaign = self.reader(head)
            self._append(head)

    def add(self, event: str, **entry: Any) -> None:
        """Add a line; it is on the disk when this returns. Many rounds of a record are merged.

        Raises InputError for what could not be read again.
        """
        if "record" in entry:
            entry["record"] = with_few_rounds(entry["record"])
        added = {"event": event} | entry
        wrong = misfit_of_event(self.campaign.head, added)
        require(wrong is None, "--campaign", self.path, f"{event}: {wrong}")
        self._append(added)
        self.campaign.events.append(added)

    def _append(self, line: dict[str, Any]) -> None:
        append_line(self.path, self.file, _line(line))

    def close(self) -> None:
        """Close the file, which unlocks it."""
        os.close(self.file)


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _require_same(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise InputError if a file holds another study than the requested one."""
    found, wanted = comparable(found), comparable(wanted)
    for part in ("study", "points"):
        if found[part] != wanted[part]:
            allowed = f"holds another study ({_difference(found[part], wanted[part])})"
            raise InputError("--campaign", path, f"{allowed}; name another file")


def _difference(found: Any, wanted: Any) -> str:
    """The first difference, in a few words."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in found | wanted:
            if found.get(key) != wanted.get(key):
                inner = _difference(found.get(key), wanted.get(key))
                return inner if isinstance(found.get(key), dict) else f"{key} {inner}"
    if isinstance(found, list) and found and isinstance(found[0], dict):
        return "other runs"
    return f"{found}, not {wanted}"
