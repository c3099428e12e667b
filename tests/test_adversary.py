"""The search for orders of events: wrong programs are found, made small and located."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import support
from ordering_bugs import BUGS, RIGHT, Bug, hunted, row

from miniapps import apps
from miniapps.contract import SETUP
from miniapps.drivers.orders import NAMED, Order, Scheduled, order_of
from miniapps.drivers.schedule import Schedule, read_schedule
from miniapps.echo.block import EchoBlock
from miniapps.workbench.adversary import command
from miniapps.workbench.adversary import search as searching
from miniapps.workbench.adversary.search import Coverage, Found, search
from miniapps.workbench.adversary.shrink import least
from miniapps.workbench.cli import main, spec_of
from miniapps.workbench.exit_status import FAILED, VALID, WRONG

SEARCHED = [(app, preset) for app in apps.names() for preset in command.smallest(app)]
STALE = next(bug for bug in BUGS if bug.name == "stale buffer")


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_ordering_bugs_are_found(bug: Bug) -> None:
    """Catches a search that misses a mistake, and a schedule that stays long or is not located."""
    seen = hunted(bug)
    assert not seen.found.right.error
    assert 1 <= seen.length <= 3 and seen.where.place is not None
    assert row(bug, seen) in (support.ROOT / "docs/adversary.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("bug", RIGHT, ids=lambda bug: bug.name)
def test_right_programs_survive(bug: Bug) -> None:
    """Catches a search that calls a right program wrong."""
    found = search(bug.subject(), 25, 60)
    assert found.wrong is None and found.tried == 25 and not found.right.error
    assert 0 < found.coverage.both < len(found.coverage.pairs)


def test_the_small_schedule_needs_all_its_parts() -> None:
    """Catches a minimum from which something can still be left out."""
    needed = {3, 17, 18}
    assert set(least(list(range(40)), lambda parts: needed <= set(parts))) == needed
    assert least([1, 2], lambda parts: True) == []
    assert least([5], lambda parts: 5 in parts) == [5]


@pytest.mark.long
def test_the_stale_message_is_named() -> None:
    """Catches a sentence that names another block, message or cause."""
    where = hunted(STALE).where
    assert where.place is not None and where.message is not None and where.used is not None
    what, step, phase, place, edge = where.message
    assert place == where.place and where.used[3:5] == (place, edge) and where.used != where.message
    assert f"because the message {phase!r} of step {step}" in where.sentence


def test_coverage_counts_pairs() -> None:
    """Catches pairs of events at different blocks, and orders that are counted as one."""
    a, b = ("block", (0,)), ("block", (1,))
    one, two, other = ("begin", 0, a), ("message", 0, "p", a, (1,)), ("begin", 0, b)
    coverage = Coverage()
    coverage.add([one, other, two])
    assert coverage.pairs == {(one, two)} and coverage.both == 0
    coverage.add([two, one])
    assert coverage.both == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["right", "old address"])
def test_processes_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a later failure that is reported for the first, and schedules tried twice or never.

    The first schedule that fails is the fourth, and shares of one schedule alternate.
    """
    monkeypatch.setattr(searching, "SHARE", 1)
    subject = next(bug for bug in (*RIGHT, *BUGS) if bug.name == name).subject()

    def found(jobs: int) -> Found:
        return replace(search(subject, 9, 60, jobs=jobs), seconds=0)

    alone = found(1)
    assert (alone.tried, alone.wrong is None) == ((9, True) if name == "right" else (4, False))
    assert found(2) == alone == found(3)


