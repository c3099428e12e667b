"""``miniapps adversary``: look for an order of events that changes an app's result."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from miniapps import apps, drivers
from miniapps.contract import combine
from miniapps.drivers.job import Job
from miniapps.drivers.lives import Lives
from miniapps.drivers.orders import Order, Scheduled
from miniapps.drivers.schedule import VERSION, Schedule, read_schedule
from miniapps.parameters import InputError, require
from miniapps.workbench.adversary.locate import explained, located
from miniapps.workbench.adversary.search import Found, search
from miniapps.workbench.adversary.shrink import shrunk
from miniapps.workbench.adversary.trial import Result, Subject
from miniapps.workbench.environment import core_numbers
from miniapps.workbench.exit_status import FAILED, VALID, WRONG
from miniapps.workbench.plural import counted
from miniapps.workbench.run.progress_bar import ProgressBar
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.run.spec import RunSpec, requested
from miniapps.workbench.run.writable import check_writable, require_apart

PARTS = 6, 4, 3, 2, 1  # blocks to try if --pe-grid is not given
MINIMAL, TINY = "minimal", "tiny"  # presets; those of variants end so: "fft-minimal"
STEPS, SCHEDULES, SECONDS, PES = 3, 10_000, 60.0, 2
LEAST = {"schedules": 1, "sim_pes": 1, "sim_seed": 0, "jobs": 0}  # by option

OF_A_SEARCH = {  # options and their defaults
    "schedules": SCHEDULES, "seconds": SECONDS, "jobs": 0, "sim_seed": 0, "schedule": None,
    "json": None,
}  # fmt: skip


def adversary(options: Namespace) -> int:
    """Search, or replay a schedule; returns the exit status. Raises InputError."""
    for name, least in LEAST.items():
        value = getattr(options, name)
        require(value >= least, f"--{name.replace('_', '-')}", value, f"must be {least} or more")
    if options.replay is not None:
        for name, usual in OF_A_SEARCH.items():
            option, value = f"--{name.replace('_', '-')}", getattr(options, name)
            require(value == usual, option, value, "is of a search: not with --replay")
    spec = spec_of(options)
    head = {
        "app": spec.app,
        "problem": json.loads(json.dumps(spec.problem.parameters())),
        "blocks": list(spec.layout.grid),
        "steps": spec.steps,
        "pes": options.sim_pes,
    }
    subject = subject_of(spec, options.sim_pes)
    status = check_usual(spec, subject)
    if status != VALID:
        return status
    if options.replay is not None:
        return replay(subject, options.replay, head)
    path = options.schedule or Path(f"{spec.app}-schedule.json")
    check_writable("--schedule", path)
    check_writable("--json", options.json)
    require_apart({"--schedule": path, "--json": options.json})
    found = searched(options, subject)
    status = report(subject, found, path, head)
    if options.json is not None:
        record = head | {"first_seed": options.sim_seed} | recorded(found)
        write_text(options.json, json.dumps(record, indent=1) + "\n")
    return status


def searched(options: Namespace, subject: Subject) -> Found:
    """Search as the options ask for, and show the progress."""
    jobs = options.jobs or len(core_numbers())
    bar = ProgressBar(f"{options.app}, schedules", options.schedules)
    try:
        many = options.schedules, options.seconds
        return search(subject, *many, options.sim_seed, bar.update, jobs)
    finally:
        bar.close()


def recorded(found: Found) -> dict[str, Any]:
    """The result of a search as plain data; ``states``: how many different ones there were."""
    return {
        "schedules": found.tried,
        "seconds": round(found.seconds, 1),
        "pairs": len(found.coverage.pairs),
        "pairs_in_both_orders": found.coverage.both,
        "states": 1 if found.wrong is None else 2,
        "state_hash": found.right.state_hash,
        "failed_seed": None if found.wrong is None else found.seed,
    }


def spec_of(options: Namespace) -> RunSpec:
    """The run to repeat: the app's options, on a driver that follows schedules."""
    options.preset = options.preset or smallest(options.app)[0]
    options.warmup = 0
    problem, steps, _ = requested(options)
    if options.steps is None and not options.preset.endswith(MINIMAL):
        steps = fewest(problem, steps)
    driver = next(driver for driver in drivers.usable() if driver.replays)
    own, grid = driver.options(), options.pe_grid
    for parts in PARTS if grid is None else (None,):
        try:
            spec = RunSpec(options.app, problem, driver.name, steps=steps, warmup=0, pe_grid=grid,
                           own=own, parts=parts)  # fmt: skip
            spec.check()
            return spec
        except InputError:
            if parts in (None, PARTS[-1]):
                raise
    raise AssertionError("the last of PARTS has returned or raised")


