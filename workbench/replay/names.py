"""The names of what a replay may balance with."""

from __future__ import annotations

RUNTIME = "Greedy", "GreedyRefine", "RefineA", "RefineB", "Rotate"  # the runtime's strategies
NONE, OPTIMAL = "none", "optimal"  # no balancing; the lower bound of any placement
BALANCERS = (*RUNTIME, NONE, OPTIMAL)
