"""The specification of a run, validated as a whole before anything is launched."""

from __future__ import annotations

import argparse
import math
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, Field, dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from miniapps import apps, drivers, kernels
from miniapps.audit import MOST_ROUNDS, MOST_SAMPLES, SEEDS, AuditPlan
from miniapps.decomposition import Layout
from miniapps.devices import backend as device
from miniapps.drivers.descriptor import Balancing, Driver, Options
from miniapps.drivers.hosts import Hosts, hosts, require_places
from miniapps.drivers.job import Job, Store
from miniapps.parameters import InputError, extents, parameter, require, words
from miniapps.workbench.arguments import destination, driver_option_names, grouped
from miniapps.workbench.run import checkpointing
from miniapps.workbench.run.checkpoint import Hdf5Checkpoints, Resumed, read_checkpoint
from miniapps.workbench.run.durations import MINUTES, Duration, duration
from miniapps.workbench.run.launched import Launched
from miniapps.workbench.run.shapes import unprintable
from miniapps.workbench.run.writable import check_writable, require_apart

WARMUP = 10  # steps, as in the studies of ESPM2 2021; the first ones are slower
MOST_PES = 1 << 20  # and blocks per PE; their factors are searched, which takes time
MOST_BLOCKS = 1 << 20  # of a run: each is a Python object
TIME_OVER_S = 1e-3  # a limit that is over when a process has started
RUN, DEVICES, OUTPUT = "run", "devices", "output"  # groups of options
AUDITS, CHECKPOINTS = "audits", "checkpoints"
of_run, of_devices, of_output, of_audits, of_checkpoints = (
    partial(parameter, group=group) for group in (RUN, DEVICES, OUTPUT, AUDITS, CHECKPOINTS)
)


def driver_help() -> str:
    """Help text: each driver with its summary."""
    return "; ".join(f"{name}: {driver.summary}" for name, driver in drivers.found().items())


def driver_name(text: str) -> str:
    """Parse a driver's name, in any case. Raises ValueError that lists the known names."""
    if text.lower() not in drivers.names():
        raise ValueError(f"one of {', '.join(drivers.names())}")
    return text.lower()


