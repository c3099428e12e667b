"""``miniapps plot --animation``: what the page shows, by its data; and that a browser shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import in_process, records_of

from miniapps.parameters import InputError
from miniapps.workbench.show.animation import (
    MOST_PERIODS,
    OTHERS,
    STEP_TIME,
    animation,
    check_same,
    page,
    thin,
    whole_tick,
)
from miniapps.workbench.show.marks import most_of
from miniapps.workbench.show.saved import SavedRun, periods_of_steps


@pytest.fixture
def charm(traced_runs: dict[str, Path]) -> SavedRun:
    """A run whose blocks move."""
    return SavedRun.read(traced_runs["charm"])


def periods_of(figure: Any) -> list[tuple[int, int]]:
    """First and last step of each place of the slider, from its labels."""
    words = [step.label.split(" to ") for step in figure.layout.sliders[0].steps]
    return [(int(word[0]), int(word[-1])) for word in words]


def bars_of(figure: Any, column: int = 0) -> list[Any]:
    """The bars of a column in each frame."""
    found = [[trace for trace in frame.data if trace.type == "bar"] for frame in figure.frames]
    return [bars[column] for bars in found]


@pytest.mark.slow
@pytest.mark.parametrize("most", [6, MOST_PERIODS])
def test_bars_move_where_blocks_were_moved(charm: SavedRun, most: int) -> None:
    """Catches a bar that moves a frame early or late, or a move that is not shown."""
    figure = animation([charm], most)
    bars, begins = bars_of(figure), [first for first, _ in periods_of(figure)]
    changed = {
        begin: sum(was != now for was, now in zip(before.y, after.y, strict=True))
        for begin, (before, after) in zip(begins[1:], pairwise(bars), strict=True)
    }
    moved = {entry["step"]: entry["moved"] for entry in charm.record["lb"]}
    assert {begin: count for begin, count in changed.items() if count} == moved
    assert len(moved) >= 2 and min(moved.values()) > 0
    for k, (first, _) in enumerate(periods_of(figure)):
        (number,) = np.flatnonzero(charm.rounds[:, 0] == first)
        rows = charm.rows[charm.rows["round"] == number]
        assert {(row["block"], f"PE {row['pe']}") for row in rows} == set(enumerate(bars[k].y))


@pytest.mark.slow
@pytest.mark.parametrize("most", [6, MOST_PERIODS])
def test_bars_are_as_long_as_pes_compute(charm: SavedRun, most: int) -> None:
    """Catches blocks that are left out, counted on another PE, or for a period and not a step."""
    figure = animation([charm], most)
    assert len(figure.frames) == len(figure.layout.sliders[0].steps) <= most
    for bars, (first, last) in zip(bars_of(figure), periods_of(figure), strict=True):
        steps = charm.rounds[charm.rows["round"], 0]
        inside = charm.rows[(first <= steps) & (steps <= last)]
        for pe in range(2):
            mine = np.array([x for x, y in zip(bars.x, bars.y, strict=True) if y == f"PE {pe}"])
            seconds = inside["compute_s"][inside["pe"] == pe].sum()
            assert mine.sum() == pytest.approx(1e3 * seconds / (last - first + 1), rel=1e-4)
            base = [b for b, y in zip(bars.base, bars.y, strict=True) if y == f"PE {pe}"]
            assert base == pytest.approx(np.cumsum(mine) - mine, rel=1e-3, abs=1e-6)


@pytest.mark.slow
def test_of_many_blocks_those_with_less_load_are_one_part(
    charm: SavedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches parts thinner than a pixel, a bar that lacks the small blocks, an unsaid rule."""
    monkeypatch.setattr("miniapps.workbench.show.animation.BLOCKS", 3)
    figure, whole = animation([charm]), charm.compute()
    total = np.bincount(charm.rows["block"], charm.rows["compute_s"])
    heavy = sorted(np.argsort(-total)[:3])
    names = [*map(charm.name_of, heavy), "other blocks", "other blocks"]
    assert list(figure.data[0].customdata) == names
    for frame, (first, last) in zip(figure.frames, periods_of(figure), strict=True):
        bars, inside = frame.data[0], charm.rounds_in((first, last + 1))
        for pe in range(2):
            lengths = [x for x, y in zip(bars.x, bars.y, strict=True) if y == f"PE {pe}"]
            seconds = whole[pe, inside].sum()
            assert sum(lengths) == pytest.approx(1e3 * seconds / (last - first + 1), rel=1e-4)
            base = [b for b, y in zip(bars.base, bars.y, strict=True) if y == f"PE {pe}"]
            assert base == pytest.approx(np.cumsum(lengths) - lengths, rel=1e-3, abs=1e-6)
        assert len(bars.x) == 5 and set(bars.marker.color[3:]) == {OTHERS}
        assert OTHERS not in bars.marker.color[:3] and list(bars.y[3:]) == ["PE 0", "PE 1"]
    said = figure.layout.annotations[0].text.replace("<br>", " ")
    assert said.endswith("; grey: all but the 3 most loaded blocks")
    monkeypatch.setattr("miniapps.workbench.show.animation.BLOCKS", 8)
    assert "grey" not in animation([charm]).layout.annotations[0].text


