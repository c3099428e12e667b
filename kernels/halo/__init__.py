"""Kernels that pack faces into messages and unpack messages into ghosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # mypy: these modules implement the interface
    from kernels.halo import cpu, gpu
    from kernels.halo.interface import HaloKernels

    _: tuple[HaloKernels, ...] = cpu, gpu
