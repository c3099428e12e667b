"""Figure and animation of a run by hand, read as a reader does.

Four blocks on two PEs make seven steps in rounds of 1, 2 and 4. Computing takes, per step,

    block      0  1  2  3 ms      PE 0, of blocks 0 and 1 (then 0 and 3)  3, 5, 9 ms
    steps 4    1  2  3  4         PE 1, of blocks 2 and 3 (then 1 and 2)  7, 9, 9 ms
    steps 5, 6     +1             a step takes                           10, 15, 20 ms
    steps 7-10     +2

Nothing moves before steps 4 and 5. Before step 7 blocks 1 and 3 change places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
from drawn import assert_ticks_are_values, in_hex, laid_out, names, titles, value_at

from miniapps.drivers.timing import ROW, SYNC
from miniapps.workbench.show import plots
from miniapps.workbench.show.animation import animation
from miniapps.workbench.show.saved import SavedRun
from miniapps.workbench.show.thumbnails import density

ROUNDS = np.array([[4, 1], [5, 2], [7, 4]])
STEPS = (4, 5, 7)  # the first of each round
STEP_MS = np.array([10.0, 15.0, 20.0])
LOADS = np.array([1.0, 2.0, 3.0, 4.0])[:, None] + np.arange(3)  # ms per step: block, round
PES = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0]])
OF_PES = np.array([[3.0, 5.0, 9.0], [7.0, 9.0, 9.0]])
FIELD = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [11.0, 12.0, 14.0]])
MS = "computing [ms per step]"


def by_hand(**more: Any) -> SavedRun:
    """The run; ``more``: other values of the record."""
    rows = np.zeros(12, ROW)
    rows["block"], rows["round"] = np.divmod(np.arange(12), 3)
    rows["pe"] = PES.ravel()
    rows["compute_s"] = (LOADS * ROUNDS[:, 1] / 1e3).ravel()
    walls = STEP_MS * ROUNDS[:, 1] / 1e3
    moved = [{"step": step, "moved": count} for step, count in ((4, 0), (5, 0), (7, 2))]
    given = {"app": "jacobi2d", "driver": "charm", "pes": 2, "odf": 2, "warmup": 4, "steps": 7}
    given |= {"balancer": "Greedy", "lb_period": 2, "problem": {"size": [4, 3]}}
    record = support.whole_record(given, float(walls.sum()) / 7)
    record |= {"lb": moved, "blocks": [2, 2], "extent": [4.0, 3.0]} | more
    return SavedRun(
        record=record,
        rounds=ROUNDS,
        wall_s=walls,
        rows=rows,
        slices=None,
        syncs=np.empty(0, SYNC),
        thumbnail_steps=np.array([4, 11]),
        thumbnails=np.stack([FIELD, -FIELD]).astype(np.float32),
        has_trajectory=False,
        quantity="u [K]",
        counted=False,
    )


Drawn = tuple[Any, list[Any]]


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Drawn]:
    """``draw(run, state)``: the figure of a run with that final state, and its axes."""

    def drawn(run: SavedRun, **state: np.ndarray) -> Drawn:
        @contextmanager
        def opened(source: Path) -> Iterator[Any]:
            yield {"state": state}

        monkeypatch.setattr(plots, "opened", opened)
        monkeypatch.setattr(SavedRun, "read", lambda source: run)
        figure = laid_out(plots.run_figure(Path("run.h5")))
        assert_ticks_are_values(figure)
        return figure, figure.axes

    return drawn


@pytest.fixture
def axes(draw: Callable[..., Drawn]) -> list[Any]:
    """The axes of the figure of a run whose state is `FIELD`."""
    return draw(by_hand(), u=FIELD)[1]


# State --------------------------------------------------------------------------------------------


def values_of(axes: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The values that an image has in the middle of cells of length 1."""
    (image,) = axes.images
    return np.array([[value_at(axes, image, x + 0.5, y + 0.5) for y in range(shape[1])]
                     for x in range(shape[0])])  # fmt: skip


@pytest.mark.long
def test_a_field_is_not_turned(axes: list[Any]) -> None:
    """Catches an image upside down, transposed or mirrored, pixels elsewhere, another unit."""
    state = axes[0]
    np.testing.assert_array_equal(values_of(state, (4, 3)), FIELD)
    assert titles(state) == ("x [cells]", "y [cells]")
    assert (state.get_xlim(), state.get_ylim()) == ((0, 4), (0, 3))
    (image,) = state.images
    assert image.colorbar.ax.get_ylabel() == "u [K]" and image.get_clim() == (1, 14)
    red = [in_hex(image.cmap(image.norm(value))) for value in (1, 14)]
    assert red == ["#440154", "#fde725"]  # dark is low


