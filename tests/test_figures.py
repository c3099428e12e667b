"""Every kind of figure that the project draws: nothing cut off, covered, unmarked or unnamed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
import test_demo
from figure_faults import faults
from test_study_report import Canned, factors_study, strong_study, trials

import miniapps
from miniapps import apps
from miniapps.workbench import demo, new
from miniapps.workbench.show import demo_figure
from miniapps.workbench.show.animation import animation
from miniapps.workbench.show.animation import page as animation_page
from miniapps.workbench.show.plots import run_figure
from miniapps.workbench.show.saved import SavedRun
from miniapps.workbench.study import figures, report
from miniapps.workbench.study.figures import GAINS

pytestmark = pytest.mark.usefixtures("few_resamples")
PAGE = 9.0  # inches
PROCESSOR = "Abacus, 4 cores"  # of records by hand
RUNS = {  # words of a run, and what its figure says of the problem; one of jacobi2d is `drawn_well`
    "stencil3d": ("stencil3d --preset tiny --time-tile 1", "size 53x43x41"),
    "leanmd": ("leanmd --preset tiny --pe-grid 2x1x1", "lattice 12x4x4"),
    "echo": ("echo --preset tiny", "size 8x6"),
    "sim": ("pic --preset tiny --driver sim --pe-grid 12x12", "size 96, particles 3000"),
}


def machine_of(path: Path) -> str:
    """The machine of a run, as a figure must state it."""
    host = SavedRun.read(path).record["host"]
    return f"{host['processor']}, {host['cores']} core"


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_figures_of_runs(name: str, run_record: Callable[..., Any], tmp_path: Path) -> None:
    """Catches what is cut off, covered or unmarked in a figure of one process."""
    words, problem = RUNS[name]
    run_record(*words.split(), "--output", tmp_path / "run.h5")
    figure = run_figure(tmp_path / "run.h5")
    assert faults(figure, [words.split()[0], problem, machine_of(tmp_path / "run.h5")]) == []


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mpi", "charm"])
def test_figures_of_several_pes(driver: str, traced_runs: dict[str, Path]) -> None:
    """Catches the same in a figure with a curve for each PE, migrations and balancing steps."""
    path = traced_runs[driver]
    assert faults(run_figure(path), [f"pic --driver {driver}", "size 96", machine_of(path)]) == []


@pytest.mark.slow
def test_figure_of_one_axis(run_record, tmp_path, monkeypatch):
    """Catches the same where the state is a line."""
    new.write("heat", tmp_path / "apps")
    monkeypatch.setattr(miniapps, "__path__", [apps.HERE, str(tmp_path / "apps")])
    run_record("heat", "--preset", "tiny", "--output", tmp_path / "run.h5")
    path = tmp_path / "run.h5"
    assert faults(run_figure(path), ["heat", "size 101", machine_of(path)]) == []


def balancing() -> Canned:
    """A study of load balancing with long names of configurations."""
    canned = Canned("lb", app="pic")
    canned.point("mpi", 2, trials(5), imbalance=1.5)
    canned.point("charm", 2, trials(6), odf=16, imbalance=1.8)
    for balancer in ("Greedy", "GreedyRefine", "RefineA", "RefineB", "Rotate"):
        moves = [{"moved": 3, "seconds": 0.004}]
        more = {"balancer": balancer, "imbalance": 1.1, "lb": moves}
        canned.point("charm", 2, trials(4), odf=16, **more)
    return canned


def many_load_balancing_steps() -> Canned:
    """A study of load balancing with more results than a figure of a page has room for."""
    canned = Canned("lb", app="pic")
    for odf in range(1, GAINS + 5):
        canned.point("charm", 2, trials(6), odf=odf, imbalance=1.8)
        more = {"balancer": "GreedyRefine", "imbalance": 1.1}
        canned.point("charm", 2, trials(4 + odf / 10), odf=odf, **more)
    return canned


def granularities(sizes: int, drivers: int) -> Canned:
    """A study of granularity; small problems take no less time, so that METG is a bound."""
    canned = Canned("granularity")
    for size in range(sizes, 0, -1):
        for odf in range(1, drivers + 1):
            mean = max(size, 3) * (1 + odf / 10) + size / 100
            problem = {"size": [2**size, 64], "work": 1e6 * 2**size}
            canned.point("charm", 2, trials(mean), odf=odf, **problem)
    return canned


def weak() -> Canned:
    """A study of weak scaling, to more PEs than cores."""
    canned = Canned("weak")
    for pes in (1, 2, 4, 8):
        canned.point("mpi", pes, trials(4 + pes), size=[10 * pes, 10])
    return canned


STUDIES: dict[str, tuple[Canned, str, set[str]]] = {
    "strong": (strong_study(), "size 10x10", {"step-time", "speed-up", "efficiency", "parts"}),
    "weak": (weak(), "size 10x10 to 80x10", {"step-time", "speed-up", "efficiency", "parts"}),
    "odf": (factors_study(), "size 10x10", {"odf", "parts"}),
    "lb": (balancing(), "size", {"gain", "parts"}),
    "many load-balancing steps": (many_load_balancing_steps(), "size", {"gain", "parts"}),
    "granularity": (granularities(12, 4), "size 4096x64 to 2x64", {"granularity", "parts"}),
    "few granularities": (granularities(3, 1), "size 8x64 to 2x64", {"granularity", "parts"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", STUDIES)
def test_figures_of_studies(kind: str) -> None:
    """Catches a legend, label or title that is cut off or covered, in each figure of a study.

    And a figure that grows with the number of results, beyond the height of a page.
    """
    canned, problem, names = STUDIES[kind]
    found = figures.figures(canned.campaign())
    assert set(found) == names
    for name, figure in found.items():
        assert faults(figure, [canned.app, problem, PROCESSOR]) == [], name
        assert figure.get_figheight() <= PAGE, name
    drawn = {name for _, _, names in STUDIES.values() for name in names}
    assert drawn == set(figures.CAPTIONS)  # every kind of figure has a study here


@pytest.mark.long
def test_figure_of_the_demo() -> None:
    """Catches bars without the problem's size, and labels that cover each other."""
    scaling = [*test_demo.canned(demo.SCALING, demo.scaling_cases()).values()]
    uneven = [*test_demo.canned(demo.UNEVEN, [*demo.uneven_cases()]).values()]
    figure = demo_figure.figure_of(scaling, uneven)
    names = ["size 192x192x192", "lattice 20x20x20", "pic, size 7998", PROCESSOR]
    assert faults(figure, [*names, *{record["app"] for record in scaling}]) == []


