"""Launches that a block repeats: the parameters of a kernel are packed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

Launch = Callable[[], None]
P = ParamSpec("P")
MOST = 256  # launches that a block keeps: those prepared last


def repeated(prepare: Callable[P, Launch]) -> Callable[P, None]:
    """Return a function that makes the launch which ``prepare`` has returned.

    ``prepare(one, other, *rest)`` returns what `Kernel.prepared` does, in the stream of ``one``, or
    `nothing`. It is called once for arrays in the same place, of the same shape and type, and the
    same ``rest``, which must be hashable; nothing else may decide what it returns. Launches have
    addresses, not arrays, so the memory of a message can be freed. Any other array that a kernel
    gets must be in ``rest``. All arguments are given by position.
    """

    @wraps(prepare)
    def launch(one: Any, other: Any, *rest: Any) -> None:
        launches = one.stream.launches
        if launches is None:  # the toolkit packs nothing
            prepare(one, other, *rest)()  # type: ignore[call-arg]
            return
        key = prepare, one.place, other.place, rest
        found = launches.get(key)
        if found is None:
            if len(launches) >= MOST:
                del launches[next(iter(launches))]  # the oldest
            found = launches[key] = prepare(one, other, *rest)  # type: ignore[call-arg]
        found()

    # It returns nothing, unlike ``prepare``, as the interfaces of kernels say.
    launch.__annotations__ = prepare.__annotations__ | {"return": None}
    return launch  # type: ignore[return-value]


def nothing() -> None:
    """Launch nothing."""
