"""Trials: one fault, one app and one driver each; what a run with the fault says of it."""

from __future__ import annotations

import os
import re
import signal
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from miniapps import apps, drivers
from miniapps.drivers.descriptor import Driver
from miniapps.faults import Fault
from miniapps.parameters import InputError
from miniapps.problem import Variant
from miniapps.workbench.run import batch, launch, warm
from miniapps.workbench.run.cases import Case
from miniapps.workbench.run.processes import end_with
from miniapps.workbench.run.stall import IDLE, STALLED
from miniapps.workbench.selftest import faults, simulated
from miniapps.workbench.selftest.faulty import APPLIED, FaultySpec

STEPS, WARMUP = 8, 2  # where the app does not ask for others
BALANCER, PERIOD = "Rotate", 3  # moves every block
PES, ODF, PARTS = 2, 2, 4
PATIENCE = 4  # times the usual limit, for a trial that ran out of time
ENDS = "ends: "  # before the error of a run that did not end by itself
# Errors of a fault that does not fit the app: in its own lines, or of a type that no data has.
MISFIT = re.compile(r"^(?!.*SystemExit).*\(\w*faults\.py:\d+; |\bTypeError: ")


@dataclass(frozen=True)
class Scale:
    """How large trials are, and how they are made.

    ``limit_s``: seconds without progress after which a run ends, as where a message is lost;
    ``most``: trials of a launch; ``at_once``: launches: while one starts or hangs, others compute.
    """

    preset: str
    limit_s: float
    most: int
    at_once: int = 3

    def patient(self) -> Scale:
        """The same for trials that ran out of time: one at a time, each with more time."""
        return replace(self, limit_s=PATIENCE * self.limit_s, most=1, at_once=1)


TINY = Scale("tiny", 2.0, 1000)
SMALL, LARGE = Scale("small", 30.0, 8), Scale("large", 45.0, 4)
SCALES = {scale.preset: scale for scale in (TINY, SMALL, LARGE)}


@dataclass(frozen=True)
class Trial:
    """One run: a fault, by its key, or the right program; an app, with a variant; a driver."""

    fault: str | None
    app: str
    driver: str
    spec: FaultySpec
    preset: str = "tiny"

    @property
    def acted(self) -> bool:
        """Whether the fault has changed anything; known after the run."""
        return self.spec.mark is not None and self.spec.mark.exists()

    @property
    def is_thorough(self) -> bool:
        """Whether every round is audited."""
        return self.spec.audit_every == 1

    def thorough(self) -> Trial:
        """The same run, in which every round is audited."""
        return replace(self, spec=replace(self.spec, audit_every=1))


@dataclass(frozen=True)
class Found:
    """What became of a trial: whether the fault acted, and the checks or the error that saw it.

    ``disturbed``: whether the trial was made again because it first ran out of time.
    """

    trial: Trial
    acted: bool
    caught: str
    disturbed: bool = False

    @property
    def out_of_time(self) -> bool:
        """Whether the run was ended while it still computed, so that it shows nothing.

        Where no fault has acted, no message is lost either: a busy machine made the PEs wait.
        """
        return ran_out_of_time(self.caught) or (not self.acted and stalled(self.caught))

    @property
    def is_misfit(self) -> bool:
        """Whether the run ended because the fault does not fit the app, which no check has seen."""
        return MISFIT.search(self.caught) is not None

    @property
    def allowed(self) -> str:
        """Why nothing need see the fault, as it is harmless or too small; empty if it must be."""
        app, fault = self.trial.spec.app, str(self.trial.fault)
        unseen = {} if self.trial.preset == TINY.preset else faults.declared(app, "UNSEEN")
        return {**unseen, **faults.declared(app, "HARMLESS")}.get(fault, "")

    @property
    def survived(self) -> bool:
        """Whether the fault changed something, and nothing saw it."""
        return self.acted and not self.caught and not self.allowed


def trials(
    apps: list[str], names: list[str], words: str | None, marks: Path, preset: str = TINY.preset
) -> Iterator[Trial]:
    """All trials of some apps under some drivers, of faults whose key contains the ``words``.

    ``marks``: a folder in which faults say that they have acted; ``preset``: of the problems.
    """
    usable = [driver for driver in drivers.usable() if driver.name in names]
    places = [(driver, "cpu") for driver in usable]
    if preset == TINY.preset:
        places += [(driver, "gpu") for driver in usable if simulated.may_run(driver)]
    for driver, device in places:
        for app in apps:
            for name, variant in variants(app, preset).items():
                for trial in _trials(driver, app, name, variant, marks, preset, device):
                    if words is None or trial.fault is None or words in trial.fault:
                        yield trial