def test_a_process_that_dies(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Catches a search that calls a program right after a process of it was killed, or waits."""
    subject, mine = RIGHT[0].subject(), os.getpid()

    def blocks() -> Any:
        if os.getpid() != mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return subject.blocks()

    monkeypatch.setattr(command, "subject_of", lambda spec, pes: replace(subject, blocks=blocks))
    monkeypatch.setattr(command, "check_usual", lambda spec, subject: VALID)
    assert main(["adversary", "echo", "--schedules", "40", "--jobs", "2"]) == FAILED
    assert capsys.readouterr().err == "miniapps: a process of the search ended early\n"


class Kinds:
    """Observes which kinds of messages and requests a run has."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def posted(self, event: Any, sender: Any, message: np.ndarray) -> None:
        """Add phase and edge; phase and whether the message is empty."""
        _, step, phase, _, edge, *_ = event
        self.seen |= {(phase, edge, step == SETUP), (phase, bool(message.size), step == SETUP)}

    def answered(self, runner: Any, request: Any, answer: Any) -> None:
        """Add the request's type."""
        self.seen.add((type(request), runner.inbox.step == SETUP))

    def ended(self, runner: Any, this: Any) -> None:
        """Nothing is to be done."""


def kinds_of(app: str, preset: str, *more: str) -> set[Any]:
    """The kinds of messages and requests of a preset, in as many steps as it has."""
    spec = spec_of(["run", app, "--preset", preset, *more, "--driver", "sim"])
    spec = replace(spec, parts=command.PARTS[0], warmup=0)
    kinds: Any = Kinds()
    assert not command.subject_of(spec, 2).run(Order(), kinds).error
    return kinds.seen


LARGER = {  # problems of variants that have no preset "tiny" of their own
    "pipelined-minimal": ("tiny", "--pipelined"),
    "sgs-minimal": ("tiny", "--preconditioner", "sgs"),
}


@pytest.mark.parametrize(("app", "preset"), SEARCHED)
def test_minimal_problems_leave_nothing_out(app: str, preset: str) -> None:
    """Catches a smallest problem in which no atom changes domain, or no corner is exchanged."""
    larger = LARGER.get(preset, (preset.replace(command.MINIMAL, command.TINY),))
    assert kinds_of(app, *larger) <= kinds_of(app, preset)


def test_presets_that_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a variant that is left out, or comes before its app, and an app without a preset."""
    assert command.smallest("cg") == ["minimal", "sgs-minimal", "pipelined-minimal"]
    monkeypatch.setattr(apps.load("echo").Problem, "presets", {"fast-minimal": {}, "tiny": {}})
    assert command.smallest("echo") == ["tiny", "fast-minimal"]


@pytest.fixture
def wrong_app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let the command test a program with a mistake, in an empty folder."""
    monkeypatch.setattr(command, "subject_of", lambda spec, pes: STALE.subject())
    monkeypatch.setattr(command, "check_usual", lambda spec, subject: VALID)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "echo-schedule.json"


@pytest.mark.slow
def test_the_command_writes_what_it_replays(wrong_app: Path, capsys: Any) -> None:
    """Catches a schedule that cannot be replayed, and a status or record that says all is well."""
    assert main(["adversary", "echo", "--sim-seed", "4", "--json", "found.json"]) == WRONG
    found = json.loads(Path("found.json").read_text())
    assert (found["app"], found["failed_seed"], found["states"]) == ("echo", 4, 2)
    said = capsys.readouterr().out.splitlines()
    sentence = said[-1].partition("; replay with --replay echo-schedule.json")[0]
    assert sentence.startswith("block (") and wrong_app.exists()
    assert main(["adversary", "echo", "--replay", str(wrong_app)]) == WRONG
    assert capsys.readouterr().out.splitlines()[-1] == sentence
    schedule, data = read_schedule(wrong_app, "--replay")
    assert data["seed"] == 4 and data["order"] in NAMED
    subject = STALE.subject()
    assert subject.run(Scheduled(schedule)) != subject.run(Scheduled(Schedule()))


@pytest.mark.parametrize("option", ["--schedules=5", "--seconds=5", "--sim-seed=4", "--json=x"])
def test_replay_refuses_options_of_a_search(option: str, refused: Any) -> None:
    """Catches an option that is taken and has no effect."""
    assert "not with --replay" in refused("adversary", "echo", "--replay", "x", option)


def test_replay_refuses_another_run(wrong_app: Path) -> None:
    """Catches a schedule that is replayed on another problem, and a damaged one."""
    wrong_app.write_text(json.dumps({"schedule": 1, "steps": 99, "holds": [], "moves": []}))
    for text in (None, "[[", '{"schedule": 1, "holds": 5, "moves": []}'):
        if text is not None:
            wrong_app.write_text(text)
        assert "--replay" in support.refused(["adversary", "echo", "--replay", wrong_app])


@pytest.mark.parametrize(
    "words", ["--seconds nan", "--schedules 0", "--jobs -1", "--sim-pes 0", "--sim-seed -1"]
)
def test_numbers_out_of_range(words: str) -> None:
    """Catches a search that never ends, or tries nothing."""
    assert words.split()[0] in support.refused(["adversary", "echo", *words.split()])


@pytest.mark.slow
@pytest.mark.parametrize(("app", "preset"), SEARCHED)
def test_right_apps_survive(app, preset, capsys, tmp_path, monkeypatch):
    """Catches a command that finds mistakes in an app that has none, or leaves a file."""
    monkeypatch.chdir(tmp_path)
    assert main(["adversary", app, "--preset", preset, "--schedules", "10"]) == VALID
    assert "all gave the state" in capsys.readouterr().out and not list(tmp_path.iterdir())


def test_an_app_that_is_wrong_in_the_usual_order(monkeypatch: Any, capsys: Any) -> None:
    """Catches a search whose standard of comparison is wrong, or did not finish."""
    usual = command.subject_of

    def failing(spec: Any, pes: int) -> Any:
        subject = usual(spec, pes)
        monkeypatch.setattr(type(subject.blocks()[0]), "step", step)
        return subject

    def step(self: Any, count: int) -> Any:
        self.counters += 2
        yield from ()

    monkeypatch.setattr(command, "subject_of", failing)
    assert main(["adversary", "echo"]) == WRONG
    assert "wrong in the usual order" in capsys.readouterr().out
    monkeypatch.setattr(command, "subject_of", lambda spec, pes: raising())
    assert main(["adversary", "echo"]) == FAILED
    assert "usual order" in capsys.readouterr().err


def test_a_program_that_differs_from_itself(monkeypatch: Any, capsys: Any) -> None:
    """Catches a search that blames the order for state that is left from the run before."""
    usual, runs = EchoBlock.state, []

    def state(block: Any) -> Any:
        runs.append(block)
        (piece,) = usual(block)
        return [piece._replace(values=piece.values + (len(runs) > 6))]

    monkeypatch.setattr(EchoBlock, "state", state)
    assert main(["adversary", "echo"]) == WRONG
    assert "two runs in the usual order differ" in capsys.readouterr().out


def raising() -> Any:
    """A program whose blocks raise an error."""
    subject = RIGHT[0].subject()

    def engine(blocks: Any, order: Order) -> Any:
        raise ZeroDivisionError("physics")

    return type(subject)(subject.blocks, engine, subject.steps)


def test_orders_are_drawn_from_seeds() -> None:
    """Catches a seed that does not repeat its run."""
    subject = RIGHT[0].subject()
    assert all(subject.run(order_of(n, 2)) == subject.run(order_of(n, 2)) for n in NAMED)
