"""Runs a study: one launch after another, each validated and stored before the next one begins.

The order of runs is shuffled in every trial, so that a temporary disturbance of the machine does
not hit one configuration only. The runs themselves exclude compilation and warm-up from timing.
"""

from __future__ import annotations

import fcntl
import math
import random
import shlex
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from miniapps.parameters import InputError, printable
from miniapps.tiling import cache_folder
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.plural import counted
from miniapps.workbench.run import launch
from miniapps.workbench.run.execute import check_fits
from miniapps.workbench.run.launched import Launched
from miniapps.workbench.run.record import disturbed, disturber, host
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.run.versions import versions
from miniapps.workbench.study import noise, validation
from miniapps.workbench.study.campaign import VERSION, Campaign, Writer
from miniapps.workbench.study.plan import Study, described
from miniapps.workbench.study.validation import mean_step_s

ATTEMPTS = 10  # at a run that other programs disturb, if --max-noise is given
PATIENCE_S = 120.0  # the longest wait for a quiet machine before a run
RETRY_S = 2.0
ENVIRONMENT = ("versions", "host", "pinned")  # must be the same when a study is resumed


@dataclass(frozen=True)
class Policy:
    """How to run and how often: ``trials`` times, then until intervals are narrow enough."""

    trials: int
    until_ci: float | None = None  # half the width of the mean's 99 % interval, over the mean
    most_trials: int = 0  # with ``until_ci``
    pin: bool = True
    stall_s: float | None = None
    launcher: str | None = None  # path of the mpiexec; None: the one beside this Python
    force: bool = False  # also what does not fit into the memory of this machine
    max_noise: float | None = None  # the largest share of a run's time that others may take


class Subject(Protocol):
    """What a campaign measures, and how its runs are launched and validated."""

    reader: ClassVar[type[Campaign]] = Campaign  # of its campaign files

    def header(self) -> dict[str, Any]:
        """The first line of the campaign file."""

    def noted(self) -> dict[str, Any]:
        """What each start of the campaign stores besides its environment."""
        return {}

    def launched(
        self, campaign: Campaign, trial: int, point: int
    ) -> tuple[Launched, Sequence[str]]:
        """The run of a point in a trial, and its command."""

    def label(self, head: dict[str, Any], number: int) -> str:
        """A point in a few words."""

    def shown(self, record: dict[str, Any]) -> str:
        """What a run has measured, in a few words."""

    def rejection(self, campaign: Campaign, point: int, record: dict[str, Any]) -> str | None:
        """Why a run does not count; None if it does."""

    def stored(self, record: dict[str, Any]) -> dict[str, Any]:
        """What the campaign file stores of the record of a run that counts."""
        return record

    def wide(self, campaign: Campaign, until: float) -> dict[int, float]:
        """Points whose intervals are wider than ``until``, with their widths."""
        return {}


@dataclass(frozen=True)
class RunsOfAnApp(Subject):
    """A study of an app."""

    study: Study
    runs: Sequence[tuple[RunSpec, list[str]]]
    label = staticmethod(validation.label)
    rejection = staticmethod(validation.rejection_reason)
    wide = staticmethod(validation.wide_points)

    def header(self) -> dict[str, Any]:
        """The first line of the campaign file."""
        return header_of(self.study, [spec for spec, _ in self.runs])

    def launched(self, campaign: Campaign, trial: int, point: int) -> tuple[RunSpec, list[str]]:
        """The same in every trial."""
        return self.runs[point]

    def shown(self, record: dict[str, Any]) -> str:
        """The time per step."""
        return f"{mean_step_s(record) * 1e3:.4g} ms per step"


def run_campaign(
    study: Study,
    specs: Sequence[RunSpec],
    policy: Policy,
    path: Path,
    subject: type[RunsOfAnApp] = RunsOfAnApp,
) -> int:
    """Make the missing runs of a study; returns the exit status. Raises InputError."""
    for spec in specs:
        spec.can.require_modules()
        if policy.launcher is None and not policy.force:
            check_fits(spec)
    runs = [(spec, launch.command(spec, pinning(spec, policy), policy.launcher)) for spec in specs]
    return measure(subject(study, runs), policy, path)


