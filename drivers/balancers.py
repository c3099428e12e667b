"""The load balancers of the Charm++ runtime inside Charm4Py 1.1's wheel (TreeLB strategies)."""

BALANCERS = ("Greedy", "GreedyRefine", "RefineA", "RefineB", "Random", "Rotate", "Dummy")
