"""The numbers of PIC's owners, and the counters that a push sets; the same on all devices.

After a push every particle has an *owner*: the block in which it then is, as a number that encodes
the block's position relative to this one. The *counters*, int64, are on the device: how many
particles went to each owner, how many left in all, and which particle or row was wrong, if any; on
a GPU also how many will go to each owner in the next round.
"""

from __future__ import annotations

import numpy as np

OWNERS = 16  # how many there may be; 0 to 11 are blocks
HERE = 4  # owner of a particle that stays
LOST = 15  # owner of a particle that is neither in this block nor next to it

# Indices of the other counters.
LEFT = OWNERS  # how many particles leave
FIRST_LOST = OWNERS + 1  # the place of the first particle whose owner does not exist, or NOWHERE
MISROUTED = OWNERS + 2  # the first row, of all received, that is not in this block, or NOWHERE
TAIL, HOLES = OWNERS + 3, OWNERS + 4  # work space of `close_gaps`
UNFORESEEN = OWNERS + 5  # how many particles left for another owner than foreseen
FORESEEN = OWNERS + 6  # from here on, per owner: how many were foreseen, in all rounds so far
COUNTERS = FORESEEN + OWNERS  # how many counters there are

NOWHERE = np.iinfo(np.int64).max


def owner_at(edge: tuple[int, ...]) -> int:
    """Return the owner at an edge: the block -1 to 2 blocks away along x and -1 to 1 along y."""
    return 3 * (1 + edge[0]) + 1 + edge[1]


def clean_counters() -> np.ndarray:
    """Return counters of nothing, on the host: (COUNTERS,) int64."""
    counters = np.zeros(COUNTERS, np.int64)
    counters[FIRST_LOST] = counters[MISROUTED] = NOWHERE
    return counters
