"""What the kernels of LeanMD take and give."""

from __future__ import annotations

from typing import Any, NamedTuple


class PairTask(NamedTuple):
    """The forces on the atoms of one cell from those of another cell, or from its own.

    ``position``, ``others``: what `sent_positions` gave; ``starts`` (clusters + 1,) int64 and
    ``neighbors`` (entries,) uint32: the lists of the cell's clusters; ``own``: whether the others
    are the same atoms; ``ready``: a mark behind the kernels that made new lists, or None.
    """

    position: Any
    others: Any
    clusters: Any
    starts: Any
    neighbors: Any
    own: bool
    cutoff: float
    ready: Any
