"""Which arguments a kernel may write, from its source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import emulation

from miniapps.devices.cuda import compiler


@cache
def arguments(function: Any) -> frozenset[int]:
    """The numbers of the arguments into whose elements a function stores, or functions it calls."""
    tree = emulation._tree(function)
    names = [argument.arg for argument in tree.args.args]
    means = {name: {name} for name in names}  # what a local name may stand for
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _rename(target, node.value, means)
    stored = {name for where in _stored(tree, function) for name in means.get(where, ())}
    return frozenset(number for number, name in enumerate(names) if name in stored)


def _rename(target: ast.expr, value: ast.expr, means: dict[str, set[str]]) -> None:
    """Note that a name may stand for the arrays that an expression names without an index."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts, strict=True):
            _rename(one, other, means)
    elif isinstance(target, ast.Name):
        parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        for part in parts:
            if isinstance(part, ast.Name):
                means.setdefault(target.id, set()).update(means.get(part.id, ()))


def _stored(tree: ast.AST, function: Any) -> Iterator[str]:
    """The names whose elements are assigned, or that are given to functions that do so."""
    outer = inspect.getclosurevars(function)
    seen = {**outer.globals, **outer.nonlocals}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name):
                yield node.value.id
        elif isinstance(node, ast.Call):
            given = [a.id if isinstance(a, ast.Name) else "" for a in node.args]
            if ast.unparse(node.func).startswith("cuda.atomic."):
                yield given[0]
                continue
            called = emulation.function_of(_value(node.func, seen))
            if called is not None:
                yield from (given[number] for number in arguments(called))


def _value(node: ast.expr, seen: dict[str, Any]) -> Any:
    """The value of a name, or of a member of a module."""
    if isinstance(node, ast.Name):
        return seen.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = seen.get(node.value.id)
        own = isinstance(module, ModuleType) and module is not compiler.cuda
        return getattr(module, node.attr, None) if own else None
    return None


class View(NamedTuple):
    """An array that a kernel finds by its address in a table."""

    column: int | None  # of the table, None if the table has one axis or none is given
    is_table: bool  # of addresses in turn
    is_stored: bool  # whether it may be written


@cache
def views(function: Any) -> tuple[View, ...]:
    """The arrays that a kernel, and the functions it calls, find by addresses in tables."""
    tree, outer = emulation._tree(function), inspect.getclosurevars(function)
    seen, stored = {**outer.globals, **outer.nonlocals}, {*_stored(tree, function)}
    found, names = [], dict[int, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[id(node.value)] = node.targets[0].id
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            value = _value(node.func, seen)
            kind, called = _viewed(value), emulation.function_of(value)
            if kind is not None:
                column = _column(node.args[0], seen)
                found.append(View(column, kind == "uint64", names.get(id(node)) in stored))
            elif called is not None:
                found += views(called)
    return tuple(found)


def _viewed(value: Any) -> str | None:
    """The type of elements if a value is a function that `compiler.viewer` has made."""
    defined = getattr(value, "_defn", value)
    if getattr(defined, "__qualname__", "") != "viewer.<locals>.view":
        return None
    return inspect.getclosurevars(defined).nonlocals["dtype"]


def _column(address: ast.expr, seen: dict[str, Any]) -> int | None:
    """The column of a table that an expression for an address names."""
    for node in ast.walk(address):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            code = compile(ast.Expression(node.slice.elts[-1]), "<column>", "eval")
            return int(eval(code, dict(seen)))
    return None