def smallest(app: str) -> list[str]:
    """The presets to search: `MINIMAL`, else `TINY`; and the minimal ones of variants."""
    presets = apps.load(app).Problem.presets
    usual = MINIMAL if MINIMAL in presets else TINY
    return [usual, *(name for name in presets if name.endswith(f"-{MINIMAL}"))]


def fewest(problem: Any, most: int) -> int:
    """The fewest steps that the problem can make, `STEPS` or more; ``most`` if it needs them."""
    for steps in range(STEPS, most):
        try:
            problem.check_steps(steps)
        except InputError:
            continue
        return steps
    return most


def subject_of(spec: RunSpec, pes: int) -> Subject:
    """The app's blocks on a simulated engine."""
    problem = spec.problem.prepared(spec.layout, spec.device)
    job: Job[Any] = Job(spec.app, problem, spec.layout, spec.steps)
    job.take_device(0)
    job.compile()
    simulated = drivers.load(spec.driver).simulated
    lives = Lives.of(job, spec.layout.numbers)
    return Subject(
        job.lasting_blocks,
        lambda blocks, order: simulated(blocks, order, pes, lives),
        spec.steps,
        problem,
    )


def check_usual(spec: RunSpec, subject: Subject) -> int:
    """Validate the run in the usual order, with which all others are compared, and repeat it."""
    result, blocks = subject.outcome(Order())
    if result.error:
        print(f"miniapps: run failed in the usual order: {result.error}", file=sys.stderr)
        return FAILED
    measures = combine(*[block.measure() for block in blocks])
    checks = spec.module.validate(blocks[0].problem, spec.steps, measures, result.state_hash)
    wrong = [check.name for check in checks if not check.ok]
    if wrong:
        print(f"{spec.app}: wrong in the usual order: {', '.join(wrong)}")
    elif subject.run(Order()) != result:
        wrong = ["repetition"]
        print(f"{spec.app}: two runs in the usual order differ: blocks use something that outlives "
              "a run, such as a class variable, or a generator without a seed")  # fmt: skip
    return WRONG if wrong else VALID


def report(subject: Subject, found: Found, path: Path, head: dict[str, Any]) -> int:
    """Print the result of a search; a failing schedule is made small and written to a file."""
    rate = found.tried / max(found.seconds, 1e-9)
    pairs = len(found.coverage.pairs)
    tried = counted(found.tried, "schedule")
    print(f"{head['app']}: {tried} in {found.seconds:.1f} s ({rate:.0f} per s)")
    print(f"pairs of events at a block: {pairs}, in both orders: {found.coverage.both}")
    if found.wrong is None:
        print(f"all gave the state\n  {found.right.state_hash}")
        return VALID
    small, where = explained(subject, shrunk(subject, found.schedule, found.wrong))
    data = {"schedule": VERSION, **head, "seed": found.seed, "order": found.order, **small.plain()}
    write_text(path, json.dumps(data, indent=1) + "\n")
    print(f"seed {found.seed} ({found.order}) gave {shown(found.wrong)}")
    exceptions = counted(len(found.schedule), "exception")
    print(f"{exceptions} from the usual order, {len(small)} of them needed")
    print(f"{where.sentence}; replay with --replay {path}")
    return WRONG


def replay(subject: Subject, path: Path, head: dict[str, Any]) -> int:
    """Run by the schedule in a file, and explain the difference from the usual order."""
    schedule, data = read_schedule(path, "--replay")
    for key, value in head.items():
        allowed = f"was recorded with {key} {data.get(key)}, not {value}"
        require(data.get(key, value) == value, "--replay", path, allowed)
    run = partial(subject.run, seen=None)
    right, result = run(Scheduled(Schedule())), run(Scheduled(schedule))
    if result == right:
        print(f"the same state as in the usual order:\n  {right.state_hash}")
        return VALID
    print(f"the schedule gave {shown(result)}")
    print(located(subject, schedule).sentence)
    return WRONG


def shown(result: Result) -> str:
    """A result in words."""
    return f"the error {result.error}" if result.error else f"another state: {result.state_hash}"
