"""Runs a study: launch after launch, each judged and kept before the next one begins.

Inside a trial the order of all runs is shuffled, so that what disturbs the machine for a while does
not disturb one way of running only. Compilation and warm-up are not timed by the runs themselves.
"""

from __future__ import annotations

import fcntl
import random
import shlex
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

from miniapps.parameters import InputError
from miniapps.tiling import cache_folder
from workbench import environment
from workbench.exit_status import VALID, WRONG
from workbench.run import launch
from workbench.run.record import host, versions
from workbench.run.spec import RunSpec
from workbench.study import noise
from workbench.study.campaign import VERSION, Campaign, Writer
from workbench.study.plan import Study, described
from workbench.study.validation import judge, label, mean_step_s, wide_points

SURROUNDINGS = ("versions", "host", "pinned")  # what must be the same when a study is resumed


@dataclass(frozen=True)
class Effort:
    """How often and how to run: ``trials`` at least, until intervals are as narrow as wanted."""

    trials: int
    until_ci: float | None  # half of the 99 % interval of the mean, over the mean
    most_trials: int
    pin: bool
    timeout: float | None
    launcher: str | None = None  # another mpiexec than the one beside this Python


def run_campaign(study: Study, specs: Sequence[RunSpec], effort: Effort, path: Path) -> int:
    """Run what of a study has not been run yet; returns the exit status. Raises InputError."""
    runs = [(spec, launch.command(spec, pinning(spec, effort), effort.launcher)) for spec in specs]
    with _alone():
        writer = Writer(path, head_of(study, specs))
        try:
            if next(_todo(study, effort, writer.campaign), None) is not None:
                _begin(writer, effort, path)
                for trial, point, left in _todo(study, effort, writer.campaign):
                    _one_run(writer, trial, point, *runs[point], effort.timeout, left)
                    writer.add("noise", seconds=noise.sample())
        except KeyboardInterrupt:
            kept = len(writer.campaign.settled)
            print(
                f"interrupted: {kept} runs are in {path}; the same command goes on", file=sys.stderr
            )
            raise
        finally:
            writer.close()
    return WRONG if writer.campaign.failures else VALID


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other studies of this user away: they would disturb each other's times."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "study.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            allowed = "another one is running, and each would disturb the other's times"
            raise InputError("study", "refused", allowed) from None
        yield


def head_of(study: Study, specs: Sequence[RunSpec]) -> dict[str, Any]:
    """The campaign file's first line."""
    return {
        "campaign": VERSION,
        "study": study.head(),
        "points": [described(spec) for spec in specs],
    }


def _begin(writer: Writer, effort: Effort, path: Path) -> None:
    """Note where and how the study is begun or resumed, which must be the same each time."""
    around = {"versions": versions(), "host": host(), "pinned": effort.pin}
    for start in writer.campaign.of("start"):
        for what in SURROUNDINGS:
            if start[what] != around[what]:
                was, now = _differing(start[what], around[what])
                allowed = f"was begun with {what} {was}, not {now}; name another file"
                raise InputError("--campaign", path, allowed)
    tick = noise.clock_tick()
    writer.add("start", **around, clock_tick_s=tick, until_ci=effort.until_ci)
    writer.add("noise", seconds=noise.sample())


def _differing(was: Any, now: Any) -> tuple[Any, Any]:
    """Of two dicts what is not the same in both; other values as they are."""
    if not isinstance(was, dict):
        return was, now
    keys = [key for key in was | now if was.get(key) != now.get(key)]
    return {key: was.get(key) for key in keys}, {key: now.get(key) for key in keys}


def shuffled(study_seed: int, trial: int, points: int) -> list[int]:
    """The order of the runs of a trial, the same whenever it is asked for."""
    order = list(range(points))
    random.Random(f"{study_seed} {trial}").shuffle(order)
    return order


def _todo(study: Study, effort: Effort, campaign: Campaign) -> Iterator[tuple[int, int, int]]:
    """Trial and point of what is to be run next, and how many runs are left, as far as known."""
    points = len(campaign.head["points"])
    for trial in range(effort.most_trials if effort.until_ci else effort.trials):
        order = shuffled(study.shuffle_seed, trial, points)
        if trial >= effort.trials:
            wide = wide_points(campaign, effort.until_ci or 0.0)
            order = [point for point in order if point in wide]
        settled = campaign.settled
        order = [point for point in order if (trial, point) not in settled]
        for place, point in enumerate(order):
            later = max(0, effort.trials - trial - 1) * points
            yield trial, point, len(order) - place + later


def _one_run(
    writer: Writer,
    trial: int,
    point: int,
    spec: RunSpec,
    command: list[str],
    timeout: float | None,
    left: int,
) -> None:
    """Launch one run, judge it, keep it and say so."""
    entry: dict[str, Any] = {"trial": trial, "point": point, "command": plain_command(command)}
    begun = time.perf_counter()
    result = launch.launch(spec, command, timeout)
    entry["seconds"] = round(time.perf_counter() - begun, 3)
    reason = judge(writer.campaign, writer.campaign.head["points"][point], result)
    if reason is None and isinstance(result, dict):
        writer.add("run", **entry, record=result)
        said = f"{mean_step_s(result) * 1e3:.4g} ms per step"
    else:
        writer.add("dropped", **entry, reason=reason, final=isinstance(result, dict))
        said = f"DROPPED: {reason}"
    name = f"{label(writer.campaign.head, point)}: {said}"
    left_over = _time_left(writer.campaign, left - 1)
    print(f"trial {trial + 1}, {name}; {left_over}", file=sys.stderr, flush=True)


def _time_left(campaign: Campaign, left: int) -> str:
    """How long the runs that are left will take, by those that were made."""
    made = [run["seconds"] for run in campaign.events if "seconds" in run and "trial" in run]
    seconds = statistics.fmean(made) * left
    span = f"{seconds / 60:.0f} min" if seconds > 100 else f"{seconds:.0f} s"
    return f"{left} runs left, about {span}"


def pinning(spec: RunSpec, effort: Effort) -> list[str]:
    """The launcher's words that tie each PE to a core of its own, under all drivers to the same.

    None where there are too few cores, or a launcher is used whose words nobody knows.
    """
    if not effort.pin or spec.pes > environment.cores():
        return []
    cores = ",".join(map(str, environment.core_numbers()[: spec.pes]))
    if spec.driver == "mpi":
        return [] if effort.launcher else ["-bind-to", f"user:{cores}"]
    if spec.driver == "charm":
        return ["+setcpuaffinity", "+pemap", cores]
    return ["taskset", "-c", cores] if which("taskset") else []


def plain_command(command: Sequence[str]) -> str:
    """A command without the folders of this machine: what to type in an installed environment."""
    return shlex.join(word if "=" in word else word.rsplit("/", 1)[-1] for word in command)
