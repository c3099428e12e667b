"""The default temporal-blocking depth: measured once per machine and block shape."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import support

from miniapps import apps, tiling
from miniapps.decomposition import Layout
from miniapps.devices import system


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's empty cache folder; returns the file that is kept there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tiling.cache_file()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes that were measured; the "measurement" says that 4 sweeps are best, 2 nearly so."""
    shapes: list[tuple[int, ...]] = []

    def rates(app: str, shape: tuple[int, ...], grow: list[bool], dtype: str) -> dict[int, float]:
        shapes.append(shape)
        return {1: 50.0, 2: 98.0, 4: 100.0, 8: 60.0}

    monkeypatch.setattr(tiling, "measured_rates", rates)
    return shapes


def best(
    shape: tuple[int, ...] = (64, 48),
    limit: int = 100,
    app: str = "jacobi2d",
    grow: bool = True,
    dtype: str = "float64",
) -> int:
    """The best tile on the CPU."""
    return tiling.best_tile(app, shape, [grow] * len(shape), limit, dtype)


def test_measured_once(cache: Path, measured: list[tuple[int, ...]]) -> None:
    """Catches a measurement in every run, and one that is taken for another kind of block's."""
    others = [best((64, 50)), best(app="stencil3d"), best(grow=False), best(dtype="float32")]
    assert [best(), best(limit=1), *others] == [2, 1, 2, 2, 2, 2]
    assert measured == [(64, 50), *[(64, 48)] * 4]
    assert len(json.loads(cache.read_text())) == 5
    assert [entry.name for entry in cache.parent.iterdir()] == [cache.name]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_limit_of_one_run_is_not_kept(cache, measured, limit):
    """Catches a tile that is small for ever because the first run allowed no more."""
    assert best(limit=limit) == min(limit, 2)
    assert best(limit=100) == 2


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "\x00", "[" * 10000])
def test_broken_cache(cache: Path, measured: list[tuple[int, ...]], content: str) -> None:
    """Catches a run that fails because of a file that another one left half written."""
    cache.parent.mkdir(parents=True)
    cache.write_text(content)
    assert best() == 2 and len(json.loads(cache.read_text())) == 1


@pytest.mark.parametrize("tile", [True, 3, -1, "2", None, [2], 2.0, 1 << 70])
def test_stored_tile_that_is_none(cache, measured, tile):
    """Catches true taken for 1, and any other value that a hand put into the file."""
    best()
    (key,) = json.loads(cache.read_text())
    cache.write_text(json.dumps({key: tile}))
    assert best() == 2 and len(measured) == 2
    assert json.loads(cache.read_text()) == {key: 2}


def test_cache_that_cannot_be_written(tmp_path, measured, monkeypatch):
    """Catches a run that fails because the home folder is read-only."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [best(), best()] == [2, 2] and len(measured) == 2


@pytest.mark.parametrize(("app", "shape"), [("jacobi2d", (40, 33)), ("stencil3d", (17, 12, 9))])
def test_rates_are_measured_on_blocks_that_fit(app: str, shape: tuple[int, ...]) -> None:
    """Catches a measurement of tiles that are wider than the block, or outside its arrays."""
    rates = tiling.measured_rates(app, shape, [True] * len(shape))
    assert list(rates) == [tile for tile in tiling.CANDIDATES if tile <= min(shape)]
    assert all(rate > 0 for rate in rates.values())


def test_rates_count_all_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a rate that is not of all sweeps of an exchange, or counts ghosts as gain."""
    swept: list[int] = []
    of_tile = SimpleNamespace(sweep_tile=lambda old, new, count, *where: swept.append(count))
    monkeypatch.setattr(tiling.kernels, "load", lambda app, device: of_tile)
    monkeypatch.setattr(type(tiling.get("cpu")), "seconds", lambda *marks: 0.5)
    cells = 12 * 9
    assert tiling.measured_rates("jacobi2d", (12, 9), [False, False]) == {
        tile: tile * cells / 0.5 for tile in (1, 2, 4, 8)
    }
    assert swept == [tile for tile in (1, 2, 4, 8) for _ in range(tiling.REPEATS)]


def test_only_one_process_measures(cache: Path, measured: list[tuple[int, ...]]) -> None:
    """Catches ranks that measure for themselves and come to different tiles."""
    layout = Layout.create((64, 48), (False, False), 2)
    problem = apps.load("jacobi2d").Problem(size=(64, 48))
    assert problem.prepared(layout, "cpu").time_tile == tiling.UNTUNED and measured == []
    assert problem.prepared(layout, "cpu", measure=True).time_tile == 2
    assert measured == [(32, 48)] and cache.exists()


def test_nothing_is_measured_on_a_gpu(cache: Path, measured: list[tuple[int, ...]]) -> None:
    """Catches a measurement that opens the GPU in a process that may be forked yet."""
    layout = Layout.create((64, 48), (False, False), 1)
    problem = apps.load("jacobi2d").Problem(size=(64, 48))
    assert problem.prepared(layout, "gpu", measure=True).time_tile == tiling.UNTUNED
    assert measured == [] and not cache.exists()


@pytest.mark.slow
def test_command_line_determines_the_depth_for_all(cache: Path) -> None:
    """Catches "auto" in a record, or passed on to the ranks."""
    words = "jacobi2d --size 40x33 --steps 3 --driver mpi -n 2".split()
    shown = support.miniapps("run", *words, "--dry-run").stdout.split()
    tile = shown[shown.index("--time-tile") + 1]
    assert tile.isdigit() and int(tile) == next(iter(json.loads(cache.read_text()).values()))
    record = support.run_record(*words[:-4], "--pe-grid", "2x1")
    assert record["problem"]["time_tile"] == int(tile)


def test_a_part_stands_for_a_large_block() -> None:
    """Catches a part so thin that it says nothing of the block, or larger than allowed."""
    assert tiling.measured_part((4096, 4096)) == (2048, 4096)
    assert tiling.measured_part((400, 400, 400)) == (52, 400, 400)
    assert tiling.measured_part((7, 10**12)) == (7, tiling.MOST_CELLS // 7)
    assert tiling.measured_part((10**9, 10**9)) == (32, tiling.MOST_CELLS // 32)


def test_swept_cells_count_the_ghosts() -> None:
    """Catches a wide tile that looks cheap because what it sweeps twice is not counted."""
    assert tiling.swept_cells((10, 20), [True, True], 1) == 200
    assert tiling.swept_cells((10, 20), [True, True], 3) == 14 * 24 + 12 * 22 + 200
    assert tiling.swept_cells((10, 20), [True, False], 2) == 12 * 20 + 200


def test_a_block_that_does_not_fit_is_not_measured(cache, measured):
    """Mistake: a minute of silence before the line that there is too little memory."""
    assert best((600_000_000, 600_000_000)) == tiling.UNTUNED
    assert not measured and not cache.exists()


def test_a_container_may_have_less_memory_than_the_machine(cache, measured, tmp_path, monkeypatch):
    """Catches a measurement of a block that fits into the machine, but not into the container."""
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(system, "GROUPS", tmp_path)
    limit.write_text(f"{16 * 64 * 48 - 1}\n")
    assert best() == tiling.UNTUNED and not measured
    limit.write_text("max\n")
    assert best() == 2 and measured == [(64, 48)]
