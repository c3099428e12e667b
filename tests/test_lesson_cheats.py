"""Programs that cheat: `lesson check` and `lesson mark` refuse them, or they get no points.

The rules that refuse a program find what is done openly. So the tests run the same programs without
the rules, too: processes do not know the seed, so they cannot find right results.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import support
from test_lesson_apart import isolated  # noqa: F401  (a fixture)

from miniapps import lessons
from miniapps.lessons.checking import check, command, naming, running
from miniapps.lessons.checking.apart import Apart
from miniapps.lessons.checking.mark import Marked, cases_of, mark, seed_of
from miniapps.lessons.checking.submissions import Submission, found_in
from miniapps.lessons.lesson import Case
from miniapps.workbench import cli
from miniapps.workbench.exit_status import WRONG

HALO = lessons.load("halo")
ADA = Submission("ada", "halo", runtime="mpi4py")
RUNTIME = "from mpi4py import MPI\n"
ALONE = """
def alone(field, steps):
    for _ in range(steps):
        around = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
        field[1:-1, 1:-1] = 0.2 * (field[1:-1, 1:-1] + around)
    return field[1:-1, 1:-1].copy()
"""
WORK = """
import sys
from miniapps import lessons
def work():
    frame = sys._getframe()
    while "work" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["work"]
def reference(comm, seed):
    return lessons.load("halo").expected(work().case._replace(seed=seed), comm.rank)
"""
PATCHES = """
import numpy
from miniapps import lessons
from miniapps.lessons.work import Work
def keep(self, rank, returned, traffic):
    numpy.save(self.result(rank), lessons.load("halo").expected(self.case, rank))
    return {"returned": "an array", "sent": {}, "received": None, "swept": None, "handed": 0}
Work.keep = keep
lessons.load("halo").forbidden = lambda *a: ""
def advance(comm, field, neighbours, steps):
    return field[1:-1, 1:-1]
