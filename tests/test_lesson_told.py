"""What learners are told about wrong programs that are not among the known ones: it must be true.

All programs run in all cases on one and two processes first, in few launches; the check then looks
the outcomes up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import support
from lesson_table import ending

import lessons
from lessons.lesson import Case, Lesson
from workbench.lesson import check, command, naming, running
from workbench.lesson.naming import NEAREST

COUNTS = 1, 2  # processes
EXCHANGE, RETURN = (
    "        exchange(comm, field, neighbours)\n",
    "    return field[1:-1, 1:-1].copy()",
)
FOUND = "        everything[(comm.rank - turn) % comm.size] = came\n"
ROUNDED = "np.rint(mine / UNIT).astype(np.int64).sum()"
MINE = "    everything[comm.rank] = mine\n"
SENT = 'field[FIRST["up" if side in ("up", "down") else "left"]].copy()'
# By lesson: changes of the model answer for mpi4py, each with the mistake that must be named, or
# with part of the reason that is given, if it is none of the known ones.
PROGRAMS: dict[str, list[tuple[dict[str, str], str]]] = {
    "halo": [
        ({"field[GHOSTS[side]] = came": "field[GHOSTS[OPPOSITE[side]]] = came"}, "wrong_side"),
        ({"TAGS[OPPOSITE[side]]": "TAGS[side]"}, "own_tag"),
        ({"if rank is not None:": "if rank:"}, "rank_0_skipped"),
        ({"if rank is not None:": "if rank not in (None, comm.rank):"}, "not_with_itself"),
        ({EXCHANGE: "", RETURN: f"{EXCHANGE}{RETURN}"}, "too_late"),
        ({"TAGS[OPPOSITE[side]]": "0", "TAGS[side]": "0"}, "no_tags"),
        ({"field[FIRST[side]].copy()": "field[GHOSTS[side]].copy()"}, "sends_ghosts"),
        ({"0.2 * (field[1:-1, 1:-1] + around)": "0.25 * around"}, "values differ"),
        ({"range(steps)": "range(steps - 1)"}, "values differ"),
        ({"if rank is not None:": 'if rank is not None and side in ("left", "right"):'}, "differ"),
        ({'(1, OWN), "down": (-2, OWN)': '(2, OWN), "down": (-3, OWN)'}, "values differ"),
        ({"field[FIRST[side]].copy()": SENT}, "values differ"),
        ({"0.2 * (field[1:-1, 1:-1] +": "0.5 * field[1:-1, 1:-1] + 0.125 * ("}, "values differ"),
        ({RETURN: "    return field"}, "array of shape"),
        ({RETURN: f"    exchange(comm, field, neighbours)\n{RETURN}"}, "20 are enough"),
    ],
    "sum": [
        (
            {"np.rint(mine / UNIT).astype(np.int64).sum()": "np.rint(mine.sum() / UNIT)"},
            "rounds_the_sum",
        ),
        ({"2.0**-40": "2.0**-30"}, "values differ"),
        ({"everywhere * UNIT": "everywhere / UNIT"}, "values differ"),
        ({"everywhere * UNIT": "2 * everywhere * UNIT"}, "values differ"),
    ],
    "ring": [
        ({MINE: ""}, "never set"),
        ({"range(1, comm.size)": "range(1, comm.size - 1)"}, "never set"),
        ({"range(1, comm.size)": "range(comm.size)"}, "1 messages"),
        ({FOUND: FOUND.replace("- turn", "- turn - 1")}, "values differ"),
    ],
}


def looked_up(programs: Mapping[str, Sequence[tuple[Path, str]]]) -> Callable[..., Any]:
    """`check.outcomes`; all programs of a lesson have run before, in a launch for each count."""
    known: dict[tuple[Path, Case], check.Outcome] = {}
    for count, name in product(COUNTS, programs):
        lesson, paths = lessons.load(name), [path for path, _ in programs[name]]
        cases = lesson.cases_for("mpi4py", count, command.PUBLIC_SEED)
        found = check.outcomes(lesson, "mpi4py", paths, cases)
        known |= {
            (path, one.case): one for path, those in zip(paths, found, strict=True) for one in those
        }

    def outcomes(
        lesson: Lesson, runtime: str, paths: Sequence[Path], cases: Sequence[Case]
    ) -> list[list[check.Outcome]]:
        return [[known[path, case] for case in cases if (path, case) in known] for path in paths]

    return outcomes


def told(lesson: Lesson, program: Path) -> tuple[naming.Explanation, check.Outcome] | None:
    """What `lesson check` says about a program, and its first wrong outcome; None if it passes."""
    known: list[check.Outcome] = []
    for count in COUNTS:
        cases = lesson.cases_for("mpi4py", count, command.PUBLIC_SEED)
        (outcomes,) = check.outcomes(lesson, "mpi4py", [program], cases)
        known += outcomes
        wrong = next((one for one in known if one.reason), None)
        if wrong is not None:
            more = partial(command.in_further_cases, lesson, "mpi4py", program, count)
            return naming.explanation(lesson, "mpi4py", program, known, more), wrong
    return None


def test_what_is_told_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a mistake that is named because it does the same on one process, and another is made.

    Also for every known mistake: of two that do the same at first, the one that was made is named.
    """
    monkeypatch.setattr(running, "STALL_S", 1.0)
    monkeypatch.setattr(check, "PROCESSES", COUNTS)
    cases = {}  # by lesson: programs, each with what must be told
    for name, changed in PROGRAMS.items():
        answer = (support.ROOT / "teaching/answers" / name / "for_mpi4py.py").read_text()
        known = ending(lessons.load(name), "mpi4py")
        cases[name] = [(one.path, one.path.stem.removeprefix("mpi4py_")) for one in known]
        for number, (changes, said) in enumerate(changed):
            text, program = answer, tmp_path / f"{name}_{number}.py"
            for old, new in changes.items():
                assert old in text, old
                text = text.replace(old, new)
            program.write_text(text)
            cases[name].append((program, said))
    monkeypatch.setattr(check, "outcomes", looked_up(cases))
    for name, programs in cases.items():
        lesson = lessons.load(name)
        words = {
            one.path.stem.removeprefix("mpi4py_"): one.words for one in ending(lesson, "mpi4py")
        }
        for program, said in programs:
            found = told(lesson, program)
            if found is None:
                assert program.parent != tmp_path, said  # a mistake that needs more processes
                continue
            explained, wrong = found
            if said in words:
                assert explained == (words[said], True), (program.name, explained.words)
            else:
                assert said in wrong.reason, (program.name, wrong.reason)
                assert not explained.sure, (program.name, explained.words)
                assert explained.words == "" or explained.words.startswith(NEAREST)
