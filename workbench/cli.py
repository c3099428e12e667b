"""The command ``miniapps``: its parser, and how every command ends.

Options of an app come from the fields of its Problem. Exit status: 0 valid; 1 ran, but the result
is wrong; 2 bad input, reported in one line before anything is launched; 3 the run failed; 4 the run
has stopped early, after a checkpoint.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from miniapps import apps, drivers
from miniapps.drivers.descriptor import Balancing, MemoryOptions, pip_install
from miniapps.drivers.exits import error_of
from miniapps.parameters import InputError, one_line, require
from miniapps.workbench import commands as others
from miniapps.workbench import environment, inherited, standard_output
from miniapps.workbench.arguments import (
    add_app_options,
    add_apps,
    add_driver_options,
    add_launcher,
    add_options,
    add_stall,
)
from miniapps.workbench.exit_status import BAD_INPUT, FAILED, INTERRUPTED
from miniapps.workbench.inherited import OutputError
from miniapps.workbench.parser import Parser, Prints, chosen, command_parser, print_version
from miniapps.workbench.run.launched import FOLDER
from miniapps.workbench.run.processes import end_by_signals, remove_shared_files

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from miniapps.workbench.run.spec import RunSpec

Add = Callable[[Any, Sequence[str]], None]  # adds a command's parser, for some arguments
OF_ONE_LAUNCH = (
    *("json", "launcher", "stall", "pin", "no_launch", "dry_run"),
    *("time_limit", "restart_on_failure", "restart_pes"),
)
FURTHER = "miniapps.commands"  # entry points of other packages; each is an Add
LAUNCHED = "run", "batch", "comm"  # commands that PEs carry out, too; they do not
SUMMARY = "Small parallel scientific programs, each run unchanged by several drivers."


def run_examples() -> str:
    """Help text: an example of a run under every driver."""
    runs = [driver.example for driver in drivers.found().values()]
    lines = ["run jacobi2d --size 4096x4096", *(f"run pic {words}" for words in runs)]
    return "\n".join(["examples:", *(f"  miniapps {line}" for line in lines)])


def bad_input(message: str) -> NoReturn:
    """Print one line and exit with status 2; under a launcher all ranks exit and one prints."""
    alone = None if FOLDER in os.environ else drivers.waited_for()
    if alone or not drivers.rank_zero_speaks():
        where = f"rank {drivers.rank()}: " if alone else ""
        print(f"miniapps: {where}{one_line(message)}", file=sys.stderr)
    if alone:
        remove_shared_files()
        alone.fail(BAD_INPUT)
    raise SystemExit(BAD_INPUT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status, 3 if what it prints cannot be written."""
    try:
        try:
            return status_of(arguments)
        finally:
            standard_output.end()
    except OutputError as error:
        print(f"miniapps: standard output cannot be written: {error.strerror}", file=sys.stderr)
        return FAILED


def status_of(arguments: Sequence[str] | None) -> int:
    """Run the command line; returns the exit status."""
    environment.one_thread()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    arguments, runtime = split_runtime_options(arguments)
    try:
        require_folder()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        resumes = arguments[:1] == ["resume"]
        if resumes:
            from miniapps.workbench import resume

            arguments = resume.expanded(arguments[1:])
        if arguments[:1] and arguments[0] not in LAUNCHED:
            end_by_signals()
        arguments = with_names_of_apps(arguments)
        if arguments[:1] == ["study"]:
            from miniapps.workbench.study.options import expanded

            arguments = ["study", *expanded(arguments[1:])]
        options = build_parser(arguments).parse_args(arguments)
        require_alone(options, arguments[0])
        if resumes:
            resume.require_only_options(options)
        return carried_out(options, runtime)
    except InputError as error:
        bad_input(str(error))
    except KeyboardInterrupt as error:
        if not drivers.rank_zero_speaks():
            print(": ".join(filter(None, ["miniapps: interrupted", str(error)])), file=sys.stderr)
        return INTERRUPTED
    except OutputError:
        raise
    except Exception as error:
        from miniapps.workbench.errors import explained

        print(f"miniapps: {explained(error)}", file=sys.stderr)
        return FAILED  # 1, Python's own status, means a wrong result


