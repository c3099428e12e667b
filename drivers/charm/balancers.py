"""The load balancers of the Charm++ runtime in Charm4Py 1.1's wheel, and how to select them.

They are the strategies of its TreeLB. The runtime accepts all but one by names of older versions.
RefineB has no such name and is selected by a file that describes the tree. An unknown name ends the
program.
"""

from __future__ import annotations

from pathlib import Path

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
