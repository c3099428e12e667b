"""Make many runs with few launches: the PEs of a launch make one run after the other.

Starting a PE takes 0.7 s of a core, far more than a small run. Runs share a launch if they have the
same driver, number of PEs and device, and pass the same arguments to the runtime at its start.
A run that fails ends its launch; another launch makes the remaining runs. Runs of drivers that need
no launcher are made in this process, unless time without progress is limited: only a process of its
own can be ended while a kernel computes.
"""

from __future__ import annotations

import json
import pickle
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from miniapps.parameters import InputError, require, require_no_device
from miniapps.workbench.errors import explained
from miniapps.workbench.exit_status import FAILED, VALID, WRONG
from miniapps.workbench.run import launch
from miniapps.workbench.run.execute import execute_all
from miniapps.workbench.run.launched import launch_folder
from miniapps.workbench.run.memory import require_shared_of
from miniapps.workbench.run.spec import RunSpec

LONGEST = 1 << 14  # characters of a command line
Result = dict[str, Any] | str  # a record, or the reason why the run failed


def solve(spec: RunSpec, launcher: str | None = None) -> Result:
    """The result of one run. Raises InputError as `solve_all` does."""
    (result,) = solve_all([spec], launcher=launcher)
    return result


def solve_all(
    specs: Sequence[RunSpec],
    stall_s: float | None = None,
    launcher: str | None = None,
    check: bool = True,
) -> list[Result]:
    """The result of each run, in order.

    Runs of few blocks are made first, because under charm the chares of completed runs remain and
    take part in every load-balancing step of later runs.

    Raises InputError if a launcher is missing or, with ``check``, memory that PEs share.
    ``launcher``: replaces the driver's own; how much memory its PEs share is not known.
    """
    if check and launcher is None:
        require_shared_of("run", *specs)
    groups: dict[Any, list[int]] = {}
    for number in sorted(range(len(specs)), key=lambda number: specs[number].blocks):
        groups.setdefault(launch_of(specs[number]), []).append(number)
    results: dict[int, Result] = {}
    for numbers in groups.values():
        results |= _group([(number, specs[number]) for number in numbers], stall_s, launcher)
    return [results[number] for number in range(len(specs))]


def launch_of(spec: RunSpec) -> tuple[Any, ...]:
    """The properties that runs must have in common to share a launch."""
    if spec.can.one_process:
        return (spec.driver,)
    where = spec.pes, spec.hosts, spec.device, spec.gpus_per_host
    return spec.driver, *where, tuple(spec.own.runtime())


def _group(
    runs: list[tuple[int, RunSpec]], stall_s: float | None, launcher: str | None
) -> Iterator[tuple[int, Result]]:
    """Make runs that share a launch, with another launch after each run that fails."""
    while runs and not (runs[0][1].can.one_process and stall_s is None):
        specs = [spec for _, spec in runs]
        results = launch.launch_all(specs, launch.command_for_all(specs, (), launcher), stall_s)
        yield from zip((number for number, _ in runs), results, strict=False)
        runs = runs[len(results) :]
    for number, spec in runs:
        yield number, _here(spec)


def _here(spec: RunSpec) -> Result:
    """The result of a run in this process."""
    results: list[Result] = []

    def keep(_: int, record: dict[str, Any]) -> int:
        results.append(record)
        return VALID

    execute_all([spec], keep, fail=lambda error: results.append(explained(error)))
    return results[0]


def take_part() -> int:
    """Run as one PE of a launch that makes several runs; returns the exit status."""
    folder = launch_folder()
    if folder is None:
        raise InputError("--no-launch", "given", "only where `miniapps batch` has launched")
    specs = pickle.loads((folder / launch.RUNS).read_bytes())
    return execute_all(specs, lambda number, result: VALID)


def lines_of(source: str) -> list[list[str]]:
    """The words of each line of a file, or of standard input ("-"). Raises InputError."""
    try:
        if source != "-":
            require_no_device("FILE", Path(source))
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        lines = text.splitlines()
        long = next((number for number, line in enumerate(lines, 1) if len(line) > LONGEST), None)
        what = f"line {long} is longer than {LONGEST} characters"
        require(long is None, "FILE", source, what)  # shlex takes the square of a word's length
        return [shlex.split(line, comments=True) for line in lines]
    except InputError:
        raise
    except OSError as error:
        raise InputError("FILE", source, f"cannot be read: {error.strerror}") from None
    except ValueError as error:  # of quotation marks, or bytes that are no UTF-8
        raise InputError("FILE", source, f"must have a command line per line: {error}") from None


def batch(source: str, spec_of: Callable[[list[str]], RunSpec], stall_s: float | None) -> int:
    """Make the runs listed as command lines in a file, or on standard input ("-").

    Prints one line of JSON per run, in order: its record, or ``{"failed": reason}``. Returns the
    highest exit status. Raises InputError before anything is launched.
    """
    specs = []
    for number, words in enumerate(lines_of(source), 1):
        try:
            specs += [spec_of(words)] if words else []
        except InputError as error:
            raise InputError("FILE", f"{source}, line {number}", str(error)) from None
    status = VALID
    for result in solve_all(specs, stall_s, check=False):  # checked before, or --force
        print(json.dumps({"failed": result} if isinstance(result, str) else result))
        if isinstance(result, str):
            status = FAILED
        elif not result["valid"]:
            status = max(status, WRONG)
    return status
