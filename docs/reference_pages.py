"""What the pages of reference show: help texts, and keys of records. ``conf.py`` lays them out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from miniapps.workbench.cli import build_parser
from miniapps.workbench.run.revalidation import MEASURED, RECORD
from miniapps.workbench.run.shapes import Kind


def parsers(*words: str, app: str | None = None) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command, and those below it that its help lists, each as words with its parser.

    ``app``: the only one of which there are parsers; None: all. Each parser is built for its own
    words, because it has the options only of what they name.
    """
    parser: Any = build_parser([*words])
    for word in words:
        parser = _below(parser).choices[word]
    yield words, parser
    if parser._subparsers:
        below = _below(parser)
        for name in (listed.dest for listed in below._choices_actions):
            if below.dest != "app" or app in (name, None):
                yield from parsers(*words, name, app=app)


def _below(parser: Any) -> Any:
    """The action that has the parsers of the next word."""
    return parser._subparsers._group_actions[0]


def help_texts(app: str) -> Iterator[tuple[str, str]]:
    """Each command, with what its ``--help`` prints; those of apps only for ``app``."""
    for words, parser in parsers(app=app):
        yield " ".join(["miniapps", *words]), parser.format_help().rstrip()


def record_keys() -> dict[str, str]:
    """The keys of a record, keys within others after a dot, and what their values must be."""
    return {**dict(_keys(RECORD)), **dict(_keys(MEASURED))}


def _keys(shape: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The same for a shape."""
    if isinstance(shape, Kind):
        yield path, shape.allowed
    elif isinstance(shape, list):
        yield from _keys(shape[0], f"{path}[]")
    else:
        for key, value in shape.items():
            name = f"{path}.{key}".lstrip(".").removesuffix("?")
            for at, allowed in _keys(value, name):
                yield at, f"{allowed}; may be missing" if key.endswith("?") else allowed
