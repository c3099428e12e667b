"""Kernels of PIC."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # mypy: these packages implement the interface
    from kernels.pic import cpu, gpu
    from kernels.pic.interface import PicKernels

    _: tuple[PicKernels, ...] = cpu, gpu
