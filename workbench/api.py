"""Runs and studies from Python: `miniapps.run` and `miniapps.campaign`, see docs/records.md.

They check what the command line checks. Where it prints and exits, they raise: InputError for bad
input, RunError for a failed run. Only the methods that return tables import pandas.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from miniapps import apps, drivers
from miniapps.drivers.descriptor import pip_install
from miniapps.drivers.job import RunError
from miniapps.parameters import InputError, require, shown
from miniapps.workbench.cli import build_parser
from miniapps.workbench.environment import variables_kept
from miniapps.workbench.exit_status import BAD_INPUT
from miniapps.workbench.run import launch, record, restarts
from miniapps.workbench.run.execute import check_fits, require_pinnable
from miniapps.workbench.run.processes import signals_kept
from miniapps.workbench.run.scratch import scratch_folder
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.show import captions
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.export import tidy_row
from miniapps.workbench.study.titles import machine_of, title_of

if TYPE_CHECKING:
    import pandas

RENAMED = {"pes": "-n"}
WIDTH = 70  # of a title, in characters
ONLY_THERE = ("json", "dry_run", "no_launch", "help")  # options of the command line alone


class Record(dict[str, Any]):
    """The record of a run: a mapping with the keys that docs/records.md lists.

    ``print(record)`` shows what ``miniapps run`` shows.
    """

    def __init__(self, values: Mapping[str, Any], timings: np.ndarray | None) -> None:
        super().__init__(values)
        self._timings = timings

    def __str__(self) -> str:
        return record.summary(self)

    def title(self, width: int = WIDTH) -> str:
        """The title of a figure: the run's command line, its problem and the machine.

        A line has at most ``width`` characters.
        """
        return captions.run_title(self, width)

    def blocks(self) -> pandas.DataFrame:
        """A row per block and timed round: ``block``, ``pe``, ``round``, and three times in s.

        They are ``begin_s``, ``end_s`` and ``compute_s``, as in ``timing/blocks`` of an HDF5 file.
        Raises RunError if the result is wrong, as such a run has no timings, and ImportError if
        pandas is not installed.
        """
        if self._timings is None:
            raise RunError("the result of this run is wrong, so it has no timings")
        return _table(self._timings)


class Runs(Campaign):
    """A campaign file: the runs of a study."""

    def title(self, width: int = WIDTH) -> str:
        """The title of a figure: the kind of study, its app and problem, and the machines.

        A line has at most ``width`` characters.
        """
        return captions.fitted([title_of(self), machine_of(self)], width)

    def runs(self) -> pandas.DataFrame:
        """A row per run that counts, with the columns of ``miniapps study export --format csv``.

        Raises ImportError if pandas is not installed.
        """
        return _table([tidy_row(run) for run in self.of("run")])


def run(app: str, **options: Any) -> Record:
    """Make one run, in processes of its own; returns its record.

    ``options`` are those of ``miniapps run APP``, written with ``_``; ``pes`` is ``-n``. A tuple is
    a size: ``(64, 32)`` is ``64x32``. A list gives an option that may be repeated. True gives an
    option without a value; False and None do not give it.

    A record whose ``valid`` is False has no timings: the result is wrong. Raises InputError for bad
    input, before anything starts, and RunError if the run fails.
    """
    apps.load(app)
    for name in ONLY_THERE:
        require(name not in options, name, options.get(name), "is for the command line only")
    words = [word for name, value in options.items() for word in _words(name, value)]
    asked = build_parser(["run", app]).parse_args(["run", app, *words])
    with scratch_folder() as folder, signals_kept(), variables_kept():
        timings = folder / "blocks.npy"
        spec = _spec(asked, timings)

        def command(spec: RunSpec) -> list[str]:
            pinning = launch.pinning(spec) if asked.pin else []
            return launch.command_for_all([spec], pinning, asked.launcher)

        result = restarts.launch_until_done(spec, command, asked.stall)
        if isinstance(result, str):
            raise RunError(result)
        return Record(result, np.load(timings) if timings.exists() else None)


def campaign(path: str | Path) -> Runs:
    """Read the campaign file of a study and validate its runs. Raises InputError."""
    return Runs.read(Path(path))


def _words(name: str, value: Any) -> Iterator[str]:
    """The words of a command line that give an option."""
    option = RENAMED.get(name, f"--{name.replace('_', '-')}")
    if isinstance(value, list):
        for one in value:
            yield from _words(name, one)
    elif value is True:
        yield option
    elif value is not None and value is not False:
        yield from [option, shown(value)] if name in RENAMED else [f"{option}={shown(value)}"]


class InsideLauncher(InputError, SystemExit):
    """Many processes call `run`; whoever does not catch it ends with status 2, without a traceback.

    Rank 0 says why.
    """

    def __init__(self, allowed: str, app: str) -> None:
        super().__init__("miniapps.run", app, allowed)
        self.code = BAD_INPUT
        if not drivers.rank_zero_speaks():
            print(f"miniapps: {self}", file=sys.stderr)


def _spec(asked: argparse.Namespace, timings: Path) -> RunSpec:
    """The checked specification of the run, which leaves its timings in a file."""
    launcher = drivers.of_several_ranks()
    if launcher is not None:
        allowed = f"starts its PEs itself: call it outside {launcher.name}, or use the command"
        raise InsideLauncher(allowed, asked.app)
    drivers.get(asked.driver).require_modules()
    spec = RunSpec.create(asked, timings)
    if not asked.force and asked.launcher is None:
        check_fits(spec)
    restarts.check(spec, launches=True)
    if asked.pin:
        require_pinnable(spec, asked.launcher)
    return spec


def _table(rows: np.ndarray | Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Rows as a table. Raises ImportError, which says how to install pandas."""
    try:
        import pandas
    except ImportError:
        raise ImportError(f"tables need pandas: {pip_install('pandas')}") from None
    return pandas.DataFrame(rows)
