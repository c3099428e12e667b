"""What a driver says of itself: what it can do, its options, how it is launched and recognised.

Each driver module exports one `Driver` as ``DRIVER``. Importing it costs no import of the runtime:
the module that runs is named in ``file`` and imported by `drivers.load`.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from miniapps.parameters import InputError


class Launcher(NamedTuple):
    """The launcher that started this process: its name, its number of ranks if known, our rank."""

    name: str
    size: int | None
    rank: int


@dataclass(frozen=True)
class Start:
    """What a launch is made of.

    ``program``: the words that start one PE, Python first; ``runtime``: words for the launcher or
    the runtime, as the user gave them; ``launcher``: another launcher than the usual one.
    """

    program: Sequence[str]
    pes: int
    balancer: str | None = None
    runtime: Sequence[str] = ()
    launcher: str | None = None


class Asked(Protocol):
    """What a driver's options may look at when they are checked: the run that is asked for."""

    @property
    def device(self) -> str:
        """``cpu`` or ``gpu``."""

    @property
    def pes(self) -> int:
        """The number of PEs."""


@dataclass(frozen=True)
class Options:
    """A driver's own options: fields declared by `miniapps.parameters.parameter`."""

    def check(self, asked: Asked) -> None:
        """Raise InputError where the options do not fit the run that is asked for."""


def no_launcher() -> Launcher | None:
    """For drivers that have no launcher."""
    return None


def same_process(start: Start) -> list[str]:
    """The command of a driver without a launcher; ``runtime`` is a command that starts another."""
    return [*start.runtime, *start.program]


def taskset(cores: Sequence[int]) -> list[str]:
    """Words in front of a command that pin one process; none where there is no ``taskset``."""
    return ["taskset", "-c", listed(cores[:1])] if shutil.which("taskset") else []


def listed(cores: Sequence[int]) -> str:
    """Core numbers as launchers read them, such as ``0,2``."""
    return ",".join(map(str, cores))


def nothing_before(job: str) -> str:
    """No lines before the runs of a Slurm job."""
    return ""


def job_step(words: str, pes: int, balancer: str | None) -> str:
    """The command of a run in a Slurm job: a step with a task per PE."""
    return f'srun --mpi="$MPI" -n {pes} --cpu-bind=cores "$MINIAPPS" {words}'


@dataclass(frozen=True)
class Driver:
    """A driver; all that the rest of the program knows of it.

    ``file``: the module that runs; ``without``: what is lost where it does not work; ``modules``
    that must be importable, and ``install``, how to get them; ``program``: the launcher that must
    be found, if any; ``runtime``: what a record's ``versions`` says under the driver's name, if
    anything; ``gpu_aware``: the module that prints as JSON whether messages may lie on a GPU, and
    why; ``example``: words of a typical run; ``options``: the class of its own options.
    """

    name: str
    summary: str
    file: str
    without: str
    modules: tuple[str, ...] = ()
    install: str = ""
    program: str = ""
    runtime: str = ""
    gpu_aware: str = ""
    example: str = ""
    options: type[Options] = Options
    # What it can do.
    one_process: bool = False  # runs in the process that is asked: nothing is launched
    one_pe: bool = False  # counts blocks where others count PEs
    over_decomposition: bool = False
    balancers: tuple[str, ...] = ()
    several_kinds: bool = True  # of blocks
    waits_alone: bool = False  # a PE outside its blocks waits for messages and does nothing else
    # How it is launched. ``pin``: core numbers, one per PE, to words for ``Start.runtime``.
    command: Callable[[Start], list[str]] = same_process
    pin: Callable[[Sequence[int]], list[str]] = taskset
    around: Callable[[], Launcher | None] = no_launcher
    # In a Slurm job of some name: lines before its runs; and the command of a run, given the words
    # of `miniapps`, the number of PEs and the balancer. Variables are those of `study.slurm`.
    job_setup: Callable[[str], str] = nothing_before
    job_command: Callable[[str, int, str | None], str] = job_step

    @property
    def balancing(self) -> bool:
        """Whether the driver moves blocks between PEs."""
        return bool(self.balancers)

    def unavailable(self) -> str | None:
        """Why the driver cannot be used with this Python, in one line; None where it can."""
        missing = [name for name in self.modules if not importable(name)]
        return f"{missing[0]} is not installed{self.install}" if missing else None

    def require(self) -> None:
        """Raise InputError where the driver cannot be used with this Python."""
        reason = self.unavailable()
        if reason is not None:
            raise InputError("--driver", self.name, reason)


def importable(module: str) -> bool:
    """Whether a top-level module can be found, which is not to say that its import works."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def program(name: str) -> str | None:
    """A program of this Python's environment, else of the PATH; None where there is none."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def chosen_or_found(driver: str, launcher: str | None, name: str) -> str:
    """The launcher that the user names, else the usual one. Raises InputError."""
    found = shutil.which(launcher) if launcher else program(name)
    if found is not None:
        return found
    if launcher:
        raise InputError("--launcher", launcher, "must be a program that can be started")
    raise InputError("--driver", driver, f"no {name} found: see `miniapps doctor`")
