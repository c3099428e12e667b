"""The specification of a run, validated as a whole before anything is launched."""

from __future__ import annotations

import math
import tempfile
from argparse import Namespace
from collections.abc import Callable
from dataclasses import Field, asdict, dataclass, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import drivers
import kernels
import miniapps
from devices import backend as device
from drivers.descriptor import Driver, Options
from drivers.job import Job, Store
from miniapps.decomposition import Layout
from miniapps.parameters import InputError, extents, require, words
from workbench.arguments import option

BALANCING, DEVICES, OUTPUT = "load balancing", "devices", "output"  # groups of the help


def driver_help() -> str:
    """Help text: each driver with its summary."""
    return "; ".join(f"{name}: {driver.summary}" for name, driver in drivers.found().items())


def driver_name(text: str) -> str:
    """Parse a driver's name, in any case. Raises ValueError that lists the known names."""
    if text.lower() not in drivers.names():
        raise ValueError(f"one of {', '.join(drivers.names())}")
    return text.lower()


def balancer_name(text: str) -> str:
    """A balancer's name as its driver spells it; an unknown name stays unchanged."""
    known = chain.from_iterable(driver.balancers for driver in drivers.found().values())
    return {name.lower(): name for name in known}.get(text.lower(), text)


@dataclass(frozen=True)
class RunSpec:
    """The specification of one run. `check` raises InputError if it is invalid.

    Each field except the first two and the last declares an option. The parser, the command line
    of a launched run, the record and the job are derived from these declarations.
    """

    app: str
    problem: Any
    driver: str = option("--driver", drivers.names()[0], driver_name, driver_help(), key="driver")
    pes: int = option("-n", 1, int, "PEs, or ranks; default: 1", metavar="PES")
    odf: int = option("--odf", 1, int, "blocks per PE; default: 1", metavar="K", key="odf")
    balancer: str | None = option(
        "--balancer", None, balancer_name, "load balancer", BALANCING, "NAME", key="balancer"
    )
    lb_period: int = option(
        "--lb-period", 0, int, "steps between balancings", BALANCING, "STEPS", key="lb_period"
    )
    device: str = option(
        "--device", "cpu", str, "default: cpu", DEVICES, choices=("cpu", "gpu"), key="device"
    )
    steps: int = option("--steps", 100, int, "timed steps", metavar="S")
    warmup: int = option("--warmup", 0, int, "steps before the timed ones", metavar="W")
    blocks: tuple[int, ...] | None = option(
        "--blocks",
        None,
        extents,
        "grid of PEs, with one PE grid of blocks; default: least surface",
        metavar="AxB[xC]",
    )
    output: Path | None = option(
        "--output", None, Path, "write record, timings and final state", OUTPUT, "FILE.h5"
    )
    snapshot_every: int = option(
        "--snapshot-every",
        0,
        int,
        "and thumbnails of it, every K steps",
        OUTPUT,
        "K",
        former="--frames",
        key="snapshot_every",
    )
    trace: bool = option(
        "--trace", False, bool, "and what each block did between messages", OUTPUT, key="traced"
    )
    gpus_per_host: int | None = option(
        "--gpus-per-host", None, int, "GPUs to share; default: all", DEVICES, "N"
    )
    lb_first: int | None = option(
        "--lb-first",
        None,
        int,
        "first balancing; default: the period",
        BALANCING,
        "STEP",
        key="lb_first",
    )
    own: Options = Options()  # the driver's own

    @classmethod
    def create(cls, options: Namespace) -> RunSpec:
        """Combine the preset with the app's and the run's options, which override it. Checked."""
        given = {
            field.name: getattr(options, field.name)
            for field in run_options()
            if getattr(options, field.name) is not None
        }
        problem, steps, warmup = asked_for(options)
        given |= {"steps": steps, "warmup": warmup, "pes": _pes(options)}
        spec = cls(options.app, problem, **given, own=_own(options))
        spec.check()
        return spec

    def recorded(self) -> dict[str, Any]:
        """The options stored in the record, by their keys there."""
        keys = {field.metadata["key"]: field.name for field in run_options()}
        return {key: getattr(self, name) for key, name in keys.items() if key} | {
            "driver_options": asdict(self.own)
        }

    @property
    def can(self) -> Driver:
        """The driver's description, which states its capabilities."""
        return drivers.get(self.driver)

    @property
    def module(self) -> ModuleType:
        """The app's package."""
        return miniapps.load(self.app)

    @cached_property
    def layout(self) -> Layout:
        """The decomposition of the problem."""
        return self.problem.cut(self.pes, self.odf, self.blocks)

    @cached_property
    def prepared(self) -> Any:
        """The problem with every "auto" replaced by a value.

        The value is measured unless this process is one of several ranks, which must agree on it.
        A launching process does not measure on a GPU, because it would keep device memory.
        """
        own = self.device == "cpu" or self.can.one_process
        alone = not drivers.launchers()
        return self.problem.prepared(self.layout, self.device, measure=alone and own)

    def job(self, store: Store | None = None) -> Job:
        """The job for the driver."""
        mine = {field.name for field in run_options()} & {field.name for field in fields(Job)}
        asked = {name: getattr(self, name) for name in mine}
        job: dict[str, Any] = {"store": store, "traced": self.trace, "options": self.own}
        return Job(self.app, self.prepared, self.layout, **asked, **job)

    def arguments(self) -> list[str]:
        """The command line that requests this run, with every "auto" replaced by a value."""
        settled = {
            "pes": 1 if self.can.one_pe else self.pes,
            "blocks": self.layout.pe_grid,
            "output": self.output and self.output.resolve(),
        }
        line = ["run", self.app]
        for field in run_options():
            value = settled.get(field.name, getattr(self, field.name))
            if value is True:
                line.append(field.metadata["option"])
            elif value is not False:
                line += words(field.metadata["option"], value)
        for field in fields(self.own):
            value = getattr(self.own, field.name)
            if value != field.default:
                line += words(own_names(self.driver, field, self.problem)[0], value)
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

    def check(self) -> None:
        """Validate everything that is known before a launch. Raises InputError."""
        require(self.pes >= 1, "-n", self.pes, "must be 1 or more")
        require(self.odf >= 1, "--odf", self.odf, "must be 1 or more")
        require(self.steps >= 1, "--steps", self.steps, "must be 1 or more")
        require(self.warmup >= 0, "--warmup", self.warmup, "must be 0 or more")
        require(self.lb_period >= 0, "--lb-period", self.lb_period, "must be 0 or more (0: never)")
        can, cutting = self.can, only_with(lambda driver: driver.over_decomposition)
        balancing = only_with(lambda driver: driver.balancing)
        require(can.over_decomposition or self.odf == 1, "--odf", self.odf, cutting)
        require(can.balancing or self.balancer is None, "--balancer", self.balancer, balancing)
        require(can.balancing or self.lb_period == 0, "--lb-period", self.lb_period, balancing)
        if self.balancer is not None:
            known = ", ".join(can.balancers)
            require(self.balancer in can.balancers, "--balancer", self.balancer, f"one of {known}")
            require(self.lb_period > 0, "--balancer", self.balancer, "needs --lb-period STEPS")
        if self.lb_first is not None:
            require(self.lb_period > 0, "--lb-first", self.lb_first, "needs --lb-period STEPS")
            end = self.warmup + self.steps
            timed = f"must be more than the {self.warmup} steps of warm-up and less than all {end}"
            require(self.warmup < self.lb_first < end, "--lb-first", self.lb_first, timed)
        self._check_device()
        self.own.check(self)
        check_writable("--output", self.output)
        least = "must be 0 or more (0: none)"
        require(self.snapshot_every >= 0, "--snapshot-every", self.snapshot_every, least)
        for name, asked in (("--snapshot-every", self.snapshot_every), ("--trace", self.trace)):
            require(not asked or self.output is not None, name, asked, "needs --output FILE.h5")
        kinds = list(self.layout.families())
        allowed = f"has one block per rank, this problem blocks of {len(kinds)} kinds"
        one = can.several_kinds or len(kinds) == 1
        require(one, "--driver", self.driver, f"{allowed}: {', '.join(kinds)}")
        self.problem.check_steps(self.warmup + self.steps)
        _ = self.prepared


