"""The file driver: one block per rank, messages as files in a folder that all ranks share."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from miniapps.drivers import slurm
from miniapps.drivers.descriptor import (
    Asked,
    Driver,
    Launcher,
    Options,
    SharingOptions,
    Start,
    listed,
)
from miniapps.drivers.file import launch
from miniapps.drivers.hosts import REMOTE_SHELL, Hosts
from miniapps.parameters import InputError, parameter, require


@dataclass(frozen=True)
class FileOptions(SharingOptions):
    """Options of this driver alone."""

    dir: Path | None = parameter(
        "--file-dir",
        None,
        Path,
        "folder for messages, which all ranks share; default: /dev/shm on one host",
        metavar="FOLDER",
    )

    def check(self, asked: Asked) -> None:
        """Raise InputError unless messages can be written to the folder."""
        super().check(asked)
        require(self.dir is None or self.dir.is_dir(), "--file-dir", self.dir, "must be a folder")
        if self.dir is not None and not os.access(self.dir, os.W_OK | os.X_OK):
            raise InputError("--file-dir", self.dir, "cannot be written to")

    def runtime(self) -> list[str]:
        """The launcher's options that choose the folder."""
        return [] if self.dir is None else ["--dir", str(self.dir.resolve())]

    def not_on_hosts(self) -> str | None:
        """The folder of messages must be named."""
        return None if self.dir else "needs --file-dir FOLDER, which all hosts share"

    def shared_files(self) -> tuple[Path, str]:
        """The folder of messages."""
        folder, more = super().shared_files()
        chosen = self.dir or launch.usual_folder()
        other = "--file-dir chooses another folder"
        return chosen, f"{more}, {other}" if chosen == folder else other


def around() -> Launcher | None:
    """The launcher of this driver or the step of a Slurm job that started this process, if any."""
    rank, ranks = (os.environ.get(name) for name in (launch.RANK, launch.RANKS))
    if rank is not None and ranks is not None:
        return Launcher("launcher of files", int(ranks), int(rank))
    return slurm.launched("Slurm step", [slurm.STEP])


def command(start: Start) -> list[str]:
    """The command that starts the ranks; Python is isolated, as the launcher needs no packages."""
    script = [sys.executable, "-I", "-S", launch.__file__]
    options = ["-n", str(start.pes), *start.options.runtime(), *start.runtime]
    if start.places:
        options += ["--hosts", str(Hosts(start.places)), "--remote-shell", REMOTE_SHELL]
    return [*script, *options, "--", *start.program]


def pin(cores: Sequence[int]) -> list[str]:
    """The launcher's options that pin ranks to cores."""
    return ["--cores", listed(cores)]


def job_command(words: str, pes: int, options: Options) -> str:
    """The command of a run in a Slurm job: a step that ends as soon as one of its tasks fails."""
    step = "srun --mpi=none --kill-on-bad-exit=1"
    return f'{step} -n {pes} --cpu-bind=cores "$MINIAPPS" {words}'


# Two messages of a page each: one that the receiver has not taken yet, and the next.
SHARED_BYTES = 2 * 4096

DRIVER = Driver(
    name="file",
    summary="one block per rank, messages are files in a shared folder",
    file="miniapps.drivers.file.driver",
    without="no runs on several ranks without MPI",
    example="--driver file -n 4",
    options=FileOptions,
    like="mpi",
    several_kinds=False,
    waits_alone=True,
    shared_bytes=SHARED_BYTES,
    by_files=True,
    studied=False,  # it shows what messages cost without a network, not what a runtime gains
    command=command,
    pin=pin,
    around=around,
    job_command=job_command,
)