@pytest.mark.long
def test_the_middle_of_a_field_in_space(draw: Callable[..., Drawn]) -> None:
    """Catches the first or the last slice, one along another axis, or a mean."""
    field = FIELD[..., None] + 100.0 * np.arange(5)
    _, (state, *_) = draw(by_hand(extent=[4.0, 3.0, 5.0]), u=field)
    np.testing.assert_array_equal(values_of(state, (4, 3)), FIELD + 200)
    assert state.get_title() == "final state, middle slice along z"


@pytest.mark.long
def test_a_field_on_one_axis(draw: Callable[..., Drawn]) -> None:
    """Catches values at the edges of cells, and a line that is mirrored."""
    _, (state, *_) = draw(by_hand(extent=[4.0]), u=FIELD[:, 0])
    (line,) = state.lines
    x, y = line.get_data()
    assert list(x) == [0.5, 1.5, 2.5, 3.5] and list(y) == list(FIELD[:, 0])
    assert titles(state) == ("x [cells]", "u [K]") and state.get_xlim() == (0, 4)
    assert state.get_title() == "final state"
    assert (line.get_color(), line.get_linewidth()) == (plots.COLOURS[0], 1)


@pytest.mark.long
def test_atoms_in_a_box(draw: Callable[..., Drawn]) -> None:
    """Catches atoms per pixel for atoms per area, axes exchanged, a box in cells."""
    at = np.array([[0.2, 0.2], [3.9, 0.2], [3.9, 0.1], [0.3, 4.9], *[[3.9, 4.9]] * 4])
    rows = np.column_stack([at, np.full(8, 7.0), np.zeros((8, 3))])
    run = replace(by_hand(box=[4.0, 5.0, 9.0], extent=None), quantity="atoms per sigma²")
    _, (state, *_) = draw(run, **{"atoms": rows, "atoms.id": np.arange(8)})
    found = values_of(state, (4, 5))
    assert found.sum() == 8
    assert [found[0, 0], found[3, 0], found[0, 4], found[3, 4]] == [1, 2, 1, 4]
    assert titles(state) == ("x [sigma]", "y [sigma]")
    assert state.get_title() == "final state, seen along z"
    assert state.images[0].colorbar.ax.get_ylabel() == "atoms per sigma²"
    pixels = density(np.ones((2, 1)), (5.0, 3.0))  # of 2 and 3 cells along x, of 3 along y
    np.testing.assert_allclose(pixels, [[1 / 9], [1 / 6]])


# Times --------------------------------------------------------------------------------------------


@pytest.mark.long
def test_loads_and_times_of_steps(axes: list[Any]) -> None:
    """Catches times of rounds for those of steps, another unit, PEs exchanged, marks elsewhere."""
    _, load, time, *_ = axes
    named = names(load)
    for panel, label in ((load, MS), (time, "wall [ms per step]")):
        assert titles(panel) == ("step", label)
        assert panel.get_ylim()[0] == 0
        dotted = [line.get_xdata() for line in panel.lines if line.get_linestyle() == ":"]
        assert dotted == [[4, 4], [5, 5], [7, 7]]
    curves = [line for line in load.lines if line.get_marker() == "."]
    assert [line.get_color() for line in curves] == list(plots.COLOURS[:2])
    for pe, line in enumerate(curves):
        np.testing.assert_allclose(line.get_xydata(), np.transpose([STEPS, OF_PES[pe]]))
    assert {"PE 0", "PE 1", "load balancing"} == {*named.values()}
    labels = {key[0]: label for key, label in named.items() if label.startswith("PE")}
    assert labels == {colour.lower(): f"PE {pe}" for pe, colour in enumerate(plots.COLOURS[:2])}
    np.testing.assert_allclose(time.lines[0].get_xydata(), np.transpose([STEPS, STEP_MS]))


@pytest.mark.long
def test_loads_and_places_of_blocks(axes: list[Any]) -> None:
    """Catches a load of a round for one of a step, rows or PEs exchanged, a move elsewhere."""
    _, load, _, blocks, homes, moves, *_ = axes
    for panel, right, label in ((blocks, LOADS, MS), (homes, PES, "PE")):
        assert titles(panel) == ("step", "block")
        mesh = panel.collections[0]
        assert mesh.colorbar.ax.get_ylabel() == label
        for block in range(4):
            for number, (first, count) in enumerate(ROUNDS):
                for step in range(first, first + count):
                    found = value_at(panel, mesh, step + 0.5, block)
                    assert found == pytest.approx(right[block, number])
    white = sorted(tuple(map(tuple, s)) for s in blocks.collections[1].get_segments())
    assert white == [((7, 0.5), (7, 1.5)), ((7, 2.5), (7, 3.5))]
    colours = homes.collections[0]
    shown = [in_hex(colours.cmap(colours.norm(pe))) for pe in range(2)]
    curves = [line.get_color().lower() for line in load.lines if line.get_marker() == "."]
    assert shown == curves  # a PE has one colour
    assert titles(moves) == ("step", "blocks moved") and moves.get_title() == "migrations: 2"
    heights = {bar.get_x() + bar.get_width() / 2: bar.get_height() for bar in moves.patches}
    assert heights == pytest.approx({4: 0, 5: 0, 7: 2})


