"""Faults of the file driver."""

from __future__ import annotations

from typing import Any

from miniapps.drivers.rank_faults import from_the_header, own_value
from miniapps.faults import ACTED, fault, in_place_of

LINK, FOLDER = "miniapps.drivers.file.links:Link", "miniapps.drivers.file.links:Folder"
GROUP = "miniapps.drivers.file.group:Group"


@fault("miniapps.drivers.file.driver:around")
def ranks_without_their_launcher(right: Any) -> Any:
    """Each rank is started as a run of its own."""
    return lambda: None


@in_place_of(f"{LINK}.arrived")
def header_of_another_edge(right: Any, self: Any) -> Any:
    """A rank opens a file that was sent to another edge."""
    buffer = right(self)
    buffer[16] ^= 1  # in the edge's tag
    return buffer


@in_place_of(f"{FOLDER}.put")
def message_cut_short(right: Any, self: Any, name: str, buffer: Any) -> None:
    """The last byte of a file is not written, as by a sender that died."""
    right(self, name, buffer[:-1])


@in_place_of(f"{FOLDER}.take", conditional=True)
def file_of_the_message_before(right: Any, self: Any, name: str, room: Any) -> Any:
    """A rank reads each message but the first of a sender from the file of the one before."""
    buffer = right(self, name, room)
    kept = vars(self).setdefault("kept", {})
    sender = name.rpartition("-")[0]
    old = kept.get(sender)
    kept[sender] = buffer.copy()
    if old is None or old.tobytes() == buffer.tobytes():
        return buffer
    ACTED.now()
    return old


@in_place_of(f"{LINK}._body")
def header_read_as_data(right: Any, self: Any, *kind: Any) -> Any:
    """The elements of a message begin one too early, in its header."""
    return from_the_header(right(self, *kind))


@in_place_of(f"{GROUP}.all_reduce", conditional=True)
def reduction_of_one_rank(right: Any, self: Any, value: Any, op: str) -> Any:
    """A reduction is the rank's own value."""
    return own_value(right(self, value, op), value)
