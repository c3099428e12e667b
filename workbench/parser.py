"""The argument parser of the commands: its errors are InputErrors."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from miniapps.parameters import InputError, one_line
from miniapps.workbench.exit_status import BAD_INPUT
from miniapps.workbench.table import width

DISTRIBUTION = "parallel-miniapps"


class Refused(InputError):
    """What argparse refuses, in its own words."""

    def __init__(self, message: str) -> None:
        ValueError.__init__(self, one_line(message))


class Parser(argparse.ArgumentParser):
    """A parser that raises its errors, and prints its help if a command lacks all its words."""

    def error(self, message: str) -> NoReturn:
        """Raise InputError."""
        raise Refused(message)

    @property
    def needs_words(self) -> bool:
        """Whether an argument is needed; argparse calls those required, too, that may be empty."""
        required = [action for action in self._actions if action.required]
        return any(action.nargs != argparse.ZERO_OR_MORE for action in required)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; without any words where some are needed, print the help and exit."""
        if not args and self.needs_words:
            self.print_help()
            self.exit(BAD_INPUT)
        return super().parse_known_args(args, namespace)


class Prints(argparse.Action):
    """An option that prints something else than the command does: calls ``const`` and exits."""

    def __init__(
        self, option_strings: Sequence[str], dest: str, const: Callable[[], None], help: str
    ) -> None:
        super().__init__(option_strings, dest, nargs=0, const=const, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it, and exit."""
        self.const()
        parser.exit()


def print_version() -> None:
    """Print the version of the installed project, which is looked up only if it is asked for."""
    from importlib.metadata import version

    print(f"miniapps {version(DISTRIBUTION)}")


def chosen(names: Sequence[str], words: Sequence[str], place: int) -> list[str]:
    """The one of some names that a command line has at this place, or all if it has none.

    Only then are the parsers of others seen, in a help or an error; to build them all takes most of
    the time until a small run begins.
    """
    asked = [word for word in words[place : place + 1] if word in names]
    return asked or [*names]


def command_parser(commands: Any, name: str, help: str, example: str, function: Any) -> Parser:
    """Add a command, whose ``function`` takes the parsed options and the runtime's arguments."""
    parser = commands.add_parser(
        name,
        help=help,
        description=textwrap.fill(help, width()),
        epilog=example,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=function)
    return parser
