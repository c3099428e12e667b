"""Options that several commands have: those of an app, and how a value is read."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

from miniapps.parameters import shown


def add_app_options(parser: argparse.ArgumentParser, problem: Any) -> None:
    """The options of an app, from the fields of its Problem."""
    add = parser.add_argument_group("problem").add_argument
    if problem.positional is not None:
        add("positional", nargs="*", help=f"instead of options: {problem.positional}")
    for field in dataclasses.fields(problem):
        bare: dict[str, Any] = {"nargs": "?", "const": True} if field.metadata["flag"] else {}
        add(
            field.metadata["option"],
            dest=field.name,
            action="append" if field.metadata["repeated"] else "store",
            type=typed(field.metadata["parse"]),
            choices=field.metadata["choices"],
            **bare,
            help=f"{field.metadata['help']}; default: {shown(field.default) or 'none'}",
        )


def typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser for an option that says what is allowed where it cannot read the value."""
    expected: dict[Any, str] = {int: "an integer", float: "a number"}
    allowed = expected.get(parse)

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text}: must be {allowed or error}") from None

    return read
