"""Reads the lists of ``miniapps replay``: PEs, periods, balancers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from miniapps.parameters import integer
from miniapps.workbench.arguments import typed
from miniapps.workbench.replay.names import BALANCERS

MOST_PES = 1 << 22
MOST_STEPS = 1 << 53

EXAMPLES = """examples:
  miniapps replay run.h5
  miniapps replay run.h5 --pes 2..16 --lb-periods 20,80 --balancers Greedy,none
  miniapps replay run.h5 --own
"""


def pe_counts(text: str) -> list[int]:
    """Numbers of PEs: a list as ``2,3,8``, and ``2..64`` for 2, 4, 8 ... 64. Raises ValueError."""
    found: list[int] = []
    for part in text.split(","):
        low, dots, high = part.partition("..")
        least, most = count(low, MOST_PES), count(high or low, MOST_PES)
        if dots and (not high or least > most):
            raise ValueError("FEWEST..MOST, such as 2..64")
        while least <= most:
            found.append(least)
            least *= 2
    return list(dict.fromkeys(found))


def counts(text: str) -> list[int]:
    """Integers above 0, as ``20,80``. Raises ValueError."""
    return list(dict.fromkeys(count(part) for part in text.split(",")))


def balancers(text: str) -> list[str]:
    """Names of balancers, in any case. Raises ValueError."""
    spelled = {name.lower(): name for name in BALANCERS}
    names = [spelled.get(part.strip().lower()) for part in text.split(",")]
    if None in names:
        raise ValueError(f"of {', '.join(BALANCERS)}, with commas between")
    return list(dict.fromkeys(name for name in names if name))


def count(text: str, most: int = MOST_STEPS) -> int:
    """An integer from 1 to ``most``. Raises ValueError."""
    value = integer(text)
    if not 1 <= value <= most:
        raise ValueError(f"integers from 1 to {most}")
    return value


def add_replay_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    help = "written by run --output, best with --trace; several: repeated runs of one problem"
    parser.add_argument("files", nargs="+", type=Path, metavar="RUN.h5", help=help)
    add = parser.add_argument

    def listed(option: str, parse: Callable[[str], Any], help: str, metavar: str) -> None:
        add(option, type=typed(parse), metavar=metavar, help=help)

    listed("--pes", pe_counts, "as 2,3 or 2..64 for 2, 4 ... 64; default: as in the run", "LIST")
    names = ", ".join(BALANCERS)
    listed("--balancers", balancers, f"of {names}; default: all but Rotate", "LIST")
    listed("--lb-periods", counts, "steps between load-balancing steps; default: 20", "LIST")
    help = "blocks per PE, made of neighbouring blocks of the run; default: all blocks as they are"
    listed("--odf", counts, help, "LIST")
    add("--lb-first", type=typed(count), metavar="STEP", help="default: the period")
    add("--costs", type=Path, metavar="FILE", help="JSON: seconds per message, byte and others")
    help = "replay the run's own load-balancing steps; exit status 1 if a block went elsewhere"
    add("--own", action="store_true", help=help)
    add("--figure", type=Path, metavar="FILE", help=".png, .svg or .pdf: time over PEs")
    add("--json", type=Path, metavar="FILE", help="write the predictions as JSON")