def measure(subject: Subject, policy: Policy, path: Path) -> int:
    """Make the missing runs of a campaign; returns the exit status. Raises InputError."""
    with _alone():
        writer = Writer(path, subject.header(), subject.reader)
        try:
            if next(_todo(subject, policy, writer.campaign), None) is not None:
                _begin(writer, subject, policy, path)
                for trial, point, left in _todo(subject, policy, writer.campaign):
                    for attempt in range(ATTEMPTS):
                        most = policy.max_noise if attempt < ATTEMPTS - 1 else None
                        if _one_run(writer, subject, trial, point, policy, left, most):
                            break
        except KeyboardInterrupt:
            kept = counted(len(writer.campaign.completed), "finished run")
            note = f"{path} has {kept}; the same command continues the study"
            raise KeyboardInterrupt(note) from None
        finally:
            writer.close()
    return WRONG if writer.campaign.failures else VALID


@contextmanager
def _alone() -> Iterator[None]:
    """Refuse to run beside another study of this user: they would disturb each other's times."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "study.lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            allowed = "another one is running, and each would disturb the other's times"
            raise InputError("study", "refused", allowed) from None
        yield


def header_of(study: Study, specs: Sequence[RunSpec]) -> dict[str, Any]:
    """The first line of the campaign file."""
    return {
        "campaign": VERSION,
        "study": study.head(),
        "points": [described(spec, study.steps) for spec in specs],
    }


def _begin(writer: Writer, subject: Subject, policy: Policy, path: Path) -> None:
    """Store the environment of this start; raise InputError if an earlier start's differs."""
    around = {"versions": versions(), "host": host(), "pinned": policy.pin}
    for start in writer.campaign.of("start"):
        for what in ENVIRONMENT:
            if start[what] != around[what]:
                was, now = _differing(start[what], around[what])
                allowed = f"was begun with {what} {was}, not {now}; name another file"
                raise InputError("--campaign", path, allowed)
    tick = noise.clock_tick()
    writer.add("start", **around, clock_tick_s=tick, until_ci=policy.until_ci, **subject.noted())
    writer.add("noise", seconds=noise.sample())


def _differing(was: Any, now: Any) -> tuple[Any, Any]:
    """The differing entries of two dicts; other values unchanged."""
    if not isinstance(was, dict):
        return was, now
    keys = [key for key in was | now if was.get(key) != now.get(key)]
    return {key: was.get(key) for key in keys}, {key: now.get(key) for key in keys}


def shuffled(study_seed: int, trial: int, points: int) -> list[int]:
    """The order of the runs of a trial; the same arguments give the same order."""
    order = list(range(points))
    random.Random(f"{study_seed} {trial}").shuffle(order)
    return order


def _todo(subject: Subject, policy: Policy, campaign: Campaign) -> Iterator[tuple[int, int, int]]:
    """Trial and point of each missing run, and the number of runs left, if known."""
    points, seed = len(campaign.head["points"]), campaign.head["study"]["shuffle_seed"]
    for trial in range(policy.most_trials if policy.until_ci else policy.trials):
        order = shuffled(seed, trial, points)
        if trial >= policy.trials:
            wide = subject.wide(campaign, policy.until_ci or math.inf)
            order = [point for point in order if point in wide]
        completed = campaign.completed
        order = [point for point in order if (trial, point) not in completed]
        for position, point in enumerate(order):
            later = max(0, policy.trials - trial - 1) * points
            yield trial, point, len(order) - position + later


