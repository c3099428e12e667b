"""The lesson kernel: what Numba's simulator notes of kernels, and what is missing without it."""

from __future__ import annotations

import ast
from pathlib import Path

import gpu_budget
import pytest
import skips
import support

from miniapps import lessons
from miniapps.lessons.checking import apart, check, command, rules, submissions
from miniapps.lessons.checking.mark import mark
from miniapps.lessons.checking.submissions import Submission
from miniapps.lessons.lesson import load_program

LESSON = lessons.load("kernel")
ANSWER = LESSON.answer("numba")
ANOTHER_STYLE = """
from numba import cuda, float64
SHAPE = 6, 18

@cuda.jit(device=True)
def mean(cells, i, j):
    beside = cells[i - 1, j] + cells[i + 1, j] + cells[i, j - 1] + cells[i, j + 1]
    return 0.2 * (cells[i, j] + beside)

@cuda.jit
def strides(old, new):
    first_j, first_i = cuda.grid(2)
    step_j, step_i = cuda.gridsize(2)
    for i in range(first_i, old.shape[0], step_i):
        row = new[i]
        for j in range(first_j, old.shape[1], step_j):
            edge = i in (0, old.shape[0] - 1) or j in (0, old.shape[1] - 1)
            row[j] = old[i, j] if edge else mean(old, i, j)

@cuda.jit
def tile_by_number(old, new):
    tile = cuda.shared.array(SHAPE, dtype=float64)
    top, left = cuda.blockIdx.y * 4, cuda.blockIdx.x * 16
    me = cuda.threadIdx.y * 16 + cuda.threadIdx.x
    for k in range(me, 6 * 18, 64):
        i, j = top + k // 18, left + k % 18
        if i < old.shape[0] and j < old.shape[1]:
            tile[k // 18, k % 18] = old[i, j]
    tile[0, 0] = 0.0  # by all threads, and the same: no race
    cuda.syncthreads()
    i, j = cuda.threadIdx.y + 1, cuda.threadIdx.x + 1
    if top + i < old.shape[0] - 1 and left + j < old.shape[1] - 1:
        new[top + i, left + j] = mean(tile, i, j)
    cuda.syncthreads()

def advance(field, steps, tiled):
    old = cuda.to_device(field)
    new = cuda.device_array_like(old)
    new.copy_to_device(old)
    rows, columns = field.shape
    for _ in range(steps):
        if tiled:
            tile_by_number[(-(-(columns - 2) // 16), -(-(rows - 2) // 4)), (16, 4)](old, new)
        else:
            strides[(1, 2), (16, 4)](old, new)
        old, new = new, old
    result = old.copy_to_host()
    return result[1:-1, 1:-1]
"""
WRITTEN = {  # programs, and what is said about them
    ANOTHER_STYLE: "",
    ANOTHER_STYLE.replace("(1, 2), (16, 4)", "(1, 0), (16, 4)"): "so none",
    ANOTHER_STYLE.replace("(1, 2), (16, 4)", "(1, 2), (64, 4)"): "more than 128",
    ANOTHER_STYLE.replace("(1, 2), (16, 4)", "(1, 8), (16, 1)"): "blocks have (16, 1) threads",
    ANOTHER_STYLE.replace("SHAPE, ", "(60, 180), "): "have 86400 bytes, more than 49152",
    ANOTHER_STYLE.replace("row[j] =", "row[:] ="): "sets several cells at once",
    ANOTHER_STYLE.replace("= 0.0  # by all", "= me  # by all"): "writes another value",
    ANOTHER_STYLE.replace("    cuda.syncthreads()\n\n", "    if me < 60: cuda.syncthreads()\n"): (
        "thread (12, 3) of block (0, 0) has ended"
    ),
    "import numpy as np\n"
    "def advance(f, steps, tiled):\n"
    "    for _ in range(steps):\n"
    "        around = f[:-2, 1:-1] + f[2:, 1:-1] + f[1:-1, :-2] + f[1:-1, 2:]\n"
    "        f[1:-1, 1:-1] = 0.2 * (f[1:-1, 1:-1] + around)\n"
    "    return f[1:-1, 1:-1].copy()\n": "kernels stored 0 cells",
}


