"""Descriptions of drivers: capabilities, options, how a driver is launched and detected.

Each driver module exports one `Driver` as ``DRIVER``. Importing the module does not import the
driver's runtime: ``file`` names the module that runs jobs, and `drivers.load` imports that.
"""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from miniapps.devices.cpu import host_memory
from miniapps.drivers.hosts import Place
from miniapps.parameters import InputError, parameter, require

BALANCING = "load balancing"  # a group of options in the help
SHARED_MEMORY = "memory that processes share"  # a group of options in --help
SHARED_GPUS = "GPUs that processes share"  # another


class Launcher(NamedTuple):
    """The launcher that started this process: its name, the number of ranks if known, our rank."""

    name: str
    size: int | None
    rank: int


class Asked(Protocol):
    """The part of a requested run that `Options.check` may read."""

    @property
    def device(self) -> str:
        """``cpu`` or ``gpu``."""

    @property
    def pes(self) -> int:
        """The number of PEs."""

    @property
    def steps(self) -> int:
        """The number of timed steps."""

    @property
    def warmup(self) -> int:
        """The number of steps before the timed ones."""

    @property
    def block_bytes(self) -> float:
        """The memory that a block needs at least, in the mean over all blocks; 0: not known."""


@dataclass(frozen=True)
class Options:
    """A driver's own options: fields declared by `miniapps.parameters.parameter`."""

    def check(self, asked: Asked) -> None:
        """Raise InputError if the options do not fit the requested run."""

    def runtime(self) -> list[str]:
        """The arguments that pass these options to the runtime when it starts."""
        return []

    def not_on_hosts(self) -> str | None:
        """Why a run with these options cannot be on several hosts, if it cannot."""
        return None

    def shared_files(self) -> tuple[Path, str]:
        """The folder of the files that processes share, and how its user gets more room there."""
        return host_memory.SHARED, "a container gets more by --shm-size"


@dataclass(frozen=True)
class SharingOptions(Options):
    """The option of drivers whose processes may share a GPU."""

    gpu_ipc: str = parameter(
        "--gpu-ipc",
        "auto",
        str,
        "copy messages between processes of one GPU there, by CUDA IPC; auto: if CUDA can",
        choices=("auto", "off"),
        group=SHARED_GPUS,
    )

    def check(self, asked: Asked) -> None:
        """Raise InputError if the option is given without a GPU."""
        super().check(asked)
        require_gpu(asked, "--gpu-ipc", self.gpu_ipc)


@dataclass(frozen=True)
class MemoryOptions(SharingOptions):
    """The option of drivers whose processes read messages in each other's memory.

    ``shared_from``: bytes of the shortest such message if the option is not given; shorter ones are
    as fast on their other way.
    """

    shared_from: ClassVar[int] = 0
    shared_memory: int | None = parameter(
        "--shared-memory",
        None,
        int,
        "shortest message between PEs of a host that goes through shared memory; 0: none; "
        "default: 524288 (mpi), 65536 (charm)",
        metavar="BYTES",
        group=SHARED_MEMORY,
        former="--charm-shared-memory",
    )

    @property
    def shortest_shared(self) -> int:
        """Bytes of the shortest message that goes through shared memory; 0: none does."""
        return self.shared_from if self.shared_memory is None else self.shared_memory

    def check(self, asked: Asked) -> None:
        """Raise InputError for a negative size."""
        nbytes = self.shortest_shared
        require(nbytes >= 0, "--shared-memory", nbytes, "must be 0 or more")
        super().check(asked)


def require_gpu(asked: Asked, option: str, value: str) -> None:
    """Raise InputError if an option for GPUs is not ``auto``, and the run uses none."""
    require(asked.device == "gpu" or value == "auto", option, value, "only with --device gpu")


