"""Runs a study: launch after launch, each judged and kept before the next one begins.

Inside a trial the order of all runs is shuffled, so that what disturbs the machine for a while does
not disturb one way of running only. Compilation and warm-up are not timed by the runs themselves.
"""

from __future__ import annotations

import random
import shlex
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any

import miniapps
from miniapps.problem import BaseProblem
from workbench import environment, launch
from workbench.exit_status import VALID, WRONG
from workbench.record import host, versions
from workbench.spec import RunSpec
from workbench.statistics import mean_interval
from workbench.study import noise
from workbench.study.campaign import VERSION, Campaign, Writer
from workbench.study.plan import CASE, Study, case_of, described

TICKS = 100  # the shortest round must last as many steps of the clock


@dataclass(frozen=True)
class Effort:
    """How often to run: ``trials`` at least, until intervals are as narrow as ``until_ci``."""

    trials: int
    until_ci: float | None  # half of the 99 % interval of the mean, over the mean
    most_trials: int
    pin: bool
    timeout: float | None


def conduct(study: Study, specs: Sequence[RunSpec], effort: Effort, path: Path) -> int:
    """Run what of a study has not been run yet; returns the exit status. Raises InputError."""
    writer = Writer(path, head_of(study, specs))
    try:
        if next(_todo(study, effort, writer.campaign), None) is None:
            return _status(writer.campaign)
        tick = noise.clock_tick()
        surroundings = {"versions": versions(), "host": host(), "clock_tick_s": tick}
        writer.add("start", pinned=effort.pin, **surroundings)
        _sample_noise(writer)
        for trial, point, left in _todo(study, effort, writer.campaign):
            _one_run(writer, trial, point, specs[point], effort, left)
            _sample_noise(writer)
    finally:
        writer.close()
    return _status(writer.campaign)


def _status(campaign: Campaign) -> int:
    return WRONG if campaign.failures else VALID


def head_of(study: Study, specs: Sequence[RunSpec]) -> dict[str, Any]:
    """The campaign file's first line."""
    return {
        "campaign": VERSION,
        "study": study.head(),
        "points": [described(spec) for spec in specs],
    }


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


def wide_points(campaign: Campaign, until: float) -> set[int]:
    """Points whose mean is known less exactly than to a share of itself; not those that failed."""
    times: dict[int, list[float]] = {}
    for run in campaign.of("run"):
        times.setdefault(run["point"], []).append(mean_step_s(run["record"]))
    intervals = {point: mean_interval(values) for point, values in times.items()}
    return {point for point, found in intervals.items() if not found.half_width_share <= until}


def mean_step_s(record: dict[str, Any]) -> float:
    """Wall over steps: from barrier to barrier, the slowest PE's, and no slow step is hidden."""
    return record["wall_s"] / record["steps"]


def _sample_noise(writer: Writer) -> None:
    writer.add("noise", seconds=noise.sample())


def _one_run(
    writer: Writer, trial: int, point: int, spec: RunSpec, effort: Effort, left: int
) -> None:
    """Launch one run, judge it, keep it and say so."""
    runtime = pinning(spec) if effort.pin else []
    command = launch.command(spec, runtime, None)
    entry: dict[str, Any] = {"trial": trial, "point": point, "command": plain_command(command)}
    begun = time.perf_counter()
    result = launch.launch(spec, command, effort.timeout)
    entry["seconds"] = round(time.perf_counter() - begun, 3)
    asked = writer.campaign.head["points"][point]
    reason = judge(writer.campaign, asked, result)
    if reason is None:
        writer.add("run", **entry, record=result)
        said = f"{mean_step_s(result) * 1e3:.4g} ms per step"  # type: ignore[arg-type]
    else:
        writer.add("dropped", **entry, reason=reason, final=isinstance(result, dict))
        said = f"DROPPED: {reason}"
    name = f"{label(asked)}: {said}; {_time_left(writer.campaign, left - 1)}"
    print(f"trial {trial + 1}, {name}", file=sys.stderr, flush=True)


def _time_left(campaign: Campaign, left: int) -> str:
    """How long the runs that are left will take, by those that were made."""
    made = [run["seconds"] for run in campaign.events if "seconds" in run and "trial" in run]
    seconds = statistics.fmean(made) * left
    span = f"{seconds / 60:.0f} min" if seconds > 100 else f"{seconds:.0f} s"
    return f"{left} runs left, about {span}"


def label(point: dict[str, Any]) -> str:
    """A point of the matrix in a few words."""
    return str(case_of(point))


def pinning(spec: RunSpec) -> list[str]:
    """The launcher's words that tie each PE to a core of its own; none where there are too few."""
    if spec.pes > environment.cores():
        return []
    if spec.driver == "mpi":
        return ["-bind-to", "core"]
    cores = sorted(environment.core_numbers())[: spec.pes]
    if spec.driver == "charm":  # which by itself takes the first cores, allowed or not
        return ["+setcpuaffinity", "+pemap", ",".join(map(str, cores))]
    return ["taskset", "-c", str(cores[0])] if which("taskset") else []


def plain_command(command: Sequence[str]) -> str:
    """A command without the folders of this machine: what to type in an installed environment."""
    return shlex.join(word if "=" in word else word.rsplit("/", 1)[-1] for word in command)


def judge(campaign: Campaign, point: dict[str, Any], result: dict[str, Any] | int) -> str | None:
    """Why the run of a point does not count; None where it does.

    ``result`` is its record, or the exit status of a run that failed.
    """
    if isinstance(result, int):
        return f"failed with status {result}"
    if not result["valid"]:
        wrong = [check["name"] for check in result["checks"] if not check["ok"]]
        return f"not valid: {', '.join(wrong)}"
    for name in CASE:
        if result[name] != point[name]:
            return f"{name} was {result[name]}, asked was {point[name]}"
    tick = max((start["clock_tick_s"] for start in campaign.of("start")), default=0.0)
    shortest = min(result["rounds"]["wall_s"])
    if shortest < TICKS * tick:
        return f"a round of {shortest:.2g} s is too short for a clock that ticks {tick:.2g} s"
    for run in campaign.of("run"):
        if (
            same_answer(run["record"], result)
            and run["record"]["state_hash"] != result["state_hash"]
        ):
            return f"ended in another state than run {run['point']} of trial {run['trial'] + 1}"
    return None


def same_answer(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two runs must end in the same state: the same problem for the same steps."""
    return answer_key(one) == answer_key(other)


def answer_key(record: dict[str, Any]) -> tuple[Any, ...]:
    """What the state at the end of a run depends on."""
    free = variant_fields(record)
    fixed = {name: value for name, value in record["problem"].items() if name not in free}
    return record["app"], record["warmup"] + record["steps"], repr(sorted(fixed.items()))


def variant_fields(record: dict[str, Any]) -> set[str]:
    """The parameters of a run's problem that change how it is solved, not the answer."""
    problem: type[BaseProblem] = miniapps.load(record["app"]).Problem
    return {variant.field for variant in problem.variants}
