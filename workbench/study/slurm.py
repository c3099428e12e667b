"""Studies on clusters: job scripts for Slurm, and the merging of their results.

`write_jobs` writes a folder with a script per trial and number of PEs. Each run of a script writes
its record to ``trial-00-point-07.json`` or, if it fails, its exit status to
``trial-00-point-07.failed``. A part of a run, from one checkpoint to the next, writes its record to
``trial-00-point-07.part-0.json``. `merge` adds these results to a campaign file. The folder may be
copied to the cluster and back: it contains no paths of the machine that wrote it.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import count, takewhile
from pathlib import Path
from shutil import which
from typing import Any

from miniapps import apps, drivers
from miniapps.json_input import parsed_object
from miniapps.parameters import InputError, contents, printable, require
from miniapps.workbench.exit_status import FAILED, VALID, WRONG
from miniapps.workbench.plural import counted
from miniapps.workbench.run.checkpoint import offers_checkpoints
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.run.schema import comparable, upgraded, upgraded_head
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.study.campaign import Writer, object_of
from miniapps.workbench.study.job_texts import (
    CHECKPOINTS_TEXT,
    JOB_TEXT,
    REMOTE_SHELL_TEXT,
    SETTINGS_TEXT,
    SUBMIT_TEXT,
)
from miniapps.workbench.study.joined import joined
from miniapps.workbench.study.plan import Study, steps_of
from miniapps.workbench.study.revalidation import asked_of
from miniapps.workbench.study.runner import header_of, plain_command, shuffled
from miniapps.workbench.study.validation import rejection_reason

HEAD, SETTINGS, REMOTE_SHELL, SUBMIT = "head.json", "settings.sh", "remote-shell.sh", "submit.sh"
RESULT_KEYS = {"valid", "checks", "state_hash"}  # that a record must have
TIMING_KEYS = {"wall_s", "rounds"}  # that a valid one must have, too
Found = dict[str, Any] | str  # a run's record, or why it has none
LONGEST = 1 << 16  # bytes of a command, which shlex reads in the square of a word's length
RUN_FILE = re.compile(r"trial-(\d+)-point-(\d+)\.(json|failed|part-0\.json)")


def write_jobs(
    study: Study,
    specs: list[RunSpec],
    trials: int,
    folder: Path,
    extra: tuple[str, ...] = (),
    checkpoints: bool = False,
) -> list[Path]:
    """Write the job scripts of a study into a folder; returns the scripts in order of submission.

    ``extra``: options of sbatch for every job, such as ``--time=01:00:00``; ``checkpoints``: runs
    that were stopped continue from one. Raises InputError if an option is malformed, a path of the
    problem is relative, the app offers no checkpoints, or the folder holds another study or cannot
    be written.
    """
    able = not checkpoints or offers_checkpoints(apps.load(study.app).Block)
    require(able, "--checkpoints", "given", f"app {study.app} does not offer them")
    for field in dataclasses.fields(study.problem):
        value = getattr(study.problem, field.name)
        here = isinstance(value, Path) and not value.is_absolute()
        allowed = "the jobs run in another folder: give the path that it has on the cluster"
        require(not here, field.metadata["option"], value, allowed)
    for option in extra:
        single = option.startswith("-") and option.isprintable()  # a line after #SBATCH
        require(single, "--sbatch", option, "must be one option, such as --time=10:00")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_head(folder / HEAD, header_of(study, specs), trials)
        write_text(folder / SETTINGS, CHECKPOINTS_TEXT if checkpoints else SETTINGS_TEXT)
        _write_script(folder / REMOTE_SHELL, REMOTE_SHELL_TEXT)
        scripts = [
            _write_job(folder, study, specs, trial, pes, extra, checkpoints)
            for trial in range(trials)
            for pes in sorted({spec.pes for spec in specs})
        ]
        random.Random(f"{study.shuffle_seed} jobs").shuffle(scripts)
        submissions = "".join(f'sbatch "$@" {script.name}\n' for script in scripts)
        _write_script(folder / SUBMIT, SUBMIT_TEXT + submissions)
    except OSError as error:
        raise InputError("--folder", folder, f"cannot be written: {error.strerror}") from None
    return scripts


def _write_head(path: Path, head: dict[str, Any], trials: int) -> None:
    """Write the head. Raises InputError if the folder holds another study: records would mix."""
    if path.exists():
        found = _read_json(path)
        same = comparable(found) == comparable(head)
        require(same, "--folder", path.parent, "holds the jobs of another study")
        trials = max(trials, found.get("trials", 0))
    write_text(path, json.dumps(head | {"trials": trials}, indent=1) + "\n")


def _write_script(path: Path, text: str) -> Path:
    write_text(path, text)
    path.chmod(0o755)
    return path


def _write_job(
    folder: Path,
    study: Study,
    specs: list[RunSpec],
    trial: int,
    pes: int,
    extra: tuple[str, ...],
    checkpoints: bool,
) -> Path:
    """Write the script that makes the runs of one trial on ``pes`` PEs."""
    name = f"trial-{trial:02}-pes-{pes:04}"
    directives = "".join(f"#SBATCH {option}\n" for option in extra)
    order = shuffled(study.shuffle_seed, trial, len(specs))
    runs = [(point, specs[point]) for point in order if specs[point].pes == pes]
    text = JOB_TEXT.format(
        name=name, trial=trial, pes=pes, counted_pes=counted(pes, "PE"), extra=directives
    )
    used = dict.fromkeys(spec.driver for _, spec in runs)
    text += "".join(drivers.get(driver).job_setup(name) for driver in used)
    lines = [_run_line(name, _name(trial, point), spec, checkpoints) for point, spec in runs]
    return _write_script(folder / f"{name}.sh", text + "".join(lines))


def _run_line(job: str, name: str, spec: RunSpec, checkpoints: bool) -> str:
    """The lines of a job script that make one run."""
    run = shlex.join([*spec.arguments(), "--json", f"{name}.json"])
    run += f" $(parts {name})" if checkpoints else ""
    command = drivers.get(spec.driver).job_command(run, spec.pes, spec.own)
    return f"keep {name} \\\n  {command}\nsteady {job}\n"


def submit(folder: Path) -> int:
    """Submit the jobs of a folder; returns the exit status. Raises InputError without sbatch."""
    allowed = "no sbatch found: copy the folder to the cluster and start its submit.sh there"
    require(which("sbatch") is not None, "--launcher", "slurm", allowed)
    done = subprocess.run([str((folder / SUBMIT).resolve())], check=False)
    return FAILED if done.returncode else VALID


@dataclasses.dataclass(frozen=True)
class Collected:
    """The result of `merge`: numbers of requested and added runs, and the runs that do not count.

    ``failed``: entries of the campaign; ``missing``: pairs of trial and point.
    """

    asked: int
    added: int
    failed: list[dict[str, Any]]
    missing: list[tuple[int, int]]

    @property
    def complete(self) -> bool:
        """Whether all requested runs count."""
        return not self.failed and not self.missing

    def lines(self) -> list[str]:
        """Lines to print: one for each failed and each missing run, then a summary."""
        failed = [f"FAILED  {_name(**entry)}: {entry['reason']}" for entry in self.failed]
        missing = [f"MISSING {_name(*run)}: no file came back" for run in self.missing]
        count = self.asked - len(self.failed) - len(self.missing)
        return [*failed, *missing, f"{count} of {self.asked} runs count, {self.added} of them new"]


def _name(trial: int, point: int, **_: Any) -> str:
    return f"trial-{trial:02}-point-{point:02}"


def collect(folder: Path, path: Path) -> int:
    """Merge the results and list failed and missing runs; returns WRONG if any, else VALID."""
    collected = merge(folder, path)
    for text in collected.lines():
        print(printable(text), file=sys.stdout if collected.complete else sys.stderr)
    return VALID if collected.complete else WRONG


def merge(folder: Path, path: Path) -> Collected:
    """Add the new results in a folder of jobs to a campaign file.

    Raises InputError if a record does not belong to the run in its file name, or if the campaign
    file holds another study.
    """
    head = _read_json(folder / HEAD)
    known = {"campaign", "study", "points", "trials"} <= head.keys()
    require(known, "collect", folder / HEAD, "is no head of a study: write its jobs again")
    head = upgraded_head(head)
    trials = head.pop("trials")
    asked = {(trial, point) for trial in range(trials) for point in range(len(head["points"]))}
    found = sorted(_found(folder, head, asked), key=lambda run: run[:2])
    writer = Writer(path, head)
    try:
        for job in sorted(folder.glob("trial-*.noise")):
            _add_noise(writer, job)
        added = sum(_add(writer, folder, *run) for run in found)
    finally:
        writer.close()
    made = {(entry["trial"], entry["point"]) for entry in writer.campaign.of("run")}
    failed = writer.campaign.failures
    completed = made | {(entry["trial"], entry["point"]) for entry in failed}
    return Collected(len(asked), added, failed, sorted(asked - completed))


def _found(
    folder: Path, head: dict[str, Any], asked: set[tuple[int, int]]
) -> Iterator[tuple[int, int, Found]]:
    """Trial, point, and result of every run that wrote a result file."""
    for file in sorted(folder.iterdir()):
        match = RUN_FILE.fullmatch(file.name)
        if match is None:
            continue
        trial, point = int(match[1]), int(match[2])
        require((trial, point) in asked, "collect", file, "is no run of this study")
        ended, failed = (folder / f"{_name(trial, point)}.{end}" for end in ("json", "failed"))
        if file == failed and not ended.exists():
            yield trial, point, f"failed with status {_status(file)}"
        elif file == ended or not (file == failed or ended.exists() or failed.exists()):
            found = _result(ended)
            if not isinstance(found, str):
                _require_run(file, found, head, point)
            yield trial, point, found


def _result(file: Path) -> dict[str, Any] | str:
    """The record of a run, of which a file has the last part; or why its parts do not make one."""
    parts = [*_parts(file), *([upgraded(_read_json(file))] if file.exists() else [])]
    whole = len(parts) == 1 and not parts[0].get("resumed") and "stopped" not in parts[0]
    return parts[0] if whole else joined(parts)


def _parts(file: Path) -> list[dict[str, Any]]:
    """The records of the parts of a run before the last one, whose record is in a file."""
    paths = (file.with_suffix(f".part-{number}.json") for number in count())
    return [upgraded(_read_json(path)) for path in takewhile(Path.exists, paths)]


def _status(file: Path) -> int:
    """The exit status in a file."""
    text = contents("collect", file, LONGEST).strip()
    require(text.isdecimal() and len(text) <= 3, "collect", file, "must hold an exit status")
    return int(text)


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Raises InputError."""
    try:
        return parsed_object(path.read_bytes())
    except OSError as error:
        raise InputError("collect", path, f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError("collect", path, "is no JSON object") from None


def _require_run(file: Path, record: dict[str, Any], head: dict[str, Any], point: int) -> None:
    """Raise InputError unless a record belongs to the requested run."""
    for key, value in asked_of(head, point).items():
        allowed = f"is of another run: {key} is {record.get(key)}, not {value}"
        require(record.get(key) == value, "collect", file, allowed)
    needed = RESULT_KEYS | (TIMING_KEYS if record.get("valid") else set())
    lacking = ", ".join(sorted(needed - record.keys()))
    require(not lacking, "collect", file, f"lacks {lacking}: was it another version of miniapps?")
    steps, asked = record.get("steps", 0), steps_of(head, head["points"][point])
    allowed = f"is of another run: steps is {steps}, not {asked}"
    require(0 < steps <= asked, "collect", file, allowed)


def _add_noise(writer: Writer, job: Path) -> None:
    """Add a job's new noise samples, and before its first one a start event for its machine."""
    events = writer.campaign.events
    known = sum(entry["event"] == "noise" and entry.get("job") == job.stem for entry in events)
    for number, text in enumerate(job.read_text(encoding="utf-8").splitlines()):
        noted = object_of(job, number + 1, text)
        if number == 0 and known == 0:
            around = {name: noted.get(name) for name in ("versions", "host", "clock_tick_s")}
            writer.add("start", job=job.stem, pinned=True, **around)
        if number >= known:
            writer.add("noise", job=job.stem, seconds=noted.get("seconds"))


def _command(file: Path) -> str:
    """The command that launched a run, from the file that its job wrote."""
    text = contents("collect", file, LONGEST)
    try:
        return plain_command(shlex.split(text))
    except ValueError as error:
        raise InputError("collect", file, f"is no command: {error}") from None


def _add(writer: Writer, folder: Path, trial: int, point: int, found: Found) -> bool:
    """Add a run unless the campaign has its final result; returns whether it is new and counts."""
    if (trial, point) in writer.campaign.completed:
        return False
    command = _command(folder / f"{_name(trial, point)}.command")
    run = {"trial": trial, "point": point, "command": command}
    reason = found if isinstance(found, str) else rejection_reason(writer.campaign, point, found)
    if reason is None:
        writer.add("run", **run, record=found)
        return True
    # Not final: the job may be submitted again, and the repeated run may count.
    entry = run | {"reason": reason, "final": False}
    if not any(entry.items() <= failure.items() for failure in writer.campaign.failures):
        writer.add("dropped", **entry)
    return False