@dataclass(frozen=True)
class Balancing(Options):
    """Options of a driver that balances load; ``balancers`` lists its balancers' names.

    The first load-balancing step is ``lb_first``, or the period if that is None; the others follow
    at multiples of the period, ``lb_period`` steps, after it. A period of 0: never.
    """

    balancers: ClassVar[tuple[str, ...]] = ()
    balancer: str | None = parameter(
        "--balancer", None, str, "load balancer", group=BALANCING, metavar="NAME"
    )
    lb_period: int = parameter(
        "--lb-period",
        0,
        int,
        "steps between load-balancing steps",
        group=BALANCING,
        metavar="STEPS",
    )
    lb_first: int | None = parameter(
        "--lb-first",
        None,
        int,
        "step of the first one; default: the period",
        group=BALANCING,
        metavar="STEP",
    )

    def __post_init__(self) -> None:
        """Spell the balancer's name, given in any case, as the driver does."""
        spelled = {name.lower(): name for name in self.balancers}
        name = spelled.get(self.balancer.lower(), self.balancer) if self.balancer else None
        object.__setattr__(self, "balancer", name)

    def check(self, asked: Asked) -> None:
        """Raise InputError unless balancer, period and first step fit the requested run."""
        name, first, never = self.balancer, self.lb_first, self.lb_period == 0
        require(self.lb_period >= 0, "--lb-period", self.lb_period, "must be 0 or more (0: never)")
        if name is not None:
            require(
                name in self.balancers, "--balancer", name, f"one of {', '.join(self.balancers)}"
            )
            require(not never, "--balancer", name, "needs --lb-period STEPS")
        require(never or name is not None, "--lb-period", self.lb_period, "needs --balancer NAME")
        warmup, end = asked.warmup, asked.warmup + asked.steps
        between = f"more than the {warmup} steps of warm-up and less than all {end}"
        if first is not None:
            require(not never, "--lb-first", first, "needs --lb-period STEPS")
            require(warmup < first < end, "--lb-first", first, f"must be {between}")
        some = never or self.due(warmup, end - 1)
        require(some, "--lb-period", self.lb_period, f"balances nothing: no multiple is {between}")

    def due(self, before: int, step: int) -> bool:
        """Whether to balance after a round from step ``before`` to ``step``."""
        period = self.lb_period
        first = period if self.lb_first is None else self.lb_first
        if period == 0 or step < first:
            return False
        return (before - first) // period < (step - first) // period

    def steps_due(self, rounds: Sequence[tuple[int, int]]) -> list[int]:
        """The steps before which to balance in a run of these timed rounds (first step, count)."""
        ends = [(first, first + count) for first, count in rounds[:-1]]
        return [end for first, end in ends if self.due(first, end)]


@dataclass(frozen=True)
class Start:
    """The data from which a driver builds its launch command.

    ``program``: the arguments that start one PE, Python first; ``runtime``: arguments for the
    launcher or the runtime, as the user gave them; ``launcher``: replaces the default launcher;
    ``places``: the PEs of each host, the first ones on the first; empty: all on this host.
    """

    program: Sequence[str]
    pes: int
    options: Options
    runtime: Sequence[str] = ()
    launcher: str | None = None
    places: Sequence[Place] = ()


def same_process(start: Start) -> list[str]:
    """The command of a driver without a launcher; ``runtime`` is a prefix such as ``taskset``."""
    return [*start.runtime, *start.program]


def taskset(cores: Sequence[int]) -> list[str]:
    """The prefix of a command that pins one process; empty if there is no ``taskset``."""
    return ["taskset", "-c", listed(cores[:1])] if shutil.which("taskset") else []


def listed(cores: Sequence[int]) -> str:
    """Core numbers in the format of launchers, such as ``0,2``."""
    return ",".join(map(str, cores))


def job_step(words: str, pes: int, options: Options) -> str:
    """The command of a run in a Slurm job: a job step with one task per PE."""
    return f'srun --mpi="$MPI" -n {pes} --cpu-bind=cores "$MINIAPPS" {words}'