# Animation ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_bars_of_an_animation() -> None:
    """Catches bars of rounds for those of steps, blocks that are stacked or named in another order.

    A part of a bar reaches from its base on, and the lowest PE is on top. The last figure has a
    frame for the first two rounds, of 1 and 2 steps.
    """
    figure = animation([by_hand()])
    labels = [step.label for step in figure.layout.sliders[0].steps]
    assert labels == ["4", "5 to 6", "7 to 10"]
    bars = figure.data[0]
    assert list(bars.customdata) == [f"block {n} ({n // 2}, {n % 2})" for n in range(4)]
    assert bars.hovertemplate.startswith("%{customdata} on %{y}<br>%{x:.3g} ms per step")
    assert bars.orientation == "h"
    assert list(figure.layout.yaxis.categoryarray) == ["PE 1", "PE 0"]
    bases = np.array([[0, 1, 0, 3], [0, 2, 0, 4], [0, 0, 4, 3]])
    imbalances = (7 / 5, 9 / 7, 1)
    for number, frame in enumerate(figure.frames):
        bars = frame.data[0]
        np.testing.assert_allclose(np.array(bars.x, float), LOADS[:, number])
        np.testing.assert_allclose(np.array(bars.base, float), bases[number])
        assert list(bars.y) == [f"PE {pe}" for pe in PES[:, number]]
        said = f"computing [ms per step], imbalance {imbalances[number]:.3f}"
        assert frame.layout.xaxis.title.text == said
    scale = figure.layout.coloraxis
    assert scale.colorbar.title.text == "block [ms per step]" and scale.cmax == 6
    figure = animation([by_hand(lb=[{"step": 7, "moved": 2}])], 2)
    assert [step.label for step in figure.layout.sliders[0].steps] == ["4 to 6", "7 to 10"]
    first, last = (np.array(frame.data[0].x, float) for frame in figure.frames)
    np.testing.assert_allclose(first, (LOADS[:, 0] + 2 * LOADS[:, 1]) / 3, rtol=1e-4)
    np.testing.assert_allclose(last, LOADS[:, 2])


@pytest.mark.long
def test_curves_of_an_animation() -> None:
    """Catches curves that are exchanged, in another unit, or of rounds."""
    figure = animation([by_hand()])
    panels = {}
    for trace_ in figure.data:
        if trace_.type == "scatter" and trace_.mode == "lines" and len(trace_.x) == 3:
            axis = figure.layout[f"yaxis{trace_.yaxis[1:]}"]
            panels[axis.title.text] = list(trace_.x), np.array(trace_.y)
    assert panels.keys() == {"imbalance", "step [ms]"}
    for name, right in (("imbalance", [7 / 5, 9 / 7, 1]), ("step [ms]", STEP_MS)):
        steps, found = panels[name]
        assert steps == list(STEPS)
        np.testing.assert_allclose(found, right, rtol=1e-6)


@pytest.mark.long
def test_the_state_of_an_animation_is_not_turned() -> None:
    """Catches a state upside down or transposed, another time, pixels beside their cells.

    The field is FIELD after 4 steps, and has the other sign after 11.
    """
    figure = animation([by_hand()])
    for number, frame in enumerate(figure.frames):
        sign, at = (1, 4) if number < 2 else (-1, 11)
        heat = frame.data[1]
        assert frame.layout.xaxis2.title.text == f"x [cells], state after {at} steps"
        z, shape = np.array(heat.z), FIELD.shape
        assert z.shape == shape[::-1]  # plotly draws z[row][column] at (column, row)
        for x, y in np.ndindex(shape):
            assert z[y, x] == sign * FIELD[x, y]
        assert (heat.x0, heat.dx, heat.y0, heat.dy) == (0.5, 1, 0.5, 1)
        assert (heat.x, heat.y, heat.transpose) == (None, None, None)
    axis = figure.layout.yaxis2
    assert (axis.title.text, axis.autorange, axis.range) == ("y [cells]", None, None)
    assert tuple(figure.layout.xaxis2.range) == (0, 4)
    scale = figure.layout.coloraxis2
    assert (scale.colorbar.title.text, scale.cmin, scale.cmax) == ("u [K]", -14, 14)
    assert scale.reversescale is None
    run = replace(by_hand(extent=[8.0, 9.0], problem={"size": [8, 9]}))  # of larger pixels
    heat = animation([run]).frames[0].data[1]
    assert (heat.x0, heat.dx, heat.y0, heat.dy) == (1, 2, 1.5, 3)
