"""The subcommands of ``miniapps model``: their parsers and functions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from miniapps.drivers.descriptor import Balancing
from miniapps.parameters import require
from miniapps.workbench.arguments import add_app_options, add_kinds, add_options
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.run.writable import check_figure
from miniapps.workbench.show.marks import write

KINDS = {
    "strong": "the time per step of the same problem on more and more PEs",
    "weak": "that of a problem that grows with the PEs",
    "odf": "the number of blocks per PE with the shortest step",
    "lb": "the gain of each balancer with every period, and whether it pays",
}
DTYPE = "float64"  # of the costs of machines
MOST_PREDICTED = 16  # the default for --pes ends at so many full hosts
EXAMPLES = """examples:
  miniapps model measure
  miniapps model strong jacobi2d --preset paper --machine cray-xc40
  miniapps model odf stencil3d --pes 2 --machine two-cores
  miniapps model lb pic --preset paper --odf 8 --fit pic-lb.jsonl
  miniapps model errors pic-lb.jsonl --machine two-cores
  miniapps model check
"""


def add_commands(parser: Any, arguments: Sequence[str]) -> None:
    """Add the kinds of prediction, and the other commands."""
    parser.epilog = EXAMPLES
    commands = add_kinds(parser, KINDS, arguments, _add_prediction, command=_predict)
    if arguments[1:2] and arguments[1] in KINDS:
        return
    _add_check(commands)
    _add_errors(commands)
    _add_measure(commands)


def _add_prediction(parser: Any, problem: Any) -> None:
    """Add the options of a prediction: those of a study that say what runs, and the machine."""
    from miniapps.workbench.study.options import add_matrix

    add_options(parser, RunSpec, ("steps", "warmup", "pe_grid"))
    add_options(parser, Balancing, ("lb_first",))
    add_matrix(parser, problem)
    _add_machine(parser)
    help = "a study's campaign file, to which the machine's costs are fitted first"
    parser.add_argument("--fit", type=Path, metavar="FILE.jsonl", help=help)
    help = "draw the times per step: .png, .svg or .pdf"
    parser.add_argument("--figure", type=Path, metavar="FILE", help=help)
    add_app_options(parser, problem)
    parser.set_defaults(device="cpu", hosts=None, shuffle_seed=0)


def _add_machine(parser: Any) -> None:
    from miniapps.workbench.model.machine import shipped

    known = ", ".join(shipped())
    help = f"a TOML file, or one of: {known}; default: this machine, measured once"
    parser.add_argument("--machine", metavar="FILE.toml|NAME", help=help)


def _predict(options: argparse.Namespace, runtime: list[str]) -> int:
    require(not runtime, "--", " ".join(runtime), "a prediction starts nothing")
    from miniapps.workbench.model import campaigns, measure, predict
    from miniapps.workbench.model.errors import errors_table
    from miniapps.workbench.model.fitting import fit, from_machine
    from miniapps.workbench.model.formula import with_loads
    from miniapps.workbench.study.options import study_of
    from miniapps.workbench.study.report import read_study
    from miniapps.workbench.table import show

    with_loads(options.app)
    check_figure(options.figure)
    campaign = None if options.fit is None else read_study(options.fit)
    if campaign is not None:
        app = campaign.head["study"]["app"]
        require(app == options.app, "--fit", options.fit, f"has runs of {app}")
    machine = measure.machine_named(options.machine)
    options.pes = options.pes or _usual_pes(options.kind, machine)
    specs = study_of(options).planned()
    _require_counted([spec.problem for spec in specs], campaign)
    shown = []
    if campaign is None:
        fitted = from_machine(machine)
    else:
        cells = campaigns.cells(machine, campaign)
        _require_enough(options.fit, cells)
        fitted = fit(machine, cells)
        shown.append(errors_table(options.fit.name, fitted.left_out))
    found = predict.predict(fitted, specs)
    print(f"machine: {machine.name}")
    if options.fit is None:
        print("intervals are those of the machine's costs; --fit FILE.jsonl adds the model's error")
    show([*shown, *predict.tables(options.kind, found)])
    if options.figure is not None:
        from miniapps.workbench.show.model_figure import figure_of

        problems = [spec.problem for spec in specs]
        lines = predict.lines(options.kind, found)
        figure = figure_of(options.kind, machine.name, options.app, problems, lines)
        print(write(figure, options.figure))
    return VALID


def _require_counted(problems: Sequence[Any], campaign: Any) -> None:
    """Raise InputError for a tolerance, whose tests are not counted, and costs of another dtype."""
    fitted = {} if campaign is None else campaign.head["study"]["problem"]
    costs = fitted.get("dtype", DTYPE)
    for problem in problems:
        tolerance, dtype = getattr(problem, "tolerance", 0.0), getattr(problem, "dtype", costs)
        require(not tolerance, "--tolerance", tolerance, "must be 0: its tests are not counted")
        require(dtype == costs, "--dtype", dtype, f"must be {costs}, as that of the costs")


def _require_enough(path: Path, cells: Sequence[Any]) -> None:
    few = "has one point only: the model's error cannot be seen by leaving it out"
    require(len(cells) > 1, "--fit", path, few)


def _usual_pes(kind: str, machine: Any) -> tuple[int, ...]:
    """The default for ``--pes``: powers of two, up to several hosts in scaling if there are any."""
    if kind in ("odf", "lb"):
        return (machine.pes_per_host,)
    most = machine.pes_per_host * (MOST_PREDICTED if machine.has_hosts else 1)
    return tuple(1 << n for n in range(most.bit_length()))


def _add_check(commands: Any) -> None:
    help = "predict published tables, and say where the model fails and why"
    parser = commands.add_parser("check", help=help, allow_abbrev=False)
    parser.add_argument("--figure", type=Path, metavar="FILE", help="also draw the predictions")
    parser.set_defaults(command=_check)


def _check(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.model import check

    return check.check(options.figure)


def _add_errors(commands: Any) -> None:
    help = "predict each point of campaigns from their other points"
    parser = commands.add_parser("errors", help=help, allow_abbrev=False)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.jsonl")
    _add_machine(parser)
    parser.set_defaults(command=_errors)


def _errors(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.model import campaigns, measure
    from miniapps.workbench.model.errors import errors_table
    from miniapps.workbench.model.fitting import leave_one_out
    from miniapps.workbench.study.report import read_study
    from miniapps.workbench.table import show

    read = [read_study(path) for path in options.files]
    machine = measure.machine_named(options.machine)
    made = []
    for path, campaign in zip(options.files, read, strict=True):
        cells = campaigns.cells(machine, campaign)
        _require_enough(path, cells)
        made.append(errors_table(path.name, leave_one_out(machine, cells)))
    show(made)
    return VALID


def _add_measure(commands: Any) -> None:
    from miniapps.drivers.hosts import hosts
    from miniapps.workbench.arguments import typed

    help = "measure this machine: kernels, memory, and messages of each driver"
    parser = commands.add_parser("measure", help=help, allow_abbrev=False)
    parser.add_argument("--to", type=Path, metavar="FILE.toml", help="default: in the cache folder")
    parser.add_argument("--hosts", type=typed(hosts), metavar="a:8,b:8", help="also between these")
    parser.set_defaults(command=_measure, starts_runs=True)


def _measure(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.model import measure

    require(not runtime, "--", " ".join(runtime), "its runs take no options for launchers")
    path = options.to or measure.own_file()
    print(measure.measure(path, options.hosts))
    return VALID
