"""The kernels' part of `make gpu-bench`, on sizes at which its rates say nothing."""

from __future__ import annotations

from time import sleep

import of_day
import pytest

from benchmarks.gpu import bench, rates, works
from miniapps.devices import backend as device

EXACT = "exact_sum"  # kernels that are tested on every day


@pytest.mark.slow
def test_every_kernel_is_measured_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches kernels without a rate, and rates of kernels with other bits."""
    monkeypatch.setattr(rates, "ROUNDS", 1)
    gpu = device.get("gpu")
    todo = list(bench.kernel_parts(gpu, bench.SMOKE, simulated=True))
    assert len(todo) == 2 * 4 * 2 + 2 + 9 + 2
    of_today = (*of_day.with_kernels(), "exact dot")
    todo = [part for part in todo if part.path[1].startswith(of_today)]
    assert all(part.measure() > 0 for part in todo)
    assert set(rates.hidden_copies((8, 8))) == {"copies_s", "sweep_s", "both_s", "hidden"}
    assert set(rates.streams((16, 16), 4)) == {"one_stream_s", "own_streams_s", "gain"}
    monkeypatch.setattr(works, "bits", lambda make, app, where, *case: where)
    for part in todo:
        with pytest.raises(rates.Different, match="not the bits"):
            part.measure()


def test_rates_of_work_in_cupys_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches times that are taken only of work that is handed over by this project."""
    assert 0 < rates.rate(device.get("gpu"), lambda: sleep(0.002), 1.0) < 550


@pytest.mark.slow
@pytest.mark.parametrize("what", ["hidden_copies", "streams"])
def test_no_times_of_sweeps_that_are_wrong(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches times of kernels that do nothing."""
    arguments = ((8, 8),) if what == "hidden_copies" else ((16, 16), 2)
    monkeypatch.setattr("miniapps.kernels.jacobi2d.gpu.sweep", lambda *arguments: None)
    with pytest.raises(rates.Different):
        getattr(rates, what)(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n for n, (app, _) in works.WORKS.items() if app in (*of_day.with_kernels(), EXACT)]
)
def test_other_numbers_show(name: str) -> None:
    """Catches a comparison that a kernel passes which writes nothing, or into one array less."""
    app, make = works.WORKS[name]
    size = tuple(n + 2 for n in bench.SMOKE["kernels"][app])  # in memory of no earlier test
    work = make(device.get("gpu"), works.kernels.load(app, "gpu"), size, "float64")
    still = [array.tobytes() for array in work.written()]
    right = works.bits(make, app, "cpu", size, "float64")
    assert works.bits(make, app, "gpu", size, "float64") == right
    assert all(a != b for a, b in zip(still, right, strict=True))
