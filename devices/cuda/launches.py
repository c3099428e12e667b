"""Launches that come again: the parameters of a kernel are packed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

Launch = Callable[..., None]  # without arguments, or with those that differ each time
Tasks = Sequence[tuple[Any, ...]]
MOST = 256  # launches that a stream keeps: those prepared last


def repeated(prepare: Callable[[Tasks], Launch]) -> Callable[..., None]:
    """Return a function ``launch(tasks, *arguments)`` that calls what ``prepare`` has returned.

    ``prepare(tasks)`` returns what `Kernel.prepared` does, for one block or more: a task is ``(one,
    other, *rest)``, and the arrays of all tasks are in one stream. It is called once for arrays in
    the same places, of the same shapes and types, and the same rests, which must be hashable;
    nothing else may decide what it returns. Launches have addresses, not arrays, so the memory of a
    message can be freed. Any other array that a kernel gets must be in a rest, or an argument.
    ``arguments``: what differs each time, see `tasks.launch_with`.
    """

    @wraps(prepare)
    def launch(tasks: Tasks, *arguments: Any) -> None:
        launches = tasks[0][0].stream.launches
        if launches is None:  # the toolkit packs nothing
            prepare(tasks)(*arguments)
            return
        key = prepare, *[(task[0].place, task[1].place, task[2:]) for task in tasks]
        found = launches.get(key)
        if found is None:
            if len(launches) >= MOST:
                del launches[next(iter(launches))]  # the oldest
            found = launches[key] = prepare(tasks)
        found(*arguments)

    return launch


def nothing() -> None:
    """Launch nothing."""
