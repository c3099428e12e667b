"""What the check says is wrong: a known mistake, the nearest one, or what is not filled in yet."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from lesson_names import looked_up
from lesson_table import RUNTIMES, ending

from miniapps import lessons
from miniapps.lessons.checking import check, command, naming
from miniapps.lessons.checking.check import Outcome
from miniapps.lessons.checking.naming import NEAREST, UNFILLED, Named
from miniapps.lessons.checking.running import Returned
from miniapps.lessons.checking.unfilled import unfilled
from miniapps.lessons.lesson import Traffic
from miniapps.workbench import cli
from miniapps.workbench.exit_status import WRONG

COLLECT = """from mpi4py import MPI
import numpy as np
def collect(comm, mine):
    found, travelling = np.{made}((comm.size, len(mine))), mine
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    found[comm.rank] = mine
    for turn in range(1, comm.size):
        came = np.empty_like(mine)
        comm.Sendrecv(travelling, right, recvbuf=came, source=left)
        found[{place}] = came{more}
    return {result}
"""
RIGHT = {
    "made": "empty",
    "place": "(comm.rank - turn) % comm.size",
    "more": "\n        travelling = came",
    "result": "found",
}
TWICE = "\n    comm.send(0, right); comm.recv(source=left)"  # one message too many
ALL = """from mpi4py import MPI
import numpy as np
def total(comm, mine):
    parts = comm.allgather(mine.tolist())
    units = [round(number * 2.0**40) for part in parts for number in part]
    return np.array([sum(units) * 2.0**-40])
"""
NAMED = {  # by lesson: programs for mpi4py, the mistake that is named, and whether it is all
    "ring": [
        (COLLECT.format(**RIGHT), None, False),
        (COLLECT.format(**RIGHT | {"result": "np.zeros_like(found)"}), None, False),
        (COLLECT.format(**RIGHT | {"more": ""}), "not_forwarded", True),
        (  # the mistake is made with short arrays only
            COLLECT.format(**RIGHT | {"more": "\n        if len(mine) > 9: travelling = came"}),
            "not_forwarded",
            False,
        ),
        (  # a second mistake, which changes no result
            COLLECT.format(**RIGHT | {"place": "(comm.rank + turn) % comm.size"}).replace(
                "\n    return", f"{TWICE}\n    return"
            ),
            "wrong_owner",
            False,
        ),
    ],
    "sum": [(ALL, "gathers_all", False)],  # the same by other calls, with another number of bytes
}
NEVER_STARTS = """from charm4py import Chare
class Member(Chare):
    def prepare(self, size, mine, done):
        self.size = size
    def start(self):
        pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_the_nearest_mistake_is_named(name: str, tmp_path: Path, monkeypatch) -> None:
    """Catches a program without a name, one that is named for sure, and a right one with a name."""
    lesson = lessons.load(name)
    programs = [tmp_path / f"{number}.py" for number in range(len(NAMED[name]))]
    for program, (text, *_) in zip(programs, NAMED[name], strict=True):
        program.write_text(text)
    cases = lesson.cases(3, command.PUBLIC_SEED)
    known = [mistake.path for mistake in ending(lesson, "mpi4py")]
    run = looked_up(lesson, "mpi4py", [*programs, *known], cases)
    monkeypatch.setattr(check, "outcomes", partial(check.outcomes, run=run))
    for program, (_, stem, exact) in zip(programs, NAMED[name], strict=True):
        (outcomes,) = check.outcomes(lesson, "mpi4py", [program], cases)
        found = naming.recognised(lesson, "mpi4py", outcomes)
        title = found.mistake.path.stem if found else None
        assert title == (stem and f"mpi4py_{stem}"), program.read_text()
        if found:
            said = naming.explanation(lesson, "mpi4py", program, outcomes)
            assert found.exact == said.sure == exact and found.mistake.words in said.words
            assert said.words.startswith(NEAREST) != exact


def test_what_stops_is_near_with_other_numbers_of_chares(tmp_path: Path) -> None:
    """Catches a program that stops on more chares than the known mistake, and has no name."""
    lesson, program = lessons.load("ring"), tmp_path / "ring.py"
    program.write_text(NEVER_STARTS)
    (case, _) = lesson.cases(3, command.PUBLIC_SEED)
    ((outcome,),) = check.outcomes(lesson, "charm4py", [program], [case])
    assert outcome.stops == "stuck 0, 0, 0"
    (mistake,) = (m for m in lesson.mistakes("charm4py") if m.path.stem.endswith("never_starts"))
    assert naming.recognised(lesson, "charm4py", [outcome]) == Named(mistake, exact=False)


