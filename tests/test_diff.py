"""Hashes of parts of the state, and the comparison of two runs by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import support
from hypothesis import given
from hypothesis import strategies as st

from miniapps.contract import Piece
from miniapps.decomposition import Layout
from miniapps.echo.block import EchoBlock
from miniapps.pic.block import PicBlock
from miniapps.workbench.cli import main
from miniapps.workbench.exit_status import BAD_INPUT, VALID, WRONG
from miniapps.workbench.run.checkpoint import kept
from miniapps.workbench.run.hashes import share

RUN = "--preset tiny --audit 0 --output"


def run(app: str, words: str, path: Path) -> Path:
    """A run's file."""
    main(["run", app, *f"{RUN} {path} {words}".split()])
    return path


@pytest.mark.slow
@given(st.sampled_from(["1x1", "2x3", "5x1", "4x4"]), st.integers(1, 40), st.integers(1, 40))
def test_hashes_do_not_depend_on_the_decomposition(grid: str, rows: int, columns: int) -> None:
    """Catches a cell that two tiles count, or none, where a block ends inside a tile."""
    rows, columns = rows + 4, columns + 4
    values = np.random.default_rng(rows).random((rows, columns))
    parts = tuple(map(int, grid.split("x")))
    layout = Layout.create((rows, columns), (True, True), parts[0] * parts[1], pe_grid=parts)
    total = 0
    for index in layout.indices():
        (a, b), (c, d) = layout.bounds(index)
        piece = Piece("u", values[a:b, c:d], (a, c), (rows, columns))
        total = total + share(piece, (rows, columns))
    whole = share(Piece("u", values, (0, 0), (rows, columns)), (rows, columns))
    assert np.array_equal(total, whole)
    changed = values.copy()
    changed[-1, 0] += 1e-12
    other = share(Piece("u", changed, (0, 0), (rows, columns)), (rows, columns))
    assert (other != whole).any(axis=1).sum() == 1


def test_rows_are_found_by_their_position() -> None:
    """Catches particles hashed in the order in which a block holds them, or in no tile."""
    rows = np.random.default_rng(1).random((50, 5)) * 8
    rows[0, :2] = np.nan, 8.0
    ids = np.arange(50)
    whole = share(Piece("p", rows, None, (), ids), (8, 8))
    back = share(Piece("p", rows[::-1], None, (), ids[::-1]), (8, 8))
    halves = [share(Piece("p", rows[s], None, (), ids[s]), (8, 8)) for s in (ids < 20, ids >= 20)]
    assert np.array_equal(whole, back) and np.array_equal(whole, halves[0] + halves[1])
    none = share(Piece("p", rows[:0], None, (), ids[:0]), (8, 8))
    assert not none.any() and len(none) == 256


@pytest.mark.slow
@pytest.mark.parametrize("app", ["pic", "stencil3d"])
def test_equal_runs(app: str, tmp_path: Path, capsys: Any) -> None:
    """Catches hashes that differ for another decomposition or driver."""
    axes = "x1" if app == "stencil3d" else ""
    a = run(app, f"--hash-every 1 --pe-grid 1x2{axes}", tmp_path / "a.h5")
    b = run(app, f"--hash-every 2 --pe-grid 3x1{axes} --driver sim", tmp_path / "b.h5")
    capsys.readouterr()
    assert main(["diff", str(a), str(b)]) == VALID
    assert "equal at the end and after" in capsys.readouterr().out
    with h5py.File(a) as file:
        assert json.loads(file.attrs["record"])["hash_every"] == 1


@pytest.mark.slow
def test_the_first_difference_is_named(tmp_path, capsys, monkeypatch):
    """Catches a comparison that names another step, field, part or block."""
    right = run("echo", "--hash-every 1 --pe-grid 2x1", tmp_path / "right.h5")
    plain = run("echo", "--pe-grid 3x2", tmp_path / "plain.h5")
    step = EchoBlock.step

    def wrong(block: Any, count: int) -> Any:
        yield from step(block, count)
        if block.time == 5 and block.index == (1, 0):
            block.counters[0, 0] += 1
        return False

    monkeypatch.setattr(EchoBlock, "step", wrong)
    other = run("echo", "--hash-every 1 --pe-grid 2x2", tmp_path / "wrong.h5")
    capsys.readouterr()
    assert main(["diff", str(right), str(other)]) == WRONG
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("after 5 steps: counters differs in 4..5 x 0..1, block (1,0) of right")
    assert "block (1,0) of wrong.h5; equal after 4 steps" in said
    assert main(["diff", str(plain), str(other)]) == WRONG
    said = " ".join(capsys.readouterr().out.split())
    assert "final state: counters differs at (4, 0)" in said and "--hash-every 1" in said


def diff(capsys: Any, *files: Path) -> tuple[int, str]:
    """The exit status of a comparison, and what it prints."""
    capsys.readouterr()
    try:
        status = main(["diff", *map(str, files)])
    except SystemExit as ended:
        status = int(ended.code or 0)
    found = capsys.readouterr()
    return status, " ".join((found.out + found.err).split())


