"""What a launch must know about the work for which it starts processes, and where its files are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol

from miniapps.drivers.descriptor import Options
from miniapps.drivers.hosts import Hosts
from miniapps.workbench.run.replaced import write_text

FOLDER = "MINIAPPS_RUN_FOLDER"  # environment variable: where a launched run keeps its files
PROGRESS, RUNS = "progress", "runs.pickle"
REMOTE = "remote"  # file there: what begins every command on another host


def launch_folder() -> Path | None:
    """The folder of the launch that this process is a part of, on this host; None: of no launch."""
    named = os.environ.get(FOLDER)
    if named is None:
        return None
    here = own_folder(Path(named))
    return here if here.exists() else Path(named)


def own_folder(named: Path) -> Path:
    """The folder of a launch on this host, where another host has it by its name in its place."""
    return named.with_name(f"{named.name}-{os.uname().nodename}")


def record_name(number: int) -> str:
    """The name of a run's record file in the folder of its launch."""
    return f"record-{number}.json"


def write_record(folder: Path, number: int, record: dict[str, Any]) -> None:
    """Give the launching process a run's record, even if the folder was removed meanwhile."""
    folder.mkdir(exist_ok=True)
    write_text(folder / record_name(number), json.dumps(record))


class Launched(Protocol):
    """Work that the processes of one launch do: a run of an app, or a communication benchmark."""

    @property
    def app(self) -> str:
        """The name of the work."""

    @property
    def driver(self) -> str:
        """The driver, which knows the launch command."""

    @property
    def own(self) -> Options:
        """The driver's own options."""

    @property
    def pes(self) -> int:
        """The number of processes."""

    @property
    def hosts(self) -> Hosts | None:
        """The hosts of the processes, if they are named."""

    @property
    def folders(self) -> list[Path]:
        """The folders of the files that processes read or write, which all hosts must share."""

    @property
    def warmup(self) -> int:
        """The number of steps before the timed ones."""

    @property
    def steps(self) -> int:
        """The number of timed steps, of which processes report the progress."""

    @property
    def output(self) -> Path | None:
        """The file that the processes write, if any."""

    def arguments(self) -> list[str]:
        """The arguments of `miniapps` that request the work."""
