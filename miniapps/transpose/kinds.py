"""Creates a block of a problem: of the matrix, or of the Fourier transform."""

from __future__ import annotations

from miniapps.contract import BlockMaker, Index
from miniapps.decomposition import Layout
from miniapps.devices.backend import Device
from miniapps.transpose.block import TransposeBlock
from miniapps.transpose.pencils import PencilBlock
from miniapps.transpose.problem import TransposeProblem


def Block(  # noqa: N802 - what an app exports
    problem: TransposeProblem, layout: Layout, index: Index, device: Device
) -> TransposeBlock | PencilBlock:
    """A block of columns, or a pencil."""
    return (PencilBlock if problem.fft else TransposeBlock)(problem, layout, index, device)


_: BlockMaker = Block  # mypy: they keep the contract