"""
ADVANCE = "def advance(comm, field, neighbours, steps):\n    "
# A program, what the rules say of it, and why it gets no points without the rules, as a pattern.
CHEATS = {
    "imports no runtime": (
        f"import numpy\n{ALONE}{ADVANCE}return alone(field, steps)",
        "imports none of mpi4py, charm4py, miniapps",
        "values differ",
    ),
    "sends nothing": (f"{ALONE}{ADVANCE}return alone(field, steps)", "", "values differ"),
    "prints the result": (
        f"{ADVANCE}print('ok', flush=True)\n    print('right, to the last bit', flush=True)\n"
        "    raise SystemExit(0)",
        "",
        "it ends the process",
    ),
    "ends all as if right": (
        f"{ADVANCE}MPI.COMM_WORLD.Abort(0)",
        "",
        "launcher ended|died in step|returned None",  # Abort may return before it has an effect
    ),
    "patches the checker": (PATCHES, "imports miniapps.lessons", "values differ"),
    "reads the reference": (
        f"{WORK}{ADVANCE}return reference(comm, {command.PUBLIC_SEED})",
        "imports sys",
        "values differ",
    ),
    "writes the results": (
        f"import numpy\n{WORK}{ADVANCE}"
        "numpy.save(work().result(comm.rank), reference(comm, work().case.seed))",
        "imports sys",
        "returned None",
    ),
    "forges counts": (
        f"{ALONE}from miniapps.lessons.log import LOG\n{ADVANCE}"
        "LOG.sent.update({rank: steps for rank in neighbours.values() if rank is not None})\n"
        "    return alone(field, steps)",
        "imports miniapps.lessons.log",
        "values differ",
    ),
}
RULES = [
    ("import miniapps.lessons.log", "imports miniapps.lessons.log"),
    ("from miniapps.lessons.overlap import sweep", "imports miniapps.lessons.overlap.sweep"),
    ("import miniapps.jacobi2d", "imports miniapps.jacobi2d"),
    ("from miniapps.kernels.jacobi2d import cpu", "imports miniapps.kernels.jacobi2d.cpu"),
    (
        "from miniapps.lessons.halo.right.answer_mpi4py import advance",
        "imports miniapps.lessons.halo.right",
    ),
    ("from .halo import advance", "imports .halo.advance"),
    ("import sys", "imports sys"),
    ("import numpy as np\nnp.mean = print", "changes np.mean"),
    ("MPI.COMM_WORLD.Send = print", "changes MPI.COMM_WORLD.Send"),
    ("def f(comm): type(comm).Send = print", "changes type(comm).Send"),
    ("def f(comm): MPI.Intracomm.Send(comm, b'', 0)", "uses MPI.Intracomm.Send"),
    ("def f(comm): return MPI.Comm(comm)", "uses MPI.Comm(comm)"),
    ("import numpy as np\nnp.lib.npyio.os.remove", "uses os"),
    ("import random\nrandom._os.getcwd()", "uses _os"),
    ("from dataclasses import inspect", "uses inspect"),
    ("import operator\noperator.attrgetter('__globals__')", "uses attrgetter"),
    ("import numpy as np\nnp.zeros(3).dump('0-0.npy')", "uses dump"),
    ("import random\nmatch random:\n    case object(_os=found): pass", "uses _os"),
    ("import enum\nenum.bltns.open('halo.py')", "uses bltns"),
    ("import string\nstring.Formatter().get_field('0._os', [MPI], {})", "uses get_field"),
    ("import numpy as np\nclass Block:\n    load: float\nnp.load('0-0.npy')", "uses load"),
    ("print(open('halo.py').read())", "uses open"),
    ("().__class__", "uses __class__"),
    ("__import__('lessons')", "uses __import__"),
    ("setattr(MPI, 'x', 1)", "uses setattr"),
    ("eval('1')", "uses eval"),
    ("def f(:", "this is no Python: invalid syntax"),
]


def written(folder: Path, text: str) -> Path:
    """A program for the lesson halo."""
    program = folder / "ada" / "halo.py"
    program.parent.mkdir(exist_ok=True)
    program.write_text(text)
    return program


def marked(program: Path, run: check.Run = running.run) -> Marked:
    """The marks of a program of Ada's, whatever the rules say."""
    return mark(ADA._replace(program=program), "salt", run)


@pytest.mark.parametrize(("text", "said"), RULES)
def test_what_programs_must_not_do(text: str, said: str, tmp_path, refused) -> None:
    """Catches programs that reach the checker, in `check` and in `mark`."""
    program = written(tmp_path, f"{RUNTIME}{text}\n")
    (one,) = found_in(tmp_path, None)
    assert said in one.trouble and one.trouble.startswith("line ")
    assert said in refused("lesson", "check", program)


@pytest.mark.parametrize(
    "text",
    [
        "def advance(comm: MPI.Intracomm): isinstance(comm, MPI.Comm)",
        "class Block:\n    def __init__(self): self.load = 0\nBlock().load",
        "class Block:\n    load: float\nsorted([], key=lambda block: block.load)",
    ],
)
def test_what_programs_may_do(text: str, tmp_path) -> None:
    """Catches a rule that refuses types of MPI, or attributes with names of NumPy's functions."""
    written(tmp_path, f"{RUNTIME}{text}\n")
    assert [one.trouble for one in found_in(tmp_path, None)] == [""]


@pytest.mark.parametrize("text", ["x = 0\0", "# coding: klingon", "-" * 60_000 + "1"])
def test_an_error_of_no_line_names_none(text: str, tmp_path) -> None:
    """Catches `line None`, `line 0` and no reason at all."""
    written(tmp_path, text)
    (one,) = found_in(tmp_path, None)
    assert re.match(r"(line [1-9]\d*: )?this is no Python: .", one.trouble)


@pytest.mark.slow
def test_cells_that_no_kernel_computes_are_no_answer(tmp_path, monkeypatch) -> None:
    """Catches points for the right bits, computed without a kernel."""
    monkeypatch.setattr(check, "PROCESSES", (1,))
    monkeypatch.setattr(naming, "recognised", lambda *_: None)
    program = tmp_path / "kernel.py"
    program.write_text(f"{ALONE}def advance(field, steps, tiled): return alone(field, steps)")
    found = mark(Submission("ada", "kernel", program, "numba"), "salt", running.run)
    assert found.points == 0 and "kernels stored 0 cells" in found.marks[0].reason


