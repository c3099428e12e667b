"""Tests in this folder need a GPU, or numba's simulator in its place; elsewhere they are skipped.

The simulator must be asked for before numba is imported, so it has a process of its own:
``NUMBA_ENABLE_CUDASIM=1 pytest tests/gpu``. `tests/test_gpu_layers.py` starts it for every file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import gpu_budget
import pytest
import skips


@pytest.fixture(scope="session", autouse=True)
def _emulated() -> Iterator[None]:
    """Where there is no GPU, run kernels compiled for the CPU and not in numba's simulator."""
    from devices.cuda import toolkit

    if not toolkit.SIMULATED:
        yield
        return
    import emulation

    undo = emulation.install()
    yield
    undo()


@pytest.fixture(scope="session", autouse=True)
def _launches(_emulated: None) -> Iterator[None]:
    """Write down the names of the kernels that this process launches, if that is asked for."""
    file = os.environ.get(gpu_budget.LAUNCHED)
    if file is None:
        yield
        return
    from devices.cuda.compiler import Kernel

    launched, launch = set(), Kernel.__getitem__

    def noting(kernel: Kernel, how: tuple[object, ...]) -> object:
        launched.add(id(kernel))
        return launch(kernel, how)

    with mock.patch.object(Kernel, "__getitem__", noting):
        yield
    every = {
        n: k for module in gpu_budget.modules() for n, k in gpu_budget.kernels_of(module).items()
    }
    Path(file).write_text("\n".join(n for n, k in every.items() if id(k) in launched))


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
