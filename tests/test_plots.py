"""``miniapps plot``: the figure of a file, and where it is written; more in test_run_drawing."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from support import in_process, refused, run_record

from miniapps.parameters import InputError
from miniapps.workbench.show.plots import run_figure


@pytest.mark.slow
def test_figure_of_a_file(traced_runs: dict[str, Path]) -> None:
    """Catches what is lost or moved between the file of a run and its figure, in each panel."""
    source = traced_runs["charm"]
    state, load, time, loads, places, moves, *_ = run_figure(source).axes
    with h5py.File(source) as file:
        particles, wall = file["state/particles"][...], file["timing/wall_s"][...]
        record, rows = json.loads(file.attrs["record"]), file["timing/blocks"][...]
        rounds = file["timing/rounds"][...]
    shown = state.images[0].get_array()
    assert shown.shape == (96, 96) and shown.sum() == len(particles)
    at = np.floor(particles[0, :2]).astype(int)
    assert shown[at[1], at[0]] >= 1  # y upwards, x to the right
    lines = [line for line in load.lines if line.get_label().startswith("PE")]
    assert [line.get_label() for line in lines] == ["PE 0", "PE 1"]
    total = sum(line.get_ydata().sum() for line in lines)
    assert total == pytest.approx(1e3 * record["compute_s"])
    assert time.lines[0].get_ydata() == pytest.approx(1e3 * wall)
    blocks, where = (axes.collections[0].get_array() for axes in (loads, places))
    assert blocks.shape == where.shape == (8, len(rounds)) and (rounds[:, 1] == 1).all()
    for row in rows:
        assert blocks[row["block"], row["round"]] == pytest.approx(1e3 * row["compute_s"])
        assert where[row["block"], row["round"]] == row["pe"]
    moved = {entry["step"]: entry["moved"] for entry in record["lb"]}
    for axes in (load, time):
        others = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"]
        assert others == [*moved]
    white = [line[0][0] for line in loads.collections[1].get_segments()]
    assert sorted(white) == sorted(step for step, n in moved.items() for _ in range(n))
    bars = {bar.get_x() + bar.get_width() / 2: bar.get_height() for bar in moves.patches}
    assert bars == pytest.approx(moved) and sum(moved.values()) == record["migrations"] > 0


@pytest.mark.long
def test_plot_writes_beside_the_run(tmp_path: Path) -> None:
    """Catches a figure that is not written, or not where it was asked for."""
    source = tmp_path / "run.h5"
    run_record("jacobi2d", "--preset", "tiny", "--output", source)
    done = in_process("plot", source)
    assert done.returncode == 0 and done.stdout.strip() == str(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert in_process("plot", source, "--figure", tmp_path / "other.pdf").returncode == 0
    assert (tmp_path / "other.pdf").read_bytes().startswith(b"%PDF")
    said = refused(["plot", source, "--figure", tmp_path / "other.txt"])
    assert "must end in .png, .svg, .pdf" in said


@pytest.mark.long
def test_files_that_are_no_runs(tmp_path: Path) -> None:
    """Catches a traceback where a file is missing, damaged, or another program's."""
    (tmp_path / "text.h5").write_text("no run")
    with h5py.File(tmp_path / "empty.h5", "w"):
        pass
    for name in ("missing.h5", "text.h5", "empty.h5"):
        why = "there is no such file" if name == "missing.h5" else "must be written by --output"
        with pytest.raises(InputError, match=why):
            run_figure(tmp_path / name)
        assert why in refused(["plot", tmp_path / name])
    said = refused(["plot", tmp_path / "text.h5", "--figure", tmp_path / "no" / "x.png"])
    assert "there is no directory" in said
