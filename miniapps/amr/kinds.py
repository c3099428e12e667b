"""Creates a block of the kind that the index names."""

from __future__ import annotations

from miniapps.amr.block import Background, Refinement
from miniapps.amr.layout import AmrLayout
from miniapps.amr.problem import AmrProblem
from miniapps.contract import BlockMaker, Index
from miniapps.devices.backend import Device


def Block(  # noqa: N802 - what an app exports
    problem: AmrProblem, layout: AmrLayout, index: Index, device: Device
) -> Background | Refinement:
    """A block of the background (2 coordinates), or of a refinement (its number and 2)."""
    return (Background if len(index) == 2 else Refinement)(problem, layout, index, device)


_: BlockMaker = Block  # mypy: they keep the contract