@pytest.mark.slow
def test_what_kernels_must_not_do(tmp_path: Path) -> None:
    """Catches a simulator that lets a wrong kernel pass, and one that refuses a right one.

    What it says of known mistakes is in test_lessons.py.
    """
    programs = [tmp_path / f"{number}.py" for number in range(len(WRITTEN))]
    for program, text in zip(programs, WRITTEN, strict=True):
        program.write_text(text)
    cases = LESSON.cases(1, command.PUBLIC_SEED)
    ends = check.outcomes(LESSON, "numba", programs, cases)
    for said, found in zip(WRITTEN.values(), ends, strict=True):
        reasons = [outcome.reason for outcome in found if outcome.reason]
        assert said in reasons[0] if said else not reasons, (said, reasons[:1])


@pytest.mark.slow
def test_marks_apart_from_others() -> None:
    """Catches limits on processes and memory under which no kernel runs."""
    isolated = apart.Apart((), not apart.obstacle(()))
    marked = mark(Submission("ada", "kernel", ANSWER, "numba"), "salt", isolated.run)
    assert marked.points == 10 and not marked.reasons


@pytest.mark.slow
def test_the_answer_is_made_for_a_gpu() -> None:
    """Catches kernels that only the simulator accepts, and rounding that differs on a GPU."""
    skips.without("compile")
    from miniapps.devices.cuda.compiler import Kernel

    program = load_program(ANSWER)
    for kernel in (program.sweep, program.sweep_tile):
        made = Kernel(kernel.py_func, (), {})
        code = gpu_budget.compiled(made, "void(float64[:, ::1], float64[:, ::1])")
        assert gpu_budget.contractions(code) == [] and code.cost["stack_bytes"] == 0


@pytest.mark.parametrize("act", ["start", "check", "mark"])
def test_what_is_missing_is_named(act: str, tmp_path, monkeypatch, refused) -> None:
    """Catches a traceback, or marks of 0, where numba-cuda is not installed."""
    monkeypatch.setattr(submissions, "importable", lambda name: name != "numba_cuda")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class" / "ada").mkdir(parents=True)
    program = tmp_path / "class" / "ada" / "kernel.py"
    program.write_text(ANSWER.read_text())
    words = {"start": ["kernel"], "check": [program], "mark": ["class", "--salt", "s"]}[act]
    assert "pip install 'numba-cuda" in refused("lesson", act, *words)


@pytest.mark.parametrize(
    ("shape", "what"),
    [
        ("SHAPE", ""),
        ("shape=(SHAPE[0], 18)", ""),
        ("old.shape", "old.shape"),
        ("(6, cuda.blockDim.x + 2)", "cuda.blockDim.x"),
        ("shape=(6, left)", "left"),
    ],
)
def test_the_shape_of_a_shared_array_is_a_constant(shape: str, what: str) -> None:
    """Catches a kernel that the simulator runs, and no compiler takes."""
    found = rules.breach(ast.parse(ANOTHER_STYLE.replace("array(SHAPE", f"array({shape}")), LESSON)
    said = f"line 22: uses {what}; the shape of a shared array must be a constant"
    assert found == said * bool(what)


@pytest.mark.parametrize("page", ["lessons/handout/README.md", "docs/teaching/lessons.md"])
def test_the_versions_that_can_be_used_are_named(page: str) -> None:
    """Catches a command that installs a later version."""
    assert f"pip install '{submissions.NUMBA_CUDA}'" in (support.ROOT / page).read_text()


def test_numba_is_for_this_lesson_only(tmp_path, refused) -> None:
    """Catches a program for another lesson that may import what this one offers, or only a part."""
    text = "import numba.cuda\nfrom numba import cuda, int32, types\n"
    assert not rules.breach(ast.parse(text), LESSON)
    program = tmp_path / "ring.py"
    program.write_text("from mpi4py import MPI\nfrom numba import cuda\n")
    assert "imports numba.cuda" in refused("lesson", "check", program)
    program.write_text("from numba import cuda\n")
    assert "imports numba; the lesson is for mpi4py" in refused("lesson", "check", program)
