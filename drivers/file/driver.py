"""The file driver: one block per rank, which exchanges messages as files in a shared folder.

It needs neither MPI nor a network between ranks: whatever starts processes that share a folder can
start them. This driver's own launcher does so on one host (`drivers.file.launch`), and Slurm on
several.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from miniapps.contract import Edge, Peer
from miniapps.drivers import outcome
from miniapps.drivers.engine import Runner
from miniapps.drivers.file import FileOptions, around, launch
from miniapps.drivers.file.group import Group
from miniapps.drivers.file.links import Folder, Link, SharedLink
from miniapps.drivers.job import Job, RunError, Watcher
from miniapps.drivers.outcome import Report
from miniapps.drivers.ranks import OfPlaces, RankTransport, run_block

PATH = "staged", "files hold no device memory"  # how messages that lie on a GPU travel
STEP = "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"  # they name a Slurm step
START_S = 180.0  # for rank 0 of a Slurm step to make the folder
POLL_S = 0.02


class Ranks(RankTransport):
    """Moves the messages of one rank's block by files; ``run``: the number of the run."""

    def __init__(self, group: Group, run: int, job: Job[FileOptions]) -> None:
        super().__init__(group.rank, job.layout)
        self.group, self.run = group, run
        self.share_gpu(group, job)

    def link(self, runner: Runner, edge: Edge, peer: Peer, rank: int) -> Link:
        """A link to a neighbour on another rank."""
        assert self.group.folder is not None
        kinds = self.kinds_of(runner, peer)
        of_link = self.group.folder, self.run, self.rank, edge, peer, rank, kinds
        if rank in self.sharers.ranks:
            return SharedLink(runner.block.device, *of_link)
        return Link(*of_link)

    def all_reduce(self, value: Any, op: str) -> Any:
        """Combine the values of all ranks."""
        return self.group.all_reduce(value, op)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.group.Barrier()

    def gather(self, value: Any) -> list[Any] | None:
        """The values of all ranks, on rank 0."""
        return self.group.gather(value)


class RanksOfPlaces(OfPlaces, Ranks):
    """The same for blocks that exist for a time."""

    def wait(self) -> bool:
        """Look again after a pause. Raises RunError if the run has been ended."""
        if self.group.folder is not None:
            self.group.folder.require()
        return super().wait()


def run_all(runs: Iterable[tuple[Job[FileOptions], Report]], watcher: Watcher) -> int:
    """Run jobs on all ranks, one after the other; rank 0 reports their outcomes.

    Returns the highest status, on other ranks 0.
    """
    status, group = 0, None
    with ExitStack() as stack:
        for number, (job, report) in enumerate(runs):
            group = group or stack.enter_context(joined_group(job.options.dir))
            status = max(status, _run(group, number, job, report, watcher))
    return status


def _run(group: Group, number: int, job: Job[FileOptions], report: Report, watcher: Watcher) -> int:
    """Run a job, which has a number among those of this launch."""
    local = os.environ.get(launch.LOCAL_RANK) or os.environ.get("SLURM_LOCALID")
    local_rank = group.rank if local is None else int(local)
    kind = Ranks if job.problem.kinds_at(0) is None else RanksOfPlaces
    ran, used = run_block(job, group, local_rank, partial(kind, group, number), watcher)
    if ran.parts is None:
        return 0
    path, unusual = used.sharers.path(*PATH), unusual_path(job.options)
    return report(outcome.joined(ran.job, ran.parts, ran.end, {}, path, unusual))


def unusual_path(options: FileOptions) -> tuple[str, str] | None:
    """That messages are no files in memory, if they should be, and the reason."""
    if launch.FOLDER not in os.environ or options.dir is not None or launch.in_memory():
        return None
    return "files on disk", f"{launch.MEMORY} cannot be written to"


@contextmanager
def joined_group(within: Path | None) -> Iterator[Group]:
    """The ranks that were started together with this one; ``within``: where messages are."""
    launcher, made = around(), os.environ.get(launch.FOLDER)
    if launcher is None:
        yield Group(0, 1, None)
        return
    rank, size = launcher.rank, launcher.size or 1
    if made is not None:
        if rank == 0:
            tell_stale(Path(made).parent)
        yield Group(rank, size, Folder(Path(made)))
    else:
        with of_step(within or usual_of_step(), rank) as folder:
            yield Group(rank, size, folder)


def tell_stale(within: Path) -> None:
    """Remove what runs have left of which every process was killed, and say so."""
    for folder in launch.remove_stale(within):
        text = "miniapps: removed %s, the messages of a run that was killed"
        logging.getLogger("miniapps").warning(text, folder)


def usual_of_step() -> Path:
    """Where the messages of a Slurm step are: on several hosts, in the current folder."""
    one_host = os.environ.get("SLURM_STEP_NUM_NODES", "1") == "1"
    return launch.usual_folder() if one_host else Path.cwd()


@contextmanager
def of_step(within: Path, rank: int) -> Iterator[Folder]:
    """The folder of a Slurm step, which rank 0 makes. A rank that fails ends the others."""
    name = ".".join(os.environ.get(variable, "0") for variable in STEP)
    if rank == 0:
        tell_stale(within)
        with launch.owned(within, name) as path:
            yield Folder(path)
        return
    path, end = within / f"{launch.PREFIX}{name}", time.monotonic() + START_S
    while not path.exists():
        if time.monotonic() > end:
            raise RunError(f"rank 0 has not made {path} in {START_S:.0f} s; --file-dir chooses")
        time.sleep(POLL_S)
    folder = Folder(path)
    try:
        yield folder
    except BaseException:
        folder.end()
        raise


def fail(status: int) -> None:
    """Do nothing: the launcher ends all ranks when this one ends."""
