"""The kernels' part of `make gpu-bench`, on sizes at which its rates say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import device

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_every_kernel_is_measured_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches kernels without a rate, and rates of kernels with other bits."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import gpu_bench

    monkeypatch.setattr(gpu_bench, "ROUNDS", 1)
    gpu = device.get("gpu")
    todo = list(gpu_bench.kernel_parts(gpu, gpu_bench.SMOKE, simulated=True))
    assert len(todo) == 2 * 4 * 2 + 2
    assert all(part.measure() > 0 for part in todo)
    assert min(gpu_bench.hidden_copies((8, 8))[what] for what in ("copies_s", "both_s")) > 0
    assert gpu_bench.streams((16, 16), 4)["gain"] > 0
    monkeypatch.setattr(gpu_bench, "has_cpu_bits", lambda *case: False)
    monkeypatch.setattr(gpu_bench, "pushed", lambda block, steps: block.device.name)
    for part in todo:
        with pytest.raises(gpu_bench.Different, match="not the bits"):
            part.measure()


@pytest.mark.parametrize("how", ["", ", residual", ", 4 at once"])
def test_other_bits_show(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a comparison that any kernel passes."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import gpu_bench

    tile, sweep = gpu_bench.SWEEPS[how]

    def wrong(stencil, old, new, region):  # type: ignore[no-untyped-def]
        newest, change = sweep(stencil, old, new, region)
        return newest, change + (stencil.__name__ == "kernels.jacobi2d_gpu")

    assert gpu_bench.has_cpu_bits("jacobi2d", (9, 8), how, "float64")
    monkeypatch.setitem(gpu_bench.SWEEPS, how, (tile, wrong))
    assert not gpu_bench.has_cpu_bits("jacobi2d", (9, 8), how, "float64")
