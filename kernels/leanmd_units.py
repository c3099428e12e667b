"""In what units LeanMD's exact sums count, and what follows: powers of two, the finer the better.

A pair's contribution to a sum must be below 2^51 units. The units are therefore as fine as the
largest force, energy and virial (force times distance) of two atoms allow that are `CLOSEST` to
each other: 10 644, 536 and 7024.
"""

from __future__ import annotations

CLOSEST = 0.66  # sigma
FORCE_UNIT = 2.0**-37  # epsilon / sigma, up to 2^14
ENERGY_UNIT = 2.0**-41  # epsilon, up to 2^10; also of velocities and of their squares
VIRIAL_UNIT = 2.0**-38  # epsilon, up to 2^13