def run_options() -> list[Field[Any]]:
    """The fields of a `RunSpec` that are options."""
    return [field for field in fields(RunSpec) if "group" in field.metadata]


def own_names(driver: str, field: Field[Any], problem: Any) -> list[str]:
    """The names of a driver's option; only the prefixed one if the app has the same option."""
    name = field.metadata["option"]
    taken = {other.metadata["option"] for other in fields(problem)}
    return [*([] if name in taken else [name]), f"--{driver}-{name.removeprefix('--')}"]


def _own(options: Namespace) -> Options:
    """The options of the chosen driver. Raises InputError for options of another driver."""
    given: dict[str, Any] = {}
    for driver in drivers.found().values():
        for field in fields(driver.options):
            value = getattr(options, f"{driver.name}_{field.name}")
            if value is not None:
                name, allowed = field.metadata["option"], f"only with --driver {driver.name}"
                require(driver.name == options.driver, name, value, allowed)
                given[field.name] = value
    return drivers.get(options.driver).options(**given)


def only_with(able: Callable[[Driver], bool]) -> str:
    """Error text for an option that only some drivers support."""
    names = [f"--driver {driver.name}" for driver in drivers.found().values() if able(driver)]
    return f"only with {' or '.join(names)}"


def asked_for(options: Namespace) -> tuple[Any, int, int]:
    """The requested problem, number of timed steps and number of warm-up steps.

    Positional arguments override the preset, options override both. Raises InputError.
    """
    app = miniapps.load(options.app)
    preset = _preset(app, options.preset)
    if getattr(options, "positional", None):
        preset |= app.Problem.from_positional(options.positional)
    steps, warmup = preset.pop("steps", 100), preset.pop("warmup", 0)
    for field in fields(app.Problem):
        value = getattr(options, field.name)
        if value is not None:
            preset[field.name] = tuple(value) if isinstance(value, list) else value
    return (
        app.Problem(**preset),
        steps if options.steps is None else options.steps,
        warmup if options.warmup is None else options.warmup,
    )


def _preset(app: ModuleType, name: str | None) -> dict[str, Any]:
    """A copy of a preset of the app."""
    presets = app.Problem.presets
    require(name is None or name in presets, "--preset", name, f"one of {', '.join(presets)}")
    return dict(presets[name]) if name else {}


def _pes(options: Namespace) -> int:
    """The number of PEs: as requested, else the size of the grid given by --blocks, else one.

    For a driver with a single PE it is the number of blocks, all of which are on that PE.
    """
    blocks = math.prod(options.blocks) if options.blocks else 1
    if drivers.get(options.driver).one_pe:
        allowed = f"--driver {options.driver} has one PE; use --blocks to cut the problem"
        require(options.pes in (None, 1), "-n", options.pes, allowed)
        return blocks
    return blocks if options.pes is None else options.pes


def check_writable(option: str, path: Path | None) -> None:
    """Raise InputError unless a file can be created at the path."""
    if path is None:
        return
    folder = path.resolve().parent
    require(not path.is_dir(), option, path, "is a directory")
    require(folder.is_dir(), option, path, f"there is no directory {folder}")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(option, path, f"cannot be written: {error.strerror}") from None