def test_the_state_moves_beneath(charm: SavedRun, traced_runs: dict[str, Path]) -> None:
    """Catches one thumbnail for all steps, a later one than is known, and lost particles."""
    figure = animation([charm])
    with h5py.File(traced_runs["charm"]) as file:
        steps, thumbnails = file["snapshots/step"][:].tolist(), file["snapshots/thumbnail"][:]
        particles = len(file["state/particles"])
    for frame, (_, last) in zip(figure.frames, periods_of(figure), strict=True):
        known = max((n for n, step in enumerate(steps) if step <= last + 1), default=0)
        cells = np.bincount(np.arange(96) * 64 // 96)  # of each pixel along an axis
        shown = frame.data[1].z * np.outer(cells, cells)
        np.testing.assert_allclose(shown, thumbnails[known].T, rtol=1e-6)
        title = f"x [cells], state after {steps[known]} steps"
        assert frame.layout.xaxis2.title.text == title
    assert shown.sum() == pytest.approx(particles)
    assert figure.layout.coloraxis2.colorbar.title.text == "particles per cell"
    assert len({frame.data[1].z.tobytes() for frame in figure.frames}) == len(steps)


def test_curves_and_marks(charm: SavedRun) -> None:
    """Catches curves of something else, a balancing without its line, a mark at another step."""
    figure = animation([charm])
    lines = [trace for trace in figure.data if trace.type == "scatter" and trace.mode == "lines"]
    even, wall = (trace for trace in lines if len(trace.x) > 2)
    compute = charm.compute()
    assert wall.y == pytest.approx(1e3 * charm.wall_s / charm.rounds[:, 1], rel=1e-5)
    assert even.y == pytest.approx(compute.max(axis=0) / compute.mean(axis=0), rel=1e-5)
    assert wall.x.tolist() == even.x.tolist() == charm.rounds[:, 0].tolist()
    lines = [shape.x0 for shape in figure.layout.shapes]
    assert sorted(lines) == sorted(2 * [entry["step"] for entry in charm.record["lb"]])
    for frame, (first, _) in zip(figure.frames, periods_of(figure), strict=True):
        assert [tuple(trace.x) for trace in frame.data[2:4]] == [(first, first)] * 2


@pytest.mark.long
def test_curves_of_rounds_of_several_steps(tmp_path: Path) -> None:
    """Catches times of rounds that are shown as those of steps."""
    words = "--size 9x8 --time-tile 2 --warmup 4 --steps 5 --audit 0 --snapshot-every 2"
    records_of([f"jacobi2d {words} --output {tmp_path / 'run.h5'}"])
    run = SavedRun.read(tmp_path / "run.h5")
    lines = [trace for trace in animation([run]).data if trace.type == "scatter"]
    _, wall = (trace for trace in lines if trace.mode == "lines" and len(trace.x) > 2)
    assert wall.x.tolist() == [4, 6, 8]
    assert wall.y == pytest.approx(1e3 * run.wall_s / [2, 2, 1], rel=1e-5)


def test_colours_are_loads(charm: SavedRun) -> None:
    """Catches a colour that is scaled anew in each frame, or grows darker with the load.

    Loads are made up, growing by block and round: measured ones may be all alike but for one.
    """
    rows = charm.rows.copy()
    rows["compute_s"] = 1e-3 * (1 + rows["block"] + rows["round"])
    figure = animation([replace(charm, rows=rows)])
    brightest = figure.layout.coloraxis.cmax
    assert brightest == pytest.approx(max(max(bars.x) for bars in bars_of(figure)), rel=1e-3)
    pairs = {
        colour: load
        for bars in bars_of(figure)
        for colour, load in zip(bars.marker.color, bars.x, strict=True)
    }
    red = {load: int(colour.strip("rgb()").split(",")[0]) for colour, load in pairs.items()}
    ordered = [red[load] for load in sorted(red) if load > 0.3 * brightest]
    assert ordered == sorted(ordered) and len(set(ordered)) >= 10


def test_one_slow_period_in_a_hundred_does_not_make_the_others_dark() -> None:
    """Catches the largest load as the limit, and a tenth of all periods that goes beyond it."""
    assert most_of(np.array([100.0] + 99 * [1.0])) == 1.5
    assert most_of(np.array(10 * [5.0] + 90 * [1.0])) == 5.0
    assert most_of(np.array([100.0] + 19 * [1.0])) == 1.5  # also of twenty


def test_what_is_beyond_an_axis_is_marked(charm: SavedRun) -> None:
    """Catches a bar or a curve that is cut off as if it ended there.

    Loads and times are made up: 1 ms per block and step, and 100 times that in one round.
    """
    rows, wall_s = charm.rows.copy(), np.full(len(charm.rounds), 0.01)
    slow = 3
    rows["compute_s"] = np.where(rows["round"] == slow, 0.1, 0.001)
    wall_s[slow] = 1
    figure = animation([replace(charm, rows=rows, wall_s=wall_s)], most=200)
    ((first, _),) = [period for period in periods_of(figure) if period[0] == charm.rounds[slow, 0]]
    longest = figure.layout.xaxis.range[1]
    for frame, (begin, _) in zip(figure.frames, periods_of(figure), strict=True):
        bars, beyond = frame.data[0], frame.data[4]
        lengths = {pe: sum(x for x, y in zip(bars.x, bars.y, strict=True) if y == pe)
                   for pe in {*bars.y}}  # fmt: skip
        assert set(beyond.y) == {pe for pe, length in lengths.items() if length > longest}
        assert bool(beyond.y) == (begin == first) and set(beyond.x) <= {longest}
        assert list(beyond.text) == [f"{lengths[pe]:.3g} ms" for pe in beyond.y]
    assert figure.layout.coloraxis.colorbar.title.text.endswith("yellow: or more")
    scattered = [trace for trace in figure.data if trace.type == "scatter"]
    (marks,) = [trace for trace in scattered if trace.marker.symbol == "triangle-up"]
    assert list(marks.x) == [first] and list(marks.text) == ["1e+03 ms"]
    row = figure.get_subplot(STEP_TIME, 1)
    assert list(marks.y) == [row.yaxis.range[1]]


def test_ticks_of_steps_are_whole() -> None:
    """Catches ticks at halves of steps, and too many of them."""
    assert [whole_tick(span) for span in (1, 7, 8, 39, 40, 1000)] == [1, 1, 2, 5, 10, 200]
    assert all(span < 8 * whole_tick(span) for span in range(1, 3000))


@pytest.mark.slow
def test_another_run_is_shown_beside(traced_runs: dict[str, Path], charm: SavedRun) -> None:
    """Catches a second column that shows the first run, or has a scale of its own."""
    mpi = SavedRun.read(traced_runs["mpi"])
    figure = animation([charm, mpi])
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    titles = [note.text.replace("<br>", " ") for note in figure.layout.annotations]
    assert "--driver charm -n 2 --odf 4" in titles[0] and "--driver mpi -n 2" in titles[1]
    assert all(len(bars.x) == 2 for bars in bars_of(figure, 1))
    total = sum(sum(bars.x) * (last - first + 1) for bars, (first, last) in zip(
        bars_of(figure, 1), periods_of(figure), strict=True))  # fmt: skip
    assert total == pytest.approx(1e3 * mpi.record["compute_s"], rel=1e-4)
    check_same(charm, mpi, Path("mpi.h5"))


def test_runs_that_cannot_be_compared(
    traced_runs: dict[str, Path], run_record: Callable[..., Any], tmp_path: Path
) -> None:
    """Catches a comparison of two problems, and one of two numbers of steps."""
    one = SavedRun.read(traced_runs["charm"])
    others = {
        "app": "echo --preset tiny",
        "problem": "pic --preset tiny --size 98",
        "final state": "pic --preset tiny --steps 21",
    }
    for what, words in others.items():
        path = tmp_path / "other.h5"
        run_record(*words.split(), "--output", path)
        with pytest.raises(InputError, match=f"must have the same {what}"):
            check_same(one, SavedRun.read(path), path)


@pytest.mark.slow
def test_tiles_and_decompositions_are_the_same_problem(
    run_record: Callable[..., Any], tmp_path: Path
) -> None:
    """Catches a refusal where two runs differ in nothing but how they were solved."""
    runs = []
    for tile in (1, 3):
        path = tmp_path / f"{tile}.h5"
        run_record(*f"jacobi2d --preset tiny --time-tile {tile}".split(), "--output", path)
        runs.append(SavedRun.read(path))
    check_same(*runs, tmp_path)
    figure = animation(runs)
    assert len(figure.frames) == len(runs[0].rounds)
    for column, run in enumerate(runs):
        for bars, (first, _) in zip(bars_of(figure, column), periods_of(figure), strict=True):
            number = np.searchsorted(run.rounds[:, 0], first, side="right") - 1
            steps, seconds = run.rounds[number, 1], run.compute()[:, number].sum()
            assert sum(bars.x) == pytest.approx(1e3 * seconds / steps, rel=1e-3)


@pytest.mark.slow
@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=300),
    first=st.integers(0, 20),
    most=st.integers(2, 90),
    data=st.data(),
)
def test_periods_stop_at_lb_steps(
    counts: list[int], first: int, most: int, data: st.DataObject
) -> None:
    """Catches a period that spans a load-balancing step, a gap, and too many of them."""
    starts = first + np.cumsum([0, *counts[:-1]])
    end = int(starts[-1] + counts[-1])
    lb_steps = data.draw(st.lists(st.sampled_from(starts.tolist()), unique=True))
    lb_steps = sorted(step for step in lb_steps if step > first)
    periods = periods_of_steps(starts, end, [0, *lb_steps, end, end + 9], most)
    assert 1 <= len(periods) <= most
    for low, high in periods:
        assert low < high and low in starts and not any(low < step < high for step in lb_steps)
    if len(lb_steps) < most:
        assert [low for low, _ in periods[1:]] == [high for _, high in periods[:-1]]
        assert (periods[0][0], periods[-1][1]) == (first, end)
        assert set(lb_steps) <= {low for low, _ in periods}


