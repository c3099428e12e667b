"""Where Charm++'s load balancers put blocks: the strategies of its TreeLB, step by step.

The strategies are those of `src/ck-ldb/greedy.h`, `refine.h`, `pheap.h` and `TreeStrategyBase.h` of
Charm++ (https://github.com/charmplusplus/charm), as Charm4Py 1.1's wheel has them. Loads are added
up in single precision, in the runtime's order, and its two kinds of heap break ties as they do
there, so placements agree block by block. `heaps` has the heaps, `greedy` and `refine` the
strategies.
"""