def variants(app: str, preset: str = TINY.preset) -> dict[str, dict[str, Any]]:
    """An app as it is, and its variants with several kinds of blocks: name to fields.

    Large problems have no such variants: LeanMD by pairs would have 180 000 blocks, and a trial
    would take five minutes.
    """
    several = () if preset == LARGE.preset else kinds(app)
    return {app: {}} | {f"{app} {v.value}": {v.field: v.value} for v in several}


def _trials(
    driver: Driver, app: str, name: str, variant: dict[str, Any], marks: Path, preset: str,
    device: str,
) -> Iterator[Trial]:  # fmt: skip
    """The trials of one variant of an app under a driver and on a device."""
    if not applies(driver, app, variant, None, device):
        return
    column = simulated.column(driver) if device == "gpu" else driver.name
    every: list[tuple[str | None, Fault | None]] = [(None, None)]
    every += faults.of(app, driver.file, device).items()
    for key, fault in every:
        if applies(driver, app, variant, fault, device):
            mark = marks / f"{column}-{name}-{key}".replace(" ", "-").replace("/", "-")
            spec = spec_of(driver, app, variant, fault, preset, device)
            yield Trial(key, name, column, FaultySpec.around(spec, key, mark), preset)


def applies(
    driver: Driver, app: str, variant: Mapping[str, Any], fault: Fault | None, device: str = "cpu"
) -> bool:
    """Whether to try a fault in this variant under this driver and on this device.

    The app's own faults and those of results are tried in its plain form, except those that name
    another variant. So are all faults of a GPU, in apps that list some. A driver that differs from
    another one in its transport alone has its own faults only, and those of messages in one app.
    """
    if device == "gpu" and not faults.listed(faults.module_of(app, device)):
        return False
    if fault is not None:
        if fault.needs and not getattr(driver, fault.needs):
            return False
        if any(variant.get(field, value) != value for field, value in fault.given.items()):
            return False
        if driver.like and fault not in faults.of_transport(app, driver.file):
            return False
        named = several_kinds(app, fault.given)
        plain = device == "gpu" or fault in faults.of_plain(app)
        if named != several_kinds(app, variant) and (named or plain):
            return False
    try:
        spec_of(driver, app, variant, fault, device=device)
    except InputError:
        return False
    return True


def spec_of(
    driver: Driver,
    app: str,
    variant: Mapping[str, Any],
    fault: Fault | None,
    preset: str = TINY.preset,
    device: str = "cpu",
) -> Any:
    """The run in which a fault is tried: a preset of the app, shortened. Raises InputError."""
    problem_class = apps.load(app).Problem
    usual = dict(problem_class.presets[preset]) | {"steps": STEPS, "warmup": WARMUP}
    fields: dict[str, Any] = usual | faults.declared(app, "PROBLEMS", device).get(preset, {})
    length = {name: fields.pop(name) for name in ("steps", "warmup")}
    problem = problem_class(**fields | dict(fault.given if fault else {}) | dict(variant))
    pes = 1 if driver.one_pe else PES
    odf = ODF if driver.over_decomposition and not several_kinds(app, vars(problem)) else 1
    balanced = fault is not None and fault.migrating and BALANCER in driver.balancers
    balancer, period = (BALANCER, PERIOD) if balanced else (None, 0)
    parts = PARTS if driver.one_pe else 1
    case = Case(driver.name, pes, odf, balancer, period, parts=parts)
    # Only the process that simulates a GPU can find one, so the device is not checked here.
    return replace(case.spec(app, problem, **length), device=device)


def kinds(app: str) -> list[Variant]:
    """The variants of an app that have several kinds of blocks."""
    return [v for v in apps.load(app).Problem.variants if v.several_kinds]


def several_kinds(app: str, fields: Mapping[str, Any]) -> bool:
    """Whether a problem with these fields has several kinds of blocks."""
    return any(fields.get(v.field) == v.value for v in kinds(app))


