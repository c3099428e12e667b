"""The command ``miniapps study comm``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from miniapps.parameters import require
from miniapps.workbench.arguments import add_max_noise, add_stall, refuse_runtime, typed
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.run.writable import check_writable, make_folder

if TYPE_CHECKING:
    from miniapps.workbench.study.comm.plan import Plan


def add_options(parser: Any) -> None:
    """Add the options of a campaign of communication benchmarks."""
    add = parser.add_argument
    add("file", type=Path, metavar="FILE.toml", help="or a study of this project, such as ombpy")
    add("--quick", action="store_true", help="short campaign, by the file's table [quick]")
    help = "sizes and ranks of the publication, by the file's table [paper]"
    add("--as-published", action="store_true", help=help)
    add("--trials", type=typed(int), metavar="N", help="launches of each line; default: the file's")
    add("--shuffle-seed", type=typed(int), metavar="N", help="seed of the order of launches")
    help = "where an MPI library is installed; repeatable; default: NAME beside this Python"
    add("--library", action="append", default=[], metavar="NAME=FOLDER", help=help)
    add_max_noise(add)
    add("--no-pin", action="store_true", help="do not pin ranks to cores")
    add_stall(parser)
    add("--campaign", type=Path, metavar="FOLDER", help="default: named as the TOML file")
    add("--dry-run", action="store_true", help="list the launches, and what is left out")
    parser.set_defaults(command=command, starts_runs=True)


def planned(options: argparse.Namespace) -> Plan:
    """The launches that the options ask for. Raises InputError."""
    from miniapps.workbench.study.comm.claims import Wanted
    from miniapps.workbench.study.comm.libraries import folders
    from miniapps.workbench.study.comm.plan import Plan

    both = options.quick and options.as_published
    require(not both, "--quick", "given", "not with --as-published")
    wanted = Wanted.read(options.file, options.quick, options.as_published)
    wanted = wanted.changed(options.trials, options.shuffle_seed)
    return Plan.of(wanted, folders(options.library))


def command(options: argparse.Namespace, runtime: list[str]) -> int:
    """Make a campaign, or list its launches; returns the exit status. Raises InputError."""
    from miniapps.workbench.study.comm import report
    from miniapps.workbench.study.comm.campaign import CommRuns
    from miniapps.workbench.study.comm.libraries import TITLES
    from miniapps.workbench.study.comm.plan import left_out_line
    from miniapps.workbench.study.runner import Policy, measure

    refuse_runtime(runtime)
    plan = planned(options)
    nothing = "; ".join(["no claim can be measured here", *map(left_out_line, plan.left_out)])
    require(bool(plan.launches) or options.dry_run, "FILE.toml", options.file, nothing)
    for entry in plan.left_out:
        print(left_out_line(entry), file=sys.stderr)
    if options.dry_run:
        for launch in plan.launches:
            library = f"  # {TITLES[launch.library.name]}" if launch.library.name else ""
            print(shlex.join(["miniapps", *launch.spec.arguments()]) + library)
        return VALID
    suffix = "-quick" if options.quick else "-as-published" if options.as_published else ""
    folder = options.campaign or Path(options.file.stem + suffix)
    policy = Policy(
        plan.wanted.trials,
        pin=not options.no_pin,
        stall_s=options.stall,
        max_noise=options.max_noise,
    )
    path = folder / report.RUNS
    with _folder(folder):
        check_writable("--campaign", path)
        status = measure(CommRuns(plan, policy.pin), policy, path)
    return max(status, report.write(path))


@contextmanager
def _folder(folder: Path) -> Iterator[None]:
    """Make a folder, and remove it if it is new and nothing was written."""
    new = not folder.exists()
    make_folder("--campaign", folder)
    try:
        yield
    finally:
        if new and not any(folder.iterdir()):
            folder.rmdir()
