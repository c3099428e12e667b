"""Tests in this folder need a GPU, or numba's simulator in its place; elsewhere they are skipped.

The simulator must be asked for before numba is imported, so it has a process of its own:
``NUMBA_ENABLE_CUDASIM=1 pytest tests/gpu``. `tests/test_gpu_layers.py` starts it for every file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import skips


class Unimportable(pytest.Module):
    """A file of tests that could not even be imported, as numba-cuda is missing."""

    def collect(self) -> list[pytest.Item]:
        """Skip the whole file."""
        skips.without("gpu")
        return []


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Leave a file alone where its imports would fail."""
    if skips.missing("sim"):
        return Unimportable.from_parent(parent, path=module_path)
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test before its fixtures are made."""
    skips.without("gpu")