@pytest.mark.slow
def test_checkpoints(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches checkpoints held equal by their shape, rows without a particle, and lost totals."""
    words = "--preset minimal --steps 9 --warmup 0 --checkpoint-every 3 --checkpoint"
    a, b, wrong = (tmp_path / f"{name}.h5" for name in ("a", "b", "wrong"))
    ends = run("pic", f"{words} {a}", tmp_path / "end.h5")
    run("pic", f"{words} {b} --pe-grid 3x1", tmp_path / "b-end.h5")
    assert diff(capsys, a, b)[0] == diff(capsys, ends, a)[0] == VALID
    assert diff(capsys, kept(a, 1), b) == (WRONG, "a.1.h5 has made 6 steps, b.h5 9")
    usual = PicBlock.checkpoint

    def one_more(block: Any) -> Any:
        found = usual(block)
        born = found.totals["born"]
        return found._replace(
            totals=dict(found.totals) | {"born": born._replace(value=born.value + 1)}
        )

    monkeypatch.setattr(PicBlock, "checkpoint", one_more)
    run("pic", f"{words} {wrong}", tmp_path / "wrong-end.h5")
    assert "the states are equal, but born, which" in diff(capsys, a, wrong)[1]
    assert diff(capsys, ends, wrong)[0] == VALID
    monkeypatch.undo()
    run("pic", f"{words} {wrong} --particles 99", tmp_path / "wrong-end.h5")
    assert "another problem" in diff(capsys, a, wrong)[1]
    b.write_bytes(b.read_bytes()[:-9])
    status, said = diff(capsys, a, b)
    assert status == BAD_INPUT and "b.h5" in said


@pytest.mark.long
def test_the_first_particle_that_differs(tmp_path, capsys, monkeypatch):
    """Catches rows of a checkpoint that are compared by their place and not by their id."""
    words = "--preset minimal --steps 9 --warmup 0 --checkpoint-every 9 --checkpoint"
    ends = run("pic", f"{words} {tmp_path / 'right.h5'} --pe-grid 2x1", tmp_path / "end.h5")
    usual = PicBlock.state

    def wrong(block: Any) -> Any:
        (piece,) = usual(block)
        piece.values[piece.ids == 4, 3] += 1e-9  # the third row: one with a lower id has left
        return [piece]

    monkeypatch.setattr(PicBlock, "state", wrong)
    run("pic", f"{words} {tmp_path / 'wrong.h5'}", tmp_path / "wrong-end.h5")
    status, said = diff(capsys, ends, tmp_path / "wrong.h5")
    assert status == WRONG and "particles differs at (2, 3)" in said


@pytest.mark.slow
def test_files_that_cannot_be_compared(tmp_path: Path) -> None:
    """Catches a traceback from a damaged file, and a comparison of two problems."""
    good = run("echo", "--hash-every 3 --pe-grid 2x1", tmp_path / "good.h5")
    texts = {"empty": b"", "text": b"[["}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    for name, record in {"no record": None, "bad": "[[", "list": "[]", "none": "{}"}.items():
        with h5py.File(tmp_path / name, "w") as file:
            file.create_group("state")
            if record is not None:
                file.attrs["record"] = record
    for name, damage in {"scalar": 7, "wide": np.zeros((9, 9))}.items():
        (tmp_path / name).write_bytes(good.read_bytes())
        with h5py.File(tmp_path / name, "r+") as file:
            del file["hashes/counters"]
            file["hashes/counters"] = damage
    run("echo", "--size 9x9", tmp_path / "another")
    run("jacobi2d", "--pe-grid 1x1", tmp_path / "app")
    for path in sorted(tmp_path.iterdir()):
        if path != good:
            support.refused(["diff", good, path])


@pytest.mark.long
def test_a_record_that_no_run_has_written(tmp_path: Path) -> None:
    """Catches a comparison of a file whose record was edited, or that claims terabytes."""
    good = run("echo", "--pe-grid 2x1", tmp_path / "good.h5")
    edited, claims = tmp_path / "edited.h5", tmp_path / "claims.h5"
    for path in (edited, claims):
        path.write_bytes(good.read_bytes())
    with h5py.File(edited, "r+") as file:
        record = json.loads(file.attrs["record"])
        file.attrs["record"] = json.dumps(record | {"state_hash": [record["state_hash"]]})
    with h5py.File(claims, "r+") as file:
        del file["state/counters"]
        file.create_dataset("state/counters", (1 << 40,), "f4", chunks=True)
    for path, reason in {edited: "state_hash must be", claims: "more than the file can"}.items():
        said = support.refused(["diff", good, path])
        assert path.name in said and reason in said


@pytest.mark.parametrize("words", ["--hash-every 2", "--hash-every -1 --output x.h5"])
def test_hashes_need_a_file(words: str) -> None:
    """Catches hashes that are stored nowhere."""
    assert "--hash-every" in support.refused(["run", "echo", *words.split()])
