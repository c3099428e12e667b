"""The command ``miniapps reproduce``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from miniapps.parameters import InputError, require
from miniapps.workbench.arguments import add_max_noise, refuse_runtime
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.run.writable import make_folder
from miniapps.workbench.table import show

EXAMPLES = """examples:
  miniapps reproduce --list
  miniapps reproduce espm2-fig7 --quick
  miniapps reproduce --all --quick
"""


def add_options(parser: Any) -> None:
    """Add the options."""
    add = parser.add_argument
    add("names", nargs="*", metavar="FIGURE", help="such as espm2-fig7; --list names all")
    add("--list", action="store_true", help="all figures and claims, and which run here")
    add("--all", action="store_true", help="all figures that run here; writes the report")
    add("--quick", action="store_true", help="each in about a minute")
    add("--full", action="store_true", help="as published, on as many cores")
    add("--report", action="store_true", help="run nothing: write the report of what was run")
    help = "folder of the runs and figures; the report is written beside it; default: reproduction"
    add("--folder", type=Path, default=Path("reproduction"), help=help)
    help = "of the figure's study, made elsewhere: show it, and run nothing"
    add("--campaign", type=Path, metavar="FILE.jsonl", help=help)
    add_max_noise(add)
    parser.epilog = EXAMPLES
    parser.set_defaults(command=command, starts_runs=True)


def command(options: argparse.Namespace, runtime: list[str]) -> int:
    """List figures, or measure some; returns the exit status. Raises InputError."""
    from miniapps.workbench.reproduce import papers, tables

    refuse_runtime(runtime)
    every = papers.figures()
    if options.list:
        others = "names", "all", "quick", "full", "report", "campaign", "max_noise"
        alone = not any(getattr(options, name) for name in others)
        require(alone, "--list", "given", "names all: give it alone")
        show(list(tables.listed(every)))
        return VALID
    asked = chosen(options, every)
    scale = scale_of(options)
    make_folder("--folder", options.folder)
    if options.all or options.report:
        return report_of(asked, scale, options)
    return max(reproduced(figure, scale, options) for figure in asked)


def chosen(options: argparse.Namespace, every: Sequence[Any]) -> list[Any]:
    """The figures that are asked for. Raises InputError."""
    whole = "--all" if options.all else "--report" if options.report else ""
    wrong = f"not with {whole}"
    require(not (whole and options.names), "FIGURE", " ".join(options.names), wrong)
    require(not (whole and options.campaign), "--campaign", options.campaign, wrong)
    runs = not options.report and options.campaign is None
    require(runs or options.max_noise is None, "--max-noise", "given", "nothing is run")
    require(bool(whole or options.names), "FIGURE", "missing", "name one, or give --list or --all")
    one = len(options.names) == 1 or options.campaign is None
    require(one, "--campaign", options.campaign, "needs a single FIGURE")
    known = {figure.name: figure for figure in every}
    for name in options.names:
        require(name in known, "FIGURE", name, f"must be one of {', '.join(known)}")
    return [known[name] for name in options.names] or list(every)


def scale_of(options: argparse.Namespace) -> str:
    """The scale that is asked for. Raises InputError."""
    from miniapps.workbench.reproduce.carry_out import FULL, QUICK, USUAL

    require(not (options.quick and options.full), "--quick", "given", "not with --full")
    return QUICK if options.quick else FULL if options.full else USUAL


def reproduced(figure: Any, scale: str, options: argparse.Namespace) -> int:
    """Measure a figure, draw it, and print its claims; returns the exit status."""
    from miniapps.workbench.reproduce import carry_out, report, results, tables

    status = VALID
    if options.campaign is None:
        status = carry_out.carry_out(figure, scale, options.folder, options.max_noise)
    found = results.found_of(figure, scale, options.folder, options.campaign)
    drawn = report.draw(found, options.folder)
    show([tables.claims_table(found)])
    if drawn:
        print(f"figure: {drawn[0]}")
    return status


def report_of(figures: Sequence[Any], scale: str, options: argparse.Namespace) -> int:
    """Measure all figures that can be, and write the report; returns the exit status."""
    from miniapps.workbench.reproduce import carry_out, report, results, tables

    status = VALID
    able = [figure for figure in figures if carry_out.missing(figure) is None]
    for figure in [] if options.report else able:
        try:
            done = carry_out.carry_out(figure, scale, options.folder, options.max_noise)
            status = max(status, done)
        except InputError as error:
            print(f"left out: {figure.name}: {error}")
    found = [results.found_of(figure, scale, options.folder) for figure in figures]
    written = report.write(found, scale, options.folder)
    show([tables.summary_table(found)])
    print(*(f"report: {path}" for path in written), sep="\n")
    return status
