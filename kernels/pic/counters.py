"""What PIC's kernels of all devices agree on: numbers of owners, and what a push counts.

A particle that was pushed has an *owner*: the block that it is in then, as a number that says where
that lies from here. What a push found stands in *counters*, int64, on the device: how many
particles went to each owner, how many in all, and what went wrong, if anything did.
"""

from __future__ import annotations

import numpy as np

OWNERS = 16  # from 0; 0 to 11 are blocks
HERE = 4  # owner of a particle that stays
LOST = 15  # owner of a particle that is neither in this block nor next to it

LEFT = OWNERS  # place among the counters: how many leave
FIRST_LOST = OWNERS + 1  # the place of the first particle that went to no known owner, or NOWHERE
MISROUTED = OWNERS + 2  # the first row of all that came which is not in this block, or NOWHERE
TAIL, HOLES = OWNERS + 3, OWNERS + 4  # work space of a kernel that closes gaps
COUNTERS = OWNERS + 5  # how many counters there are

NOWHERE = np.iinfo(np.int64).max


def owner_at(edge: tuple[int, ...]) -> int:
    """The owner that is the block at an edge: -1 to 2 blocks along x, -1 to 1 along y."""
    return 3 * (1 + edge[0]) + 1 + edge[1]


def clean_counters() -> np.ndarray:
    """Counters of nothing: (COUNTERS,) int64."""
    counters = np.zeros(COUNTERS, np.int64)
    counters[FIRST_LOST] = counters[MISROUTED] = NOWHERE
    return counters