@dataclass(frozen=True)
class RunSpec:
    """The specification of one run. `check` raises InputError if it is invalid.

    Each field between ``problem`` and ``own`` declares an option. The parser, the command line of
    a launched run, the record and the job are derived from these declarations.
    """

    app: str
    problem: Any
    driver: str = of_run("--driver", drivers.names()[0], driver_name, driver_help(), key="driver")
    pes: int = of_run("-n", 1, int, "PEs, or ranks; default: 1", metavar="PES")
    odf: int = of_run("--odf", 1, int, "blocks per PE; default: 1", metavar="K", key="odf")
    device: str = of_devices("--device", "cpu", str, "default: cpu", ("cpu", "gpu"), key="device")
    steps: int = of_run("--steps", 100, int, "timed steps", metavar="S")
    warmup: int = of_run(
        "--warmup",
        WARMUP,
        int,
        f"steps before the timed ones; default: the preset's, else {WARMUP}; "
        f"of a study at least {WARMUP}",
        metavar="W",
    )
    pe_grid: tuple[int, ...] | None = of_run(
        "--pe-grid",
        None,
        extents,
        "PEs along each axis of the domain, or blocks if the driver has one PE; "
        "default: the grid with the least surface",
        metavar="AxB[xC]",
        former="--blocks",
    )
    output: Path | None = of_output(
        "--output", None, Path, "write record, timings and final state", metavar="FILE.h5"
    )
    snapshot_every: int = of_output(
        "--snapshot-every",
        0,
        int,
        "also write a thumbnail of the state every K steps",
        metavar="K",
        former="--frames",
        key="snapshot_every",
    )
    hash_every: int = of_output(
        "--hash-every",
        0,
        int,
        "also write hashes of parts of the state every K steps, for `miniapps diff`",
        metavar="K",
        key="hash_every",
    )
    trace: bool = of_output(
        "--trace", False, bool, "also write what each block did between messages", key="traced"
    )
    gpus_per_host: int | None = of_devices(
        "--gpus-per-host", None, int, "GPUs that processes share; default: all", metavar="N"
    )
    audit: int = of_audits(
        "--audit",
        16,
        int,
        "how many cells, particles or atoms to recompute; 0: none; default: 16",
        metavar="N",
        key="audit",
    )
    audit_every: int = of_audits(
        "--audit-every",
        0,
        int,
        "also audit each round that passes a multiple of K steps",
        metavar="K",
        key="audit_every",
    )
    audit_seed: int | None = of_audits(
        "--audit-seed", None, int, "seed of the sample; default: random", metavar="S"
    )
    checkpoint: Path | None = of_checkpoints(
        "--checkpoint",
        None,
        Path,
        "write checkpoints, for `miniapps resume FILE.h5`",
        metavar="FILE.h5",
    )
    checkpoint_every: int = of_checkpoints(
        "--checkpoint-every", 0, int, "write one every K steps", metavar="K"
    )
    checkpoint_minutes: float = of_checkpoints(
        "--checkpoint-minutes", 0.0, MINUTES, "also write one M minutes after the last", metavar="M"
    )
    checkpoint_async: bool = of_checkpoints(
        "--checkpoint-async", False, bool, "write them while steps continue"
    )
    time_limit: Duration = of_checkpoints(
        "--time-limit",
        Duration(0.0),
        duration,
        "such as 55m, 90s or 1h30m: after this time, write a checkpoint and stop with status 4",
        metavar="T",
    )
    checkpoint_keep: int = of_checkpoints(
        "--checkpoint-keep",
        2,
        int,
        "how many checkpoints to keep, earlier ones as FILE.1.h5 ...; default: 2",
        metavar="N",
    )
    restart_on_failure: int = of_checkpoints(
        "--restart-on-failure",
        0,
        int,
        "if a PE dies or hangs, continue from the last checkpoint, at most N times",
        metavar="N",
    )
    restart_pes: int | None = of_checkpoints(
        "--restart-pes",
        None,
        int,
        "PEs after such a failure; default: as many as before",
        metavar="P",
    )
    time_used: Duration = of_checkpoints(
        "--time-used",
        Duration(0.0),
        duration,
        argparse.SUPPRESS,  # of the time limit, before the processes of these PEs have started
        metavar="T",
    )
    resume: Path | None = of_checkpoints(
        "--resume",
        None,
        Path,
        "continue from a checkpoint of the same problem; easier: `miniapps resume`",
        metavar="FILE.h5",
    )
    hosts: Hosts | None = of_run(
        "--hosts",
        None,
        hosts,
        "hosts, each with the number of PEs it may have: a list, or a file with one per line; "
        "default: this host",
        metavar="a:2,b:2",
    )
    _: KW_ONLY
    own: Options  # the driver's own
    parts: int | None = None  # of the domain, for drivers with one PE; None: from ``pe_grid``
    timings: Path | None = None  # where a valid run leaves the timings of its blocks, as .npy

    @classmethod
    def create(cls, options: Namespace, timings: Path | None = None) -> RunSpec:
        """The checked specification that a command line requests; options override the preset."""
        given = {
            field.name: getattr(options, field.name)
            for field in grouped(RunSpec)
            if getattr(options, field.name) is not None
        }
        problem, steps, warmup = requested(options)
        given |= {"steps": steps, "warmup": warmup, "pes": _pes(options)}
        spec = cls(options.app, problem, **given, own=_own(options), timings=timings)
        spec.check()
        return spec

    def recorded(self) -> dict[str, Any]:
        """The options stored in the record, by their keys there."""
        run = {field.metadata["key"]: getattr(self, field.name) for field in grouped(RunSpec)}
        run.pop(None)
        own = {field.name: getattr(self.own, field.name) for field in fields(self.own)}
        own = {name: str(v) if isinstance(v, Path) else v for name, v in own.items()}  # for JSON
        balancing = {field.name: own.pop(field.name, field.default) for field in fields(Balancing)}
        return run | balancing | {"driver_options": own}

    @property
    def can(self) -> Driver:
        """The driver's description, which states its capabilities."""
        return drivers.get(self.driver)

    @property
    def module(self) -> ModuleType:
        """The app's package."""
        return apps.load(self.app)

    @cached_property
    def layout(self) -> Layout:
        """The decomposition of the problem.

        In sim one process has all blocks, too, but stands for drivers whose messages travel.
        """
        cut = self.problem.cut(self._parts, self.odf, self.pe_grid)
        return replace(cut, one_home=self.can.one_pe and not self.can.replays)

    @property
    def grid(self) -> tuple[int, ...]:
        """A grid of all PEs, which as `pe_grid` gives the same layout.

        A layout's own grid has fewer where some PEs have no part of the domain, as in amr.
        """
        pes, grid = self.layout.pes, self.layout.pe_grid
        return grid if math.prod(grid) == pes else (pes, *(1 for _ in grid[1:]))

    @property
    def blocks(self) -> int:
        """The number of blocks of all kinds."""
        return sum(self.layout.counts().values())

    @property
    def block_bytes(self) -> float:
        """The memory that a block needs at least, in the mean over all blocks; 0: not known."""
        return self.problem.least_bytes() / self.blocks

    @property
    def _parts(self) -> int:
        """The number of parts of the domain, each of which is cut into ``odf`` blocks."""
        if not self.can.one_pe:
            return self.pes
        return self.parts or math.prod(self.pe_grid or (1,))

    @cached_property
    def prepared(self) -> Any:
        """The problem with every "auto" replaced by a value.

        The value is measured unless this process is one of several ranks, which must agree on it.
        """
        return self.problem.prepared(self.layout, self.device, measure=not drivers.launchers())

    def job(self, store: Store | None = None) -> Job:
        """The job for the driver."""
        return Job(
            self.app,
            self.prepared,
            self.layout,
            self.steps,
            self.warmup,
            self.device,
            store,
            self.trace,
            self.gpus_per_host,
            self.own,
            AuditPlan.asked(self.audit, self.audit_every, self.audit_seed, self.start),
            None if self.resumed is None else self.resumed.state,
            self.checkpoint_writer,
            60.0 * self.checkpoint_minutes,
            self._time_left_s,
            self.checkpoint_async,
        )

    @cached_property
    def resumed(self) -> Resumed | None:
        """The checkpoint that the run continues from, if any. Raises InputError."""
        return None if self.resume is None else read_checkpoint("--resume", self.resume.resolve())

    @property
    def start(self) -> int:
        """The first step that the run makes."""
        return 0 if self.resumed is None else self.resumed.state.step

    @property
    def checkpoint_writer(self) -> Hdf5Checkpoints | None:
        """What writes the run's checkpoints, if any."""
        return checkpointing.writer_of(self)

    @property
    def _time_left_s(self) -> float:
        """How old the processes of the PEs become before the run stops, s; 0: no limit."""
        left = self.time_limit - self.time_used
        return max(left, TIME_OVER_S) if self.time_limit else 0.0

    def own_words(self) -> list[str]:
        """The words that give the driver's own options."""
        line = []
        for field in fields(self.own):
            value = getattr(self.own, field.name)
            if value != field.default:
                line += words(driver_option_names(self.can, field, self.problem)[0], value)
        return line

    def arguments(self) -> list[str]:
        """The command line that requests this run, with every "auto" replaced by a value."""
        resolved = {
            "pe_grid": self.grid,
            "output": self.output and self.output.resolve(),
            "checkpoint": self.checkpoint and self.checkpoint.resolve(),
            "resume": self.resume and self.resume.resolve(),
        }
        line = ["run", self.app]
        for field in grouped(RunSpec):
            if field.name == "hosts":
                continue  # which PEs need not know
            value = resolved.get(field.name, getattr(self, field.name))
            newer = field.metadata["group"] in (AUDITS, CHECKPOINTS)
            new = newer or field.name == "hash_every"
            if new and value == field.default:
                continue  # as in campaigns of versions that did not have the option
            if value is True:
                line.append(field.metadata["option"])
            elif value is not False:
                line += words(field.metadata["option"], value)
        line += self.own_words()
        for field in fields(self.prepared):
            option, repeated = field.metadata["option"], field.metadata["repeated"]
            line += words(option, getattr(self.prepared, field.name), repeated)
        return line

    def _check_device(self) -> None:
        """Raise InputError if the device is not available, or an option does not apply to it."""
        per_host = self.gpus_per_host
        used = self.device == "gpu" or per_host is None
        require(used, "--gpus-per-host", per_host, "only with --device gpu")
        require(per_host is None or per_host >= 1, "--gpus-per-host", per_host, "must be 1 or more")
        app, allowed = self.problem.app, f"{self.app} has no kernels for it"
        there = app is None or kernels.exist(app, self.device)
        require(there, "--device", self.device, allowed)
        try:
            device.OPENED.get(self.device).require(per_host or 1)
        except device.DeviceUnavailable as error:
            raise InputError("--device", self.device, str(error)) from None

    def _check_audit(self) -> None:
        """Raise InputError for an audit that is impossible or keeps too much."""
        every, seed = self.audit_every, self.audit_seed
        few = 0 <= self.audit <= MOST_SAMPLES
        require(few, "--audit", self.audit, f"must be from 0 to {MOST_SAMPLES}")
        rounds = (self.warmup + self.steps) // max(1, every)
        require(every >= 0, "--audit-every", every, "must be 0 or more (0: none)")
        few = not every or rounds <= MOST_ROUNDS
        require(few, "--audit-every", every, f"{rounds} rounds, at most {MOST_ROUNDS} are allowed")
        needs = "needs an --audit of one cell, particle or atom at least"
        require(self.audit > 0 or not every, "--audit-every", every, needs)
        require(self.audit > 0 or seed is None, "--audit-seed", seed, needs)
        known = seed is None or 0 <= seed < SEEDS
        require(known, "--audit-seed", seed, "must be from 0 to 2^63 - 1")

    def _check_output(self) -> None:
        """Raise InputError if the output cannot be written, or is missing but asked for."""
        check_writable("--output", self.output)
        require_apart(self.files())
        least = "must be 0 or more (0: none)"
        every = {"--snapshot-every": self.snapshot_every, "--hash-every": self.hash_every}
        for name, steps in every.items():
            require(steps >= 0, name, steps, least)
        always = not self.hash_every or self.problem.kinds_at(0) is None
        needs = "needs blocks that exist in all steps, which this problem's do not"
        require(always, "--hash-every", self.hash_every, needs)
        wanted = every | {"--trace": self.trace}
        for field in fields(self.problem):
            value = getattr(self.problem, field.name)
            if field.name in self.problem.needs_output and value != field.default:
                wanted[field.metadata["option"]] = value
        for name, asked in wanted.items():
            require(not asked or self.output is not None, name, asked, "needs --output FILE.h5")

    @property
    def folders(self) -> list[Path]:
        """The folders of these files, which all hosts must share."""
        files = [*self.files().values(), self.timings]
        folders = [file if file.is_dir() else file.parent for file in files if file is not None]
        return [folder.resolve() for folder in folders]

    def files(self) -> dict[str, Path | None]:
        """The files that the run reads and writes, by option."""
        kept = checkpointing.names(self)
        files = {"--output": self.output, "--checkpoint": self.checkpoint}
        files |= {f"--checkpoint-keep {n}": path for n, path in enumerate(kept[1:], 2)}
        if self.resume is not None and self.resume.resolve() not in kept:
            files["--resume"] = self.resume
        for options in (self.problem, self.own):
            values = {field: getattr(options, field.name) for field in fields(options)}
            paths = {field: value for field, value in values.items() if isinstance(value, Path)}
            files |= {field.metadata["option"]: value for field, value in paths.items()}
        return files

    def check(self) -> None:
        """Check all options that can be checked before a launch. Raises InputError."""
        allowed = f"must be 1 or more, at most {MOST_PES}"
        require(1 <= self.pes <= MOST_PES, "-n", self.pes, allowed)
        require(1 <= self.odf <= MOST_PES, "--odf", self.odf, allowed)
        require(self.steps >= 1, "--steps", self.steps, "must be 1 or more")
        require(self.warmup >= 0, "--warmup", self.warmup, "must be 0 or more")
        check_hosts(self)
        can, allowed = self.can, only_with(lambda driver: driver.over_decomposition)
        require(can.over_decomposition or self.odf == 1, "--odf", self.odf, allowed)
        self._check_device()
        self.own.check(self)
        self._check_output()
        checkpointing.check(self)
        allowed = f"has {self.blocks} blocks, at most {MOST_BLOCKS} are allowed"
        require(self.blocks <= MOST_BLOCKS, self.app, self.problem.shape, allowed)
        kinds = list(self.layout.counts())
        allowed = f"has one block per rank, but this problem has blocks of {len(kinds)} kinds"
        # Of blocks that exist for a time, a rank has one of each kind.
        one = can.several_kinds or len(kinds) == 1 or self.problem.kinds_at(0) is not None
        require(one, "--driver", self.driver, f"{allowed}: {', '.join(kinds)}")
        self._check_audit()
        self.problem.check_steps(self.warmup + self.steps)
        for name, value in (self.recorded() | self.problem.parameters()).items():
            words = unprintable(value, "it")
            require(words is None, f"--{name.replace('_', '-')}", value, str(words))
        _ = self.prepared


