"""Marks in streams: events that other streams wait for, and between which time is measured."""

from __future__ import annotations

from time import perf_counter
from typing import Any

RENEWED_S = 0.25


def mark(stream: Any, timed: bool = False) -> Any:
    """Record an event in a stream; ``timed``: whose time can be asked for, which costs more."""
    return stream.toolkit.mark(stream, timed)


def latest(stream: Any) -> Any:
    """Return a mark after all work of a stream so far, perhaps one from some time ago."""
    return stream.toolkit.latest(stream)


def seconds(first: Any, last: Any) -> float:
    """Return the time between two timed marks; waits until the second one is reached."""
    last.synchronize()
    return first.elapsed_time(last) / 1000.0


def set_clock(stream: Any) -> None:
    """Let the times of a stream's marks be counted from now; waits for its work."""
    epoch = mark(stream, timed=True)
    epoch.synchronize()
    stream.epoch = epoch, perf_counter()


def time_of(stream: Any, mark: Any) -> float:
    """Return the time of a timed mark that is reached, as `perf_counter` gives it.

    Times are counted from an earlier mark of the stream, its epoch. They are float32, so a later
    mark becomes the epoch after `RENEWED_S`. A mark keeps its time, as several blocks may ask.
    """
    if mark.time_s is None:
        epoch, then = stream.epoch
        mark.time_s = then + epoch.elapsed_time(mark) / 1000.0
        if mark.time_s - then > RENEWED_S:
            stream.epoch = mark, mark.time_s
    return mark.time_s


def wait_for(event: Any, stream: Any) -> None:
    """Let a stream wait for a mark; None: do nothing."""
    if event is not None:
        event.wait(stream)


def reached_already(event: Any) -> None:
    """Wait on the host until a mark is reached that probably is: asking costs less.

    None: do nothing.
    """
    if event is not None and not event.query():
        event.synchronize()


def reached(event: Any) -> None:
    """Wait on the host until a mark is reached; None: do nothing."""
    if event is not None:
        event.synchronize()
