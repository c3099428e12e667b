"""The charm driver: chares of Charm4Py, several per PE, that migrate."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from miniapps.drivers.charm.balancers import BALANCERS, TREE_FILE, runtime_options
from miniapps.drivers.charm.datagrams import transport_options
from miniapps.drivers.descriptor import (
    Asked,
    Balancing,
    Driver,
    Launcher,
    MemoryOptions,
    Options,
    Start,
    listed,
    pip_install,
)
from miniapps.drivers.hosts import IN_FOLDER, NODES, REMOTE_SHELL, Place, one_by_one
from miniapps.parameters import require

VARIABLE = "NETSTART"  # set by charmrun for every process it starts
MOST_BYTES = (1 << 31) - (1 << 20)  # of a message: a size is a C int; 1 MiB for what is around it
NEWEST = (3, 13)  # Python for which charm4py 1.1 has wheels
CHARMRUN = "-m charmrun.start"
JOB_SETUP = """\
list="nodes-{job}"
nodes "$list"
"""


@dataclass(frozen=True)
class CharmOptions(MemoryOptions, Balancing):
    """Options of this driver alone."""

    shared_from = 1 << 16
    balancers = BALANCERS

    def check(self, asked: Asked) -> None:
        """Raise InputError for blocks too large to migrate, or as others do."""
        super().check(asked)
        nbytes = asked.block_bytes if self.balancer else 0
        size = f"{nbytes / 2**30:.1f} GiB"
        allowed = f"moves blocks of less than 2 GiB, these have {size}; more PEs or a larger --odf"
        require(nbytes <= MOST_BYTES, "--balancer", self.balancer, allowed)

    def runtime(self) -> list[str]:
        """The runtime's options that select the balancer."""
        return runtime_options(self.balancer)


def around() -> Launcher | None:
    """The charmrun that started this process, if any; it gives no number of PEs and no rank."""
    return Launcher("charmrun", None, 0) if VARIABLE in os.environ else None


def command(start: Start) -> list[str]:
    """The command that starts the PEs.

    charmrun and the runtime find their options at any position, so they are at the end.
    """
    if start.places:
        where = ["++nodelist", f"{IN_FOLDER}{NODES}", "++remote-shell", REMOTE_SHELL]
    elif "++nodelist" in start.runtime:
        where = []
    else:
        where = ["++local", *transport_options(start.pes)]
    options = ["++quiet", *where, *start.options.runtime(), *start.runtime]
    return [sys.executable, *CHARMRUN.split(), f"+p{start.pes}", *start.program, "--", *options]


def host_file(places: Sequence[Place]) -> str:
    """Charmrun's list of hosts: a line for each PE."""
    return "\n".join(["group main", *(f"  host {host}" for host in one_by_one(places)), ""])


def pin(cores: Sequence[int]) -> list[str]:
    """The runtime's options that pin PEs to cores."""
    return ["+setcpuaffinity", "+pemap", listed(cores)]


def job_setup(job: str) -> str:
    """Write charmrun's list of the job's nodes."""
    return JOB_SETUP.format(job=job)


def job_command(words: str, pes: int, options: Options) -> str:
    """The command of a run in a Slurm job: charmrun over the job's nodes."""
    start = f'"$PYTHON" {CHARMRUN} +p{pes} "$PYTHON" "$MINIAPPS"'
    where = '++quiet ++nodelist "$list" ++remote-shell "$REMOTE_SHELL"'
    end = f"--no-launch -- {where} {_in_shell(options.runtime())} $CHARM"
    return f"{start} {words} \\\n  {end}"


def _in_shell(options: list[str]) -> str:
    """The runtime's options in a job script, which looks up the path of TreeLB's file."""
    program = "from miniapps.drivers.charm import balancers as b; print(b.TREE_FILE)"
    path = f'"$("$PYTHON" -c {shlex.quote(program)})"'
    return " ".join(path if word == str(TREE_FILE) else shlex.quote(word) for word in options)


def _install() -> str:
    """How to install charm4py for this Python."""
    if sys.version_info[:2] <= NEWEST:
        return f": {pip_install('charm4py==1.1')}"
    this, newest = (".".join(map(str, version)) for version in (sys.version_info[:2], NEWEST))
    return f" (no wheel for Python {this}): install this project with Python {newest} or earlier"


DRIVER = Driver(
    name="charm",
    summary="several blocks per PE that migrate, Charm4Py",
    file="miniapps.drivers.charm.driver",
    without="no over-decomposition and no load balancing",
    modules=("charm4py", "charmrun"),
    install=_install(),
    runtime="Charm4Py layer",
    example="--driver charm -n 2 --odf 4 --balancer Greedy --lb-period 30",
    over_decomposition=True,
    options=CharmOptions,
    command=command,
    pin=pin,
    around=around,
    host_file=host_file,
    job_setup=job_setup,
    job_command=job_command,
)
