"""Finds where a failing run first differs from the right one, and says so in a sentence."""

from __future__ import annotations

from typing import NamedTuple

from miniapps.contract import Place
from miniapps.drivers.orders import Order, Scheduled
from miniapps.drivers.schedule import Event, Schedule
from miniapps.workbench.adversary.trial import Answer, Result, Seen, Subject


class Located(NamedTuple):
    """The first difference: block and step, and the message if there is one.

    ``used``: the message that the block used instead; ``turn``: the event in which it used it;
    ``what``: the difference in words; ``because``: the schedule in words.
    """

    place: Place | None
    step: int | None
    what: str
    message: Event | None = None
    used: Event | None = None
    turn: Event | None = None
    because: str = ""

    @property
    def sentence(self) -> str:
        """Block, step, difference and cause."""
        where = "" if self.place is None else f"{named(self.place)}, step {self.step}: "
        return f"{where}{self.what}{self.because}"


def explained(subject: Subject, schedule: Schedule) -> tuple[Schedule, Located]:
    """The first difference; the schedule, or one that delays the message in question directly."""
    first = located(subject, schedule)
    for cause in (first.used, first.turn):
        if first.message is None or cause is None or cause == first.message:
            continue
        direct = Schedule({first.message: cause}, {})
        again = located(subject, direct)
        if (again.place, again.step, again.message) == (first.place, first.step, first.message):
            return direct, again
    return schedule, first


def located(subject: Subject, schedule: Schedule) -> Located:
    """Run in the usual order and by the schedule, and compare step by step."""
    right, wrong = Seen(), Seen()
    subject.run(Order(), right)
    result = subject.run(Scheduled(schedule), wrong)
    return _difference(right, wrong, result)._replace(because=_because(schedule, wrong))


def _difference(right: Seen, wrong: Seen, result: Result) -> Located:
    expected = {answer[:5]: answer.value for answer in right.answers}
    for answer in wrong.answers:
        if expected.get(answer[:5], answer.value) != answer.value:
            return _by_answer(answer, right, wrong)
    return _by_state(right, wrong, result)


def _by_answer(answer: Answer, right: Seen, wrong: Seen) -> Located:
    """A block got another answer than in the right run."""
    what, place, step, phase, edge, value = answer
    if what != "message":
        shown = f"the result of the {what}{f' {phase!r}' if phase else ''} was another one"
        return Located(place, step, _changed_before(right, wrong, step) or shown)
    event = "message", step, phase, place, edge
    if wrong.posts.get(event) != right.posts.get(event):
        sender = wrong.senders.get(event, place)
        said = f"it sent another message {phase!r} to {named(place)} although all that it had "
        return Located(sender, step, f"{said}received was right", event)
    used = _origin(answer, wrong)
    if used is None:
        said = f"a message {phase!r} that no block had sent"
    else:
        where = "" if used[3:5] == (place, edge) else f" for {named(used[3])}, edge {used[4]},"
        said = f"the message {used[2]!r} of {_step(used[1])}{where}"
    turn = wrong.turns.get(answer[:5])
    return Located(place, step, f"it used {said} on edge {edge}", event, used, turn)


def _origin(answer: Answer, seen: Seen) -> Event | None:
    """Which message of the run a wrong answer is; the nearest one if several are the same."""
    what, place, step, phase, edge, value = answer
    same = [event for event, posted in seen.posts.items() if posted == value]
    here = [e for e in same if e[3:5] == (place, edge)] or [e for e in same if e[3] == place]
    return min(here, key=lambda event: abs(event[1] - step), default=None)


def _by_state(right: Seen, wrong: Seen, result: Result) -> Located:
    """All answers were right: a block computed another state, or the run failed."""
    first = _first_state(right, wrong)
    if result.error:
        place, step = first or (None, None)
        return _lost(right, wrong) or Located(place, step, result.error[:200])
    if first is None:
        return Located(None, None, "the final state differs")
    place, step = first
    said = "it computed another state although all that it had received was right"
    return Located(place, step, said)


def _lost(right: Seen, wrong: Seen) -> Located | None:
    """The first block that still waits for messages although all of them were sent."""
    got = {answer[:5] for answer in wrong.answers}
    missing: dict[tuple[int, Place, str], list[Event]] = {}
    for what, place, step, phase, edge, _ in right.answers:
        if what == "message" and (what, place, step, phase, edge) not in got:
            events = missing.setdefault((step, place, phase), [])
            events.append((what, step, phase, place, edge))
    for (step, place, phase), events in sorted(missing.items(), key=lambda item: item[0][0]):
        if all(event in wrong.posts for event in events):
            said = f"it waits for messages {phase!r} although all of them were sent"
            return Located(place, step, said)
    return None


def _first_state(right: Seen, wrong: Seen) -> tuple[Place, int] | None:
    """The first step after which the state of a block differs, and the block."""
    for step, place in sorted(wrong.states, key=lambda key: key[0]):
        if right.states.get((step, place)) != wrong.states[step, place]:
            return place, step
    return None


def _changed_before(right: Seen, wrong: Seen, step: int) -> str:
    """The state that differed before a reduction did, if any."""
    first = _first_state(right, wrong)
    if first is None or first[1] >= step:
        return ""
    return f"after step {first[1]} the state of {named(first[0])} was another one"


def _because(schedule: Schedule, seen: Seen) -> str:
    """The exceptions of the schedule, in words."""
    reasons = [f"{said(e, seen)} came after {said(cause, seen)}"
               for e, cause in schedule.holds.items()]  # fmt: skip
    reasons += [f"{named(place)} migrated before step {step}" for step, place in schedule.moves]
    return f", because {' and '.join(reasons)}" if reasons else ""


def said(event: Event, seen: Seen) -> str:
    """An event in words."""
    what = event[0]
    if what in ("message", "sum"):
        _, step, phase, place, edge, *_ = event
        return f"the message {phase!r} of {_step(step)} to {named(place)} on edge {edge}"
    if what == "turn":
        _, step, place, _ = event
        return f"the {seen.requests.get(event, 'request')} of {named(place)} in {_step(step)}"
    if what == "begin":
        return f"the begin of {_step(event[1])} in {named(event[2])}"
    return f"the reduction of {_step(event[1])}" if what == "reduce" else "a batch"


def named(place: Place) -> str:
    """A block's name."""
    kind, index = place
    return f"{kind} ({','.join(map(str, index))})"


def _step(step: int) -> str:
    """A step's name."""
    return "the setup" if step < 0 else f"step {step}"
