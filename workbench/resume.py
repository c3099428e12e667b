"""``miniapps resume`` continues from a checkpoint, ``miniapps checkpoint`` says what is in one."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from miniapps.parameters import require
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.plural import counted
from miniapps.workbench.run.checkpoint import Resumed, read_checkpoint

# Options that are as before unless they are given, or one of these.
UNLESS: Mapping[str, tuple[str, ...]] = {
    "-n": ("--driver", "--pe-grid"),
    "--odf": ("--driver",),
    "--pe-grid": ("--driver", "-n"),
}


def expanded(words: Sequence[str]) -> list[str]:
    """The words of `run` that continue from a checkpoint; ``words``: those after `resume`.

    What fixes the result is as before. So are driver, PEs, blocks and checkpoints, unless options
    for them are given. Raises InputError. Words that do not begin with a file are returned after
    `resume`, for its parser.
    """
    if not words or words[0].startswith("-"):
        return ["resume", *words]
    path, given = Path(words[0]), list(words[1:])
    once = f"has no effect: the checkpoint is {path}"
    require(not is_given("--resume", given), "--resume", "", once)
    head = read_checkpoint("FILE.h5", path).head
    before = head["case"] | {"--checkpoint": str(path.with_name(head["file"]))}
    line = ["run", head["app"], *head["words"]]
    for option, value in before.items():
        if not any(is_given(other, given) for other in (option, *UNLESS.get(option, ()))):
            line += [option, value] if value else [option]
    if not is_given("--driver", given):
        line += head["own"]
    return [*line, *given, "--resume", str(path)]


def require_only_options(options: Namespace) -> None:
    """Raise InputError for what the options that `expanded` has added would override."""
    allowed = "has no effect: problem and steps are as before"
    preset, words = options.preset, getattr(options, "positional", None) or []
    require(preset is None, "--preset", preset, allowed)
    require(not words, "problem", " ".join(words), allowed)


def is_given(option: str, words: Sequence[str]) -> bool:
    """Whether words of a command line give an option, which may have its value behind it."""
    glued = f"{option}=" if option.startswith("--") else option
    return any(word == option or word.startswith(glued) for word in words)


def checkpoint(path: Path, json_wanted: bool) -> int:
    """Print what is in a checkpoint whose hashes hold. Raises InputError if they do not."""
    found = read_checkpoint("FILE.h5", path)
    found.verify()
    print(json.dumps(dict(found.head)) if json_wanted else "\n".join(summary(found)))
    return VALID


def summary(found: Resumed) -> list[str]:
    """What is in a checkpoint, in a few lines."""
    head, warmup = found.head, found.head["warmup"]
    made = f"step {head['step']} of {warmup + head['steps']}"
    lines = [
        f"{head['app']}, {made}{', its tolerance is met' if head['finished'] else ''}",
        f"  state {head['state_hash']}: all hashes hold",
        f"  problem {shlex.join(head['words'])}",
        f"  written under {head['case']['--driver']} on {counted(int(head['case']['-n']), 'PE')}",
    ]
    if head["resumed"]:
        steps = ", ".join(str(past["step"]) for past in head["resumed"])
        lines.append(f"  by a run that was resumed at step {steps}")
    for name, array in head["arrays"].items():
        lines.append(f"  {name}: {array['dtype']} {'x'.join(map(str, array['shape']))}")
    return lines
