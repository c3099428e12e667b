"""Which cases of slow tests are made on a day: a seventh of them; in a week all.

Slow tests that have one case each count as cases of one test.

``make test`` sets the day, so that all processes of a test run have the same. Where it is not set,
or is `ALL`, all cases are made.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

Case = TypeVar("Case")
DAY = "TEST_DAY"  # a number that grows by one each day
ALL = "all"
DAYS = 7
# Apps with kernels for a GPU, by day: to compile these takes most of the time of their tests.
KERNELS = (("leanmd", "pairs"), ("pic",), ("jacobi2d",), ("stencil3d",))


def is_set() -> bool:
    """Whether only some cases are made."""
    return os.environ.get(DAY, ALL) != ALL


def share(cases: Sequence[Case]) -> list[Case]:
    """The cases that are made on this day: every seventh, and at least one."""
    if not is_set():
        return list(cases)
    day = int(os.environ[DAY])
    return list(cases[day % DAYS :: DAYS]) or [cases[day % len(cases)]]


def with_kernels() -> list[str]:
    """The apps whose kernels for a GPU are tested on this day; *pairs* is leanmd's."""
    return [app for apps in share(KERNELS) for app in apps]


def keep_share(
    items: list[pytest.Item], slow: Iterable[pytest.Item], config: pytest.Config
) -> None:
    """Leave out of collected items the cases of slow tests that are not made on this day."""
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in slow:
        test, bracket, _ = item.nodeid.partition("[")
        cases[test if bracket else ""].append(item)
    made = {id(item) for some in cases.values() for item in share(some)}
    left_out = {id(item) for some in cases.values() for item in some} - made
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]
