"""What a PE prints: to where its launcher's output goes, past the runtime.

The runtime replaces the standard files of a PE by pipes, which the same PE reads between two
messages and sends on to charmrun. A block that prints more than the 64 KiB that fit into a pipe
would wait for ever, and 500 lines took 11 s.
"""

from __future__ import annotations

import os

VARIABLE = "MINIAPPS_CHARM_OUTPUT"  # in a PE: the numbers of its standard files at the start
NUMBERS = (1, 2)


def keep() -> None:
    """Keep the standard files of this process, before the runtime starts.

    Nothing where they lead nowhere, as for PEs that charmrun starts on other hosts.
    """
    os.environ.pop(VARIABLE, None)
    nowhere = os.stat(os.devnull).st_rdev
    if all(os.fstat(number).st_rdev != nowhere for number in NUMBERS):
        os.environ[VARIABLE] = " ".join(str(os.dup(number)) for number in NUMBERS)


def restore() -> None:
    """Use them from now on. The pipes stay open, as the runtime goes on reading them."""
    kept = os.environ.pop(VARIABLE, "").split()
    for number, copy in zip(NUMBERS, map(int, kept), strict=False):
        os.dup(number)
        os.dup2(copy, number)
        os.close(copy)