def _own(options: Namespace) -> Options:
    """The driver's own options, taken from the command line. Raises InputError."""
    given: dict[Field[Any], Any] = {}
    for driver in drivers.found().values():
        for field in fields(driver.options):
            value = getattr(options, destination(driver, field))
            if value is not None:
                given[field] = value
    return driver_options(options.driver, given)


def driver_options(driver: str, given: Mapping[Field[Any], Any]) -> Options:
    """A driver's options; ``given`` maps the fields that declare them to values.

    Raises InputError for an option that the driver does not have, unless drivers share the option
    and the value is its default.
    """
    kind = drivers.get(driver).options
    for field, value in given.items():
        unused = bool(field.metadata["group"]) and value == field.default
        able = only_with(partial(_has_option, field))
        require(unused or field in fields(kind), field.metadata["option"], value, able)
    mine = [field for field in fields(kind) if field in given]
    return kind(**{field.name: given[field] for field in mine})


def _has_option(field: Field[Any], driver: Driver) -> bool:
    """Whether a driver has the option that a field declares."""
    return field in fields(driver.options)


def only_with(able: Callable[[Driver], bool]) -> str:
    """Error text for an option that only some drivers support."""
    names = [f"--driver {driver.name}" for driver in drivers.found().values() if able(driver)]
    return f"only with {' or '.join(names)}"


