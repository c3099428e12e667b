"""In what units LeanMD's exact sums count, and what follows: powers of two, the finer the better.

A pair's contribution to a sum must be below 2^51 units. The units are therefore as fine as the
largest force, energy and virial (force times distance) of two atoms allow that are `CLOSEST` to
each other: 10 644, 536 and 7024.
"""

from __future__ import annotations

import numpy as np

CLOSEST = 0.66  # sigma
FORCE_UNIT = 2.0**-37  # epsilon / sigma, up to 2^14
ENERGY_UNIT = 2.0**-41  # epsilon, up to 2^10; also of velocities and of their squares
VIRIAL_UNIT = 2.0**-38  # epsilon, up to 2^13

# Adding 1.5 2^52 units to a float64 rounds it to whole units, which its lowest bits then count.
FORCE_MAGIC, ENERGY_MAGIC, VIRIAL_MAGIC = (
    1.5 * 2.0**52 * unit for unit in (FORCE_UNIT, ENERGY_UNIT, VIRIAL_UNIT)
)
FORCE_ZERO, ENERGY_ZERO, VIRIAL_ZERO = (
    int(np.float64(magic).view(np.int64)) for magic in (FORCE_MAGIC, ENERGY_MAGIC, VIRIAL_MAGIC)
)

FAR = 1e9  # sigma; where no atom is
ROUNDING = 1e-9  # sigma; lists are searched so much wider than they reach
FASTEST = 1000.0  # sigma / tau; squares of what is faster leave the range of their sums

# Kernels report what they cannot go on with in an array of error flags, (3,) int64, which the block
# checks when it suits it: a GPU then waits for nothing else.
STRAY = 0  # bits of the largest squared distance from an origin, where it is more than is allowed
CLOSE = 1  # of the closest pair, if closer than `CLOSEST`: r^2 in `CLOSE_UNIT`, 2^32, and an atom
FAST = 2  # the first atom that is faster than `FASTEST`
NO_ERROR = (0, (1 << 63) - 1, (1 << 63) - 1)
CLOSE_UNIT = 2.0**-32  # sigma^2
