"""Checks a student's program: runs it on 1 to 4 processes, and says in words what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lessons.lesson import Case, Lesson, Mistake
from lessons.work import STUCK
from workbench.errors import TRACEBACK
from workbench.lesson import running
from workbench.lesson.running import Returned, Task
from workbench.run.stall import STALLED

PROCESSES = (1, 2, 3, 4)
Run = Callable[[Sequence[Task]], Sequence[Returned | str | None]]
CALL = re.compile(r"waits in (\w+)")
FAILURES = {  # what MPI or Charm4Py says, and what it means
    "Invalid rank": "a call names a process that does not exist",
    "Message truncated": "a message is longer than the array that receives it",
    "not contiguous": "MPI got an array whose numbers do not lie side by side in memory",
    "No pending future": "a chare has called done twice",
    "is a view of other memory": "a block posts a part of another array",
    "must be a C-contiguous numpy array": "a block posts what is no contiguous array",
    "every block waits": "every block waits, and no message is on its way",
    "never collected": "messages were not collected in the step in which they were posted",
    "which is no request": "a block yields what is no request (Exchange needs `yield from`)",
}
COUNTS = re.compile(STUCK + r"([\d, ]*\d)")


@dataclass(frozen=True)
class Outcome:
    """What became of a program in one case.

    ``bits``: of what all processes returned, as bytes; empty if it did not end. ``stops``: what
    stopped it, as in `Mistake.stops`; ``reason``: in words, why the answer is wrong; empty if it is
    right. ``messages``: what each process sent, but not how many bytes; ``right``: whether the
    results are right, even if the messages are not allowed.
    """

    case: Case
    bits: bytes = b""
    stops: str = ""
    reason: str = ""
    messages: tuple[Any, ...] = ()
    right: bool = False

    def same(self, other: Outcome) -> bool:
        """Whether another program does the same: the same results and messages."""
        return (self.bits, self.messages) == (other.bits, other.messages)


def outcomes(
    lesson: Lesson,
    runtime: str,
    programs: Sequence[Path],
    cases: Sequence[Case],
    run: Run = running.run,
) -> list[list[Outcome]]:
    """What becomes of programs in cases on one number of processes, program by program.

    The last program may fail in one case, and has no outcomes after it. ``run`` runs the tasks.
    """
    if not cases:
        return [[] for _ in programs]
    tasks = [Task.of(lesson, runtime, program, case) for program in programs for case in cases]
    ends = [end for end in run(tasks) if end is not None]
    found = [
        outcome_of(lesson, case, end)
        for case, end in zip([*cases] * len(programs), ends, strict=False)
    ]
    size = len(cases)
    return [found[at : at + size] for at in range(0, len(found), size)]


def outcome_of(lesson: Lesson, case: Case, end: Returned | str) -> Outcome:
    """What became of one program in one case."""
    if isinstance(end, str):
        return stopped(case, end)
    bits = b"".join(bits_of(value) for value in end.values)
    messages = tuple(str(traffic._replace(handed=None)) for traffic in end.traffic)
    found = Outcome(case, bits, messages=messages)
    trouble = next((traffic.trouble for traffic in end.traffic if traffic.trouble), "")
    if trouble:
        return replace(found, reason=trouble)
    for rank, (kind, value) in enumerate(zip(end.kinds, end.values, strict=True)):
        if value is None:
            reason = f"process {rank} returned {kind}, not an array of numbers"
        else:
            reason = difference(rank, value, lesson.expected(case, rank))
        if reason:
            return replace(found, reason=reason)
    for rank, traffic in enumerate(end.traffic):
        reason = lesson.forbidden(case, rank, traffic)
        if reason:
            return replace(found, reason=reason, right=True)
    reason = lesson.forbidden_together(case, end.traffic)
    if reason:
        return replace(found, reason=reason, right=True)
    return replace(found, right=True)


def bits_of(value: np.ndarray | None) -> bytes:
    """Type, shape and bits of what a process returned, if it is an array."""
    return b"" if value is None else str((value.dtype, value.shape)).encode() + value.tobytes()


def difference(rank: int, value: np.ndarray, right: np.ndarray) -> str:
    """In words, how the array that a process returned differs from the right one; empty if not."""
    if (value.shape, value.dtype) != (right.shape, right.dtype):
        return (
            f"process {rank} returned an array of shape {value.shape} and type {value.dtype}, "
            f"not {right.shape} and {right.dtype}"
        )
    wrong = np.argwhere(value.view(np.uint64) != right.view(np.uint64))
    if not len(wrong):
        return ""
    at = tuple(map(int, wrong[0]))
    found = "never set" if np.isnan(value[at]) else f"{value[at]} instead of {right[at]}"
    place = ", ".join(map(str, at))
    return f"process {rank}: {len(wrong)} of {right.size} values differ; [{place}] is {found}"


def stopped(case: Case, trouble: str) -> Outcome:
    """The outcome of a program that a launch has ended, from the report of the launch."""
    calls = CALL.findall(trouble)
    if calls:
        stops = " or ".join(sorted(set(calls)))
        who = "every process" if len(calls) == case.processes else "a process"
        return Outcome(
            case, stops=stops, reason=f"{who} waits in {stops}, and nothing else happens"
        )
    if trouble.startswith(STALLED):
        return Outcome(case, stops="no end", reason="it computes, and does not come to an end")
    stuck = COUNTS.search(trouble)
    if stuck:
        words = f"nothing happens any more, and done was not called; messages by chare: {stuck[1]}"
        return Outcome(case, stops=f"stuck {stuck[1]}", reason=words)
    for stops, words in FAILURES.items():
        if stops in trouble:
            return Outcome(case, stops=stops, reason=words)
    error = trouble.splitlines()[0].replace(f"; {TRACEBACK}", "")
    return Outcome(case, stops=error, reason=f"it fails: {error}")


def recognised(lesson: Lesson, runtime: str, known: Sequence[Outcome]) -> Mistake | None:
    """The known mistake that explains a program's first wrong outcome, of which there is one.

    It is stopped by the same call, or does the same in that case. If several do, it is the one that
    does the same in most cases on as many processes.
    """
    wrong = next(outcome for outcome in known if outcome.reason)
    mistakes = lesson.mistakes(runtime)
    if wrong.stops:
        return next((mistake for mistake in mistakes if mistake.stops == wrong.stops), None)
    ending = [mistake for mistake in mistakes if not mistake.stops]
    if not ending:
        return None
    found = outcomes(lesson, runtime, [mistake.path for mistake in ending], [wrong.case])
    alike = [one for one, (other,) in zip(ending, found, strict=True) if other.same(wrong)]
    if len(alike) < 2:
        return alike[0] if alike else None
    seen = [one for one in known if one.case.processes == wrong.case.processes]

    def agreeing(mistake: Mistake) -> int:
        """In how many cases the mistake does the same."""
        (others,) = outcomes(lesson, runtime, [mistake.path], [one.case for one in seen])
        return sum(one.same(other) for one, other in zip(seen, others, strict=False))

    return max(alike, key=agreeing)
