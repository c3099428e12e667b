"""Adds the options that fields of dataclasses declare to argument parsers."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from miniapps import apps, drivers
from miniapps.drivers.descriptor import Driver
from miniapps.parameters import Number, Share, integer, require, shown
from miniapps.workbench.parser import chosen

SECONDS = Number(zero=False)  # of --stall
SHARE = Share(zero=False)


def refuse_runtime(runtime: Sequence[str]) -> None:
    """Raise InputError for options after ``--``; for studies."""
    require(not runtime, "--", " ".join(runtime), "a study passes no options to launchers")


def add_app_options(parser: argparse.ArgumentParser, problem: Any) -> None:
    """Add the options of an app: the fields of its Problem."""
    group = parser.add_argument_group("problem")
    if problem.positional is not None:
        group.add_argument(
            "positional", nargs="*", help=f"instead of options: {problem.positional}"
        )
    for field in dataclasses.fields(problem):
        default = "none" if field.default in (None, ()) else shown(field.default)
        help = f"{field.metadata['help']}; default: {default}"
        _add(group, field, [field.metadata["option"]], field.name, help)


def add_options(parser: argparse.ArgumentParser, spec: Any, names: Sequence[str] = ()) -> None:
    """Add the options that the fields of a dataclass declare, each to its group of the help.

    ``names`` selects fields; empty: all. An option that the user omits is None.
    """
    groups: dict[str, Any] = {}
    for field in grouped(spec):
        if names and field.name not in names:
            continue
        declared = field.metadata
        group = groups.get(declared["group"]) or parser.add_argument_group(declared["group"])
        groups[declared["group"]] = group
        _add(group, field, [declared["option"]], field.name, declared["help"])
        if declared["former"]:
            former, now = declared["former"], declared["option"]
            add_former(group, former, now, field.name, type=typed(declared["parse"]))


def add_former(group: Any, former: str, now: str, dest: str, **how: Any) -> None:
    """Take an option under its name in an earlier version, too; a line says what it is called now.

    ``how``: what ``add_argument`` takes. The help does not show the option.
    """
    action = partial(_Former, now=now)
    group.add_argument(former, dest=dest, action=action, help=argparse.SUPPRESS, **how)


def add_number(add: Any, option: str, number: Number, help: str, **how: Any) -> None:
    """Add an option that takes a number, by a method ``add_argument``; the help says which."""
    add(option, type=typed(number), help=stated(help, number), **how)


def stated(help: str, number: Number) -> str:
    """A help text for argparse, to which a per cent sign is two, and the numbers that are taken."""
    return f"{help}; {number.allowed.replace('%', '%%')}"


def add_launcher(group: Any) -> None:
    """Add ``--launcher``, for the driver that has one."""
    words = "the mpiexec to start; default: beside this Python"
    group.add_argument("--launcher", metavar="PATH", help=words)


def add_stall(group: Any, help: str = "as of `miniapps run`") -> None:
    """Add ``--stall``, to a group or a parser."""
    add_number(group.add_argument, "--stall", SECONDS, help, metavar="SECONDS")
    add_former(group, "--timeout", "--stall", "stall", type=typed(SECONDS))


def add_max_noise(add: Any) -> None:
    """Add ``--max-noise``, by a method ``add_argument``."""
    help = "wait while the machine is busy, and repeat runs that others disturbed more"
    add_number(add, "--max-noise", SHARE, help, metavar="P%")


class _Former(argparse.Action):
    """Stores the value of an option that has another name now."""

    def __init__(self, now: str, **how: Any) -> None:
        super().__init__(**how)
        self.now = now

    def __call__(
        self, parser: Any, options: argparse.Namespace, value: Any, former: str | None = None
    ) -> None:
        """Store it, and say the name."""
        if not drivers.rank_zero_speaks():
            print(f"miniapps: {former} is called {self.now} now", file=sys.stderr)
        setattr(options, self.dest, self.const if self.nargs == 0 else value)


def grouped(spec: Any) -> list[dataclasses.Field[Any]]:
    """The fields of a dataclass whose options have a group: those of no single app or driver."""
    return [field for field in dataclasses.fields(spec) if field.metadata.get("group")]


def add_driver_options(
    parser: argparse.ArgumentParser, driver: Driver, problem: Any, only: Sequence[str] | None = None
) -> None:
    """Add the options that only one driver has; the driver's name may prefix their names.

    ``only``: the fields to add; None: all.
    """
    fields = [field for field in dataclasses.fields(driver.options) if not field.metadata["group"]]
    fields = [field for field in fields if only is None or field.name in only]
    group = parser.add_argument_group(f"only with --driver {driver.name}") if fields else None
    for field in fields:
        names = driver_option_names(driver, field, problem)
        _add(group, field, names, destination(driver, field), field.metadata["help"])


def driver_option_names(driver: Driver, field: dataclasses.Field[Any], problem: Any) -> list[str]:
    """The names of a driver's option; only the prefixed one if the app uses the other."""
    name = field.metadata["option"]
    if field.metadata["group"] or name.startswith(f"--{driver.name}-"):
        return [name]
    taken = {other.metadata["option"] for other in dataclasses.fields(problem)}
    return [*([] if name in taken else [name]), f"--{driver.name}-{name.removeprefix('--')}"]


