"""Parallel scientific mini-apps: list, new, run, verify, selftest, study, doctor, plot, demo.

Options of an app come from the fields of its Problem. Exit status: 0 valid; 1 ran, but the result
is wrong; 2 bad input, reported in one line before anything is launched; 3 the run failed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import drivers
import miniapps
from drivers.descriptor import Balancing
from miniapps.parameters import InputError, one_line, require
from workbench import environment
from workbench.arguments import (
    SECONDS,
    add_app_options,
    add_driver_options,
    add_former,
    add_options,
    typed,
)
from workbench.exit_status import BAD_INPUT, FAILED, INTERRUPTED, VALID
from workbench.table import width

if TYPE_CHECKING:
    from workbench.run.spec import RunSpec

DISTRIBUTION = "parallel-miniapps"
SUMMARY = "Parallel scientific mini-apps: list, new, run, verify, study, doctor, plot, demo."
PLOT_EXAMPLES = """examples:
  miniapps run pic --output run.h5 && miniapps plot run.h5
  miniapps run pic --output run.h5 --snapshot-every 5 --trace
  miniapps plot run.h5 --animation --trace
"""


def run_examples() -> str:
    """Help text: an example of a run under every driver."""
    runs = [driver.example for driver in drivers.found().values()]
    lines = ["run jacobi2d", *(f"run jacobi2d --size 4096x4096 {words}" for words in runs)]
    return "\n".join(["examples:", *(f"  miniapps {line}" for line in lines)])


class Refused(InputError):
    """What argparse refuses, in its own words."""

    def __init__(self, message: str) -> None:
        ValueError.__init__(self, one_line(message))


class Parser(argparse.ArgumentParser):
    """A parser that raises its errors."""

    def error(self, message: str) -> NoReturn:
        """Raise InputError."""
        raise Refused(message)


class Version(argparse.Action):
    """Prints the version of the installed project, which is looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print the version and exit."""
        from importlib.metadata import version

        print(f"miniapps {version(DISTRIBUTION)}")
        parser.exit()


def bad_input(message: str) -> NoReturn:
    """Print one line and exit with status 2; under a launcher all ranks exit and one prints."""
    if not drivers.rank_zero_speaks():
        print(f"miniapps: {one_line(message)}", file=sys.stderr)
    raise SystemExit(BAD_INPUT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    environment.one_thread()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    arguments, runtime = split_runtime_options(arguments)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        arguments = with_names_of_apps(arguments)
        if arguments[:1] == ["study"]:
            from workbench.study.options import expanded

            arguments = ["study", *expanded(arguments[1:])]
        parser = build_parser(arguments)
        if not arguments:
            parser.print_help()
            return VALID
        options = parser.parse_args(arguments)
        return options.command(options, runtime)
    except BrokenPipeError:
        return VALID
    except InputError as error:
        bad_input(str(error))
    except KeyboardInterrupt as error:
        if not drivers.rank_zero_speaks():
            print(": ".join(filter(None, ["miniapps: interrupted", str(error)])), file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        print(f"miniapps: {error}", file=sys.stderr)
        return FAILED
    except Exception as error:
        from workbench.errors import explained

        print(f"miniapps: {explained(error)}", file=sys.stderr)
        return FAILED  # 1, Python's own status, means a wrong result
    finally:
        _end_output()


def _end_output() -> None:
    """Flush standard output, unless its reader, such as `head`, has closed it."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def with_names_of_apps(arguments: list[str]) -> list[str]:
    """The arguments with names of apps in lower case; words after the first option are kept."""
    end = next((n for n, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    words = [word.lower() if word.lower() in miniapps.names() else word for word in arguments[:end]]
    return [*words, *arguments[end:]]


def split_runtime_options(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at ``--`` into our own and those that are passed to the runtime."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def build_parser(arguments: Sequence[str]) -> Parser:
    """The parser. Of the apps, only the one named in the arguments is imported, for its options."""
    parser = Parser(prog="miniapps", allow_abbrev=False, description=SUMMARY)
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_list(commands)
    _add_new(commands)
    _add_run(commands, arguments)
    _add_batch(commands)
    _add_verify(commands)
    _add_adversary(commands, arguments)
    _add_selftest(commands)
    _add_study(commands, arguments)
    _add_doctor(commands)
    _add_plot(commands)
    _add_diff(commands)
    _add_demo(commands)
    return parser


def _command(commands: Any, name: str, help: str, example: str, function: Any) -> Parser:
    parser = commands.add_parser(
        name,
        help=help,
        description=help,
        epilog=example,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=function)
    return parser


def _add_list(commands: Any) -> None:
    _command(commands, "list", "the apps there are", "example: miniapps list", _list)


def _list(options: argparse.Namespace, runtime: list[str]) -> int:
    for name, app in _all_apps().items():
        summary = (app.__doc__ or "").partition("\n")[0]
        label = f"{name:12} "
        print(label + textwrap.shorten(summary, width() - len(label), placeholder=" ..."))
    return VALID


def _all_apps() -> dict[str, ModuleType]:
    """All apps that can be imported; prints a line for each that cannot."""
    loaded, left_out = miniapps.load_all()
    for line in left_out:
        print(line, file=sys.stderr)
    return loaded


def _for_apps(asked: list[str], act: Callable[[list[str]], int]) -> int:
    """Call ``act`` for the apps that the user names, else for all; returns the exit status.

    If one of all cannot be imported, it is FAILED at least; if a named one cannot, InputError is
    raised.
    """
    for name in asked:
        miniapps.load(name)
    apps = asked or list(_all_apps())
    status = act(apps)
    return status if asked or apps == miniapps.names() else max(status, FAILED)


def _add_new(commands: Any) -> None:
    help = "write a new app, which runs at once, and its tests"
    parser = _command(commands, "new", help, "example: miniapps new heat", _new)
    parser.add_argument("name", metavar="NAME", help="of the app, in lower case")
    help = f"for the app's package; default: the first of {miniapps.APP_PATH}, else apps"
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help=help)


def _new(options: argparse.Namespace, runtime: list[str]) -> int:
    from workbench import new

    print(*new.new(options.name, options.folder), sep="\n")
    return VALID


def _add_run(commands: Any, arguments: Sequence[str]) -> None:
    parser = _command(commands, "run", "run one app", run_examples(), None)
    apps = parser.add_subparsers(title="apps", required=True, metavar="APP", dest="app")
    wanted = [word for word in arguments if word in miniapps.names()][:1]
    for name in miniapps.names():
        app = apps.add_parser(
            name,
            help=f"miniapps run {name} --help lists its options",
            epilog=f"example: miniapps run {name} --preset small",
            allow_abbrev=False,
        )
        if name in wanted:
            add_run_options(app, miniapps.load(name).Problem)
            add_app_options(app, miniapps.load(name).Problem)
        app.set_defaults(command=_run)


def add_run_options(parser: argparse.ArgumentParser, problem: Any) -> None:
    """Add the options that all apps share, and those of single drivers."""
    from workbench.run.spec import RunSpec

    add_options(parser, RunSpec)
    add_options(parser, Balancing)
    parser.set_defaults(driver=drivers.names()[0])
    for driver in drivers.found().values():
        add_driver_options(parser, driver, problem)
    more = parser.add_argument_group("more")
    add = more.add_argument
    presets = ", ".join(problem.presets)
    add("--preset", metavar="NAME", help=f"sizes and steps, one of: {presets}")
    add("--json", metavar="FILE|-", help="write the record as one JSON object")
    add("--launcher", metavar="PATH", help="the mpiexec to start; default: beside this Python")
    stall = "end after this time without progress, and say what blocks wait for"
    add("--stall", type=typed(SECONDS), metavar="SECONDS", help=stall)
    add_former(more, "--timeout", "--stall", "stall", type=typed(SECONDS))
    add("--pin", action="store_true", help="pin each PE to a core of its own")
    add("--no-launch", action="store_true", help="be a rank, start no launcher")
    add("--force", action="store_true", help="run what does not fit into memory")
    add("--dry-run", action="store_true", help="print the launch command instead")


def _run(options: argparse.Namespace, runtime: list[str]) -> int:
    from workbench.run import execute as run

    return run.run(options, runtime)


def _add_batch(commands: Any) -> None:
    parser = _command(
        commands,
        "batch",
        "many runs by few launches: a line of JSON for each",
        "example: printf '%s\\n' 'run echo' 'run pic --preset tiny' | miniapps batch -",
        _batch,
    )
    help = "a command line `run ...` per line; - is standard input"
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help=help)
    add = parser.add_argument
    add("--stall", type=typed(SECONDS), metavar="SECONDS", help="as of `miniapps run`")
    add_former(parser, "--timeout", "--stall", "stall", type=typed(SECONDS))
    parser.add_argument("--no-launch", action="store_true", help=argparse.SUPPRESS)


def _batch(options: argparse.Namespace, runtime: list[str]) -> int:
    from workbench.run import batch

    if options.no_launch:
        return batch.take_part()
    return batch.batch(options.file, spec_of, options.stall)


def spec_of(words: list[str]) -> RunSpec:
    """The run that a command line requests. Raises InputError."""
    from workbench.run.spec import RunSpec

    require(words[:1] == ["run"], "batch", shlex.join(words), "must be `run ...`")
    return RunSpec.create(build_parser(words).parse_args(words))


def _add_verify(commands: Any) -> None:
    parser = _command(
        commands,
        "verify",
        "every app, driver and decomposition: the same bits? exit status 1 where not",
        "example: miniapps verify jacobi2d stencil3d",
        _verify,
    )
    parser.add_argument("apps", nargs="*", metavar="APP", help="default: all")
    parser.add_argument("--full", action="store_true", help="every balancer with every time tile")
    help = "gpu: all on a GPU, held against a run on the CPU"
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu", help=help)


def _verify(options: argparse.Namespace, runtime: list[str]) -> int:
    from workbench import verify

    act = partial(verify.verify, full=options.full, device=options.device)
    return _for_apps(options.apps, act)


def _add_adversary(commands: Any, arguments: Sequence[str]) -> None:
    help = "look for an order of messages, turns and migrations that changes an app's result"
    parser = _command(commands, "adversary", help, "example: miniapps adversary pic", None)
    apps = parser.add_subparsers(title="apps", required=True, metavar="APP", dest="app")
    asked = arguments[:1] == ["adversary"]
    wanted = [word for word in arguments if asked and word in miniapps.names()][:1]
    for name in miniapps.names():
        app = apps.add_parser(
            name, help=f"its options: adversary {name} --help", allow_abbrev=False
        )
        if name in wanted:
            _add_adversary_options(app, miniapps.load(name).Problem)
        app.set_defaults(command=_adversary)


def _add_adversary_options(parser: argparse.ArgumentParser, problem: Any) -> None:
    from workbench.adversary import command
    from workbench.run.spec import RunSpec

    add_options(parser, RunSpec, ("steps", "pe_grid"))
    add = parser.add_argument_group("search").add_argument
    add(
        "--preset",
        metavar="NAME",
        help=f"one of: {', '.join(problem.presets)}; default: minimal, else tiny",
    )
    add("--schedules", type=typed(int), default=command.SCHEDULES, metavar="N", help="at most N")
    help = "begin no schedule after so many"
    add("--seconds", type=typed(float), default=command.SECONDS, metavar="S", help=help)
    help = "processes; default: one per core"
    add("--jobs", type=typed(int), default=0, metavar="N", help=help)
    add("--sim-seed", type=typed(int), default=0, metavar="K", help="the first seed")
    add("--sim-pes", type=typed(int), default=command.PES, metavar="P", help="virtual PEs")
    help = "where to write a schedule that fails; default: APP-schedule.json"
    add("--schedule", type=Path, metavar="FILE", help=help)
    add("--json", type=Path, metavar="FILE", help="write what was found as JSON")
    add("--replay", type=Path, metavar="FILE", help="run by this schedule instead, and explain")
    add_app_options(parser, problem)


def _adversary(options: argparse.Namespace, runtime: list[str]) -> int:
    from workbench.adversary import command

    return command.adversary(options)


def _add_selftest(commands: Any) -> None:
    parser = _command(
        commands,
        "selftest",
        "make known mistakes in the program, one at a time; exit status 1 if one is not caught",
        "example: miniapps selftest pic",
        _selftest,
    )
    parser.add_argument("apps", nargs="*", metavar="APP", help="default: all")
    help = "only under this driver; repeatable"
    names = drivers.names()
    parser.add_argument("--driver", action="append", choices=names, metavar="NAME", help=help)
    parser.add_argument("--fault", metavar="WORDS", help="only faults whose name contains this")
    help = "of the problems, with few steps: small, large, or tiny (default), made smaller"
    parser.add_argument("--preset", default="tiny", metavar="NAME", help=help)
    help = "only so many faults of each app under each driver, drawn at random"
    parser.add_argument("--draw", type=typed(int), metavar="N", help=help)
    help = "append each trial to this file, as a line of JSON"
    parser.add_argument("--json", type=Path, metavar="FILE", help=help)
    help = "print the table in Markdown"
    parser.add_argument("--markdown", action="store_true", help=help)


def _selftest(options: argparse.Namespace, runtime: list[str]) -> int:
    from workbench.selftest import command

    def act(apps: list[str]) -> int:
        asked = command.Asked(
            apps,
            options.driver or drivers.names(),
            options.fault,
            options.preset,
            options.draw,
            options.json,
        )
        return command.selftest(asked, options.markdown)

    return _for_apps(options.apps, act)


def _add_study(commands: Any, arguments: Sequence[str]) -> None:
    parser = _command(
        commands,
        "study",
        "measure how an app scales: repeated runs and a report",
        "",
        None,
    )
    if arguments[:1] == ["study"]:
        from workbench.study import command

        command.add_commands(parser, arguments)


def _add_doctor(commands: Any) -> None:
    _command(
        commands,
        "doctor",
        "what is installed, what works, what each missing thing costs",
        "example: miniapps doctor",
        _doctor,
    )


def _doctor(options: argparse.Namespace, runtime: list[str]) -> int:
    from workbench import doctor

    return doctor.doctor()


def _add_plot(commands: Any) -> None:
    parser = _command(
        commands,
        "plot",
        "draw one run: final state, loads, step times and migrations; or write its animation, "
        "trace, or files for ParaView, ASE and OVITO",
        PLOT_EXAMPLES,
        _plot,
    )
    parser.add_argument("file", type=Path, metavar="FILE.h5", help="written by run --output")
    add = parser.add_argument
    add("--figure", type=Path, metavar="FILE", help=".png, .svg or .pdf; default: FILE.png")
    add("--animation", action="store_true", help="write FILE.html, with a slider over the steps")
    add_former(parser, "--film", "--animation", "animation", nargs=0, const=True)
    second = "a second run of the same problem, beside the first in the animation"
    add("--compare", type=Path, metavar="OTHER.h5", help=second)
    add_former(parser, "--beside", "--compare", "compare", type=Path)
    add("--trace", action="store_true", help="write FILE.trace.json, for Perfetto")
    add("--paraview", action="store_true", help="write FILE.vtkhdf, for ParaView")
    add("--xyz", action="store_true", help="write FILE.xyz, a trajectory for ASE and OVITO")


def _plot(options: argparse.Namespace, runtime: list[str]) -> int:
    from workbench.show import animation, paraview, plots, trace, xyz

    source, written = options.file, []
    animated = options.animation
    require(animated or not options.compare, "--compare", options.compare, "needs --animation")
    others = animated, options.trace, options.paraview, options.xyz
    if options.figure or not any(others):
        written.append(plots.write_figure(source, options.figure or source.with_suffix(".png")))
    if animated:
        page = source.with_suffix(".html")
        written.append(animation.write_animation(source, options.compare, page))
    if options.trace:
        written.append(trace.write_trace(source, source.with_suffix(".trace.json")))
    if options.paraview:
        written.append(paraview.write_paraview(source, source.with_suffix(".vtkhdf")))
    if options.xyz:
        written.append(xyz.write_xyz(source, source.with_suffix(".xyz")))
    print(*written, sep="\n")
    return VALID


def _add_diff(commands: Any) -> None:
    help = "the first step, part of the domain and field in which two runs differ"
    example = "example: miniapps diff A.h5 B.h5; make both with run --hash-every 1 --output"
    parser = _command(commands, "diff", help, example, _diff)
    for name in ("A.h5", "B.h5"):
        parser.add_argument(name, type=Path, help="written by run --output")


def _diff(options: argparse.Namespace, runtime: list[str]) -> int:
    from workbench import diff

    return diff.diff(*(getattr(options, name) for name in ("A.h5", "B.h5")))


def _add_demo(commands: Any) -> None:
    parser = _command(
        commands,
        "demo",
        "all apps under all drivers, validated, timed and plotted, in about a minute",
        "example: miniapps demo --folder demo",
        _demo,
    )
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="default: demo")


def _demo(options: argparse.Namespace, runtime: list[str]) -> int:
    from workbench import demo

    return demo.demo(options.folder)


if __name__ == "__main__":
    raise SystemExit(main())
