"""Marks in the work of streams: points that others wait for, and between which time is measured."""

from __future__ import annotations

from typing import Any


def mark(stream: Any) -> Any:
    """A point in a stream's work."""
    return stream.toolkit.mark(stream)


def seconds(first: Any, last: Any) -> float:
    """The time from one mark to another; waits until both have been reached."""
    last.synchronize()
    return first.elapsed_time(last) / 1000.0


def wait_for(event: Any, stream: Any) -> None:
    """Let a stream go on only when a mark, if there is one, has been reached."""
    if event is not None:
        event.wait(stream)


def reached(event: Any) -> None:
    """Wait until a mark, if there is one, has been reached."""
    if event is not None:
        event.synchronize()
