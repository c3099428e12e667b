"""Kernels of Stencil3D."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # mypy: these modules implement the interface
    from kernels.stencil3d import cpu, gpu
    from kernels.stencil3d.interface import Stencil3dKernels

    _: tuple[Stencil3dKernels, ...] = cpu, gpu
