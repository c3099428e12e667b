"""The units of LeanMD's exact sums, and the constants that depend on them.

A unit is a power of two, as small as possible: a pair's contribution to a sum must be below 2^51
units. The largest force, energy and virial (force times distance) of two atoms at distance
`CLOSEST` are 10 644, 536 and 7024.
"""

from __future__ import annotations

import numpy as np

CLOSEST = 0.66  # sigma
FORCE_UNIT = 2.0**-37  # epsilon / sigma, up to 2^14
SINGLE_UNIT = 2.0**-17  # of a force in single precision; sums are int32, so also up to 2^14
ENERGY_UNIT = 2.0**-41  # epsilon, up to 2^10; also for velocities and their squares
VIRIAL_UNIT = 2.0**-38  # epsilon, up to 2^13

# Adding 1.5 2^52 units to a float64 rounds it to whole units, and the lowest bits of the sum are
# their number.
FORCE_MAGIC, ENERGY_MAGIC, VIRIAL_MAGIC = (
    1.5 * 2.0**52 * unit for unit in (FORCE_UNIT, ENERGY_UNIT, VIRIAL_UNIT)
)
FORCE_ZERO, ENERGY_ZERO, VIRIAL_ZERO = (
    int(np.float64(magic).view(np.int64)) for magic in (FORCE_MAGIC, ENERGY_MAGIC, VIRIAL_MAGIC)
)

FAR = 1e9  # sigma; coordinate of empty places
OUTSIDE = 3 << 29  # the same in position quanta, of which atoms have fewer than 2^30
ROUNDING = 1e-9  # sigma; added to the reach of lists when bins are searched
FASTEST = 1000.0  # sigma / tau; the squares of higher velocities would overflow their sum

# Kernels report errors in an array of error flags, (4,) int64, by index. The block reads it once
# per step, so that the host does not wait for the GPU at every kernel.
STRAY = 0  # the largest squared distance from the origin, as bits of a float64, if not allowed
CLOSE = (
    1  # the closest pair, if closer than `CLOSEST`: 2^32 (r^2 in `CLOSE_UNIT`) + index of an atom
)
FAST = 2  # the first atom that is faster than `FASTEST`
FORESEEN = 3  # what `STRAY` will be after the next drift, foreseen on a GPU by the kick before it
NO_ERROR = (0, (1 << 63) - 1, (1 << 63) - 1, 0)
CLOSE_UNIT = 2.0**-32  # sigma^2
