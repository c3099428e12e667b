"""Thumbnails of a run: equal to those of the gathered state under every driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import support

from miniapps import apps
from miniapps.contract import Piece
from miniapps.drivers.engine import Engine
from miniapps.workbench.run.schema import extent_of
from miniapps.workbench.show.thumbnails import counts, density, over, share, sides_of, thumbnail_of

SIZE = (100, 7, 5)
FIELD = (
    "stencil3d --size 100x7x5 --boundary heated --initial noise --time-tile 3 --steps 10 --warmup 2"
)
CONFIGURATIONS = {
    "serial": "--pe-grid 3x2x1",
    "mpi": "--driver mpi -n 2",
    "charm": "--driver charm -n 2 --odf 4 --balancer Rotate --lb-period 3",
}


def plain_means(field: np.ndarray, pixels: int) -> np.ndarray:
    """Mean over z and over the cells behind each of so many pixels along x, by a loop."""
    thumbnail = np.zeros((pixels, field.shape[1]))
    for x in range(pixels):
        behind = [i for i in range(field.shape[0]) if i * pixels // field.shape[0] == x]
        thumbnail[x] = field[behind].mean(axis=(0, 2))
    return thumbnail


def state_after(app: str, problem: Any, steps: int) -> np.ndarray:
    """The state of a problem on one block; after 0 steps, that after the setup."""
    grid = (1,) * len(problem.shape)
    if steps == 0:
        (block,) = Engine(support.blocks_of(app, problem, grid)).setup().blocks
        return block.state()[0].values
    (state,) = support.solve(app, problem, grid, steps).fields.values()
    return state


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_thumbnails_of_a_field(configuration, run_record, tmp_path):
    """Catches a block that is left out or added twice, cells behind another pixel, a wrong step."""
    words = f"{FIELD} {CONFIGURATIONS[configuration]} --snapshot-every 4"
    run_record(*words.split(), "--output", tmp_path / "run.h5")
    with h5py.File(tmp_path / "run.h5") as file:
        steps, thumbnails = file["snapshots/step"][:].tolist(), file["snapshots/thumbnail"][:]
    assert steps == [0, 5, 8, 12]  # rounds of 2, 3, 3, 3 and 1 steps
    assert thumbnails.shape == (4, 64, 7)
    assert thumbnails.dtype == np.float32
    problem = apps.load("stencil3d").Problem(size=SIZE, boundary="heated", initial="noise")
    for step, thumbnail in zip(steps, thumbnails, strict=True):
        field = state_after("stencil3d", problem, step)
        np.testing.assert_allclose(thumbnail, plain_means(field, 64), rtol=1e-6)


OF_ONE_PART = [name for name in apps.names() if name != "amr"]  # amr: see check_refinements


@pytest.mark.parametrize("words", [*OF_ONE_PART, "transpose --fft --size 7x6x5"])
def test_the_last_thumbnail_is_of_the_final_state(words: str, tmp_path: Path) -> None:
    """Catches thumbnails of a part that blocks do not have, or that plots do not show."""
    app, *more = words.split()
    small = f"{app} --preset minimal --snapshot-every 1 --steps 4 --warmup 0"
    record = support.run_record(*small.split(), *more, "--output", tmp_path / "run.h5")
    with h5py.File(tmp_path / "run.h5") as file:
        thumbnails = file["snapshots/thumbnail"][:]
        final = thumbnail_of(file["state"], sides_of(extent_of(record)))
    assert len(thumbnails) > 1
    np.testing.assert_allclose(thumbnails[-1], final, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("driver", CONFIGURATIONS)
def test_thumbnails_of_particles(driver: str, traced_runs: dict[str, Path]) -> None:
    """Catches lost particles, x and y that are swapped, and rows behind another pixel."""
    app = apps.load("pic")
    with h5py.File(traced_runs[driver]) as file:
        steps, thumbnails = file["snapshots/step"][:].tolist(), file["snapshots/thumbnail"][:]
    assert steps == [0, 4, 8, 12, 16, 20, 22]
    problem = support.small_problem(app)
    for step, thumbnail in zip(steps, thumbnails, strict=True):
        kept = [event for event in problem.events if event.step < step]
        known = support.small_problem(app, events=tuple(kept))
        rows = state_after("pic", known, step)
        right = np.zeros((64, 64))
        for x, y in rows[:, :2]:
            right[int(x) * 64 // 96, int(y) * 64 // 96] += 1
        assert np.array_equal(thumbnail, right)


@pytest.mark.parametrize("shape", [(9,), (3001,), (70, 3), (3, 130), (65, 64, 2), (5, 6, 7)])
def test_shares_add_up_to_the_thumbnail(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Catches shares that are weighted by the block and not by the pixel, and other axes than 3."""
    field = np.random.default_rng(1).random(shape)
    low = shape[0] // 2 + 1
    parts = [(0, field[:low]), (low, field[low:])]
    sides, rest = (1,) * min(len(shape), 2), (0,) * (len(shape) - 1)
    total = sum(share(Piece("u", part, (at, *rest), shape), sides) for at, part in parts)
    with h5py.File(tmp_path / "state.h5", "w") as file:
        file["u"] = field
        whole = thumbnail_of(file, sides)
    np.testing.assert_allclose(total, whole)
    most = 1024 if len(shape) == 1 else 64
    assert whole.shape == tuple(min(n, most) for n in shape[:2])
    assert whole.mean() == pytest.approx(field.mean(), rel=0.05)
    ones = [share(Piece("u", 0 * part + 1, (at, *rest), shape), sides) for at, part in parts]
    np.testing.assert_allclose(sum(ones), 1)


