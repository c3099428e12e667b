"""The load balancers of the Charm++ runtime inside Charm4Py 1.1's wheel, and how to ask for them.

They are the strategies of its TreeLB. The runtime knows all but one by the names of older versions;
RefineB has none and is asked for by a file that describes the tree. Unknown names end the program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass
class Sync:
    """One balancing as one PE saw it, by its own clock: last to wait, first to go on, come here."""

    begun_s: float = math.inf
    ended_s: float = math.inf
    moved: int = 0


def summary(
    job: Job, done: int, syncs: Sequence[dict[int, Sync]], compute: np.ndarray
) -> list[dict[str, Any]]:
    """What each balancing did, in order, from what each PE saw of it: {step: Sync}.

    ``step`` is the first after it. ``seconds`` is the shortest wait of any PE, that of the last to
    come: the balancing itself. Imbalance is that of the rounds since the balancing before, and of
    those up to the next. ``paid_after``: steps after which it had paid for itself.
    """
    rounds = np.array(list(job.rounds(job.warmup, done)))
    starts = rounds[:, 0].tolist()
    steps = sorted(set().union(*syncs))
    cuts = [0, *map(starts.index, steps), len(starts)]
    entries = []
    for n, step in enumerate(steps):
        seen = [pe[step] for pe in syncs if step in pe]
        waits = [s.ended_s - s.begun_s for s in seen if s.begun_s + s.ended_s < math.inf]
        seconds = min(waits, default=0.0)
        before, after = (slice(*cuts[place : place + 2]) for place in (n, n + 1))
        slowest = compute.max(axis=0)
        usual = slowest[before].sum() / rounds[before, 1].sum()
        entry = {
            "step": step,
            "moved": sum(sync.moved for sync in seen),
            "imbalance_before": imbalance(compute[:, before]),
            "imbalance_after": imbalance(compute[:, after]),
            "seconds": seconds,
            "paid_after": paid_after(seconds, usual, slowest[after], rounds[after, 1]),
        }
        entries.append(entry)
    return entries


def paid_after(seconds: float, usual: float, slowest: np.ndarray, counts: np.ndarray) -> int | None:
    """Steps in which a balancing has saved what it cost; None where it has not by the next one.

    It saves what the slowest PE computes less than ``usual`` per step: ``slowest`` (rounds,), of
    ``counts`` steps each.
    """
    saved = np.cumsum(usual * counts - slowest)
    enough = np.flatnonzero(saved >= seconds)
    return int(counts[: enough[0] + 1].sum()) if enough.size else None
