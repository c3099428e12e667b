"""Checks a student's program: runs it on 1 to 4 processes, and says in words what is wrong."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lessons.lesson import Case, Lesson, Mistake, Traffic
from lessons.work import STUCK, Work
from workbench.run import launch

PROCESSES = (1, 2, 3, 4)
STALL_S = 4.0
CALL = re.compile(r"waits in (\w+)")
FAILURES = {  # what MPI or Charm4Py says, and what it means
    "Invalid rank": "a call names a process that does not exist",
    "Message truncated": "a message is longer than the array that receives it",
    "not contiguous": "MPI got an array whose numbers do not lie side by side in memory",
    "No pending future": "a chare has called done twice",
}
COUNTS = re.compile(STUCK + r"([\d, ]*\d)")


@dataclass(frozen=True)
class Outcome:
    """What became of a program in one case.

    ``bits``: of what all processes returned, as bytes; empty if it did not end. ``stops``: what
    stopped it, as in `Mistake.stops`; ``reason``: in words, why the answer is wrong; empty if it is
    right. ``messages``: what each process sent.
    """

    case: Case
    bits: bytes = b""
    stops: str = ""
    reason: str = ""
    messages: tuple[Any, ...] = ()

    def same(self, other: Outcome) -> bool:
        """Whether another program does the same: the same results and messages."""
        return (self.bits, self.messages) == (other.bits, other.messages)


def outcomes(
    lesson: Lesson, runtime: str, programs: Sequence[Path], cases: Sequence[Case]
) -> list[list[Outcome]]:
    """What becomes of programs in cases on one number of processes, program by program.

    The last program may fail in one case, and has no outcomes after it.
    """
    with tempfile.TemporaryDirectory(prefix="miniapps-lesson-") as name:
        tasks = [(program, case) for program in programs for case in cases]
        works = [
            Work(lesson.name, runtime, program, case, Path(name), number)
            for number, (program, case) in enumerate(tasks)
        ]
        command = launch.command(works[0], [], None)
        results = launch.launch_all(works, command, STALL_S)
        found = [
            outcome_of(lesson, work, result) for work, result in zip(works, results, strict=False)
        ]
    size = len(cases)
    return [found[at : at + size] for at in range(0, len(found), size)]


def outcome_of(lesson: Lesson, work: Work, result: Any) -> Outcome:
    """What became of one program in one case."""
    if isinstance(result, str):
        return stopped(work.case, result)
    case, files = work.case, [work.result(rank) for rank in range(work.case.processes)]
    traffic = [traffic_of(answer) for answer in result]
    values = [np.load(file) if file.exists() else None for file in files]
    bits = b"".join(bits_of(value) for value in values)
    for rank, (answer, value) in enumerate(zip(result, values, strict=True)):
        if value is None:
            reason = f"process {rank} returned {answer['returned']}, not an array"
        else:
            reason = difference(rank, value, lesson.expected(case, rank))
        reason = reason or lesson.forbidden(case, rank, traffic[rank])
        if reason:
            return Outcome(case, bits, "", reason, tuple(map(str, traffic)))
    return Outcome(case, bits, "", "", tuple(map(str, traffic)))


def traffic_of(answer: dict[str, Any]) -> Traffic:
    """The messages of one process, from its answer."""
    sent, swept = answer["sent"], answer["swept"]
    by_receiver = None if sent is None else {int(to): sent[to] for to in sorted(sent)}
    return Traffic(by_receiver, answer["received"], None if swept is None else tuple(swept))


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
    stuck = COUNTS.search(trouble)
    if stuck:
        words = f"nothing happens any more, and done was not called; messages by chare: {stuck[1]}"
        return Outcome(case, stops=f"stuck {stuck[1]}", reason=words)
    for stops, words in FAILURES.items():
        if stops in trouble:
            return Outcome(case, stops=stops, reason=words)
    error = trouble.splitlines()[0].split("; MINIAPPS_LOG")[0]
    return Outcome(case, stops=error, reason=f"it fails: {error}")


def recognised(lesson: Lesson, runtime: str, wrong: Outcome) -> Mistake | None:
    """The known mistake that has the same outcome."""
    known = lesson.mistakes(runtime)
    if wrong.stops:
        return next((mistake for mistake in known if mistake.stops == wrong.stops), None)
    ending = [mistake for mistake in known if not mistake.stops]
    if not ending:
        return None
    found = outcomes(lesson, runtime, [mistake.path for mistake in ending], [wrong.case])
    for mistake, (outcome,) in zip(ending, found, strict=True):
        if outcome.same(wrong):
            return mistake
    return None
