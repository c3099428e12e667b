"""Tests in this folder need a GPU, or a stand-in for one; elsewhere they are skipped.

With ``NUMBA_ENABLE_CUDASIM=1 pytest tests/gpu`` device arrays are those of numba's simulator, and
kernels run under `emulation`. numba must be asked for that before it is imported, so
`tests/test_gpu_layers.py` starts a process for it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import gpu_budget
import of_day
import pytest
import skips

SIMULATED = "NUMBA_ENABLE_CUDASIM" in os.environ
if SIMULATED:
    os.environ["MINIAPPS_CUDA_TOOLKIT"] = "emulation:Emulator"


@pytest.fixture(scope="session", autouse=True)
def _kernels_that_ran() -> Iterator[None]:
    """Write down which kernels were launched, and which in the simulator too, if that is asked.

    ``{"launched": names, "simulated": names}``, in the file that a variable of the environment
    names.
    """
    yield
    file = os.environ.get(gpu_budget.LAUNCHED)
    if file is not None:
        modules = gpu_budget.modules()
        every = {n: k for module in modules for n, k in gpu_budget.kernels_of(module).items()}
        marks = {"launched": "was_launched", "simulated": "was_compared"}
        ran = {word: [n for n, k in every.items() if hasattr(k, m)] for word, m in marks.items()}
        Path(file).write_text(json.dumps(ran))


# tests/test_gpu_stub.py makes launched runs; the simulator has no CuPy; a GPU emulates nothing.
NOT_SIMULATED = ["test_drivers_gpu.py", "test_cupy_gpu.py"]
OF_KERNELS = {  # files of tests, by app
    "amr": "test_amr_gpu.py",
    "cg": "test_cg_gpu.py",
    "leanmd": "test_leanmd_gpu.py",
    "pic": "test_pic_gpu.py",
    "jacobi2d": "test_stencils_gpu.py",
    "stencil3d": "test_stencils_gpu.py",
    "transpose": "test_transpose_gpu.py",
}
OTHERS = OF_KERNELS.keys() - set(of_day.with_kernels())  # apps of other days
OF_OTHER_DAYS = {OF_KERNELS[app] for app in OTHERS} - {
    OF_KERNELS[a] for a in OF_KERNELS.keys() - OTHERS
}
collect_ignore = [*OF_OTHER_DAYS, *(NOT_SIMULATED if SIMULATED else ["test_emulation.py"])]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases of other days; keep the first and the last of each test, if that is asked."""
    left_out = [item for item in items if _is_of_another_day(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    if gpu_budget.ENDS not in os.environ:
        return
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = {id(end) for some in cases.values() for end in (some[0], some[-1])}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def _is_of_another_day(item: pytest.Item) -> bool:
    """Whether a case is of one app, whose kernels are tested on other days."""
    case = item.nodeid.partition("[")[2]
    return any(OF_KERNELS[app] == item.path.name and app in case for app in OTHERS)


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