@pytest.fixture(scope="module")
def drawn_well(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose figure has no fault."""

    def make(folder: Path) -> None:
        path = folder / "run.h5"
        support.run_record("jacobi2d", "--preset", "tiny", "--output", path)
        assert faults(run_figure(path), ["jacobi2d", "size 101x83", machine_of(path)]) == []

    return support.made_once(tmp_path_factory, "a run drawn well", make) / "run.h5"


def spoiled_ticks(figure: Any) -> None:
    """Put ticks at halves of blocks."""
    (axes,) = [axes for axes in figure.axes if axes.get_ylabel() == "block"]
    axes.set_yticks([0, 0.4])


def spoiled_colours(figure: Any) -> None:
    """Let loads of blocks exceed the colour scale."""
    (axes,) = [axes for axes in figure.axes if axes.get_ylabel() == "block"]
    axes.collections[0].set_clim(0, 1e-9)
    axes.collections[0].colorbar.extend = "neither"


def spoiled_label(figure: Any) -> None:
    """Put a label under a line."""
    figure.axes[2].axhline(figure.axes[2].get_ylim()[1] / 2, color="black")
    figure.axes[2].text(*np.mean(figure.axes[2].viewLim.get_points(), axis=0), "ideal", va="center")


def spoiled_edge(figure: Any) -> None:
    """Let a label leave its axes."""
    axes = figure.axes[2]
    axes.text(axes.get_xlim()[1], np.mean(axes.get_ylim()), "1 ms", ha="center")


def spoiled_reference(figure: Any) -> None:
    """Draw a horizontal line where the axis does not reach."""
    limits = figure.axes[2].get_ylim()
    figure.axes[2].axhline(2 * limits[1])
    figure.axes[2].set_ylim(limits)


SPOILED: dict[str, tuple[Callable[[Any], object], str]] = {
    "a text across the edge": (lambda f: f.text(0.98, 0.5, "METG always below"), "outside"),
    "a title over that of the figure": (
        lambda f: f.text(0.5, f.get_suptitle() and 0.99, "jacobi2d", ha="center", va="top"),
        "overlapping",
    ),
    "ticks at halves of blocks": (spoiled_ticks, "fractional"),
    "curves that are cut off": (lambda f: f.axes[2].set_ylim(0, 1e-9), "unmarked"),
    "loads beyond the colour scale": (spoiled_colours, "unmarked"),
    "a label under a line": (spoiled_label, "crossed"),
    "a label that leaves its axes": (spoiled_edge, "crossed"),
    "a line that nothing explains": (lambda f: f.axes[2].axvline(5, linestyle=":"), "unexplained"),
    "a line where the axis does not reach": (spoiled_reference, "unmarked"),
    "no title": (lambda f: f.suptitle(""), "unnamed"),
    "a parameter as in the record": (
        lambda f: f.suptitle(f"{f.get_suptitle()}, imbalance_mode work", fontsize=6),
        "raw",
    ),
    "no background": (lambda f: f.set_facecolor("none"), "transparent"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", SPOILED)
def test_wrong_figures_are_seen(what: str, drawn_well: Path) -> None:
    """Catches a check of figures that cannot fail."""
    figure, (spoil, kind) = run_figure(drawn_well), SPOILED[what]
    spoil(figure)
    found = faults(figure, ["jacobi2d", "size 101x83", machine_of(drawn_well)])
    assert {fault.partition(":")[0] for fault in found} == {kind}


# Pages --------------------------------------------------------------------------------------------

MISPLACED = """() => {
    const svg = document.querySelector('.js-plotly-plot .main-svg').getBoundingClientRect();
    const texts = [...document.querySelectorAll('.js-plotly-plot text')].filter(
        text => text.textContent.trim() && getComputedStyle(text).visibility != 'hidden');
    const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()]).filter(
        ([_, box]) => box.width > 0);
    const found = boxes.filter(([_, box]) => box.left < svg.left || box.right > svg.right
        || box.top < svg.top || box.bottom > svg.bottom).map(([said, _]) => 'outside: ' + said);
    boxes.forEach(([one, a], n) => boxes.slice(n + 1).forEach(([other, b]) => {
        if (a.left + 1 < b.right && b.left + 1 < a.right && a.top + 1 < b.bottom
            && b.top + 1 < a.bottom) found.push('overlapping: ' + one + ' and ' + other);
    }));
    return found.concat(boxes.length > 20 ? [] : ['few texts: ' + boxes.length]);
}"""


IS_AS_WIDE = """width => document.querySelector('.main-svg').getBoundingClientRect().width == width
    && new Promise(done => requestAnimationFrame(() => setTimeout(() => done(true))))"""


@pytest.mark.slow
def test_texts_of_an_animation(traced_runs, browser_page, tmp_path):
    """Catches a command line that runs out of the page, a label over another one.

    On a telephone too: a page that is wider than it, or stays narrow in a wider window. And a page
    that has other colours in a dark browser: its figures are drawn on white.
    """
    runs = [SavedRun.read(traced_runs[driver]) for driver in ("charm", "mpi")]
    for number, shown in enumerate((runs, runs[:1])):
        figure = animation(shown)
        for word in ("pic", "size 96, particles 3000", machine_of(traced_runs["mpi"])):
            assert word in figure.layout.title.text.replace("<br>", " ")
        path = tmp_path / f"{number}.html"
        path.write_text(animation_page(shown))
        page, _ = browser_page(path)
        page.wait_for_selector(".bars path")
        assert page.evaluate(MISPLACED) == []
        assert is_the_same_in_dark(page)
        for words in ('content="width=device-width, initial-scale=1"', "max-width: 100%;"):
            assert words in path.read_text()
        for width in (360, 1400):
            page.set_viewport_size({"width": width, "height": 780})
            page.wait_for_function(IS_AS_WIDE, arg=min(width, 1250))  # once it is drawn again
            assert page.locator(".main-svg").first.bounding_box()["width"] == min(width, 1250)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(MISPLACED) == []
    page.evaluate("document.querySelector('.xtitle').setAttribute('x', 2000)")
    assert [fault.partition(":")[0] for fault in page.evaluate(MISPLACED)] == ["outside"]


@pytest.mark.slow
def test_report_in_a_dark_browser(browser_page, tmp_path, monkeypatch):
    """Catches black figures on a dark page."""
    monkeypatch.setattr(report, "FORMATS", ("svg",))
    report.write(strong_study().write(tmp_path / "my.jsonl"), None)
    page, _ = browser_page(tmp_path / "my.html")
    assert is_the_same_in_dark(page)
    page.add_style_tag(content="@media (prefers-color-scheme: dark) { body { color: white; } }")
    assert not is_the_same_in_dark(page)


NARROW = """() => [
    document.documentElement.scrollWidth - window.innerWidth,
    ...[...document.querySelectorAll('.code span')].map(
        span => span.getBoundingClientRect().height - parseFloat(getComputedStyle(span).lineHeight))
]"""


@pytest.mark.slow
def test_report_on_a_telephone(browser_page, tmp_path, monkeypatch):
    """Catches a page that is wider than its window, figures too small to read, broken options."""
    monkeypatch.setattr(report, "FORMATS", ("svg",))
    report.write(granularities(12, 4).write(tmp_path / "my.jsonl"), None)
    page, _ = browser_page(tmp_path / "my.html")
    page.set_viewport_size({"width": 420, "height": 900})
    wider, *lines = page.evaluate(NARROW)
    assert wider <= 0 and lines and max(lines) < 2
    assert page.locator("figure.wide svg").bounding_box()["width"] > 700
    page.add_style_tag(content=".figures { min-width: 26rem; }")
    page.add_style_tag(content="td.code span { display: inline; }")
    wider, *lines = page.evaluate(NARROW)
    assert wider > 0 and max(lines) > 2


def is_the_same_in_dark(page: Any) -> bool:
    """Whether a page of a browser looks the same if the user prefers dark colours."""
    shots = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(300)
        shots.append(page.screenshot())
    return shots[0] == shots[1]
