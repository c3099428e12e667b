"""What `make gpu-bench` writes: nothing without a GPU; a page and a figure of its results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skips
import support
from drawn import lines, text_of
from figure_faults import faults

from benchmarks.apps.leanmd_baselines import melted
from benchmarks.gpu import calls, cases, figure
from benchmarks.gpu.array_baselines import forces_by_arrays, push_by_arrays, sweep_by_arrays
from benchmarks.gpu.bench import Part, compared, measure, parts
from benchmarks.gpu.rates import FLOATS, fields, pushing
from benchmarks.gpu.report import numbers
from benchmarks.gpu.works import WORKS
from miniapps import kernels
from miniapps.devices.backend import Device
from miniapps.kernels.halo.interface import box
from miniapps.kernels.leanmd.units import FORCE_UNIT

TINY_S = 280.0


@pytest.mark.slow
def test_no_results_without_a_gpu() -> None:
    """Catches rates of the simulator, or of nothing, that pass for a GPU's."""
    skips.without("sim")
    for simulated in ("0", "1"):
        env = {"NUMBA_ENABLE_CUDASIM": simulated, "CUDA_VISIBLE_DEVICES": ""}
        done = support.benchmark("gpu.bench", timeout=TINY_S, env=env)
        assert done.returncode == 2 and done.stderr.startswith("gpu-bench: ")
        assert done.stdout == "" and done.stderr.count("\n") == 1


# Parts -------------------------------------------------------------------------------------------


