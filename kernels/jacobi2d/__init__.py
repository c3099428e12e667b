"""Kernels of Jacobi2D."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # mypy: these modules implement the interface
    from kernels.jacobi2d import cpu, gpu
    from kernels.jacobi2d.interface import Jacobi2dKernels

    _: tuple[Jacobi2dKernels, ...] = cpu, gpu
