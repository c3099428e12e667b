"""Creates a block that iterates as the problem says."""

from __future__ import annotations

from miniapps.cg.block import CgBlock
from miniapps.cg.pipelined import PipelinedBlock
from miniapps.cg.problem import CgProblem
from miniapps.contract import BlockMaker, Index
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device


def Block(  # noqa: N802 - what an app exports
    problem: CgProblem, layout: Layout, index: Index, device: Device
) -> CgBlock:
    """A block of plain or pipelined conjugate gradients."""
    return (PipelinedBlock if problem.pipelined else CgBlock)(problem, layout, index, device)


_: BlockMaker = Block  # mypy: they keep the contract
