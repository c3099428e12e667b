"""What learners are told about wrong programs that are not among the known ones: it must be true.

All programs run in all cases on one and two processes first, in few launches; the check then looks
the outcomes up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lesson_table import ending

from miniapps import lessons
from miniapps.lessons.checking import check, command, naming, running
from miniapps.lessons.checking.naming import NEAREST
from miniapps.lessons.lesson import Case, Lesson
from miniapps.workbench.run import stall

COUNTS = 1, 2  # processes
EXCHANGE = "        exchange(comm, field, neighbours)\n"
RETURN = "    return field[1:-1, 1:-1].copy()"
FOUND = "        everything[(comm.rank - turn) % comm.size] = came\n"
MINE = "    everything[comm.rank] = mine\n"
SENT = 'field[FIRST["up" if side in ("up", "down") else "left"]].copy()'
# By lesson: changes of the model answer, each with the mistake that must be named, or with part of
# the reason that is given, if it is none of the known ones.
Changes = dict[str, list[tuple[dict[str, str], str]]]
FOR_MPI4PY: Changes = {
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
        ({"everywhere * UNIT": "(everywhere - everywhere) / 0"}, "[0] is nan instead of"),
    ],
    "ring": [
        ({MINE: ""}, "never set"),
        ({"range(1, comm.size)": "range(1, comm.size - 1)"}, "never set"),
        ({"range(1, comm.size)": "range(comm.size)"}, "1 messages"),
        ({FOUND: FOUND.replace("- turn", "- turn - 1")}, "values differ"),
    ],
}
RECEIVE = "receive(self.step, OPPOSITE[side], line)"
COPIED = "self.field[FIRST[side]].copy()"
UNITS = "np.rint(self.mine / UNIT).astype(np.int64).sum()"
KEPT = "        self.everything[owner] = came\n"
FOR_CHARM4PY: Changes = {
    "halo": [
        ({RECEIVE: "receive(self.step, side, line)"}, "own_side"),
        ({COPIED: "self.field[GHOSTS[side]].copy()"}, "sends_ghosts"),
        ({"self.done(self.field[1:-1, 1:-1].copy())": "self.done(self.field)"}, "whole_array"),
        ({"0.2 * (f[1:-1, 1:-1] + around)": "0.25 * around"}, "values differ"),
        ({"self.done(self.field[1:-1, 1:-1]": "self.done(self.field[2:, 2:]"}, "values differ"),
        ({'(1, OWN), "down": (-2, OWN)': '(2, OWN), "down": (-3, OWN)'}, "values differ"),
        ({"        self.sweep()\n": "        self.sweep()\n            self.sweep()\n"}, "differ"),
    ],
    "sum": [
        ({UNITS: "np.rint(self.mine.sum() / UNIT).astype(np.int64)"}, "rounds_the_sum"),
        ({UNITS: UNITS.replace("rint", "floor")}, "rounded_down"),
        ({"Reducer.sum": "Reducer.max"}, "largest"),
        ({"2.0**-40": "2.0**-30"}, "values differ"),
        ({"everywhere * UNIT": "everywhere / UNIT"}, "values differ"),
        ({"everywhere * UNIT": "2 * everywhere * UNIT"}, "values differ"),
        ({"Reducer.sum": "Reducer.min"}, "values differ"),
    ],
    "ring": [
        ({"self.everything[self.rank] = mine": "pass"}, "values differ"),
        ({KEPT: "        self.everything[owner] = 2 * came\n"}, "values differ"),
        (
            {"self.rank + 1) % self.size].pass_on": "self.rank) % self.size].pass_on"},
            "does not come to an end",
        ),
    ],
}
PROGRAMS = {"mpi4py": FOR_MPI4PY, "charm4py": FOR_CHARM4PY}


def looked_up(lesson: Lesson, runtime: str, paths: Sequence[Path]) -> Callable[..., Any]:
    """`check.outcomes`; all programs have run before, in a launch for each count."""
    known: dict[tuple[Path, Case], check.Outcome] = {}
    for count in COUNTS:
        cases = lesson.cases_for(runtime, count, command.PUBLIC_SEED)
        found = check.outcomes(lesson, runtime, paths, cases)
        known |= {
            (path, one.case): one for path, those in zip(paths, found, strict=True) for one in those
        }

    def outcomes(
        lesson: Lesson, runtime: str, paths: Sequence[Path], cases: Sequence[Case]
    ) -> list[list[check.Outcome]]:
        return [[known[path, case] for case in cases if (path, case) in known] for path in paths]

    return outcomes


def told(
    lesson: Lesson, runtime: str, program: Path
) -> tuple[naming.Explanation, check.Outcome] | None:
    """What `lesson check` says about a program, and its first wrong outcome; None if it passes."""
    known: list[check.Outcome] = []
    for count in COUNTS:
        cases = lesson.cases_for(runtime, count, command.PUBLIC_SEED)
        (outcomes,) = check.outcomes(lesson, runtime, [program], cases)
        known += outcomes
        wrong = next((one for one in known if one.reason), None)
        if wrong is not None:
            more = partial(command.in_further_cases, lesson, runtime, program, count)
            return naming.explanation(lesson, runtime, program, known, more), wrong
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "runtime"), [(name, runtime) for runtime in PROGRAMS for name in PROGRAMS[runtime]]
)
def test_what_is_told_is_true(name, runtime, tmp_path, monkeypatch):
    """Catches a mistake that is named because it does the same on one process, and another is made.

    Also for every known mistake: of two that do the same at first, the one that was made is named.
    """
    monkeypatch.setattr(running, "STALL_S", 1.0)
    monkeypatch.setattr(check, "PROCESSES", COUNTS)
    begin = time.monotonic()
    lesson = lessons.load(name)
    known = {one.path.stem.removeprefix(f"{runtime}_"): one for one in ending(lesson, runtime)}
    programs = [(one.path, said) for said, one in known.items()]
    answer = lesson.answer(runtime).read_text()
    for number, (changes, said) in enumerate(PROGRAMS[runtime][name]):
        text, program = answer, tmp_path / f"{name}_{number}.py"
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        program.write_text(text)
        programs.append((program, said))
    paths = [path for path, _ in programs]
    monkeypatch.setattr(check, "outcomes", looked_up(lesson, runtime, paths))
    for program, said in programs:
        found = told(lesson, runtime, program)
        if found is None:
            assert program.parent != tmp_path, said  # a mistake that needs more processes
            continue
        explained, wrong = found
        if said in known:  # after what is not filled in, if the skeleton has it, too
            assert explained.sure and explained.words.endswith(known[said].words), explained
            assert naming.SEVERAL not in explained.words, explained
        else:
            assert said in wrong.reason, (program.name, wrong.reason)
            assert not explained.sure, (program.name, explained.words)
            assert explained.words == "" or explained.words.startswith(NEAREST)
    # Longer if a PE has not told that it has started, for a program that does not end.
    assert time.monotonic() - begin < stall.START_LIMIT_S