def test_of_near_mistakes_the_one_that_agrees_most_often_is_named(monkeypatch) -> None:
    """Catches the first of several, and an order that depends on how mistakes are called."""
    lesson = lessons.load("ring")
    one, two = lesson.mistakes("mpi4py")[:2]
    cases = [lesson.cases(count, 1)[0] for count in (2, 3, 4)]
    agree = {one.path: 1, two.path: 2}  # in how many cases

    def outcomes(lesson, runtime, programs, wanted):
        same = {path: cases[: agree.get(path, 0)] for path in programs}
        return [
            [Outcome(case, b"same" if case in same[path] else b"", reason="!") for case in wanted]
            for path in programs
        ]

    monkeypatch.setattr(check, "outcomes", outcomes)
    monkeypatch.setattr(type(one), "stops", "")
    known = [Outcome(case, b"same", reason="!") for case in cases]
    assert naming.recognised(lesson, "mpi4py", known) == Named(two, exact=False)
    agree[one.path] = 3
    assert naming.recognised(lesson, "mpi4py", known) == Named(one, exact=True)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runtime"), RUNTIMES)
def test_a_skeleton_is_named_as_such(name: str, runtime: str) -> None:
    """Catches a skeleton without a name, also without its comments, and a program taken for one."""
    lesson = lessons.load(name)
    skeleton = lesson.skeleton(runtime)
    bare = re.sub(r"(?m)^( *)# TODO.*", r"\1pass", skeleton).encode()
    answer = lesson.answer(runtime).read_text()
    for text in (skeleton.encode(), bare):
        assert unfilled(text, skeleton).all
    said = naming.explanation(lesson, runtime, lesson.folder / f"for_{runtime}.py", [])
    assert said.sure and said.words.startswith(f"{UNFILLED}: ")
    for number in re.findall(r"# TODO (\d+)", skeleton):
        assert re.search(rf"\([^)]*\b{number}\b[^)]*\)", said.words), number
    left = unfilled(f"{skeleton}\n{answer}".encode(), skeleton)
    assert not left.all and set(left.parts) <= {"test_push (TODO 1)"}


def test_parts_that_are_not_filled_in_are_named(tmp_path: Path) -> None:
    """Catches parts of a begun program that nobody hears of, and a mistake that hides them."""
    lesson, program = lessons.load("halo"), tmp_path / "halo.py"
    skeleton = lesson.skeleton("mpi4py")
    program.write_text(skeleton.replace("# TODO 3: which line is missing here?", "pass; n = 1"))
    assert unfilled(program.read_bytes(), skeleton) == (["exchange (TODO 1, 2)"], False)
    (mistake, *_) = lesson.mistakes("mpi4py")
    for exact in (False, True):
        found = Named(mistake, exact)
        with mock.patch.object(naming, "recognised", return_value=found):
            said = naming.explanation(lesson, "mpi4py", program, []).words
        assert (UNFILLED in said, NEAREST in said) == (not exact, not exact)
        assert mistake.words in said


def test_chares_and_blocks_are_no_processes(tmp_path: Path, monkeypatch, capsys) -> None:
    """Catches a check that counts chares, or blocks, and calls them processes."""
    counts = {
        ("ring", "charm4py"): "4 chares on 2 PEs",
        ("overdecomposition", "charm4py"): "12 chares on 2 PEs",
        ("balancing", "charm4py"): "9 chares on 3 PEs",
        ("halo", "block"): "4 blocks",
        ("halo", "mpi4py"): "4 processes",
    }
    for (name, runtime), words in counts.items():
        lesson = lessons.load(name)
        case = lesson.cases_for(runtime, 4, command.PUBLIC_SEED)[0]
        assert check.parts(lesson, runtime, case) == words
    program = tmp_path / "ring.py"
    program.write_text(NEVER_STARTS)

    def ended(tasks):
        sent = tuple(Traffic(received=1, part="chare") for _ in range(tasks[0].case.parts))
        return [Returned(("str",) * len(sent), (None,) * len(sent), sent)] * len(tasks)

    monkeypatch.setattr(check.outcomes, "__defaults__", (ended,))
    assert cli.main(["lesson", "check", str(program)]) == WRONG
    said = capsys.readouterr().out
    assert "FAIL  1 chare on 1 PE, arrays of 3 numbers" in said
    assert "chare 0 returned an object of type str" in said and "process" not in said