@pytest.mark.long
def test_finer_fields_lie_over_the_shown_one(tmp_path: Path) -> None:
    """Catches a refinement at another place or step, one that is not shown, and a wrong mean."""
    check_refinements("--driver sim --pe-grid 2x2", tmp_path / "run.h5")


@pytest.mark.launch
@pytest.mark.long
def test_finer_fields_of_several_pes(tmp_path: Path) -> None:
    """Catches a PE's part that is left out."""
    check_refinements("--driver mpi -n 2", tmp_path / "run.h5")


def test_pixels_of_few_points() -> None:
    """Catches a pixel of one point that is left out, and one of none that is changed."""
    parts = [np.array([[[6.0, 0], [8, 0]], [[2, 0], [1, 0]]]), np.array([[[3.0, 0], [0, 0]]] * 2)]
    parts[1][1, 0, 0] = 1
    assert over(np.full((2, 2), 7.0), parts).tolist() == [[3, 7], [8, 7]]
    assert over(np.full((2, 2), 7.0), []).tolist() == [[7, 7], [7, 7]]


def check_refinements(how: str, path: Path) -> None:
    """Compare the thumbnails of a run of amr with those of a plain solver.

    The last one is of the final state, the others are taken at every second step.
    """
    size = {"size": (90, 41), "refinement": (31, 9), "level": 1, "period": 3, "duration": 2}
    words = "--size 90x41 --refinement 31x9 --level 1 --period 3 --duration 2 --initial noise"
    run = f"amr {words} --steps 7 --warmup 0 --snapshot-every 2"
    (record,) = support.records_of([f"{run} {how} --output {path}"])
    assert record["valid"]
    with h5py.File(path) as file:
        steps, thumbnails = file["snapshots/step"][:].tolist(), file["snapshots/thumbnail"][:]
        said = file["snapshots/thumbnail"].attrs["description"]
    assert steps == [0, 2, 4, 6, 7] and "state/sums of refinement 3" in said
    app, different = apps.load("amr"), []
    problem = app.Problem(**size, initial="noise", sub_iterations=4)
    for step, thumbnail in zip(steps, thumbnails, strict=True):
        pieces, *_ = app.reference(problem, step)
        fields = {piece.name: piece.values for piece in pieces}
        right = plain_means(fields.pop("sums of background")[..., np.newaxis], 64)
        below = right.copy()
        for name, values in fields.items():
            if name.startswith("sums"):
                lay_over(right, values, problem.corners[int(name[-1])])
        np.testing.assert_allclose(thumbnail, right, rtol=1e-6, atol=1e-12)
        different.append(not np.allclose(right, below))
    assert different == [False, False, True, False, True]


