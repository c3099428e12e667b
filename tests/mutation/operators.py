"""The mutants of a file: copies of one of its functions with one small change each.

An operator or comparison becomes another one, a number one more, ``True`` becomes ``False``,
``min`` becomes ``max``, a condition its opposite, the branches of a conditional expression change
places, or a statement is left out. Decorators, default values, annotations, docstrings and zip's
``strict=True`` stay as they are.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from types import CodeType
from typing import Any

import numpy as np
from mutation.files import ROOT

OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.MatMult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
Change = Callable[[Any], ast.AST]  # of a node, perhaps in place; returns what takes its place


@dataclass(frozen=True)
class Mutant:
    """One change of a function: the statement before and after, on one line each."""

    file: str
    function: str  # with its class: "GridBlock.border"
    line: int
    before: str
    after: str
    tree: ast.FunctionDef = field(repr=False, compare=False)

    @property
    def code(self) -> CodeType:
        """The changed function, compiled."""
        return compiled(self.file, tuple(self.function.split(".")), self.tree)

    @property
    def statement(self) -> str:
        """The statement that is changed, with the function."""
        return f"{self.function}: {self.before}"

    @property
    def change(self) -> str:
        """What the statement becomes, with the function."""
        return f"{self.function}: {self.after}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.function}: {self.before}  ->  {self.after}"


@cache
def mutants_of(file: str) -> tuple[Mutant, ...]:
    """All mutants of a file, in the order of its functions; ``file``: relative to the project."""
    tree = ast.parse((ROOT / file).read_text())
    found = (_of_function(file, names, node) for names, node in functions(tree))
    return tuple(itertools.chain.from_iterable(found))


def functions(
    tree: ast.AST, names: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
    """The functions and methods of a module with their names, without functions inside others."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield (*names, node.name), node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, (*names, node.name))


def _of_function(file: str, names: tuple[str, ...], right: ast.FunctionDef) -> Iterator[Mutant]:
    """The mutants of a function."""
    for number, (statement, node) in enumerate(_nodes(right)):
        for change in changes(node):
            wrong = copy.deepcopy(right)
            inside, target = list(_nodes(wrong))[number]
            Replacement(target, change).visit(wrong)
            deleted = target is inside and change is _pass
            before = header(statement)
            after = f"without {before}" if deleted else header(inside)
            line = statement.lineno
            yield Mutant(file, ".".join(names), line, before, after, wrong)


def _nodes(function: ast.FunctionDef) -> Iterator[tuple[ast.stmt, ast.AST]]:
    """The nodes in the body of a function, each with the statement that it belongs to."""

    def below(node: ast.AST, statement: ast.stmt) -> Iterator[tuple[ast.stmt, ast.AST]]:
        yield statement, node
        for child in ast.iter_child_nodes(node):
            if not says_only(node, child):
                yield from below(child, child if isinstance(child, ast.stmt) else statement)

    for statement in function.body:
        yield from below(statement, statement)


def says_only(node: ast.AST, child: ast.AST) -> bool:
    """Whether a part of a node computes nothing: an annotation, or that lengths are the same."""
    if isinstance(node, ast.keyword):
        return node.arg == "strict" and getattr(child, "value", None) is True
    return isinstance(node, ast.AnnAssign) and child is node.annotation


class Replacement(ast.NodeTransformer):
    """Puts the result of a change in the place of one node."""

    def __init__(self, target: ast.AST, change: Change) -> None:
        self.target, self.change = target, change

    def visit(self, node: ast.AST) -> Any:
        """Replace the node, or search below it."""
        return self.change(node) if node is self.target else self.generic_visit(node)


def header(statement: ast.stmt) -> str:
    """A statement, or the line with which it begins."""
    return ast.unparse(statement).splitlines()[0]


def compiled(file: str, names: tuple[str, ...], function: ast.FunctionDef) -> CodeType:
    """The code of a function that has these names, its own last; see `with_truth`."""
    function = with_truth(copy.deepcopy(function))
    function.decorator_list = []
    inside: ast.stmt = function
    for name in reversed(names[:-1]):
        inside = ast.ClassDef(name, [], [], [inside], [], type_params=[])
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    module = ast.fix_missing_locations(ast.Module([future, inside], []))
    code = compile(module, str(ROOT / file), "exec")
    for name in names:
        inner = [part for part in code.co_consts if isinstance(part, CodeType)]
        (code,) = [part for part in inner if part.co_name == name]
    return code


# Changes ------------------------------------------------------------------------------------------


def changes(node: ast.AST) -> Iterator[Change]:
    """The changes of a node."""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in OTHER:
        yield _other_operator
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        for number in range(len(node.ops)):
            yield partial(_other_comparison, number=number)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        yield _other_constant
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield _other_name
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield _other_attribute
    elif isinstance(node, ast.IfExp):
        yield _exchanged
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield lambda node: node.operand
    if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Compare):
        yield _opposite
    if can_be_left_out(node):
        yield _pass


def can_be_left_out(node: ast.AST) -> bool:
    """Whether a statement can be left out without an error at once: it gives no name a value."""
    if isinstance(node, ast.Assign):
        return not any(isinstance(part, ast.Name | ast.Tuple) for part in node.targets)
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break)


def _pass(node: ast.stmt) -> ast.AST:
    if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(node)):
        return ast.If(ast.Constant(False), [node], [])  # the function stays a generator
    return ast.Pass()


def _other_operator(node: Any) -> ast.AST:
    node.op = OTHER[type(node.op)]()
    return node


def _other_comparison(node: Any, number: int) -> ast.AST:
    node.ops[number] = OTHER[type(node.ops[number])]()
    return node


def _other_constant(node: Any) -> ast.AST:
    node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    return node


def _other_name(node: Any) -> ast.AST:
    node.id = NAMES[node.id]
    return node


def _other_attribute(node: Any) -> ast.AST:
    node.attr = NAMES[node.attr]
    return node


def _exchanged(node: Any) -> ast.AST:
    node.body, node.orelse = node.orelse, node.body
    return node


def _opposite(node: Any) -> ast.AST:
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


# Comparisons as numbers ---------------------------------------------------------------------------

TRUTH = "truth_of"  # what the code calls


def truth_of(outcome: Any) -> Any:
    """Python's bool for NumPy's, whose sum of two would be a bool again; lanes as they are."""
    return bool(outcome) if isinstance(outcome, np.bool) else outcome


class _WithTruth(ast.NodeTransformer):
    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return ast.Call(ast.Name(TRUTH, ast.Load()), [self.generic_visit(node)], [])


def with_truth(function: ast.FunctionDef) -> ast.FunctionDef:
    """A function in which kernels' comparisons have Python's bool as outcome."""
    changed: ast.FunctionDef = _WithTruth().visit(function)
    return changed