def _one_run(
    writer: Writer,
    subject: Subject,
    trial: int,
    point: int,
    policy: Policy,
    left: int,
    most: float | None,
) -> bool:
    """Launch one run, validate it, store it and print a line about it.

    Returns False if it is to be repeated: others took more than ``most`` of its time, if given.
    """
    spec, command = subject.launched(writer.campaign, trial, point)
    entry: dict[str, Any] = {"trial": trial, "point": point, "command": plain_command(command)}
    if policy.max_noise is not None:
        _wait_for_quiet(writer.campaign, policy.max_noise)
    begun = time.perf_counter()
    result = launch.launch(spec, list(command), policy.stall_s)
    entry["seconds"] = round(time.perf_counter() - begun, 3)
    after_s = noise.sample()
    wrong = noisy = None
    if isinstance(result, dict):
        wrong = subject.rejection(writer.campaign, point, result)
        if wrong is None and most is not None:
            noisy = _disturbance(writer.campaign, result, after_s, most)
    if isinstance(result, dict) and wrong is None and noisy is None:
        writer.add("run", **entry, record=subject.stored(result))
        outcome = subject.shown(result)
    else:
        reason = wrong or noisy or f"failed with status {result}"
        writer.add("dropped", **entry, reason=reason, final=wrong is not None)
        outcome = f"DROPPED: {reason}"
    writer.add("noise", seconds=after_s)
    name = f"{subject.label(writer.campaign.head, point)}: {outcome}"
    rest = f"; {_time_left(writer.campaign, left - 1)}" if left > 1 else ""
    print(printable(f"trial {trial + 1}, {name}{rest}"), file=sys.stderr)
    return noisy is None


def _disturbance(
    campaign: Campaign, result: dict[str, Any], after_s: float, most: float
) -> str | None:
    """How a run was disturbed by more than ``most``; None if it was not.

    ``after_s``: what the fixed work of `noise` took after the run.
    """
    if disturbed(result) > most:
        return f"disturbed: {disturber(result)}"
    longer = after_s / _quietest(campaign) - 1
    if longer > max(most, noise.NOISY):
        return f"disturbed: a fixed piece of work took {longer:.0%} longer"
    return None


def _quietest(campaign: Campaign) -> float:
    """The shortest time, s, that the fixed work of `noise` has taken in this study."""
    return min(entry["seconds"] for entry in campaign.of("noise"))


def _wait_for_quiet(campaign: Campaign, most: float) -> None:
    """Wait until the fixed work of `noise` takes little longer than its least time.

    ``most``: of a run's time that others may take. The work may take longer by `noise.NOISY`.
    """
    limit = (1 + max(most, noise.NOISY)) * _quietest(campaign)
    begun = time.monotonic()
    while noise.sample() > limit and time.monotonic() - begun < PATIENCE_S:
        if time.monotonic() - begun < RETRY_S:
            text = f"the machine is busy: waiting, at most {PATIENCE_S:.0f} s"
            print(text, file=sys.stderr)
        time.sleep(RETRY_S)


def _time_left(campaign: Campaign, left: int) -> str:
    """The time that the remaining runs will take, estimated from those made."""
    made = [run["seconds"] for run in campaign.events if "seconds" in run and "trial" in run]
    seconds = statistics.fmean(made) * left
    span = f"{seconds / 60:.0f} min" if seconds > 100 else f"{seconds:.0f} s"
    return f"{counted(left, 'run')} left, about {span}"


def pinning(spec: Launched, policy: Policy) -> list[str]:
    """The launcher's options that pin each PE to its own core, if PEs are to be pinned."""
    return launch.pinning(spec, policy.launcher) if policy.pin else []


def plain_command(command: Sequence[str]) -> str:
    """A command without this machine's folders, as users type it in an installed environment."""
    return shlex.join(map(_plain, command))


def _plain(word: str) -> str:
    """A word of a command without folders, a variable's value too if it is a file's full path."""
    name, equals, value = word.rpartition("=")
    return name + equals + (value if equals and value[:1] != "/" else value.rpartition("/")[2])
