"""Kernels for a GPU keep the interfaces that those for the CPU keep too."""

from __future__ import annotations

import pytest
from kernel_interfaces import APPS, differences, interface, load


@pytest.mark.parametrize("app", APPS)
def test_kernels_for_a_gpu_keep_the_interface(app: str) -> None:
    """Catches a kernel that a GPU lacks, or whose arguments differ from those blocks pass."""
    assert differences(interface(app), load(app, "gpu")) == []