def lay_over(thumbnail: np.ndarray, values: np.ndarray, corner: tuple[int, int]) -> None:
    """Replace pixels of a grid of 90x41 points by the means of a field of half its spacing."""
    found: dict[tuple[int, int], list[float]] = {}
    for (i, j), value in np.ndenumerate(values):
        x, y = corner[0] + (i + 1) // 2, corner[1] + (j + 1) // 2
        found.setdefault((x * 64 // 90, y), []).append(value)
    for pixel, all_of_it in found.items():
        thumbnail[pixel] = np.mean(all_of_it)


def test_sides() -> None:
    """Catches a box that is taken for a grid of cells."""
    assert sides_of((3.5, 2.5, 9.0)) == (3.5, 2.5) and sides_of((9,)) == (9,)
    assert extent_of({"extent": [3.5, 2.5], "problem": {"size": 4}}) == [3.5, 2.5]
    assert extent_of({"box": [3.5, 2.5], "problem": {"size": 4}}) == [3.5, 2.5]
    assert extent_of({"problem": {"size": 96}}) == (96, 96)


def test_particles_on_one_axis() -> None:
    """Catches a velocity that is taken for y, and a particle on the far face."""
    rows = np.array([[0.0, -7.0], [0.5, 99.0], [2.0, 0.0], [3.0, 5.0]])
    assert counts(rows, (3.0,), 64).tolist() == [2, 0, 2]


def test_a_particle_in_each_cell_makes_no_stripes() -> None:
    """Catches pixels that hold one cell or two, and are drawn as if all held as many.

    Positions are off the middle of cells by rounding errors, as after many steps.
    """
    middle = np.stack(np.meshgrid(np.arange(96), np.arange(150), indexing="ij"), -1) + 0.5
    rows = middle.reshape(-1, 2) + np.random.default_rng(1).uniform(-1e-12, 1e-12, (96 * 150, 2))
    sides = (96, 150)
    counted = counts(rows, sides, 64)
    assert counted.shape == (64, 64) and counted.sum() == len(rows)
    assert set(np.unique(counted)) == {2, 3, 4, 6}  # stripes
    np.testing.assert_allclose(density(counted, sides), 1)
    several = np.stack([counted, 2 * counted])
    np.testing.assert_allclose(density(several, sides)[1], 2)


def test_density_in_a_box() -> None:
    """Catches a density per pixel, or per cell, where lengths are in other units."""
    box = (26.5, 3.5)
    counted = counts(np.random.default_rng(1).random((1000, 3)) * (*box, 9.0), box, 20)
    areas = 26.5 / 26 * np.bincount(np.arange(26) * 20 // 26)[:, None] * (3.5 / 3)
    np.testing.assert_allclose(density(counted, box) * areas, counted)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e300, -1.0, 9.0])
def test_positions_of_a_file_must_be_within_the_domain(wrong: float, tmp_path: Path) -> None:
    """Catches a warning of NumPy in place of a refusal, and a figure with particles elsewhere."""
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file["particles"], file["particles.id"] = np.full((3, 5), 2.0), np.arange(3)
        assert thumbnail_of(file, (8.0, 8.0)).sum() == 3
        file["particles"][1, 1] = wrong
        with pytest.raises(ValueError, match="positions in state/particles must be within"):
            thumbnail_of(file, (8.0, 8.0))
