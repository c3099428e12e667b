"""A full disk: one line, status 3, and no file that looks whole.

The size of every file is limited instead, which fails a write as a full disk does.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pytest
import support

from miniapps.workbench.run import launch
from miniapps.workbench.run.checkpoint import read_checkpoint
from miniapps.workbench.run.disk import hdf5_file
from miniapps.workbench.run.output import append_line
from miniapps.workbench.run.replaced import replacing

ERROR = "File too large"  # of a write beyond the limit
LEAST = 1 << 12


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let this process, and those that it starts here, write no larger files."""
    usual, writes = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
    sys.dont_write_bytecode = True  # else the half of a module's is found ever after
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


PROBLEM = "jacobi2d --size 300x300 --time-tile 1 --steps 12 --warmup 0"
RUNS = {
    "serial": "jacobi2d --size 200x200 --time-tile 1 --steps 2",
    "serial, snapshots": f"{PROBLEM} --pe-grid 2x1 --snapshot-every 1",
    "file, trajectory": "leanmd --lattice 8x8x8 --driver file -n 2 --steps 90 --trajectory 1",
    "charm, hashes": f"{PROBLEM} --driver charm -n 2 --hash-every 1 --snapshot-every 1",
}


@pytest.mark.launch
@pytest.mark.parametrize("what", RUNS)
def test_a_run_whose_snapshots_fill_the_disk(what: str, tmp_path: Path) -> None:
    """Catches libhdf5's crash, a traceback for each dataset, and a part that is left."""
    target = tmp_path / "run.h5"
    with files_of_at_most(1 << 16):
        done = support.miniapps("run", *RUNS[what].split(), "--output", target)
    assert done.returncode == 3, done.stderr
    (line,) = done.stderr.splitlines()
    assert f"--output {target} cannot be written: {ERROR}" in line
    assert not list(tmp_path.iterdir())


CHECKPOINTED = "jacobi2d --size 300x300 --time-tile 1 --warmup 0 --checkpoint {to} "
CASES = {
    "serial": "--checkpoint-every 3 --pe-grid 2x1",
    "serial, async": "--checkpoint-every 3 --checkpoint-async",
    "file": "--checkpoint-every 3 --driver file -n 2",  # MPI needs large files itself
}


@pytest.mark.slow
@pytest.mark.launch
@pytest.mark.parametrize("what", CASES)
def test_checkpoints_that_fill_the_disk(what: str, tmp_path: Path) -> None:
    """Catches a part that is left, a previous checkpoint that is lost, and ranks that wait."""
    file, line = tmp_path / "c.h5", f"{CHECKPOINTED.format(to=tmp_path / 'c.h5')} {CASES[what]}"
    before = support.run_record(*line.split(), "--steps", 3)
    with files_of_at_most(1 << 17):
        done = support.miniapps("resume", file, "--steps", 12)
    assert done.returncode == 3, done.stderr
    (said,) = done.stderr.splitlines()
    assert f"--checkpoint {file} cannot be written: {ERROR}" in said
    assert os.listdir(tmp_path) == ["c.h5"]
    found = read_checkpoint("", file)
    found.verify()
    assert found.state.state_hash == before["state_hash"]


@pytest.mark.parametrize("size", [0, 700, 2500, 9000])
@pytest.mark.parametrize("mode", ["w", "r+"])
def test_whatever_part_of_an_hdf5_file_is_written(mode: str, size: int, tmp_path: Path) -> None:
    """Catches a crash at some write: of the head, of data, or as datasets and the file close."""
    path = tmp_path / "file.h5"
    if mode == "r+":
        with hdf5_file(path, "w") as file:
            file["first"] = np.arange(9)
    before = path.stat().st_size if path.exists() else 0
    with pytest.raises(OSError, match=ERROR) as ended, files_of_at_most(before + size):
        with hdf5_file(path, mode) as file:
            for number in range(40):
                file.require_group(f"g{number}")["data"] = np.arange(300.0)
                assert file[f"g{number}/data"].attrs is not None
    assert ended.value.filename == str(path)
    with hdf5_file(path, "w") as file:  # libhdf5 still works
        file["data"] = np.arange(9)
    with h5py.File(path) as file:
        assert file["data"][8] == 8


def test_errors_of_the_code_that_writes_are_kept(tmp_path: Path) -> None:
    """Catches an error that is hidden where the disk is not full."""
    with pytest.raises(ZeroDivisionError), hdf5_file(tmp_path / "file.h5", "w") as file:
        file["data"] = 1 // 0


