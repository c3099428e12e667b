"""The load balancers of the Charm++ runtime in Charm4Py 1.1's wheel, and how to select them.

They are the strategies of its TreeLB. The runtime accepts all but one by names of older versions.
RefineB has no such name and is selected by a file that describes the tree. An unknown name ends the
program.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
TREE_FILE = Path(__file__).with_name("tree_refine_b.json")


def runtime_options(balancer: str | None) -> list[str]:
    """The runtime's options for a balancer.

    ``+LBObjOnly`` is always set. Without it, the work of a PE before the first load-balancing step
    (imports, compilation, the main chare) counts as background load, and Greedy moves every block
    away from that PE.
    """
    options = ["+LBObjOnly"]
    if balancer in _OLD_NAMES:
        options += ["+balancer", _OLD_NAMES[balancer]]
    elif balancer is not None:
        options += ["+balancer", "TreeLB", "+TreeLBFile", str(TREE_FILE)]
    return options


def summary(
    rounds: Sequence[tuple[int, int]], syncs: np.ndarray, compute: np.ndarray
) -> list[dict[str, Any]]:
    """The effect of each load-balancing step, in order, from rows of `timing.SYNC`, one per PE.

    ``step`` is the first step after it. ``seconds``, its cost, is the shortest wait of any PE: the
    PE that came last waited for the balancing only. Imbalance is that of the rounds since the
    previous one, and of those up to the next. ``paid_after``: steps after which it had paid off.
    """
    firsts, counts = np.array(rounds).T
    steps = np.unique(syncs["step"]).tolist()
    cuts = [0, *np.searchsorted(firsts, steps).tolist(), len(firsts)]
    entries = []
    for n, step in enumerate(steps):
        seen = syncs[syncs["step"] == step]
        both = seen[np.isfinite(seen["begin_s"] + seen["end_s"])]
        seconds = float(np.min(both["end_s"] - both["begin_s"])) if len(both) else 0.0
        before, after = (slice(*cuts[i : i + 2]) for i in (n, n + 1))
        slowest = compute.max(axis=0)
        usual = slowest[before].sum() / counts[before].sum()
        moved = int(seen["came"].sum())
        paid = paid_after(seconds, usual, slowest[after], counts[after]) if moved else None
        entry = {
            "step": step,
            "moved": moved,
            "imbalance_before": imbalance(compute[:, before]),
            "imbalance_after": imbalance(compute[:, after]),
            "seconds": seconds,
            "paid_after": paid,
        }
        entries.append(entry)
    return entries


def paid_after(seconds: float, usual: float, slowest: np.ndarray, counts: np.ndarray) -> int | None:
    """Steps until a load-balancing step has saved its cost; None if it has not by the next one.

    It saves the difference between ``usual``, the slowest PE's compute time per step before it, and
    that after it: ``slowest`` (rounds,), of ``counts`` steps each.
    """
    saved = np.cumsum(usual * counts - slowest)
    enough = np.flatnonzero(saved >= seconds)
    return int(counts[: enough[0] + 1].sum()) if enough.size else None
