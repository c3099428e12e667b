"""Options that several commands have: those of an app, and how a value is read."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
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


def option(
    option: str,
    default: Any,
    parse: Callable[[str], Any],
    help: str,
    group: str = "run",
    metavar: str | None = None,
    choices: tuple[str, ...] | None = None,
    former: str | None = None,
    key: str | None = None,
) -> Any:
    """Declare a field as an option of the command line, in a group of its help.

    ``former``: the option's name in an earlier release; ``key``: the field's key in records, where
    it has one. A bool is given without a value.
    """
    metadata = locals()
    return dataclasses.field(default=default, metadata=metadata)


def add_options(parser: argparse.ArgumentParser, spec: Any, names: Sequence[str] = ()) -> None:
    """The options that the fields of a dataclass declare: all, or those of some names.

    What is not given is None.
    """
    fields = [field for field in dataclasses.fields(spec) if "group" in field.metadata]
    fields = [field for field in fields if not names or field.name in names]
    groups = dict.fromkeys(field.metadata["group"] for field in fields)
    for title in groups:
        add = parser.add_argument_group(title).add_argument
        for field in (field for field in fields if field.metadata["group"] == title):
            said = field.metadata
            if isinstance(field.default, bool):
                how: dict[str, Any] = {"action": "store_const", "const": True}
            else:
                how = {"type": typed(said["parse"]), "choices": said["choices"]}
                how |= {} if said["choices"] else {"metavar": said["metavar"]}
            add(said["option"], dest=field.name, help=said["help"], **how)
            if said["former"]:
                add(said["former"], dest=field.name, **how | {"help": argparse.SUPPRESS})


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
