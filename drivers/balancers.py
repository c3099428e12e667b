"""The load balancers of the Charm++ runtime inside Charm4Py 1.1's wheel, and how to ask for them.

They are the strategies of its TreeLB. The runtime knows all but one by the names of older versions;
RefineB has none and is asked for by a file that describes the tree. Unknown names end the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from drivers.job import Job
from drivers.timing import imbalance

_OLD_NAMES = {
    "Greedy": "GreedyLB",
    "GreedyRefine": "GreedyRefineLB",
    "RefineA": "RefineLB",
    "Random": "RandCentLB",
    "Rotate": "RotateLB",
    "Dummy": "DummyLB",
}
BALANCERS = (*_OLD_NAMES, "RefineB")


def runtime_options(balancer: str | None) -> list[str]:
    """The runtime's options for a balancer.

    ``+LBObjOnly`` always: else what a PE did before the first balancing (imports, compilation, the
    main chare) counts as background load and Greedy moves every block away from it.
    """
    options = ["+LBObjOnly"]
    if balancer in _OLD_NAMES:
        options += ["+balancer", _OLD_NAMES[balancer]]
    elif balancer is not None:
        file = Path(__file__).with_name("tree_refine_b.json")
        options += ["+balancer", "TreeLB", "+TreeLBFile", str(file)]
    return options


class Sync(NamedTuple):
    """One block's part in a balancing: when it went, when it came back, and whether it moved."""

    begun_s: float
    ended_s: float
    moved: bool


def summary(
    job: Job, done: int, synced: Sequence[dict[int, list[Sync]]], compute: np.ndarray
) -> list[dict[str, Any]]:
    """What each balancing did, in order, from what came back on each PE ``{step: blocks}``.

    ``seconds`` is the shortest wait of any PE, that of the last to come: the balancing itself.
    Imbalance is that of the rounds from the balancing before, and of those up to the next.
    """
    starts = [start for start, _ in job.rounds(job.warmup, done)]
    steps = sorted(set().union(*synced))
    cuts = [0, *map(starts.index, steps), len(starts)]
    entries = []
    for n, step in enumerate(steps):
        pes = [pe[step] for pe in synced if step in pe]
        waits = [min(s.ended_s for s in pe) - max(s.begun_s for s in pe) for pe in pes]
        entry = {
            "step": step,
            "moved": sum(block.moved for pe in pes for block in pe),
            "imbalance_before": imbalance(compute[:, cuts[n] : cuts[n + 1]]),
            "imbalance_after": imbalance(compute[:, cuts[n + 1] : cuts[n + 2]]),
            "seconds": min(waits),
        }
        entries.append(entry)
    return entries
