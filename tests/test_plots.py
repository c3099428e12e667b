"""``miniapps plot``: what the figure of a run shows, by its artists and not its pixels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from support import in_process, records_of

from miniapps.parameters import InputError
from miniapps.workbench.show import plots
from miniapps.workbench.show.marks import BEYOND, blank_figure
from miniapps.workbench.show.plots import run_figure

PIC = "pic --preset tiny --driver charm -n 2 --odf 2 --balancer Rotate --lb-period 6"


@pytest.fixture
def run(run_record: Callable[..., Any], tmp_path: Path) -> Callable[[str], Path]:
    """``run(words)``: the HDF5 file of a run."""

    def make(words: str) -> Path:
        run_record(*words.split(), "--output", tmp_path / "run.h5")
        return tmp_path / "run.h5"

    return make


@pytest.mark.slow
def test_figure_of_particles(run: Callable[[str], Path]) -> None:
    """Catches a density of something else, a PE without a line, a balancing that is not marked."""
    source = run(PIC)
    state, load, time, *_ = run_figure(source).axes
    with h5py.File(source) as file:
        particles = file["state/particles"][...]
        record = json.loads(file.attrs["record"])
        wall = file["timing/wall_s"][...]
    shown = state.images[0].get_array()
    assert shown.shape == (96, 96) and shown.sum() == len(particles)
    at = np.floor(particles[0, :2]).astype(int)
    assert shown[at[1], at[0]] >= 1  # y upwards, x to the right
    lines = [line for line in load.lines if line.get_label().startswith("PE")]
    assert [line.get_label() for line in lines] == ["PE 0", "PE 1"]
    total = sum(line.get_ydata().sum() for line in lines)
    assert total == pytest.approx(1e3 * record["compute_s"])
    others = [line for line in load.lines if line not in lines]
    marks = [line.get_xdata()[0] for line in others if line.get_gid() != BEYOND]
    assert marks == [entry["step"] for entry in record["lb"]] and marks
    assert [line.get_xdata()[0] for line in time.lines if line.get_linestyle() == ":"] == marks
    assert time.lines[0].get_ydata() == pytest.approx(1e3 * wall)
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in (state, load, time))


def test_figure_of_blocks(run: Callable[[str], Path]) -> None:
    """Catches a block's load in another row or step, a PE change that is not seen, lost moves."""
    source = run(PIC)
    _, _, _, loads, places, moves, *_ = run_figure(source).axes
    with h5py.File(source) as file:
        record, rows = json.loads(file.attrs["record"]), file["timing/blocks"][...]
        rounds = file["timing/rounds"][...]
    load, where = (axes.collections[0].get_array() for axes in (loads, places))
    assert load.shape == where.shape == (4, len(rounds)) and (rounds[:, 1] == 1).all()
    for row in rows:
        assert load[row["block"], row["round"]] == pytest.approx(1e3 * row["compute_s"])
        assert where[row["block"], row["round"]] == row["pe"]
    lines = loads.collections[1].get_segments()
    moved = {entry["step"]: entry["moved"] for entry in record["lb"]}
    assert sorted(line[0][0] for line in lines) == sorted(
        step for step, count in moved.items() for _ in range(count)
    )
    bars = {bar.get_x() + bar.get_width() / 2: bar.get_height() for bar in moves.patches}
    assert bars == pytest.approx(moved) and sum(moved.values()) == record["migrations"] > 0
    assert moves.get_title() == f"migrations: {record['migrations']}"


