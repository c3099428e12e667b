"""Checks a student's program: runs it on 1 to 4 processes, and says in words what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from miniapps.lessons.checking import returned, running
from miniapps.lessons.checking.running import Returned, Task
from miniapps.lessons.lesson import PARTS, UNSET, Case, Lesson
from miniapps.lessons.work import STUCK, pes_for
from miniapps.workbench.errors import TRACEBACK
from miniapps.workbench.plural import counted
from miniapps.workbench.run.stall import STALLED

PROCESSES = (1, 2, 3, 4)
ALIKE = 0.02  # difference of numbers of bytes, of the larger one
Run = Callable[[Sequence[Task]], Sequence[Returned | str | None]]
WAITING = re.compile(r"process \(?(\d+),?\)? waits in (\w+), messages sent: (\d+)")
CRASH = re.compile(r"(?:PE \d+, )?(?P<place>line \d+(?:, in (?P<inside>[\w.<>]+))?): (?P<what>.*)")
NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
FAILURES = {  # what MPI or Charm4Py says, and what it means
    "Invalid rank": "a call names a process that does not exist",
    "Message truncated": "a message is longer than the array that receives it",
    "not contiguous": "MPI got an array whose numbers do not lie side by side in memory",
    "No pending future": "a chare has called done twice",
    "is a view of other memory": "a block posts a part of another array",
    "must be a C-contiguous numpy array": "a block posts what is no contiguous array",
    "which it does not have": "a block names an edge on which it has no neighbour",
    "every block waits": "every block waits, and no message is on its way",
    "never collected": "messages were not collected in the step in which they were posted",
    "memory ran out": "memory ran out",
    "died in step": "a process ended, or was ended, before the program had returned its result; "
    "MPI.Finalize, comm.Abort and exit of Charm4Py end processes",
    "which is no request": "a block yields what is no request (Exchange needs `yield from`)",
}
COUNTS = re.compile(STUCK + r"([\d, ]*\d)")


@dataclass(frozen=True)
class Outcome:
    """What became of a program in one case.

    ``bits``: of what all processes returned, as bytes; empty if it did not end. ``stops``: what
    stopped it, as in `Mistake.stops`, and ``detail``: the symptoms, without numbers of lines;
    ``reason``: in words, why the answer is wrong; empty if it is right. ``messages``: what each
    process sent, but not how many bytes; ``handed``: these bytes, or those that a chare got.
    ``right``: whether the results are right, even if the messages are not allowed. ``open``: in
    words, that a process did not wait for messages. ``receivers``: to whom each process sent.
    """

    case: Case
    bits: bytes = b""
    stops: str = ""
    detail: str = ""
    reason: str = ""
    messages: tuple[Any, ...] = ()
    handed: tuple[int, ...] = ()
    right: bool = False
    open: str = ""
    receivers: tuple[tuple[int, ...], ...] = ()

    def same(self, other: Outcome) -> bool:
        """Whether another program does the same: the same results and messages, or stops alike.

        If the results are right, the bytes given to MPI are the evidence, and must be alike.
        """
        mine = self.bits, self.messages, self.stops, self.detail, bool(self.reason)
        theirs = other.bits, other.messages, other.stops, other.detail, bool(other.reason)
        if mine != theirs or not (self.right and self.reason):
            return mine == theirs
        pairs = zip(self.handed, other.handed, strict=True)
        return all(abs(one - two) <= ALIKE * max(one, two) for one, two in pairs)

    def resembles(self, other: Outcome) -> bool:
        """Whether another program fails with the same symptom, perhaps with other messages."""
        if not self.reason:
            return not other.reason
        return bool(other.reason) and self.symptom() == other.symptom()

    def symptom(self) -> tuple[str, object]:
        """What fails: the call or error that stops it, the wrong bits, or else the reason."""
        if self.stops:
            return "stopped", self.stops
        if self.bits and not self.right:
            return "result", self.bits
        return "reason", NUMBER.sub("#", self.reason)


def outcomes(
    lesson: Lesson,
    runtime: str,
    programs: Sequence[Path],
    cases: Sequence[Case],
    run: Run = running.run,
) -> list[list[Outcome]]:
    """What becomes of programs in cases on one number of processes, program by program.

    A program that fails in a case has no outcomes after it. ``run`` runs the tasks; it runs none
    after a failure, so that the programs that are left are run again.
    """
    found: list[list[Outcome]] = []
    while cases and len(found) < len(programs):
        left = programs[len(found) :]
        tasks = [Task.of(lesson, runtime, program, case) for program in left for case in cases]
        ends, before = run(tasks), len(found)
        for at, program in enumerate(left):
            of_one = zip(cases, ends[at * len(cases) :], strict=False)
            known = [outcome_of(lesson, c, end, program) for c, end in of_one if end is not None]
            if len(known) < len(cases) and not (known and known[-1].stops):
                break
            found.append(known)
        if len(found) == before:
            raise RuntimeError(f"{left[0]} was not run")
    return found or [[] for _ in programs]


def outcome_of(lesson: Lesson, case: Case, end: Returned | str, program: Path) -> Outcome:
    """What became of one program in one case."""
    if isinstance(end, str):
        return stopped(case, end)
    bits = b"".join(bits_of(value) for value in end.values)
    messages = tuple(str(traffic._replace(handed=None, got=0, open=0)) for traffic in end.traffic)
    handed = tuple(traffic.handed or traffic.got for traffic in end.traffic)
    to = tuple(tuple(traffic.sent or ()) for traffic in end.traffic)
    found = Outcome(case, bits, messages=messages, handed=handed, open=open_of(end), receivers=to)
    part = end.traffic[0].part if end.traffic else PARTS["mpi4py"]
    if not len(end.kinds) == len(end.values) == len(end.traffic) == case.parts:
        many = counted(case.parts, part)
        return replace(found, reason=f"results of {many} were not all returned")
    trouble = next((traffic.trouble for traffic in end.traffic if traffic.trouble), "")
    if trouble:
        return replace(found, reason=trouble)
    for rank, (kind, value) in enumerate(zip(end.kinds, end.values, strict=True)):
        if value is None:
            reason = returned.words(program, lesson, f"{part} {rank} returned", kind)
        else:
            place = returned.place(program, lesson)
            reason = difference(f"{part} {rank}", value, right(lesson, case)[rank], place)
        if reason:
            return replace(found, reason=reason)
    for traffic in end.traffic:
        reason = lesson.not_computed(case, traffic)
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


@lru_cache(maxsize=running.KEPT)
def right(lesson: Lesson, case: Case) -> tuple[np.ndarray, ...]:
    """What the processes must return in a case."""
    return tuple(lesson.expected(case, rank) for rank in range(case.parts))


def parts(lesson: Lesson, runtime: str, case: Case) -> str:
    """How many processes, chares or blocks a case has, and on how many PEs chares are, in words."""
    many = counted(case.parts, PARTS[runtime])
    if runtime != "charm4py":
        return many
    return f"{many} on {counted(pes_for(lesson.name, runtime, case), 'PE')}"


def where(lesson: Lesson, runtime: str, case: Case) -> str:
    """A case in words: how many there are, and what they compute."""
    return f"{parts(lesson, runtime, case)}, {lesson.words(case)}"


def open_of(end: Returned) -> str:
    """In words, which messages a program began and did not wait for; empty if none."""
    for rank, traffic in enumerate(end.traffic):
        if traffic.open:
            return (
                f"process {rank} did not wait for {counted(traffic.open, 'message')} that it "
                "began; until then the array must not be changed or read"
            )
    return ""


def bits_of(value: np.ndarray | None) -> bytes:
    """Type, shape and bits of what a process returned, if it is an array."""
    return b"" if value is None else str((value.dtype, value.shape)).encode() + value.tobytes()


def difference(who: str, value: np.ndarray, right: np.ndarray, place: str = "") -> str:
    """In words, how the array that somebody returned differs from the right one; empty if not.

    ``who``: a process, a chare or a block, with its number; ``place``: what says where it
    returns an array, if its shape or type is another one.
    """
    if (value.shape, value.dtype) != (right.shape, right.dtype):
        return (
            f"{place}{who} returned an array of shape {value.shape} "
            f"and type {value.dtype}, not {right.shape} and {right.dtype}"
        )
    wrong = np.argwhere(value.view(np.uint64) != right.view(np.uint64))
    if not len(wrong):
        return ""
    at = tuple(map(int, wrong[0]))
    unset = np.abs(value[at]).tobytes() == np.float64(UNSET).tobytes()
    found = "never set" if unset else f"{value[at]} instead of {right[at]}"
    place = ", ".join(map(str, at))
    return f"{who}: {len(wrong)} of {right.size} values differ; [{place}] is {found}"


def stopped(case: Case, trouble: str) -> Outcome:
    """The outcome of a program that a launch has ended, from the report of the launch."""
    waiting = sorted(WAITING.findall(trouble))
    if waiting:
        stops = " or ".join(sorted({call for _, call, _ in waiting}))
        who = "every process" if len(waiting) == case.processes else "a process"
        reason = f"{who} waits in {stops}, and nothing else happens"
        return Outcome(case, stops=stops, detail=str(waiting), reason=reason)
    if trouble.startswith(STALLED):
        return Outcome(case, stops="no end", reason="it computes, and does not come to an end")
    stuck = COUNTS.search(trouble)
    if stuck:
        words = f"nothing happens any more, and done was not called; messages by chare: {stuck[1]}"
        return Outcome(case, stops=f"stuck {stuck[1]}", reason=words)
    error = trouble.splitlines()[0].replace(f"; {TRACEBACK}", "")
    crash = CRASH.search(error)
    what = crash["what"] if crash else error
    where = f"{crash['place']}: " if crash else ""
    detail = f"{crash['inside'] if crash else ''}: {NUMBER.sub('#', what)}"
    for stops, words in FAILURES.items():
        if stops in trouble:
            return Outcome(case, stops=stops, detail=detail, reason=f"{where}{words}")
    stops = f"{what.split(':')[0]} in {crash['inside']}" if crash else error
    return Outcome(
        case, stops=stops, detail=detail, reason=f"{where}{what}" if crash else f"it fails: {error}"
    )
