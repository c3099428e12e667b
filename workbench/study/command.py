"""The subcommands of ``miniapps study``: their parsers and functions."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from miniapps.parameters import require
from miniapps.workbench.arguments import add_kinds, refuse_runtime
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.parser import Prints
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.run.writable import check_writable
from miniapps.workbench.study.options import (
    COMM,
    MOST_TRIALS,
    add_model,
    add_study_options,
    check_policy,
    listed,
    study_of,
)
from miniapps.workbench.study.plan import KINDS, Study, case_of, described

EXAMPLES = """examples:
  miniapps study strong jacobi2d --odf 1,4 --size 2048x2048 --steps 500
  miniapps study lb stencil3d --lb-periods 30 --imbalance paper
  miniapps study --list
  miniapps study pic-lb --quick
  miniapps study my-own.toml
  miniapps study comm ombpy --quick
  miniapps study report strong-jacobi2d.jsonl
"""


def print_studies() -> None:
    """Print the studies that come with the project."""
    print(*listed(), sep="\n")
    print("\nmake one by its name: miniapps study pic-lb; with --quick in a small size")


def add_commands(parser: Any, arguments: Sequence[str]) -> None:
    """Add the kinds of study, and the commands for campaign files."""
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--list", action=Prints, const=print_studies, help="list the studies of this project"
    )
    commands = add_kinds(
        parser, KINDS, arguments, add_study_options, command=study, starts_runs=True
    )
    if arguments[1:2] and arguments[1] in KINDS:
        return
    _add_comm(commands)
    _add_report(commands)
    _add_noise(commands)
    _add_export(commands)
    _add_collect(commands)


def _add_comm(commands: Any) -> None:
    from miniapps.workbench.study.comm import command

    help = "communication benchmarks, as a TOML file says"
    command.add_options(commands.add_parser(COMM, help=help, allow_abbrev=False))


def _add_report(commands: Any) -> None:
    parser = commands.add_parser("report", help="write the report of a campaign file again")
    parser.add_argument("file", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--published", type=Path, metavar="FILE.json", help="to compare with")
    add_model(parser.add_argument)
    parser.set_defaults(command=_report)


def _report(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.study import report
    from miniapps.workbench.study.comm import report as of_comm

    if of_comm.is_ours(options.file):
        require(options.published is None, "--published", options.published, "not of a comm study")
        require(options.model is None, "--model", options.model, "not of a comm study")
        return of_comm.write(options.file)
    return report.write(options.file, options.published, _predictor(options.model))


def _predictor(name: str | None) -> Any:
    """What predicts the points of a campaign; None if the user names no machine."""
    if name is None:
        return None
    from miniapps.workbench.model.overlay import predictor

    return predictor(name or None)


def _add_noise(commands: Any) -> None:
    parser = commands.add_parser("noise", help="print this machine and its noise as JSON")
    parser.set_defaults(command=_noise)


def _noise(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.study import noise

    print(json.dumps(noise.noted()))
    return VALID


def _add_export(commands: Any) -> None:
    parser = commands.add_parser("export", help="write a campaign in another format")
    parser.add_argument("file", type=Path, metavar="FILE.jsonl")
    help = "csv, seed-csv, extra-p or reframe"
    parser.add_argument("--format", required=True, metavar="NAME", help=help)
    parser.add_argument("--to", type=Path, metavar="PATH", help="default: beside the file")
    parser.set_defaults(command=_export)


def _export(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.study import export
    from miniapps.workbench.study.campaign import Campaign

    campaign = Campaign.read(options.file)
    for written in export.export(campaign, options.format, options.to, options.file):
        print(written)
    return VALID


def _add_collect(commands: Any) -> None:
    parser = commands.add_parser("collect", help="merge the results of a cluster's jobs")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--campaign", type=Path, metavar="FILE.jsonl", help="default: in DIR")
    parser.set_defaults(command=_collect)


def _collect(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.study import slurm

    return slurm.collect(options.folder, options.campaign or options.folder / "campaign.jsonl")


def study(options: argparse.Namespace, runtime: list[str]) -> int:
    """Run or list a study, or write its job scripts; returns the exit status. Raises InputError."""
    from miniapps.workbench.study.report import published_tables, write
    from miniapps.workbench.study.runner import Policy, run_campaign

    refuse_runtime(runtime)
    check_policy(options)
    study = study_of(options)
    specs = study.specs()
    if options.launcher == "slurm":
        return _to_slurm(options, study, specs)
    if options.dry_run:
        for spec in specs:
            case = case_of(described(spec, study.steps))
            print(case, shlex.join(["miniapps", *spec.arguments()]), sep=": ")
        return VALID
    path = options.campaign or Path(f"{options.name or f'{study.kind}-{study.app}'}.jsonl")
    require(path.suffix == ".jsonl", "--campaign", path, "must end in .jsonl")
    check_writable("--campaign", path)
    if options.published is not None:
        published_tables(options.published)  # raises on errors before anything runs
    specs = usable(specs, study.kind, options.launcher)
    predictor = _predictor(options.model)
    policy = Policy(
        trials=options.trials,
        until_ci=options.until_ci,
        most_trials=options.max_trials or max(options.trials, MOST_TRIALS),
        pin=not options.no_pin,
        stall_s=options.stall,
        launcher=options.launcher,
        force=options.force,
        max_noise=options.max_noise,
    )
    status = run_campaign(study, specs, policy, path)
    return max(status, write(path, options.published, predictor))


def usable(specs: list[RunSpec], kind: str, launcher: str | None) -> list[RunSpec]:
    """The runs whose drivers this Python can use; prints once which drivers are left out, and why.

    ``launcher``: the one that the user names, who then needs no other. Raises InputError if no run
    is left, or no balancer in a study of balancers.
    """
    every = {spec.driver: spec.can for spec in specs}
    reasons = {
        name: can.lacks_modules() if launcher else can.unavailable() for name, can in every.items()
    }
    found = [spec for spec in specs if reasons[spec.driver] is None]
    enough = any(spec.can.balancers or kind != "lb" for spec in found)
    for name, reason in reasons.items():
        if reason is not None:
            require(enough, "--driver", name, reason)
            print(f"left out: {name}: {reason}", file=sys.stderr)
    return found


def _to_slurm(options: argparse.Namespace, study: Study, specs: list[RunSpec]) -> int:
    """Write the job scripts of a study, and submit them unless it is a dry run."""
    from miniapps.workbench.study import slurm

    folder = options.folder or Path("jobs")
    extra = tuple(options.sbatch)
    slurm.write_jobs(study, specs, options.trials, folder, extra, options.checkpoints)
    print(f"job scripts are in {folder}; submit.sh there submits them")
    return VALID if options.dry_run else slurm.submit(folder)
