"""Kernels of LeanMD."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # mypy: these packages implement the interface
    from kernels.leanmd import cpu, gpu
    from kernels.leanmd.interface import LeanmdKernels

    _: tuple[LeanmdKernels, ...] = cpu, gpu