@pytest.mark.slow
def test_of_many_blocks_those_with_the_largest_load_are_drawn(
    run: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches rows thinner than a pixel, rows of other blocks, and a panel without its rule."""
    source = run(PIC)
    with h5py.File(source) as file:
        rows, rounds = file["timing/blocks"][...], len(file["timing/rounds"])
    total = [rows["compute_s"][rows["block"] == block].sum() for block in range(4)]
    heavy = sorted(sorted(range(4), key=lambda block: -total[block])[:3])
    monkeypatch.setattr(plots, "BLOCKS", 3)
    _, _, _, loads, places, *_ = run_figure(source).axes
    load, where = (axes.collections[0].get_array() for axes in (loads, places))
    assert load.shape == where.shape == (3, rounds)
    for row in rows[np.isin(rows["block"], heavy)]:
        place = heavy.index(row["block"]), row["round"]
        assert load[place] == pytest.approx(1e3 * row["compute_s"]) and where[place] == row["pe"]
    for axes in (loads, places):
        assert axes.get_title().endswith("\nthe 3 of 4 with the largest load")
        name = axes.yaxis.get_major_formatter()
        assert [name(row, None) for row in range(-1, 4)] == ["", *map(str, heavy), ""]
    assert "with the largest load" not in run_figure(run("pic --preset tiny")).axes[3].get_title()


def test_migrations_at_the_ends_of_a_run_are_whole() -> None:
    """Catches a bar of the first or the last step that is cut off."""
    moved = [{"step": step, "moved": 3} for step in (3, 23, 43)]
    run = SimpleNamespace(
        lb_steps=[3, 23, 43], record={"lb": moved}, rounds=np.array([[2, 1]]), end=44
    )
    axes = blank_figure(4, 3).subplots()
    plots._draw_migrations(axes, run)  # type: ignore[arg-type]
    low, high = axes.get_xlim()
    assert all(low <= bar.get_x() and bar.get_x() + bar.get_width() <= high for bar in axes.patches)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "panels"),
    [
        ("jacobi2d --preset tiny", ["load of each block"]),
        ("leanmd --preset tiny --driver mpi -n 2", ["load of each block", "PE of each block"]),
    ],
)
def test_no_panel_without_contents(
    run: Callable[[str], Path], words: str, panels: list[str]
) -> None:
    """Catches an empty panel of migrations where nothing balances, and PEs where there is one."""
    titles = [axes.get_title() for axes in run_figure(run(words)).axes if axes.get_title()]
    assert titles[3:] == panels and titles[1:3] == ["load of each PE", "time of each step"]


@pytest.mark.parametrize("words", ["jacobi2d --preset tiny", "stencil3d --preset tiny"])
def test_figure_of_a_field(run: Callable[[str], Path], words: str) -> None:
    """Catches a field that is transposed, or another plane than the middle one."""
    source = run(words)
    with h5py.File(source) as file:
        field = file["state/u"][...]
    plane = field if field.ndim == 2 else field[:, :, field.shape[2] // 2]
    shown = run_figure(source).axes[0].images[0].get_array()
    assert np.array_equal(shown, plane.T)


@pytest.mark.slow
def test_corners_of_a_field(tmp_path: Path) -> None:
    """Catches a field upside down, or mirrored: what is drawn at each corner is what is there."""
    path = tmp_path / "run.h5"
    records_of([f"jacobi2d --size 7x5 --initial noise --steps 2 --output {path}"])
    with h5py.File(path) as file:
        field = file["state/u"][...]
    figure = run_figure(path)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    corners = [(i, j) for i in (0, 6) for j in (0, 4)]
    assert len({field[at] for at in corners}) == 4
    for at in corners:
        x, y = axes.transData.transform([place + 0.5 for place in at])
        assert axes.images[0].get_cursor_data(SimpleNamespace(x=x, y=y)) == field[at]


@pytest.mark.long
def test_rounds_of_several_steps(tmp_path: Path) -> None:
    """Catches times of rounds that are drawn as those of steps, and other steps than theirs."""
    path = tmp_path / "run.h5"
    words = "--size 9x8 --time-tile 2 --warmup 4 --steps 5 --audit 0"
    (record,) = records_of([f"jacobi2d {words} --output {path}"])
    rounds = record["rounds"]
    assert (rounds["first"], rounds["count"]) == ([4, 6, 8], [2, 2, 1])
    with h5py.File(path) as file:
        walls = file["timing/wall_s"][...]
    loads = np.array(rounds["compute_s"][0])
    _, load, time, *_ = run_figure(path).axes
    for axes, seconds in ((load, loads), (time, walls)):
        assert list(axes.lines[0].get_xdata()) == rounds["first"]
        wanted = 1e3 * seconds / rounds["count"]
        assert axes.lines[0].get_ydata() == pytest.approx(wanted, rel=1e-5)
    names = [axes.get_ylabel() for axes in (load, time)]
    assert names == ["computing [ms per step]", "wall [ms per step]"]


@pytest.mark.slow
def test_plot_writes_beside_the_run(run: Callable[[str], Path], tmp_path: Path) -> None:
    """Catches a figure that is not written, or not where it was asked for."""
    source = run("pic --preset tiny")
    done = in_process("plot", source)
    assert done.returncode == 0 and done.stdout.strip() == str(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert in_process("plot", source, "--figure", tmp_path / "other.pdf").returncode == 0
    assert (tmp_path / "other.pdf").read_bytes().startswith(b"%PDF")
    assert in_process("plot", source, "--figure", tmp_path / "other.svg").returncode == 0
    assert b"<svg" in (tmp_path / "other.svg").read_bytes()
    done = in_process("plot", source, "--figure", tmp_path / "other.txt")
    assert done.returncode == 2 and "must end in .png, .svg, .pdf" in done.stderr


@pytest.mark.long
def test_files_that_are_no_runs(tmp_path: Path) -> None:
    """Catches a traceback where a file is missing, damaged, or another program's."""
    (tmp_path / "text.h5").write_text("no run")
    with h5py.File(tmp_path / "empty.h5", "w"):
        pass
    for name in ("missing.h5", "text.h5", "empty.h5"):
        with pytest.raises(InputError, match="must be written by --output"):
            run_figure(tmp_path / name)
        done = in_process("plot", tmp_path / name)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
    done = in_process("plot", tmp_path / "text.h5", "--figure", tmp_path / "no" / "x.png")
    assert done.returncode == 2 and "there is no directory" in done.stderr
