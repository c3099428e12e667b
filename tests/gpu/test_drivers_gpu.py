"""Launched runs on a GPU; without one they run in `tests/test_gpu_stub.py`."""

from __future__ import annotations

from typing import Any

import gpu_runs
import pytest


@pytest.mark.timeout(400)
@pytest.mark.parametrize("run", gpu_runs.RUNS)
def test_runs_end_as_on_the_cpu(run: gpu_runs.Run, run_record: Any) -> None:
    """Catches staging that loses, doubles or mixes up messages, and migrations that lose state."""
    # Real MPI may not take a GPU's memory.
    run = run._replace(how=run.how.replace("aware on", "aware auto"))
    gpu_runs.check(run, run_record(*run.problem.split()), run_record(*run.words, timeout=300))
