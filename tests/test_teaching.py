"""The programs of docs/teaching: right to the last bit, and a wrong halo in them shows.

They know nothing of this project, so each is a reference for the other: they and jacobi2d.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import support

from miniapps.jacobi2d import Problem, reference

FOLDER = support.ROOT / "docs" / "teaching"
PAGE = FOLDER / "two-programs.md"
SIZE, STEPS = (37, 29), 25  # uneven over 2 and 3 blocks; the heat of both sides mixes
MPI = [(ranks, []) for ranks in (1, 2, 3, 4)]
CHARM = [
    (1, [1, 1, 0]),
    (2, [4, 3, 0]),
    (2, [4, 3, 15, "+balancer", "RotateLB"]),  # balances once: every chare moves to the other PE
    (2, [3, 5, 4, "+balancer", "GreedyLB"]),
]
RIGHT_FACE, WRONG_FACE = "(-1, 0): (1, OWN)", "(-1, 0): (-2, OWN)"


def run_mpi(program: Path, pes: int, more: list[object], folder: Path) -> str:
    """Run the mpi4py program; returns what it printed."""
    command = [support.BIN / "mpiexec", "-n", pes, sys.executable, program, *SIZE, STEPS, folder]
    return finished([*command, *more])


def run_charm(program: Path, pes: int, more: list[object], folder: Path) -> str:
    """Run the Charm4Py program; ``more``: grid of chares, period, options of the runtime."""
    command = [sys.executable, "-m", "charmrun.start", f"+p{pes}", program, *SIZE, STEPS, *more[:3]]
    return finished([*command, folder, *more[3:]])


def finished(command: list[object]) -> str:
    """Run a command that must end well within a minute; returns what it printed."""
    done = support.execute(command, check=True)
    return done.stdout


def whole(folder: Path) -> np.ndarray:
    """The field, from the blocks that a program saved."""
    field = np.full(SIZE, np.nan)
    for path in folder.glob("*.npy"):
        x, y = map(int, path.stem.split("_"))
        block = np.load(path)
        assert np.isnan(field[x : x + block.shape[0], y : y + block.shape[1]]).all(), "overlap"
        field[x : x + block.shape[0], y : y + block.shape[1]] = block
    return field


def expected() -> np.ndarray:
    """The field as the project's reference has it."""
    return reference(Problem(size=SIZE), STEPS)


def last_line(output: str) -> str:
    """The line with the result."""
    return re.findall(r"largest change.*", output)[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "more"), MPI)
def test_mpi4py_program(tmp_path: Path, ranks: int, more: list[object]) -> None:
    """Catches a wrong halo, sweep, boundary or uneven split; and N runs of one rank each."""
    output = run_mpi(FOLDER / "jacobi2d_mpi4py.py", ranks, more, tmp_path)
    assert f"{ranks} rank(s)" in output and output.count("rank(s)") == 1
    assert support.same_bits(whole(tmp_path), expected())
    assert len(list(tmp_path.glob("*.npy"))) == ranks


@pytest.mark.parametrize(("pes", "more"), CHARM)
def test_charm4py_program(tmp_path: Path, pes: int, more: list[object]) -> None:
    """Catches the same, and state that is lost or halos that are overtaken in a migration."""
    output = run_charm(FOLDER / "jacobi2d_charm4py.py", pes, more, tmp_path)
    assert f"{pes} PE(s)" in output
    assert support.same_bits(whole(tmp_path), expected())
    assert len(list(tmp_path.glob("*.npy"))) == more[0] * more[1]
    moved = int(re.findall(r"(\d+) ended on another PE", output)[0])
    assert moved == more[0] * more[1] if "RotateLB" in more else moved == 0 or more[2]


@pytest.mark.slow
def test_programs_print_the_same(tmp_path: Path) -> None:
    """Catches a checksum or a largest change that depends on the decomposition."""
    lines = {last_line(run_mpi(FOLDER / "jacobi2d_mpi4py.py", n, [], tmp_path)) for n in (1, 3)}
    charm = run_charm(FOLDER / "jacobi2d_charm4py.py", 2, [2, 2, 0], tmp_path)
    assert lines == {last_line(charm)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jacobi2d_mpi4py.py", "jacobi2d_charm4py.py"])
def test_comparison_can_fail(tmp_path: Path, name: str) -> None:
    """Catches a comparison that accepts anything: one face is taken from the wrong side."""
    source = (FOLDER / name).read_text()
    assert source.count(RIGHT_FACE) == 1
    program = tmp_path / name
    program.write_text(source.replace(RIGHT_FACE, WRONG_FACE))
    output = (
        run_mpi(program, 3, [], tmp_path)
        if "mpi4py" in name
        else run_charm(program, 2, [3, 2, 0], tmp_path)
    )
    field = whole(tmp_path)
    assert np.isfinite(field).all() and not support.same_bits(field, expected())
    right = run_mpi(FOLDER / "jacobi2d_mpi4py.py", 1, [], tmp_path)
    assert last_line(output) != last_line(right)


def test_programs_stand_alone() -> None:
    """Catches teaching programs that lean on this project, or grow beyond a page or two."""
    for path in FOLDER.glob("jacobi2d_*.py"):
        source = path.read_text()
        imported = set(re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE))
        assert imported <= {"sys", "numpy", "mpi4py", "charm4py"}
        assert len(source.splitlines()) <= 115


def test_page_points_at_the_right_lines() -> None:
    """Catches links of the page to lines that have moved."""
    links = re.findall(r"\[`([^`]+)`\]\((\w+\.py)#L(\d+)\)", PAGE.read_text())
    assert len(links) > 10
    for text, name, line in links:
        assert text in (FOLDER / name).read_text().splitlines()[int(line) - 1], (text, name, line)
