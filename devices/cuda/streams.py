"""Marks in streams: events that other streams wait for, and between which time is measured."""

from __future__ import annotations

from typing import Any


def mark(stream: Any) -> Any:
    """Record an event in a stream."""
    return stream.toolkit.mark(stream)


def latest(stream: Any) -> Any:
    """Return a mark after all work of a stream so far, perhaps one from some time ago."""
    return stream.toolkit.latest(stream)


def seconds(first: Any, last: Any) -> float:
    """Return the time between two marks; waits until the second one is reached."""
    last.synchronize()
    return first.elapsed_time(last) / 1000.0


def wait_for(event: Any, stream: Any) -> None:
    """Let a stream wait for a mark; None: do nothing."""
    if event is not None:
        event.wait(stream)


def reached(event: Any) -> None:
    """Wait on the host until a mark is reached; None: do nothing."""
    if event is not None:
        event.synchronize()