def kept(todo: list[Any], **how: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Results of parts, and what was kept after each of them."""
    steps: list[dict[str, Any]] = []
    return measure(
        todo, lambda results: steps.append(json.loads(json.dumps(results))), **how
    ), steps


def test_a_part_that_fails_ends_no_other() -> None:
    """Catches results that are lost with the part that fails, and failures that nobody learns."""

    def fails() -> float:
        raise ValueError("no memory")

    todo = [
        Part(("copy_bytes_per_s",), lambda: 4e12),
        Part(("rates", "jacobi2d", cases.DOUBLE), lambda: 2e11),
        Part(("rates", "stencil3d", cases.DOUBLE), fails),
        Part(("blocks", "serial"), lambda: {"rate": 1.0}),
    ]
    results, steps = kept(todo)
    assert [len(step["failures"]) for step in steps] == [0, 0, 1, 1]
    assert results["failures"] == {"rates: stencil3d: float64": "ValueError: no memory"}
    assert results["rates"] == {"jacobi2d": {cases.DOUBLE: 2e11}} and results["blocks"]
    assert results["kernels"]["jacobi2d"]["share_of_copy"] == pytest.approx(0.8)
    assert steps[-1] == results and list(results["kernels"]) == ["jacobi2d"]


def test_parts_for_which_no_time_is_left_fail() -> None:
    """Catches a benchmark that takes longer than it may, and parts that are left out in silence."""
    times = iter([0.0, 0.0, 5.0, 11.0, 12.0])
    todo = [Part((name,), lambda: 1.0) for name in "abcd"]
    results, _ = kept(todo, clock=lambda: next(times), total_s=10.0)
    assert results["a"] == results["b"] == 1.0
    assert set(results["failures"]) == {"c", "d"} and "c" not in results


@pytest.mark.parametrize(
    ("name", "dtype", "per_s", "copied", "reached"),
    [
        ("jacobi2d", cases.DOUBLE, 2.29e11, 4e12, False),
        ("jacobi2d", cases.DOUBLE, 2.31e11, 4e12, True),
        ("jacobi2d", cases.DOUBLE, 1.73e11, 3e12, True),
        ("jacobi2d", cases.DOUBLE, 2.31e11, None, None),
        ("jacobi2d", cases.SINGLE, 2.31e11, 4e12, None),
        ("jacobi2d, 4 at once", cases.DOUBLE, 0.999e12, 4e12, False),
        ("jacobi2d, 4 at once", cases.DOUBLE, 1e12, None, True),
        ("exact dot", cases.SINGLE, 3.9e11, 4e12, False),
        ("exact dot", cases.SINGLE, 4.1e11, 4e12, True),
        ("leanmd melt, 4 M atoms", cases.DOUBLE, 1.5e9, None, True),
        ("leanmd melt, 4 M atoms", cases.SINGLE, 2.9e9, None, False),
    ],
)
def test_results(name, dtype, per_s, copied, reached):
    """Catches a kernel below its bar that passes, and a bar of another card's memory."""
    assert cases.reaches(name, dtype, per_s, copied) is reached


def test_what_is_required() -> None:
    """Catches bars that the present kernels have left behind, or that nobody asked for."""
    least = {name: (bar.least, bar.single, bar.is_rate) for name, bar in cases.BARS.items()}
    assert least["jacobi2d"] == (0.92, None, False) and least["stencil3d"] == (0.85, None, False)
    assert least["stencil3d, residual"] == (0.82, None, False)
    rates = {name: bar[:2] for name, bar in least.items() if bar[2]}
    assert rates == {
        "jacobi2d, 4 at once": (1000, None),
        "stencil3d, 2 at once": (420, None),
        "stencil3d, 4 at once": (500, None),
        "pic push, 4 steps at once": (150, None),
        "leanmd melt, 1 M atoms": (0.7, None),
        "leanmd melt, 4 M atoms": (1.5, 3.0),
    }
    assert {least[f"cg operator, {points} points"] for points in (27, 7)} == {(0.85, None, False)}
    assert least["cg exact dot"] == (0.8, None, False) and least["exact dot"] == (0.8, 0.8, False)


def test_where_a_gpu_pays() -> None:
    """Catches a size above which the GPU is slower again, or was not measured."""
    speeds = {
        size: {"cpu": 1.0, "gpu": gpu} for size, gpu in zip("abcd", (2, 0.5, 1, 3), strict=True)
    }
    assert cases.pays_from(speeds, "abcd") == "c"
    assert cases.pays_from(speeds, "abcde") is None
    assert cases.pays_from(speeds, "ab") is None and cases.pays_from(speeds, "a") == "a"


def test_every_part_has_a_row_in_the_page() -> None:
    """Catches parts that are measured and never shown, and rows for which nothing is measured."""
    paths = [part.path for part in parts(None, cases.FULL, simulated=False)]
    assert len(set(paths)) == len(paths)
    rates = {path[1] for path in paths if path[0] == "rates"}
    assert rates == set(cases.BARS) and len(WORKS) == 2 * 4 + 2 + 9
    configurations = [*cases.CONFIGURATIONS, *cases.PIC_CONFIGURATIONS]
    assert [path[1] for path in paths if path[0] == "blocks"] == configurations
    named = {*cases.GOALS, *(other for _, other in cases.GOALS.values())}
    assert named <= {*configurations} and "serial, 8 blocks" in named and "pic, 8 blocks" in named
    assert cases.FULL["kernels"].keys() == cases.SMOKE["kernels"].keys()
    assert cases.FULL["kernels"].keys() == {app for app, _ in WORKS.values()}
    sizes = [path[1:] for path in paths if path[0] == "sizes"]
    assert sizes == [(app, size) for app, each in cases.FULL["sizes"].items() for size in each]
    assert all(("rates", name, cases.DOUBLE) in paths for name in rates)
    in_double = "pic", "cg", "transpose", cases.MELTS[0]
    double = {name for name in rates if name.startswith(in_double)}
    assert {path[1] for path in paths if path[-1] == cases.SINGLE} == rates - double
    for name in ("jacobi2d", "stencil3d", "pic push", cases.MELTS[0]):
        assert ("rates", name, cases.CUPY) in paths
    streams = [path[1:] for path in paths if path[0] == "streams"]
    assert streams == [(cases.in_words(s), str(cases.STREAMS)) for s in cases.FULL["streams"]]
    assert ("copies",) in paths and paths[0] == ("copy_bytes_per_s",)
    assert cases.FULL.keys() == cases.SMOKE.keys()


def test_calls_are_counted_in_steps_of_every_app() -> None:
    """Catches an app with kernels for a GPU whose steps `gpu_calls.py` counts no calls in."""
    counted = {case.words.split()[0] for case in calls.CASES.values()}
    assert counted == {app for app in support.apps.names() if kernels.exist(app, "gpu")}


# What is made of them ----------------------------------------------------------------------------


def canned() -> dict[str, Any]:
    """Results as on a GPU where every kernel is twice as fast as it must be."""
    least = {
        name: bar.least * (1e9 if bar.is_rate else 4e12 / (bar.bytes_each or 1.0))
        for name, bar in cases.BARS.items()
    }
    rates = {
        name: {cases.DOUBLE: 2 * one, cases.SINGLE: 3 * one, cases.CUPY: one}
        for name, one in least.items()
    }
    configuration = {"rate": 5e10, "staged_bytes_per_step": 3e4, "path": "staged"}
    stream = {"one_stream_s": 3e-4, "own_streams_s": 2e-4, "gain": 1.5}
    found = {
        "device": "A GPU",
        "copy_bytes_per_s": 4e12,
        "rates": rates,
        "blocks": dict.fromkeys([*cases.CONFIGURATIONS, *cases.PIC_CONFIGURATIONS], configuration),
        "streams": {
            cases.in_words(size): {str(cases.STREAMS): stream} for size in cases.FULL["streams"]
        },
        "copies": {"copies_s": 1e-4, "sweep_s": 3e-4, "both_s": 3.2e-4, "hidden": 0.8},
        "sizes": {
            app: {
                size: {"ranks": 8, "unit": "points/s", "cpu": 1e8, "gpu": 4e7 * max(n, 1)}
                for n, size in enumerate(each)
            }
            for app, each in cases.FULL["sizes"].items()
        },
        "failures": {},
    }
    return {"results": found | {"kernels": compared(found)}}


def section(document: dict[str, Any]) -> str:
    """What a page has of these results."""
    return "\n".join(numbers(document["results"]).values())


def cells(page: str, name: str) -> list[str]:
    """Return the first row of that name."""
    row, *_ = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    return [word.strip() for word in row.split("|")[2:-1]]


def test_page_says_what_was_measured_and_no_more() -> None:
    """Catches a table with numbers that nobody measured, or without those that somebody did."""
    empty, full = section({"results": {"device": "A GPU"}}), section(canned())
    heads = ("| kernel", "| app", "| atoms", "| configuration", "| size", "| ---")
    rows = [x for x in empty.splitlines() if x.startswith("| ") and not x.startswith(heads)]
    published = [row for row in rows if re.match(r"\| [\d.]+ [kM] \|", row)]
    marked = [row for row in rows if "not measured" in row]
    assert sorted([*published, *marked]) == sorted(rows) and len(marked) > len(cases.BARS)
    assert "not measured" not in full and "A GPU" in full and "4.00 TB/s" in full
    shown = ["16", "435", "1.74", "reached", "652", "", "2", "0.87", "165 to 175, 235 to 250"]
    assert cells(full, "jacobi2d, residual") == shown
    shown = ["", "3", "", "reached", "4.5", "reached", "2", "1.5 and 3 * 10^9/s"]
    assert cells(full, "leanmd melt, 4 M atoms")[:-1] == shown
    assert cells(full, "jacobi2d | 2048x2048")[1:] == ["100", "8", "40", "0.4"]
    assert "jacobi2d none of these" in full and "leanmd none of these" in full
    assert cells(full, "charm, ODF 2") == ["50", "30", "staged", "", ""]
    assert cells(full, "pic, 8 blocks")[3:] == ["1.00", "0.6 of pic, 1 block"]
    assert cells(full, "512x512 | 8")[1:] == ["300", "200", "1.50"]
    assert "100 us alone, the sweep 300, both 320; 80% of the shorter is hidden" in full


def test_page_of_a_run_of_which_parts_failed() -> None:
    """Catches a page that is not made because a number is missing, or says nothing of it."""
    document = canned()
    results = document["results"]
    del results["copy_bytes_per_s"], results["kernels"]["jacobi2d"], results["blocks"]["serial"]
    del results["sizes"]["pic"], results["copies"]
    results["failures"] = {"rates: jacobi2d: float64": "Different: not the bits of the CPU"}
    page = section(document)
    assert cells(page, "jacobi2d")[1] == cells(page, "serial")[0] == "not measured"
    assert cells(page, "mpi, 2 ranks")[3:] == ["", "0.85 of serial"]
    assert cells(page, "cg exact dot")[2:4] == ["1.60", ""]  # no copy, so nothing to compare with
    assert "pic not measured" in page and "* rates: jacobi2d: float64: Different" in page


@pytest.mark.slow
def test_figure_shows_every_kernel_and_app() -> None:
    """Catches a figure that leaves out a kernel with a share, a configuration or an app."""
    drawn = figure.figure(canned())
    assert faults(drawn, ["A GPU", "share of a copy", "CPU, 8 ranks", *cases.FULL["sizes"]]) == []
    shares, configurations, *panels = [axes for part in drawn.subfigs for axes in part.axes]
    bounded = [name for name, bar in cases.BARS.items() if bar.bytes_each]
    assert [label.get_text() for label in shares.get_yticklabels()] == bounded
    assert [label.get_text() for label in configurations.get_yticklabels()] == [
        *cases.CONFIGURATIONS,
        *cases.PIC_CONFIGURATIONS,
    ]
    assert [axes.get_title() for axes in panels] == list(cases.FULL["sizes"])
    assert all(len(axes.lines) == 2 for axes in panels)


def test_figure_shows_the_values() -> None:
    """Catches bars of another kernel, rates in another unit, CPU and GPU exchanged."""
    document = canned()
    results = document["results"]
    for n, (kernel, blocks) in enumerate(
        zip(results["kernels"].values(), [*results["blocks"]], strict=False), 1
    ):
        kernel["share_of_copy"] = n / 10 if kernel["share_of_copy"] else None
        results["blocks"][blocks] = {"rate": n * 1e9}
    figured = figure.figure(document)
    shares, blocks, *panels = [axes for part in figured.subfigs for axes in part.axes]
    for axes, right in (
        (shares, {n: k["share_of_copy"] for n, k in results["kernels"].items()}),
        (blocks, {name: found["rate"] / 1e9 for name, found in results["blocks"].items()}),
    ):
        laid = {
            text_of(t): at for at, t in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)
        }
        bars = {bar.get_y() + bar.get_height() / 2: bar.get_width() for bar in axes.patches}
        found = {name: bars[at] for name, at in laid.items()}
        assert found == pytest.approx({name: value for name, value in right.items() if value})
    assert shares.get_xlabel() == "share of a copy's bytes per second"
    assert blocks.get_xlabel() == "in blocks, 10^9 points or particles per second"
    for axes in panels:
        named = dict(lines(axes))
        sizes = results["sizes"][axes.get_title()]
        assert axes.get_ylabel() == "points/s" and axes.get_yscale() == "log"
        assert [text_of(text) for text in axes.get_xticklabels()] == list(sizes)
        for name, key in (("CPU, 8 ranks", "cpu"), ("GPU", "gpu")):
            np.testing.assert_allclose(named[name][:, 1], [found[key] for found in sizes.values()])


