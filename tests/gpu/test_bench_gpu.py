"""The kernels' part of `make gpu-bench`, on sizes at which its rates say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import device

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_every_kernel_is_measured_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a kernel without a bar or a rate, and rates of kernels with other bits."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import gpu_bench

    monkeypatch.setattr(gpu_bench, "ROUNDS", 1)
    gpu = device.get("gpu")
    rates = gpu_bench.kernel_rates(gpu, gpu_bench.SMOKE, simulated=True)
    assert {*rates, "leanmd melt"} == set(gpu_bench.BARS)
    assert all(rate > 0 for entry in rates.values() for rate in entry.values())
    monkeypatch.setattr(gpu_bench, "has_cpu_bits", lambda *case: False)
    with pytest.raises(RuntimeError, match="not the bits"):
        gpu_bench.kernel_rates(gpu, gpu_bench.SMOKE, simulated=True)
