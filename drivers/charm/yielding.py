"""PEs that wait for messages let other processes run.

The runtime's scheduler polls for messages without a pause. Where there are more PEs than cores, a
PE that has nothing to do keeps its core for a time slice of a few milliseconds, while the PE for
which a message has come waits for a core. `benchmarks/messages/yielding.py` measures what it saves
to give up the core whenever the PE has polled.
"""

from __future__ import annotations

import os
from functools import cache

from charm4py import charm


@cache
def begin() -> None:
    """Give up the core from now on between entry methods and polls; once per process."""
    _yield_core()


def _yield_core() -> None:
    os.sched_yield()
    charm.scheduleCallableAfter(_yield_core, 0)
