"""Where a program returns its result, and which of its messages it does not wait for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from miniapps.lessons.lesson import Lesson
from miniapps.lessons.mistakes import source

BEGIN = {"isend", "issend", "ibsend", "irsend", "irecv", "isendrecv"}  # calls that return a request
COMPLETE = {"wait", "waitall", "waitany", "waitsome", "test", "testall", "testany", "testsome"}


def words(program: Path, lesson: Lesson, who: str, kind: str) -> str:
    """That a program has returned no array of numbers, and where. ``kind``: of what it returned."""
    found = definition(program, lesson)
    if found is None or kind != "NoneType" or lines(found):
        what = "None" if kind == "NoneType" else f"an object of type {kind}"
        return f"{place(program, lesson)}{who} {what}, not an array of numbers"
    calls = {ast.unparse(node.func) for node in ast.walk(found) if isinstance(node, ast.Call)}
    prints = "; what it prints is no result" if "print" in calls else ""
    return f"line {found.lineno}: {found.name} has no `return` with a result, so {who} None{prints}"


def place(program: Path, lesson: Lesson) -> str:
    """The line in which a program returns its result, if there is only one; else empty."""
    found = definition(program, lesson)
    where = lines(found) if found else []
    return f"line {where[0]}: " if len(where) == 1 else ""


Definition = ast.FunctionDef | ast.ClassDef


def definition(program: Path, lesson: Lesson) -> Definition | None:
    """What a program defines of what the lesson asks for: a function, or a class."""
    for node in ast.parse(source(program)).body:
        if isinstance(node, Definition) and node.name in lesson.function.values():
            return node
    return None


def lines(found: Definition) -> list[int]:
    """The lines that return a result: of a class, those of `result`, or the calls of done."""
    if isinstance(found, ast.FunctionDef):
        return [node.lineno for node in own(found) if isinstance(node, ast.Return) and node.value]
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and node.name == "result":
            return lines(node)
    calls = (node for node in ast.walk(found) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if ast.unparse(call.func).split(".")[-1] == "done"]


def own(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a function, without those of functions inside."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child
            yield from own(child)


def not_waited_for(program: Path) -> str:
    """That a program drops the request of a message, in words with the line; empty if not."""
    tree = ast.parse(program.read_bytes())
    nodes = [*ast.walk(tree)]
    called = {
        node.func.attr.lower()
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    dropped = [node.value for node in nodes if isinstance(node, ast.Expr)]
    begun = dropped if called & COMPLETE else nodes
    for node in begun:
        match node:
            case ast.Call(func=ast.Attribute(attr=name), lineno=line) if name.lower() in BEGIN:
                return (
                    f"line {line}: {name} only begins a message, and the program does not wait for "
                    "its request; until then the array must not be changed or read"
                )
    return ""
