"""Load balancers by name: where each puts the blocks of a machine, from their loads."""

from __future__ import annotations

import numpy as np

from miniapps.kernels.placement import greedy as greedy_kernels
from miniapps.kernels.placement import refine as refine_kernels
from miniapps.workbench.replay.names import RUNTIME


def place(
    balancer: str, loads: np.ndarray, old: np.ndarray, pes: int, arrival: np.ndarray | None = None
) -> np.ndarray:
    """The PE of each block (blocks,) after a load-balancing step of one of `RUNTIME`.

    ``loads`` (blocks,): s, since the previous step; ``old`` (blocks,): the PE that each is on, of
    ``pes``; ``arrival`` (pes,): the order in which the PEs' loads came to the root, which decides
    between PEs of equal load; by default as numbered. Both tables are in the runtime's order, which
    decides between blocks of equal load, if there are 16 or less: its sort is not stable.
    """
    if balancer == "Rotate":
        return (old + 1) % pes
    arrived = np.arange(pes) if arrival is None else arrival
    old, arrived = old.astype(np.int32), arrived.astype(np.int32)
    single = loads.astype(np.float32)
    order = np.argsort(-single, kind="stable")
    if balancer in ("RefineA", "RefineB"):
        return refine_kernels.refine(single, order, arrived, old, balancer == "RefineA")
    placed = np.empty_like(old)
    if balancer == "Greedy":
        greedy_kernels.greedy(single, order, arrived, placed)
    elif balancer == "GreedyRefine":
        greedy_kernels.greedy_refine(single, order, arrived, old, placed)
    else:
        raise ValueError(f"balancer {balancer}: must be one of {', '.join(RUNTIME)}")
    return placed