def destination(driver: Driver, field: dataclasses.Field[Any]) -> str:
    """The attribute of parsed arguments that holds the value of a driver's option."""
    return field.name if field.metadata["group"] else f"{driver.name}_{field.name}"


def _add(group: Any, field: dataclasses.Field[Any], names: list[str], dest: str, help: str) -> None:
    """Add one option under its names."""
    declared = field.metadata
    if isinstance(declared["parse"], Number) and help is not argparse.SUPPRESS:
        help = stated(help, declared["parse"])
    if declared["parse"] is bool:
        how: dict[str, Any] = {"action": "store_const", "const": True}
    else:
        how = {"type": typed(declared["parse"]), "choices": declared["choices"]}
        how |= {"metavar": declared["metavar"]} if declared["metavar"] else {}
        how |= {"nargs": "?", "const": True} if declared["flag"] else {}
        how |= {"action": "append"} if declared["repeated"] else {}
    group.add_argument(*names, dest=dest, help=help, **how)


def typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A ``type`` for argparse that calls ``parse``; its error states what is allowed."""
    parse = integer if parse is int else parse

    return partial(_read, parse)


def _read(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: must be {error}") from None


def add_kinds(
    parser: Any,
    kinds: Mapping[str, str],
    arguments: Sequence[str],
    add: Callable[[Any, Any], None],
    **usual: Any,
) -> Any:
    """Add ``COMMAND KIND APP``, with the options of the app that ``arguments`` name.

    ``kinds``: their help; ``add``: adds the options of a parser for a problem; ``usual``: defaults
    of all. Returns what other commands beside the kinds are added to.
    """
    commands = parser.add_subparsers(title="kinds", required=True, metavar="KIND", dest="kind")
    for kind in chosen([*kinds], arguments, 1):
        one = commands.add_parser(kind, help=kinds[kind], allow_abbrev=False)
        add_apps(one, arguments, 2, add, **usual)
    return commands


def add_apps(
    parser: Any,
    arguments: Sequence[str],
    place: int,
    add: Callable[[Any, Any], None],
    **usual: Any,
) -> None:
    """Add ``APP``, the word of ``arguments`` at a place; the others are as of `add_kinds`."""
    of_apps = parser.add_subparsers(title="apps", required=True, metavar="APP", dest="app")
    names = apps.names()
    wanted = [word for word in arguments if word in names][:1]
    for name in chosen(names, arguments, place):
        help = f"{parser.prog} {name} --help lists its options"
        app = of_apps.add_parser(name, help=help, allow_abbrev=False)
        if name in wanted:
            add(app, apps.load(name).Problem)
        app.set_defaults(**usual)