def test_a_small_file_that_fills_the_disk(tmp_path: Path) -> None:
    """Catches half a file under its name, half a line, and an error that names no file."""
    path = tmp_path / "text"
    path.write_text("before\n")
    with files_of_at_most(LEAST):
        with pytest.raises(OSError, match=f"{ERROR}: '{path}'"):
            with replacing(path) as part:
                part.write_text("x" * (LEAST + 1))
        with path.open("ab") as file, pytest.raises(OSError, match=f"{ERROR}: '{path}'"):
            append_line(path, file.fileno(), b"x" * LEAST)
    assert path.read_text() == "before\n" and os.listdir(tmp_path) == ["text"]


# What is written in the end: the file that is named, and the largest size of a file.
RESULTS = {
    "run echo --preset tiny --json {to}": 100,
    "adversary echo --schedules 3 --jobs 1 --json {to}": 100,
    "new advect --folder {to}s": 100,
}
OF_COMM = {
    "comm latency --json {to}": 100,
    "comm latency --csv {to}": 30,
    "comm latency --figure {to}.png": 1000,
    "comm latency --compare buffer --json {to}": 100,
}


@pytest.mark.parametrize("line", RESULTS)
def test_a_result_that_fills_the_disk(line: str, tmp_path: Path) -> None:
    """Catches a good file that is replaced by a part of the new one, and a status of success."""
    check_result(line, RESULTS[line], tmp_path)


def test_a_record_that_fills_the_disk(tmp_path: Path) -> None:
    """Catches a run whose result is lost, because the file for its record cannot be written."""
    with files_of_at_most(100):
        done = support.in_process("run", "echo", "--preset", "tiny", "--json", tmp_path / "r")
    assert done.returncode == 3 and "  state " in done.stdout
    assert f"--json {tmp_path / 'r'} cannot be written: {ERROR}" in done.stderr


@pytest.mark.slow
@pytest.mark.launch
def test_results_of_benchmarks_that_fill_the_disk(tmp_path, monkeypatch):
    """Catches the same in the results of one launch."""
    made = support.in_process(*"comm latency -m 1:8 -i 2 -x 1 --trials 2 --json -".split()).stdout
    monkeypatch.setattr(launch, "launch", lambda *_: json.loads(made))
    for number, (line, size) in enumerate(OF_COMM.items()):
        (tmp_path / str(number)).mkdir()
        check_result(line, size, tmp_path / str(number))


def check_result(line: str, size: int, tmp_path: Path) -> None:
    """Require that a command says in one line that the disk is full, and leaves the old file."""
    to = tmp_path / "result"
    to.write_text("good")
    with files_of_at_most(size):
        done = support.in_process(*line.format(to=to).split())
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr
    assert ERROR in done.stderr and str(to) in done.stderr
    assert to.read_text() == "good"
    assert [path for path in tmp_path.iterdir() if path.is_file()] == [to]


@pytest.mark.parametrize("size", [300, 700])
def test_a_campaign_that_fills_the_disk(size: int, tmp_path: Path) -> None:
    """Catches half a line, by which the study could not be continued."""
    path = tmp_path / "c.jsonl"
    line = "study strong echo --preset tiny --pes 1 --drivers serial --trials 1 --campaign"
    with files_of_at_most(size):
        done = support.in_process(*line.split(), path)
    assert done.returncode == 3 and f"{ERROR}: '{path}'" in done.stderr
    assert all(json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.parametrize("size", [100, 4000])
def test_a_lesson_that_fills_the_disk(size, tmp_path, monkeypatch):
    """Catches a page that is cut off, and is not written again."""
    monkeypatch.chdir(tmp_path)
    with files_of_at_most(size):
        done = support.in_process("lesson", "start", "ring")
    assert done.returncode == 3 and ERROR in done.stderr and not Path("ring.py").exists()
    assert support.in_process("lesson", "start", "ring").returncode == 0
    page = (support.ROOT / "lessons/ring/page.md").read_text()
    assert Path("ring.md").read_text() == page and len(os.listdir()) == 3


PLOTS = "plot {run} --figure {to}.png", "plot {run} --paraview", "plot {run} --animation"


@pytest.mark.slow
@pytest.mark.parametrize("line", [*PLOTS, "study export {campaign} --format csv --to {to}"])
def test_what_is_made_of_results_fills_the_disk(line: str, tmp_path: Path) -> None:
    """Catches a table or a figure that is cut off and keeps its name."""
    run = tmp_path / "run.h5"
    run.write_bytes((support.ROOT / "tests/data/schema-1.h5").read_bytes())
    campaign = support.ROOT / "docs/results/jacobi2d-weak.jsonl"
    words = line.format(run=run, campaign=campaign, to=tmp_path / "to").split()
    with files_of_at_most(1 << 10):
        done = support.in_process(*words)
    assert done.returncode in (2, 3) and done.stderr.count("\n") == 1, done.stderr
    assert ERROR in done.stderr and str(tmp_path) in done.stderr
    assert os.listdir(tmp_path) == ["run.h5"]
