"""Makes the campaigns of a figure: of the right program, and of the models of wrong ones.

They are campaigns of studies, so that an interrupted one continues where it was.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from miniapps import drivers
from miniapps.devices.backend import OPENED, DeviceUnavailable
from miniapps.parameters import require
from miniapps.workbench import environment
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.parser import Parser
from miniapps.workbench.plural import counted
from miniapps.workbench.reproduce import models, peers
from miniapps.workbench.reproduce.papers import Claim, Figure
from miniapps.workbench.study.comm.campaign import CommRuns
from miniapps.workbench.study.comm.claims import Wanted
from miniapps.workbench.study.comm.plan import Plan
from miniapps.workbench.study.command import add_commands, usable
from miniapps.workbench.study.options import option_words, study_of, table_of, words_of_file
from miniapps.workbench.study.plan import Study
from miniapps.workbench.study.runner import Policy, RunsOfAnApp, measure, run_campaign

QUICK, USUAL, FULL = "quick", "usual", "full"
USUAL_TRIALS = 7  # of messages


def missing(figure: Figure) -> str | None:
    """Why a figure cannot be measured on this machine, in a few words; None if it can."""
    if figure.gpus:
        try:
            OPENED.get("gpu").require(figure.gpus)
        except DeviceUnavailable as error:
            return f"needs {counted(figure.gpus, 'GPU')}: {error}"
    needed = [drivers.get(name).unavailable() for name in _drivers(figure)]
    needed += map(peers.missing, figure.peers)
    return "; ".join(filter(None, needed)) or None


def _drivers(figure: Figure) -> list[str]:
    """The drivers of a figure's study."""
    table = table_of(figure.study_path)
    if not figure.parts:
        usual = (driver for driver in drivers.found().values() if not driver.one_process)
        return list(table.get("drivers", [driver.name for driver in usual if driver.studied]))
    mine = [one["driver"] for one in table["claims"] if one["name"] in figure.parts]
    return list(dict.fromkeys(name for names in mine for name in names))


def untold(figure: Figure, claim: Claim) -> str | None:
    """Why a claim is undecided on this machine, whatever is measured; None if it may be."""
    if claim.reason is not None:
        return claim.reason
    cores = environment.cores()
    if claim.needs_pes > cores and not figure.gpus:
        return f"needs {claim.needs_pes} PEs, here are {counted(cores, 'core')}"
    return missing(figure)


def campaign_path(figure: Figure, scale: str, folder: Path, model: str | None = None) -> Path:
    """The campaign file of a figure, or of one of its models."""
    name = figure.name if model is None else f"{figure.name}-{model}"
    return folder / scale / f"{name}.jsonl"


def peer_path(figure: Figure, scale: str, folder: Path, peer: str) -> Path:
    """The file with the times of a peer."""
    return folder / scale / f"{figure.name}-{peer}.json"


def carry_out(figure: Figure, scale: str, folder: Path, max_noise: float | None) -> int:
    """Make the missing runs of a figure; returns the exit status. Raises InputError."""
    reason = missing(figure)
    require(reason is None, "reproduce", figure.name, str(reason))
    (folder / scale).mkdir(parents=True, exist_ok=True)
    if figure.parts:
        return _of_messages(figure, scale, campaign_path(figure, scale, folder), max_noise)
    status = VALID
    for model in (None, *figure.models):
        path = campaign_path(figure, scale, folder, model)
        status = max(status, _of_app(figure, scale, path, model, max_noise))
    for peer in figure.peers:
        options = options_of(figure, scale, None)
        path = peer_path(figure, scale, folder, peer)
        peers.measure(peer, study_of(options), options.trials, path)
    return status


def _of_app(
    figure: Figure, scale: str, path: Path, model: str | None, max_noise: float | None
) -> int:
    """Make the runs of a study of an app or a model."""
    with models.known() if model else nullcontext():
        options = options_of(figure, scale, model)
        study = study_of(options)
        if scale == FULL:
            _require_cores(figure, study)
        name = figure.name if model is None else f"{figure.name}, as published: {model}"
        print(f"{name}, {scale}:", file=sys.stderr)
        specs = usable(study.specs(), study.kind, None)
        policy = Policy(options.trials, max_noise=max_noise)
        subject = models.RunsOfAModel if model else RunsOfAnApp
        return run_campaign(study, specs, policy, path, subject)


def _require_cores(figure: Figure, study: Study) -> None:
    """Raise InputError if a study as published has more PEs than there are cores."""
    cores, most = environment.cores(), max(study.pes)
    allowed = (
        f"needs {most} cores, here are {cores}; on a cluster, write its jobs by `miniapps study "
        f"{figure.study} --launcher slurm`, and show what they give by `miniapps reproduce "
        f"{figure.name} --campaign FILE.jsonl`"
    )
    require(most <= cores, "--full", figure.name, allowed)


def options_of(figure: Figure, scale: str, model: str | None) -> argparse.Namespace:
    """The options of a figure's study, as its TOML file and the figure say. Raises InputError."""
    short = scale != FULL and "quick" in table_of(figure.study_path)
    words = words_of_file(figure.study_path, short)
    given: dict[str, Any] = {} if scale == FULL else dict(figure.short)
    given |= figure.quick if scale == QUICK else {}
    given |= figure.models[model] if model else {}
    words += [word for key, value in given.items() for word in option_words(key, value)]
    words = [words[0], model or words[1], *words[2:]]
    parser = Parser(prog="miniapps study", allow_abbrev=False)
    add_commands(parser, words)
    return parser.parse_args(words)


def asked_of_messages(figure: Figure, scale: str) -> Wanted:
    """What the study of messages of a figure asks for at a scale: its parts and trials."""
    wanted = Wanted.read(figure.study_path, quick=scale != FULL, as_published=scale == FULL)
    named = [(claim, claim.name.removesuffix(f"-{claim.ranks}")) for claim in wanted.claims]
    mine = tuple(claim for claim, name in named if {claim.name, name} & {*figure.parts})
    trials = USUAL_TRIALS if scale == USUAL else wanted.trials
    return replace(wanted, claims=mine, trials=trials)


def _of_messages(figure: Figure, scale: str, path: Path, max_noise: float | None) -> int:
    """Make the launches of the parts of a study of messages."""
    wanted = asked_of_messages(figure, scale)
    plan = Plan.of(wanted, {})
    reasons = "; ".join(f"{one['variants']}: {one['reason']}" for one in plan.left_out)
    require(bool(plan.launches), "reproduce", figure.name, f"cannot be measured here: {reasons}")
    return measure(CommRuns(plan), Policy(wanted.trials, max_noise=max_noise), path)
