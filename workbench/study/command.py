"""What ``miniapps study`` does with the words that `options` has read."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from miniapps.parameters import require
from workbench.exit_status import VALID
from workbench.run.spec import RunSpec, check_writable
from workbench.study import options as words
from workbench.study.campaign import Campaign
from workbench.study.plan import Study, case_of, described
from workbench.study.report import published_tables, write
from workbench.study.runner import Policy, run_campaign


def study(options: argparse.Namespace) -> int:
    """Run a study, or write or list its runs; returns the exit status. Raises InputError."""
    words.check_policy(options)
    study = words.study_of(options)
    specs = study.specs()
    if options.launcher == "slurm":
        return _to_slurm(options, study, specs)
    if options.dry_run:
        for spec in specs:
            case = case_of(described(spec))
            print(case, shlex.join(["miniapps", *spec.arguments()]), sep=": ")
        return VALID
    path = options.campaign or Path(f"{options.name or f'{study.kind}-{study.app}'}.jsonl")
    require(path.suffix == ".jsonl", "--campaign", path, "must end in .jsonl")
    check_writable("--campaign", path)
    if options.published is not None:
        published_tables(options.published)  # what is wrong with it is said before anything runs
    policy = Policy(
        trials=options.trials,
        until_ci=options.until_ci,
        most_trials=options.max_trials or max(options.trials, words.MOST_TRIALS),
        pin=not options.no_pin,
        timeout=options.timeout,
        launcher=options.launcher,
    )
    status = run_campaign(study, specs, policy, path)
    return max(status, write(path, options.published))


def _to_slurm(options: argparse.Namespace, study: Study, specs: list[RunSpec]) -> int:
    """Write the job scripts of a study, and submit them unless told not to."""
    from workbench.study import slurm

    folder = options.folder or Path("jobs")
    slurm.write_jobs(study, specs, options.trials, folder, tuple(options.sbatch))
    print(f"job scripts are in {folder}; submit.sh there submits them")
    return VALID if options.dry_run else slurm.submit(folder)


def export(path: Path, form: str, target: Path | None) -> int:
    """Write a campaign file for other programs. Raises InputError."""
    from workbench.study import export

    for written in export.export(Campaign.read(path), form, target, path):
        print(written)
    return VALID


def collect(folder: Path, path: Path | None) -> int:
    """Merge what the jobs of a cluster have left; 1 where a run failed or is missing."""
    from workbench.study import slurm

    return slurm.collect(folder, path or folder / "campaign.jsonl")