def solve(chosen: list[Trial], scale: Scale = TINY) -> Iterator[Found]:
    """Make all trials, several launches at a time; yields what became of each as it ends."""
    groups: dict[Any, list[Trial]] = {}
    on_gpu = [trial for trial in chosen if trial.spec.device == "gpu"]
    on_cpu = [trial for trial in chosen if trial.spec.device != "gpu"]
    for trial in on_cpu:
        groups.setdefault(batch.launch_of(trial.spec), []).append(trial)
    shares = [share for group in groups.values() for share in shared(group, scale)]
    launched = any(not one.spec.can.one_process for one in on_cpu)
    context = get_context("spawn")
    read, write = context.Pipe(duplex=False)  # closed when this process ends; nobody writes
    with (
        read,
        write,
        warm.started(warming(on_cpu)) if launched else nullcontext(()) as program,
        launch.pes_started_by(program),
        ProcessPoolExecutor(1, context, simulate, (read,)) as simulator,
        ProcessPoolExecutor(scale.at_once, context, end_with_parent, (read,)) as pool,
    ):
        usual = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for this process alone
        running = [simulator.submit(solve_simulated, on_gpu)] if on_gpu else []
        running += [pool.submit(solve_share, share, scale.limit_s) for share in shares]
        signal.signal(signal.SIGINT, usual)  # those just started go on ignoring it
        try:
            for share in as_completed(running):
                yield from share.result()
        except BaseException:
            for process in active_children():
                process.kill()  # and with it, by its guards, what it has launched
            raise


def warming(chosen: list[Trial]) -> list[FaultySpec]:
    """Short runs in one process that load all kernels of the apps of these trials."""
    names = [driver.name for driver in drivers.usable() if driver.one_pe]
    short = trials(sorted({one.spec.app for one in chosen}), names, None, Path(os.devnull))
    return [one.spec for one in short if one.fault is None and one.spec.device != "gpu"]


def end_with_parent(read: Connection) -> None:
    """End this process, and with it what it has launched, when its parent has ended.

    ``read``: of a pipe that the parent alone can write to. Other processes have it, too, so it is
    opened again.
    """
    end_with(os.open(f"/proc/self/fd/{read.fileno()}", os.O_RDONLY | os.O_NONBLOCK))


def simulate(read: Connection) -> None:
    """Simulate GPUs in this process, and end it when its parent has ended."""
    end_with_parent(read)
    simulated.begin()


def shared(group: list[Trial], scale: Scale) -> list[list[Trial]]:
    """A group of trials in parts, at least as many as are made at once; each of several apps."""
    parts = max(scale.at_once, -(-len(group) // scale.most))
    return [part for n in range(parts) if (part := group[n::parts])]


def solve_share(trials: list[Trial], limit_s: float) -> list[Found]:
    """What became of trials that can share launches; in this process, of one after the other."""
    if not trials[0].spec.can.one_process:
        results = batch.solve_all([trial.spec for trial in trials], limit_s)
        pairs = zip(trials, results, strict=True)
        return [Found(trial, trial.acted, seen(result)) for trial, result in pairs]
    return [solve_here(trial) for trial in trials]


def solve_simulated(trials: list[Trial]) -> list[Found]:
    """What became of trials on a simulated GPU, all in this process."""
    tiles: dict[str, int] = {}
    for app in {trial.spec.app for trial in trials}:
        tiles |= faults.declared(app, "TILES", "gpu")
    with simulated.made_fast(tiles):
        return [solve_here(trial) for trial in trials]


def solve_here(trial: Trial) -> Found:
    """What became of a trial in this process."""
    with warnings.catch_warnings(action="ignore"):
        result = batch.solve(trial.spec)
    APPLIED.clear()
    return Found(trial, trial.acted, seen(result))


def seen(result: batch.Result) -> str:
    """The checks that a run fails, or the error that ended it, a line; empty for a valid run."""
    if isinstance(result, str):
        return f"{ENDS}{result.splitlines()[0]}"
    if result["valid"]:
        return ""
    failed = [check["name"].split(" (")[0] for check in result["checks"] if not check["ok"]]
    return ", ".join(dict.fromkeys(failed))


def ran_out_of_time(caught: str) -> bool:
    """Whether what ended a run is the limit of its time alone: blocks computed, none was lost."""
    return stalled(caught) and IDLE not in caught


def stalled(caught: str) -> bool:
    """Whether a run was ended because it made no progress."""
    return caught.startswith(ENDS + STALLED)