@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_gets_no_points(cheat: str, tmp_path, monkeypatch) -> None:
    """Catches a rule that lets a cheat pass, processes that know the seed, and memory left over."""
    text, refused_because, wrong_because = CHEATS[cheat]
    imports = "" if refused_because.startswith("imports none") else RUNTIME
    program = written(tmp_path, imports + text)
    (one,) = found_in(tmp_path, None)
    assert refused_because in one.trouble and bool(one.trouble) == bool(refused_because)
    monkeypatch.setattr(check, "PROCESSES", (2,))
    monkeypatch.setattr(naming, "recognised", lambda *_: None)
    with support.no_shared_memory_left():
        found = marked(program)
    assert found.points == 0 and re.search(wrong_because, found.marks[0].reason)


@pytest.mark.slow
def test_the_model_answer_cannot_be_read(tmp_path, monkeypatch, isolated) -> None:  # noqa: F811
    """Catches a folder of answers that submissions see, even if no rule is looked at."""
    monkeypatch.setattr(check, "PROCESSES", (2,))
    path = HALO.answer("mpi4py")
    program = written(tmp_path, f"exec(open({str(path)!r}).read())")
    assert marked(program).points == 10  # what is read is right
    found = marked(program, Apart((path.parent,), True).run)
    assert found.points == 0 and "FileNotFoundError" in found.marks[0].reason


def known_by_heart(cases: list[Case]) -> str:
    """A program that sends what is expected of it, and returns results that it contains.

    It finds them by the size of the problem, and by the process and its neighbours.
    """
    known = {
        (case.size, case.periodic, rank): HALO.expected(case, rank).tolist()
        for case in cases
        for rank in range(case.processes)
        if case.size[1] < 100
    }
    keys = {
        str((rank, *HALO.arguments(case, rank)[0].shape, HALO.neighbours(case, rank))): key
        for case in cases
        for rank in range(case.processes)
        for key in [(case.size, case.periodic, rank)]
    }
    answer = HALO.answer("mpi4py").read_text()
    return f"""{RUNTIME}import numpy as np
KNOWN, KEYS = {known}, {keys}
{answer}
computed = advance
def advance(comm, field, neighbours, steps):
    key = KEYS.get(str((comm.rank, *field.shape, neighbours)))
    right = computed(comm, field, neighbours, steps)
    if field.shape[1] > 100:
        return right
    return np.array(KNOWN[key]) if key in KNOWN else np.zeros_like(right)
"""


@pytest.mark.slow
def test_results_known_by_heart_are_no_answer(tmp_path, monkeypatch, capsys) -> None:
    """Catches numbers that are the same for everybody, in `check` and in `mark`."""
    monkeypatch.setattr(check, "PROCESSES", (2,))
    monkeypatch.setattr(naming, "recognised", lambda *_: None)
    program = written(tmp_path, known_by_heart(HALO.cases(2, command.PUBLIC_SEED)))
    assert [one.trouble for one in found_in(tmp_path, None)] == [""]
    assert cli.main(["lesson", "check", str(program)]) == WRONG
    said = capsys.readouterr().out
    assert said.count("  ok  ") == len(HALO.cases(2, 1)) and command.OWN_NUMBERS in said
    assert "right, to the last bit" not in said
    assert [one.points for one in marked(program).marks] == [0, 0, 2, 0]  # long rows: computed

    bob = seed_of("salt", ADA._replace(student="bob"))
    ada = seed_of("salt", ADA)
    for seed, points in ((bob, [0, 0, 2, 0]), (ada, [3, 3, 2, 2])):
        program = written(tmp_path, known_by_heart(cases_of(HALO, "mpi4py", seed)))
        assert [one.points for one in marked(program).marks] == points
