"""The argument parser of the commands: its errors are InputErrors."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from miniapps.parameters import InputError, one_line

DISTRIBUTION = "parallel-miniapps"


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


def command_parser(commands: Any, name: str, help: str, example: str, function: Any) -> Parser:
    """Add a command, whose ``function`` takes the parsed options and the runtime's arguments."""
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