def requested(options: Namespace) -> tuple[Any, int, int]:
    """The requested problem, number of timed steps and number of warm-up steps.

    Positional arguments override the preset, options override both. Raises InputError.
    """
    app = apps.load(options.app)
    presets, name = app.Problem.presets, options.preset
    require(name is None or name in presets, "--preset", name, f"one of {', '.join(presets)}")
    preset = dict(presets[name]) if name else {}
    if getattr(options, "positional", None):
        preset |= app.Problem.from_positional(options.positional)
    steps, warmup = preset.pop("steps", 100), preset.pop("warmup", WARMUP)
    return (
        _problem(app.Problem, preset, options),
        steps if options.steps is None else options.steps,
        warmup if options.warmup is None else options.warmup,
    )


def _problem(kind: Any, preset: dict[str, Any], options: Namespace) -> Any:
    """The problem that options and a preset request; void fields have their defaults.

    Raises InputError for an option that has no effect, unless its value is the default.
    """
    declared = {field.name: field for field in fields(kind)}
    found = {name: getattr(options, name) for name in declared}
    given = {name: tuple(value) if isinstance(value, list) else value
             for name, value in found.items() if value is not None}  # fmt: skip
    problem = kind(**preset | given)
    void = problem.void()
    unused = {name: declared[name].default for name in void if name in preset | given}
    for name, default in unused.items():
        asked = given.get(name, default)
        require(asked == default, declared[name].metadata["option"], asked, void[name])
    return replace(problem, **unused) if unused.keys() & preset.keys() else problem


def _pes(options: Namespace) -> int:
    """The number of PEs: -n, else the number of parts in --pe-grid, else 1."""
    if drivers.get(options.driver).one_pe:
        allowed = f"--driver {options.driver} has one PE; use --pe-grid to cut the problem"
        require(options.pes in (None, 1), "-n", options.pes, allowed)
        return 1
    if options.pes is not None:
        return int(options.pes)
    if options.pe_grid is None and options.hosts is not None:
        return int(options.hosts.pes)
    return math.prod(options.pe_grid or (1,))


def check_hosts(spec: Launched) -> None:
    """Raise InputError unless a driver can have its PEs on the hosts that a user has named."""
    if spec.hosts is not None:
        named, one = str(spec.hosts), drivers.get(spec.driver).one_process
        require(not one, "--hosts", named, only_with(lambda driver: not driver.one_process))
        why = spec.own.not_on_hosts()
        require(why is None, "--hosts", named, str(why))
        require_places(spec.hosts, spec.pes)
