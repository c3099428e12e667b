"""Which parts of a skeleton a program has as they were handed out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

TODO = re.compile(r"^( *)# TODO (\d+)")
Definition = ast.FunctionDef | ast.ClassDef


class Unfilled(NamedTuple):
    """What is not filled in yet: names of functions, with their TODOs; ``all``: nothing is."""

    parts: list[str]
    all: bool


def unfilled(program: bytes, skeleton: str) -> Unfilled:
    """Which parts of a skeleton that have a TODO a program has unchanged."""
    own, given = dict(defined(program)), dict(defined(skeleton))
    asked = todos(skeleton)
    left = [name for name in asked if name in own and code(own[name]) == code(given[name])]
    parts = [f"{name.split('.')[-1]} (TODO {', '.join(asked[name])})" for name in left]
    return Unfilled(parts, len(parts) == len(asked))


def defined(text: str | bytes) -> Iterator[tuple[str, Definition]]:
    """The functions, classes and methods of a program, methods as ``Class.method``."""
    for node in ast.parse(text).body:
        if isinstance(node, Definition):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def code(node: Definition) -> str:
    """What a function does; of a class, the names of its methods."""
    if isinstance(node, ast.ClassDef):
        return " ".join(one.name for one in node.body if isinstance(one, ast.FunctionDef))
    words = ast.get_docstring(node, clean=False) is not None
    body = WithoutPass().visit(ast.Module(node.body[words:], []))
    return "\n".join(map(ast.dump, [node.args, *node.decorator_list, body]))


class WithoutPass(ast.NodeTransformer):
    """Takes out what does nothing."""

    def visit_Pass(self, node: ast.Pass) -> None:  # noqa: N802
        """Take it out."""


def todos(skeleton: str) -> dict[str, list[str]]:
    """The numbers of the TODOs in each function, or, beside the methods, in each class."""
    nodes, found = [*defined(skeleton)], dict[str, list[str]]()
    for number, line in enumerate(skeleton.splitlines(), 1):
        todo = TODO.match(line)
        if todo:
            before = (one for one in nodes if one[1].lineno < number)
            around = [name for name, node in before if node.col_offset < len(todo[1])]
            numbers = found.setdefault(around[-1], [])
            numbers += [todo[2]] * (todo[2] not in numbers)
    return found