@pytest.mark.parametrize("values", [(0, 7), (3, 300), (-3, 5), (0.25, 7), (5, 70_000)])
def test_thin_pictures_are_the_same(values: tuple[float, float]) -> None:
    """Catches counts that wrap, and values of a field that are cut to integers."""
    thumbnail = np.array([values], np.float32)
    assert np.array_equal(thin(thumbnail), thumbnail) and thin(thumbnail).nbytes <= thumbnail.nbytes


def test_frames_are_few(charm: SavedRun) -> None:
    """Catches a page that grows with the steps of a run."""
    assert (
        len(periods_of_steps(range(100_000), 100_000, range(500, 100_000, 500), MOST_PERIODS))
        <= MOST_PERIODS
    )
    assert len(periods_of_steps(range(100_000), 100_000, (), MOST_PERIODS)) >= MOST_PERIODS // 2


@pytest.mark.slow
def test_a_narrow_page_has_one_panel_below_the_other(
    charm: SavedRun, traced_runs: dict[str, Path]
) -> None:
    """Catches a page of 1250 pixels on a telephone: panels beside each other or over each other.

    And lines that are too long for it, and a panel outside.
    """
    runs = [charm, SavedRun.read(traced_runs["mpi"])]
    text = page(runs)
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "#figure { max-width: 100%; }" in text
    found = re.search(r"^const narrow = (.*);$", text, re.MULTILINE)
    assert found is not None
    narrow, drawn = json.loads(found[1]), animation(runs).layout
    assert all(drawn[name.partition(".")[0].partition("[")[0]] is not None for name in narrow)
    axes = [name.removesuffix(".domain") for name in narrow if name.endswith(".domain")]
    assert set(axes) == {name for name in drawn if re.fullmatch(r"[xy]axis\d*", name)}
    assert all(narrow[f"{name}.domain"] == [0, 1] for name in axes if name[0] == "x")
    panels = sorted((narrow[f"{name}.domain"] for name in axes if name[0] == "y"), reverse=True)
    assert len(panels) == 8 and panels[0][1] < 1 and panels[-1][0] >= 0
    gaps = [above[0] - below[1] for above, below in pairwise(panels)]
    assert min(gaps) * (narrow["height"] - narrow["margin.t"] - narrow["margin.b"]) > 30
    assert all(low < high for low, high in panels)
    texts = [
        re.sub("<.?span.*?>", "", str(value)) for name, value in narrow.items() if "text" in name
    ]
    assert len(texts) == 5 and max(len(line) for t in texts for line in t.split("<br>")) <= 52


