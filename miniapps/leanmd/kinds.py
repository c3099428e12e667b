"""Creates a block of the kind that the decomposition and the index require."""

from __future__ import annotations

from miniapps.contract import BlockMaker, Index
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.leanmd.block import LeanmdBlock
from miniapps.leanmd.pair_layout import PairLayout
from miniapps.leanmd.pairs import Cell, Compute
from miniapps.leanmd.problem import LeanmdProblem


def Block(  # noqa: N802 - what an app exports
    problem: LeanmdProblem, layout: Layout, index: Index, device: Device
) -> LeanmdBlock | Cell | Compute:
    """A block; in the decomposition *pairs* a cell (3 coordinates) or a compute (6)."""
    if not isinstance(layout, PairLayout):
        return LeanmdBlock(problem, layout, index, device)
    return (Cell if len(index) == 3 else Compute)(problem, layout, index, device)


_: BlockMaker = Block  # mypy: they keep the contract
