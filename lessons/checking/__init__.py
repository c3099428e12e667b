"""`miniapps lesson`: hands out exercises, checks answers, and says what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def add(commands: Any, arguments: Sequence[str]) -> None:
    """Add `miniapps lesson`, an entry point of the installed package."""
    from miniapps.workbench.parser import command_parser

    help = "exercises in parallel programming, checked bit for bit"
    parser = command_parser(commands, "lesson", help, "", None)
    if arguments[:1] == ["lesson"]:
        from miniapps.lessons.checking import command

        command.add_commands(parser)
