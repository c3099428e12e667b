"""All arguments of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache

from miniapps.workbench import cli


@cache
def actions() -> list[tuple[tuple[str, ...], argparse.Action]]:
    """All arguments of all commands, each with the words of its command."""
    return list(below(()))


def below(words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], argparse.Action]]:
    """The arguments of the commands that begin with some words.

    The parser has only the options of the app that the words name, so it is made for each.
    """
    parser: argparse.ArgumentParser = cli.build_parser(list(words))
    for word in words:
        parser = commands_of(parser)[word]
    for word in commands_of(parser):
        yield from below((*words, word))
    left_out = argparse._SubParsersAction
    every = (one for one in parser._actions if not isinstance(one, left_out) and one.nargs != 0)
    yield from ((words, action) for action in every)


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the commands below a parser's."""
    inner = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return {word: parser for one in inner for word, parser in one.choices.items()}
