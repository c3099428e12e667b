"""Which slow cases are made on a day: an eleventh of all of them; in eleven days all.

``make test`` sets the day, so that all processes of a test run have the same. Where it is not set,
or is `ALL`, all cases are made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

Case = TypeVar("Case")
DAY = "TEST_DAY"  # a number that grows by one each day
ALL = "all"
DAYS = 11
# Apps with kernels for a GPU, by day: to compile these takes most of the time of their tests.
KERNELS = (
    ("leanmd", "pairs"),
    ("pic",),
    ("jacobi2d",),
    ("stencil3d",),
    ("cg",),
    ("transpose", "amr"),
)


def is_set() -> bool:
    """Whether only some cases are made."""
    return os.environ.get(DAY, ALL) != ALL


def share(cases: Sequence[Case]) -> list[Case]:
    """The cases that are made on this day: every eleventh, and at least one."""
    if not is_set():
        return list(cases)
    day = int(os.environ[DAY])
    return list(cases[day % DAYS :: DAYS]) or [cases[day % len(cases)]]


def with_kernels() -> list[str]:
    """The apps whose kernels for a GPU are tested on this day; *pairs* is leanmd's.

    Their number shares no divisor with that of days, so in 66 days slow tests meet all of them.
    """
    chosen = [KERNELS[int(os.environ[DAY]) % len(KERNELS)]] if is_set() else KERNELS
    return [app for apps in chosen for app in apps]


def keep_share(items: list[pytest.Item], slow: list[pytest.Item], config: pytest.Config) -> None:
    """Leave the slow ones that are not made on this day out of the collected items.

    The cases of a test follow each other, so they are spread over the week.
    """
    made = {id(item) for item in share(slow)} if slow else set()
    leave_out(items, [item for item in slow if id(item) not in made], config)


def leave_out(items: list[pytest.Item], some: list[pytest.Item], config: pytest.Config) -> None:
    """Take some of the collected items away."""
    config.hook.pytest_deselected(items=some)
    without = {id(item) for item in some}
    items[:] = [item for item in items if id(item) not in without]