@pytest.mark.slow
def test_figure_needs_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a figure of nothing."""
    monkeypatch.setattr(figure, "RESULTS", tmp_path)
    monkeypatch.setattr(figure, "FIGURE", tmp_path / "gpu.png")
    assert figure.main() == 2 and not (tmp_path / "gpu.png").exists()
    (tmp_path / "gpu.json").write_text(json.dumps(canned()))
    assert figure.main() == 0 and (tmp_path / "gpu.png").stat().st_size > 10_000


# Array expressions -------------------------------------------------------------------------------


@pytest.mark.parametrize("app", ["jacobi2d", "stencil3d"])
def test_sweep_by_arrays_is_that_of_the_kernel(app: str) -> None:
    """Catches a baseline that computes something else."""
    shape = {"jacobi2d": (9, 7), "stencil3d": (5, 7, 6)}[app]
    old, new, region = fields(Device(), shape, 1, "float64")
    kernels.load(app, "cpu").sweep(old, new, *region)
    ghosts = tuple(slice(n.start - 1, n.stop + 1) for n in box(region))
    around = old[ghosts].copy()
    found = around.copy()
    sweep_by_arrays(around, found)
    assert support.same_bits(np.ascontiguousarray(found), new_with(new, around, region, ghosts))


def new_with(new: np.ndarray, around: np.ndarray, region: Any, ghosts: Any) -> np.ndarray:
    """The swept cells with the ghosts of before around them."""
    whole = new.copy()
    swept = whole[box(region)].copy()
    whole[ghosts] = around
    whole[box(region)] = swept
    return np.ascontiguousarray(whole[ghosts])


def test_push_by_arrays_is_that_of_the_kernel() -> None:
    """Catches a baseline that computes something else."""
    block = pushing(Device(), 12, 200)
    mine = block.particles
    columns = tuple(getattr(mine, name)[: mine.count].copy() for name in FLOATS)
    before = [column.copy() for column in columns]
    push_by_arrays(np, block.mesh, columns, 12)
    block.push(1)
    for name, found, was in zip(FLOATS, columns, before, strict=True):
        np.testing.assert_allclose(found, getattr(mine, name)[: mine.count], rtol=0, atol=1e-12)
        assert (found != was).any() == (name in ("x", "vx", "y")), name


def test_forces_by_arrays_are_those_of_the_kernels() -> None:
    """Catches a baseline that computes something else, and fewer cells than it can tell apart."""
    block = melted((5, 5, 5), 30, Device())
    atoms, problem = block.atoms, block.problem
    position = atoms.own("position")
    found = forces_by_arrays(np, position, problem.box, problem.cutoff)
    force = atoms.own("force") * FORCE_UNIT
    assert np.abs(force).max() > 10
    np.testing.assert_allclose(found, force, rtol=0, atol=1e-10 * np.abs(force).max())
    with pytest.raises(ValueError, match="twice"):
        forces_by_arrays(np, position, problem.box, 3.0)
