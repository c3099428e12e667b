"""What the user asked for, checked as a whole before anything is launched."""

from __future__ import annotations

import math
import tempfile
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import drivers
import kernels
import miniapps
from devices import backend as device
from drivers.descriptor import Driver
from drivers.job import Job, Store
from miniapps.decomposition import Layout
from miniapps.parameters import InputError, require, words


@dataclass(frozen=True)
class RunSpec:
    """One run as asked for. `check` raises InputError where it makes no sense."""

    app: str
    problem: Any
    driver: str
    pes: int
    odf: int
    balancer: str | None
    lb_period: int
    device: str
    steps: int
    warmup: int
    blocks: tuple[int, ...] | None
    output: Path | None
    snapshot_every: int = 0
    trace: bool = False
    gpus_per_host: int | None = None
    gpu_aware: str = "auto"
    lb_first: int | None = None  # None: the period

    @classmethod
    def create(cls, options: Namespace) -> RunSpec:
        """Join the preset, the app's options and the run's options, the later over the former."""
        problem, steps, warmup = asked_for(options)
        spec = cls(
            app=options.app,
            problem=problem,
            driver=options.driver,
            pes=_pes(options),
            odf=options.odf,
            balancer=options.balancer,
            lb_period=options.lb_period,
            device=options.device,
            steps=steps,
            warmup=warmup,
            blocks=options.blocks,
            output=options.output,
            snapshot_every=options.snapshot_every,
            trace=options.trace,
            gpus_per_host=options.gpus_per_host,
            gpu_aware=options.gpu_aware,
            lb_first=options.lb_first,
        )
        spec.check()
        return spec

    @property
    def can(self) -> Driver:
        """What the driver says of itself."""
        return drivers.get(self.driver)

    @property
    def module(self) -> ModuleType:
        """The app."""
        return miniapps.load(self.app)

    @cached_property
    def layout(self) -> Layout:
        """How the problem is cut."""
        return self.problem.cut(self.pes, self.odf, self.blocks)

    @cached_property
    def prepared(self) -> Any:
        """The problem with every "auto" settled; by measuring, unless other ranks must agree.

        A process that starts others does not measure on a GPU: it would keep a part of it.
        """
        own = self.device == "cpu" or self.can.one_process
        alone = not drivers.launchers()
        return self.problem.prepared(self.layout, self.device, measure=alone and own)

    def job(self, store: Store | None = None) -> Job:
        """What the driver is told."""
        return Job(
            self.app,
            self.prepared,
            self.layout,
            self.steps,
            self.warmup,
            self.device,
            self.balancer,
            self.lb_period,
            store,
            self.trace,
            self.gpus_per_host,
            self.gpu_aware,
            self.lb_first,
        )

    def arguments(self) -> list[str]:
        """The command line that asks for this run, with every "auto" settled."""
        given = {
            "--driver": self.driver,
            "-n": 1 if self.can.one_pe else self.pes,
            "--odf": self.odf,
            "--balancer": self.balancer,
            "--lb-period": self.lb_period,
            "--lb-first": self.lb_first,
            "--device": self.device,
            "--steps": self.steps,
            "--warmup": self.warmup,
            "--blocks": self.layout.pe_grid,
            "--output": self.output and self.output.resolve(),
            "--snapshot-every": self.snapshot_every,
            "--gpus-per-host": self.gpus_per_host,
            "--gpu-aware": None if self.gpu_aware == "auto" else self.gpu_aware,
        }
        line = ["run", self.app, *(["--trace"] if self.trace else [])]
        for option, value in given.items():
            line += words(option, value)
        for field in fields(self.prepared):
            option, repeated = field.metadata["option"], field.metadata["repeated"]
            line += words(option, getattr(self.prepared, field.name), repeated)
        return line

    def _check_device(self) -> None:
        """Raise InputError where the device is not there, or is told what it has no use for."""
        per_host = self.gpus_per_host
        for option, value in (("--gpus-per-host", per_host), ("--gpu-aware", self.gpu_aware)):
            used = self.device == "gpu" or value in (None, "auto")
            require(used, option, value, "only with --device gpu")
        require(per_host is None or per_host >= 1, "--gpus-per-host", per_host, "must be 1 or more")
        direct = self.gpu_aware == "on"
        able = only_with(lambda driver: bool(driver.gpu_aware))
        require(not direct or bool(self.can.gpu_aware), "--gpu-aware", "on", able)
        app, allowed = self.problem.app, f"{self.app} has no kernels for it"
        there = app is None or kernels.exist(app, self.device)
        require(there, "--device", self.device, allowed)
        try:
            device.OPENED.get(self.device).require(per_host or 1)
        except device.DeviceUnavailable as error:
            raise InputError("--device", self.device, str(error)) from None

    def check(self) -> None:
        """Look at everything that can be known before a launch. Raises InputError."""
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
        check_writable("--output", self.output)
        least = "must be 0 or more (0: none)"
        require(self.snapshot_every >= 0, "--snapshot-every", self.snapshot_every, least)
        for option, asked in (("--snapshot-every", self.snapshot_every), ("--trace", self.trace)):
            require(not asked or self.output is not None, option, asked, "needs --output FILE.h5")
        kinds = list(self.layout.families())
        allowed = f"has one block per rank, this problem blocks of {len(kinds)} kinds"
        one = can.several_kinds or len(kinds) == 1
        require(one, "--driver", self.driver, f"{allowed}: {', '.join(kinds)}")
        self.problem.check_steps(self.warmup + self.steps)
        _ = self.prepared


def only_with(able: Callable[[Driver], bool]) -> str:
    """What to say of an option that only some drivers have a use for."""
    names = [f"--driver {driver.name}" for driver in drivers.found().values() if able(driver)]
    return f"only with {' or '.join(names)}"


def asked_for(options: Namespace) -> tuple[Any, int, int]:
    """The problem, timed steps and steps of warm-up that the options ask for.

    Words without options count over the preset, options over both. Raises InputError.
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
    """PEs: as asked for, else as the grid of blocks says, else one.

    A driver with one PE counts blocks, all on that, where the others count PEs.
    """
    blocks = math.prod(options.blocks) if options.blocks else 1
    if drivers.get(options.driver).one_pe:
        allowed = f"--driver {options.driver} has one PE; use --blocks to cut the problem"
        require(options.pes in (None, 1), "-n", options.pes, allowed)
        return blocks
    return blocks if options.pes is None else options.pes


def check_writable(option: str, path: Path | None) -> None:
    """Raise InputError unless a file can be made at the path."""
    if path is None:
        return
    folder = path.resolve().parent
    require(not path.is_dir(), option, path, "is a directory")
    require(folder.is_dir(), option, path, f"there is no directory {folder}")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(option, path, f"cannot be written: {error.strerror}") from None
