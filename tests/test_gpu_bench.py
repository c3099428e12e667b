"""What `make gpu-bench` writes: nothing without a GPU; a page and a figure of its results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skips
import support

from kernels.device import Device
from kernels.leanmd_units import FORCE_UNIT

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TINY_S = 280.0


@pytest.fixture(autouse=True)
def _benchmarks_import_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


def script(name: str, *arguments: str, **env: str) -> Any:
    """Run a script of the benchmarks."""
    return support.execute([sys.executable, BENCHMARKS / name, *arguments], TINY_S, env)


def test_no_results_without_a_gpu() -> None:
    """Catches rates of the simulator, or of nothing, that pass for a GPU's."""
    skips.without("sim")
    for simulated in ("0", "1"):
        done = script("gpu_bench.py", NUMBA_ENABLE_CUDASIM=simulated, CUDA_VISIBLE_DEVICES="")
        assert done.returncode == 2 and done.stderr.startswith("gpu-bench: ")
        assert done.stdout == "" and done.stderr.count("\n") == 1


def canned() -> dict[str, Any]:
    """Results as on a GPU where every kernel is twice as fast as it must be."""
    from gpu_bench import BARS, CUPY, judged

    kernels = {}
    for name, (_, passes, _) in BARS.items():
        kernels[name] = judged(name, {"float64": 2e9 * passes, CUPY: 1e9 * passes}, 4e12)
    sizes = {
        app: [
            {"size": n, "ranks": 8, "unit": "points/s", "cpu": 1e8 * n, "gpu": 1e7 * n * n}
            for n in (8, 64)
        ]
        for app in ("jacobi2d", "pic")
    }
    found = {"device": "A GPU", "copy_bytes_per_s": 4e12, "kernels": kernels, "sizes": sizes}
    return {"results": found}


def test_page_says_what_was_measured_and_no_more() -> None:
    """Catches a table with numbers that nobody measured, or without those that somebody did."""
    from gpu_bench import BARS
    from report import gpu

    empty, full = gpu(None), gpu(canned())
    rows = [line for line in empty.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(BARS) and all("not measured" in row for row in rows)
    assert "not measured" not in full and "A GPU" in full and "4.00 TB/s" in full
    (row,) = [line for line in full.splitlines() if line.startswith("| jacobi2d |")]
    assert [word.strip() for word in row.split("|")[3:6]] == ["380", "1.52", "2"]


def test_forces_by_arrays_are_those_of_the_kernels() -> None:
    """Catches a baseline that computes something else, and fewer cells than it can tell apart."""
    from leanmd_baselines import forces_by_arrays, melted

    block = melted((5, 5, 5), 30, Device())
    atoms, problem = block.atoms, block.problem
    position = atoms.own("position")
    found = forces_by_arrays(np, position, problem.box, problem.cutoff)
    force = atoms.own("force") * FORCE_UNIT
    assert np.abs(force).max() > 10
    np.testing.assert_allclose(found, force, rtol=0, atol=1e-10 * np.abs(force).max())
    with pytest.raises(ValueError, match="twice"):
        forces_by_arrays(np, position, problem.box, 3.0)


def test_figure_shows_every_kernel_and_app() -> None:
    """Catches a figure that leaves out a kernel that has a share, or an app."""
    from gpu_bench import BARS
    from gpu_figure import figure

    drawn = figure(canned())
    top, *panels = [axes for part in drawn.subfigs for axes in part.axes]
    bounded = [name for name, (moved, *_) in BARS.items() if moved]
    assert [label.get_text() for label in top.get_yticklabels()] == bounded
    assert [axes.get_title() for axes in panels] == ["jacobi2d", "pic"]
    assert all(len(axes.lines) == 2 for axes in panels)


def test_figure_needs_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a figure of nothing."""
    import gpu_figure

    monkeypatch.setattr(gpu_figure, "RESULTS", tmp_path)
    monkeypatch.setattr(gpu_figure, "TARGET", tmp_path / "gpu.png")
    assert gpu_figure.main() == 2 and not (tmp_path / "gpu.png").exists()
    (tmp_path / "gpu.json").write_text(json.dumps(canned()))
    assert gpu_figure.main() == 0 and (tmp_path / "gpu.png").stat().st_size > 10_000