def require_folder() -> None:
    """End with one line if the current folder has been removed.

    Launchers and Numba would fail for it, and not say what they miss.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        bad_input("the current folder has been removed: change to another one")


def require_alone(options: argparse.Namespace, command: str) -> None:
    """Raise InputError for a command that starts runs if each rank of a launcher would start them.

    PEs of a launch (``--no-launch``) carry out a command of the same name.
    """
    if not getattr(options, "starts_runs", False) or getattr(options, "no_launch", False):
        return
    launcher = drivers.of_several_ranks()
    allowed = f"cannot run on the ranks of this {launcher and launcher.name}: it starts its own"
    require(launcher is None, "command", command, allowed)


def carried_out(options: argparse.Namespace, runtime: list[str]) -> int:
    """Carry out a command; returns the exit status. An app that calls `sys.exit` is an error."""
    try:
        return int(options.command(options, runtime))
    except SystemExit as raised:
        raise error_of(raised) from raised


def with_names_of_apps(arguments: list[str]) -> list[str]:
    """The arguments with names of apps in lower case; words after the first option are kept."""
    end = next((n for n, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    names = apps.names() if end else []
    words = [word.lower() if word.lower() in names else word for word in arguments[:end]]
    return [*words, *arguments[end:]]


def split_runtime_options(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments at ``--`` into our own and those that are passed to the runtime."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def build_parser(arguments: Sequence[str]) -> Parser:
    """The parser of a command line: of the command and the app that it names, if it names any.

    Of the apps, only the one named in the arguments is imported, for its options.
    """
    parser = Parser(prog="miniapps", allow_abbrev=False, description=SUMMARY)
    parser.add_argument("--version", action=Prints, const=print_version, help="the version")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    known = COMMANDS if {*arguments[:1]} & {*COMMANDS} else with_further(arguments)
    for name in chosen([*known], arguments, 0):
        known[name](commands, arguments)
    return parser


def with_further(arguments: Sequence[str]) -> dict[str, Add]:
    """All commands, also those of installed packages. Raises InputError if one needs these."""
    found = apps.installed(FURTHER)
    if not found and arguments and not arguments[0].startswith("-"):
        more = f"others need an installation: {pip_install('-e', '.')}"
        raise InputError("command", arguments[0], f"must be one of {', '.join(COMMANDS)}; {more}")
    names = [name for name in found if name not in COMMANDS]
    return COMMANDS | {name: partial(_add_further, found[name]) for name in names}


def _add_further(entry: EntryPoint, commands: Any, arguments: Sequence[str]) -> None:
    """Add the command of an entry point; one that cannot be imported is left out of lists."""
    try:
        add = entry.load()
    except Exception as error:
        what = f"import fails: {type(error).__name__}: {error}"
        require(arguments[:1] != [entry.name], "command", entry.name, what)
        print(f"left out: command {entry.name}: {what}", file=sys.stderr)
    else:
        add(commands, arguments)


def _add_run(commands: Any, arguments: Sequence[str]) -> None:
    parser = command_parser(commands, "run", "run one app", run_examples(), None)
    add_apps(parser, arguments, 1, add_run_options, command=_run)


def add_run_options(parser: argparse.ArgumentParser, problem: Any) -> None:
    """Add the options that all apps share, those of single drivers, and those of the app."""
    from miniapps.workbench.run.spec import RunSpec

    add_options(parser, RunSpec)
    add_options(parser, Balancing)
    add_options(parser, MemoryOptions)
    parser.set_defaults(driver=drivers.names()[0])
    for driver in drivers.found().values():
        add_driver_options(parser, driver, problem)
    more = parser.add_argument_group("more")
    add = more.add_argument
    presets = ", ".join(problem.presets)
    add("--preset", metavar="NAME", help=f"sizes and steps, one of: {presets}")
    add("--json", metavar="FILE|-", help="write the record as one JSON object")
    add_launcher(more)
    stall = "end the run after this time without progress, and say what blocks wait for"
    add_stall(more, stall)
    add("--pin", action="store_true", help="pin each PE to a core of its own")
    add("--no-launch", action="store_true", help="run as a rank of a launcher that runs already")
    add("--force", action="store_true", help="run even if the problem does not fit into memory")
    add("--dry-run", action="store_true", help="print the launch command, and run nothing")
    add_app_options(parser, problem)
    parser.epilog = f"example: {parser.prog} --preset small"


def _run(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.run import execute as run

    return run.run(options, runtime)


def _add_batch(commands: Any, arguments: Sequence[str]) -> None:
    parser = command_parser(
        commands,
        "batch",
        "make many runs with few launches, and print a line of JSON for each",
        "example: printf '%s\\n' 'run echo' 'run pic --preset tiny' | miniapps batch -",
        _batch,
    )
    help = "a command line `run ...` per line; - is standard input"
    parser.add_argument("file", metavar="FILE", help=help)
    add_stall(parser)
    parser.add_argument("--no-launch", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(starts_runs=True)


def _batch(options: argparse.Namespace, runtime: list[str]) -> int:
    from miniapps.workbench.run import batch

    if options.no_launch:
        return batch.take_part()
    return batch.batch(options.file, spec_of, options.stall)


COMMANDS: dict[str, Add] = {
    "list": others.add_list,
    "new": others.add_new,
    "run": _add_run,
    "resume": others.add_resume,
    "checkpoint": others.add_checkpoint,
    "batch": _add_batch,
    "verify": others.add_verify,
    "adversary": others.add_adversary,
    "selftest": others.add_selftest,
    "study": others.add_study,
    "reproduce": others.add_reproduce,
    "comm": others.add_comm,
    "model": others.add_model,
    "doctor": others.add_doctor,
    "plot": others.add_plot,
    "diff": others.add_diff,
    "replay": others.add_replay,
    "demo": others.add_demo,
}


def spec_of(words: list[str]) -> RunSpec:
    """The run that a command line requests. Raises InputError."""
    from miniapps.workbench.run.execute import check_fits
    from miniapps.workbench.run.spec import RunSpec

    asked = words[:1] == ["run"] and len(words) > 1 and not {"-h", "--help"} & {*words}
    require(asked, "command", shlex.join(words), "must be `run APP ...`")
    options = build_parser(words).parse_args(words)
    for name in OF_ONE_LAUNCH:
        option = f"--{name.replace('_', '-')}"
        require(not getattr(options, name), option, "given", "is no option of a run in a batch")
    spec = RunSpec.create(options)
    if not options.force:
        check_fits(spec)
    return spec


if __name__ == "__main__":
    inherited.prepare()
    raise SystemExit(main())
