"""``miniapps plot --animation``: periods, the state of a file, and that a browser shows the page.

What is drawn is read in test_drawn_runs.py, and in detail in test_animation_drawing.py.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import in_process, refused

from miniapps.workbench.show.animation import MOST_PERIODS, animation, whole_tick
from miniapps.workbench.show.marks import most_of
from miniapps.workbench.show.saved import SavedRun, periods_of_steps


def test_the_state_moves_beneath(traced_runs: dict[str, Path]) -> None:
    """Catches one thumbnail for all steps, a later one than is known, and lost particles."""
    figure = animation([SavedRun.read(traced_runs["charm"])])
    with h5py.File(traced_runs["charm"]) as file:
        steps, thumbnails = file["snapshots/step"][:].tolist(), file["snapshots/thumbnail"][:]
        particles = len(file["state/particles"])
    periods = [place.label.split(" to ") for place in figure.layout.sliders[0].steps]
    for frame, ends in zip(figure.frames, periods, strict=True):
        last = int(ends[-1])
        known = max((n for n, step in enumerate(steps) if step <= last + 1), default=0)
        cells = np.bincount(np.arange(96) * 64 // 96)  # of each pixel along an axis
        shown = frame.data[1].z * np.outer(cells, cells)
        np.testing.assert_allclose(shown, thumbnails[known].T, rtol=1e-6)
        title = f"x [cells], state after {steps[known]} steps"
        assert frame.layout.xaxis2.title.text == title
    assert shown.sum() == pytest.approx(particles)
    assert figure.layout.coloraxis2.colorbar.title.text == "particles per cell"
    assert len({frame.data[1].z.tobytes() for frame in figure.frames}) == len(steps)


def test_one_slow_period_in_a_hundred_does_not_make_the_others_dark() -> None:
    """Catches the largest load as the limit, and a tenth of all periods that goes beyond it."""
    assert most_of(np.array([100.0] + 99 * [1.0])) == 1.5
    assert most_of(np.array(10 * [5.0] + 90 * [1.0])) == 5.0
    assert most_of(np.array([100.0] + 19 * [1.0])) == 1.5  # also of twenty


def test_ticks_of_steps_are_whole() -> None:
    """Catches ticks at halves of steps, and too many of them."""
    assert [whole_tick(span) for span in (1, 7, 8, 39, 40, 1000)] == [1, 1, 2, 5, 10, 200]
    assert all(span < 8 * whole_tick(span) for span in range(1, 3000))


@pytest.mark.slow
@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=300),
    first=st.integers(0, 20),
    most=st.integers(2, 90),
    data=st.data(),
)
def test_periods_stop_at_lb_steps(counts, first, most, data):
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


def test_frames_are_few() -> None:
    """Catches a page that grows with the steps of a run."""
    for lb_steps in ((), range(500, 100_000, 500)):
        found = periods_of_steps(range(100_000), 100_000, lb_steps, MOST_PERIODS)
        assert MOST_PERIODS // 2 <= len(found) <= MOST_PERIODS


@pytest.mark.slow
def test_a_browser_shows_the_animation(traced_runs, browser_page):
    """Catches a page that needs the network, raises, or whose slider does nothing."""
    source = traced_runs["charm"]
    done = in_process("plot", source, "--animation", "--compare", traced_runs["mpi"], check=True)
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
def test_browser_complaints_are_seen(tmp_path, browser_page):
    """Catches a check of pages that cannot fail."""
    file = tmp_path / "bad.html"
    file.write_text("<script>console.error('oh'); throw Error('no')</script><img src='x.png'>")
    shown, complaints = browser_page(file)
    shown.wait_for_load_state()
    assert {complaint.split(":")[0] for complaint in complaints} == {"console", "error", "asked"}


def test_animation_options_that_make_no_sense(traced_runs: dict[str, Path], tmp_path: Path) -> None:
    """Catches a traceback, or an option that is silently ignored."""
    source = traced_runs["charm"]
    for words, said in (
        (("--compare", traced_runs["mpi"]), "needs --animation"),
        (("--animation", "--compare", tmp_path / "none.h5"), "there is no such file"),
    ):
        assert said in refused(["plot", source, *words])
