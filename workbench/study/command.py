"""What ``miniapps study`` does with the words that `options` has read."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.exit_status import VALID
from workbench.spec import check_writable
from workbench.study import options as words
from workbench.study.conduct import Effort, conduct, label
from workbench.study.plan import described


def study(options: argparse.Namespace) -> int:
    """Run a study, or write or list its runs; returns the exit status. Raises InputError."""
    words.check_effort(options)
    study = words.study_of(options)
    specs = study.specs()
    if options.launcher == "slurm":
        return _to_slurm(options, study, specs)
    if options.dry_run:
        for spec in specs:
            print(label(described(spec)), " ".join(["miniapps", *spec.arguments()]), sep=": ")
        return VALID
    path = options.campaign or Path(f"{study.kind}-{study.app}.jsonl")
    check_writable("--campaign", path)
    effort = Effort(
        trials=options.trials,
        until_ci=options.until_ci,
        most_trials=options.max_trials,
        pin=not options.no_pin,
        timeout=options.timeout,
    )
    status = conduct(study, specs, effort, path)
    show(path, options.published)
    return status