@dataclass(frozen=True)
class Driver:
    """Description of a driver. All other code depends on this description only."""

    name: str
    summary: str
    file: str  # the module that runs jobs
    without: str  # what a user loses if the driver is unusable
    modules: tuple[str, ...] = ()  # that must be importable
    install: str = ""  # how to install them
    program: str = ""  # the launcher that must be found, if any
    runtime: str = ""  # the software whose version a record stores under the driver's name, if any
    gpu_aware: str = ""  # a module that prints, as JSON, whether MPI reads GPU memory, and why
    example: str = ""  # arguments of a typical run
    options: type[Options] = Options  # the driver's own
    like: str = ""  # a driver from which only its transport differs, if any
    # What it can do.
    one_process: bool = False  # runs in the calling process: nothing is launched
    one_pe: bool = False  # has one PE; the PE grid of other drivers is its grid of blocks
    over_decomposition: bool = False
    several_kinds: bool = True  # accepts several kinds of blocks
    replays: bool = False  # follows a schedule, see `drivers.schedule`
    waits_alone: bool = False  # a PE's time outside its blocks is communication time
    shared_bytes: int = 0  # of files that processes share: what each of them needs at least
    by_files: bool = False  # each message is such a file
    studied: bool = True  # a study compares it with others unless its user names drivers
    # How it is launched. ``pin`` turns core numbers, one per PE, into arguments for
    # ``Start.runtime``; ``around`` detects the driver's launcher around this process.
    command: Callable[[Start], list[str]] = same_process
    pin: Callable[[Sequence[int]], list[str]] = taskset
    around: Callable[[], Launcher | None] = lambda: None
    # On several hosts: the text of the file of hosts that the launcher reads, and the library that
    # must be the same on all of them; empty if there is none.
    host_file: Callable[[Sequence[Place]], str] = lambda places: ""
    library: Callable[[], str] = lambda: ""
    # ``job_setup(job name)``: the lines of a Slurm job before its runs. ``job_command(arguments of
    # `miniapps`, number of PEs, options)``: the command of a run. Both may use the shell variables
    # that `study.slurm` sets.
    job_setup: Callable[[str], str] = lambda job: ""
    job_command: Callable[[str, int, Options], str] = job_step

    @property
    def balancers(self) -> tuple[str, ...]:
        """The names of its load balancers; empty if it has none."""
        return self.options.balancers if issubclass(self.options, Balancing) else ()

    def unavailable(self) -> str | None:
        """The reason why this Python cannot use the driver, in one line; None if it can."""
        return self.lacks_modules() or self.lacks_program()

    def lacks_modules(self) -> str | None:
        """Which module no process of the driver can import, and how to get it; None if all can."""
        missing = [name for name in self.modules if not importable(name)]
        return f"{missing[0]} is not installed{self.install}" if missing else None

    def lacks_program(self) -> str | None:
        """Which launcher is not found, and how to get it; None if it is, or if none is needed."""
        if not self.program or program(self.program) is not None:
            return None
        return f"no {self.program} beside this Python or on the PATH{self.install}"

    def require_modules(self) -> None:
        """Raise InputError if a process of the driver cannot import what it needs."""
        reason = self.lacks_modules()
        if reason is not None:
            raise InputError("--driver", self.name, reason)

    def launcher_path(self, chosen: str | None) -> str:
        """The path of the launcher that the user has chosen, else of the driver's own.

        Raises InputError if it is not found.
        """
        if chosen:
            path = shutil.which(chosen)
            if path is None:
                raise InputError("--launcher", chosen, "must be a program that can be started")
            return path
        path = program(self.program)
        if path is None:
            raise InputError("--driver", self.name, str(self.lacks_program()))
        return path


def pip_install(*packages: str) -> str:
    """The command that installs packages for this Python."""
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


def importable(module: str) -> bool:
    """Whether a top-level module can be found; importing it may still fail."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def program(name: str) -> str | None:
    """The path of a program in this Python's environment, else on the PATH; None if not found."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)