@pytest.mark.slow
def test_a_browser_shows_the_animation(
    traced_runs: dict[str, Path],
    browser_page: Callable[[Path], tuple[Any, list[str]]],
) -> None:
    """Catches a page that needs the network, raises, or whose slider does nothing."""
    source = traced_runs["charm"]
    done = in_process("plot", source, "--animation", "--compare", traced_runs["mpi"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(source.with_suffix(".html"))]
    shown, complaints = browser_page(source.with_suffix(".html"))
    shown.wait_for_selector(".bars path")
    paths = "[...document.querySelectorAll('.bars path')].map(path => path.getAttribute('d'))"
    label = ".slider-label"
    before, said = shown.evaluate(paths), shown.text_content(label)
    assert len(before) == 8 + 2 and shown.locator(".slider-tick-rect").count() == 20
    rail = shown.locator(".slider-rail-touch-rect").bounding_box()
    shown.mouse.click(rail["x"] + 0.6 * rail["width"], rail["y"] + rail["height"] / 2)
    shown.wait_for_function(f"document.querySelector('{label}').textContent != '{said}'")
    shown.wait_for_timeout(300)
    assert shown.evaluate(paths) != before
    bars = shown.evaluate("document.querySelector('.js-plotly-plot').data[0]")
    assert bars["orientation"] == "h" and bars["customdata"][5] == "block 5 (5, 0)"
    assert shown.locator(".bars path").first.evaluate("path => path.style.strokeWidth") == "0.5px"
    assert complaints == []


@pytest.mark.slow
def test_browser_complaints_are_seen(
    tmp_path: Path, browser_page: Callable[[Path], tuple[Any, list[str]]]
) -> None:
    """Catches a check of pages that cannot fail."""
    file = tmp_path / "bad.html"
    file.write_text("<script>console.error('oh'); throw Error('no')</script><img src='x.png'>")
    shown, complaints = browser_page(file)
    shown.wait_for_load_state()
    assert {complaint.split(":")[0] for complaint in complaints} == {"console", "error", "asked"}


def test_film_options_that_make_no_sense(traced_runs: dict[str, Path], tmp_path: Path) -> None:
    """Catches a traceback, or an option that is silently ignored."""
    source = traced_runs["charm"]
    for words, said in (
        (("--compare", traced_runs["mpi"]), "needs --animation"),
        (("--animation", "--compare", tmp_path / "none.h5"), "must be written by --output"),
    ):
        done = in_process("plot", source, *words)
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
