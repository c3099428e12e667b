"""CuPy's part of `make gpu-bench`: array expressions, beside which kernels are measured.

The simulator has no CuPy. Over the stub driver NumPy computes the expressions.
"""

from __future__ import annotations

import pytest

from benchmarks.gpu import bench, rates
from miniapps.devices import backend as device


@pytest.mark.slow
def test_expressions_are_measured_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches expressions without a rate, whose rate is nonsense, or with other results."""
    monkeypatch.setattr(rates, "ROUNDS", 1)
    gpu, cases = device.get("gpu"), bench.SMOKE
    every = [*bench.kernel_parts(gpu, cases, False), *bench.run_parts(gpu, cases, False)]
    parts = [part for part in every if part.path[-1] == bench.CUPY]
    names = ["jacobi2d", "stencil3d", "pic push", bench.MELTS[0]]
    assert [part.path[1] for part in parts] == names
    for part in parts:
        assert 0 < part.measure() < 1e12
    monkeypatch.setattr(rates, "AGREES", -1.0)
    for part in parts:
        with pytest.raises(rates.Different, match="off by"):
            part.measure()
