"""Kernels run as plain Python, with a note of the outcomes of every condition in them.

The source of a module is rewritten: no function is compiled, and every comparison, and what an
``if``, a ``while`` or a conditional expression tests, is noted when it is evaluated. A chained
comparison counts as several. This sees more than the coverage of lines and branches: kernels also
use comparisons as numbers.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

NOTE = "note_outcome"  # what rewritten source calls
Outcomes = dict[str, set[bool]]  # what was seen of each condition


class Conditions(ast.NodeTransformer):
    """Rewrites the functions of a module, whose conditions it adds to ``outcomes``."""

    def __init__(self, module: str, outcomes: Outcomes) -> None:
        self.module, self.outcomes = module, outcomes
        self.function = ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave out decorators, so that nothing is compiled."""
        self.function, node.decorator_list = node.name, []
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Note each part of a comparison."""
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        parts = [self.noted(ast.Compare(a, [op], [b])) for a, op, b in pairs]
        return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)

    def visit_If(self, node: Any) -> ast.AST:
        """Note what is tested, unless it consists of comparisons, which are."""
        if not any(isinstance(part, ast.Compare) for part in ast.walk(node.test)):
            node.test = self.noted(node.test)
        return self.generic_visit(node)

    visit_While = visit_IfExp = visit_If

    def noted(self, condition: ast.expr) -> ast.expr:
        """A call that evaluates a condition and notes the outcome."""
        name = f"{self.module} {self.function}: {ast.unparse(condition)}"
        self.outcomes.setdefault(name, set())
        return ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(name), condition], [])


def execute(source: str, file: str, module: ModuleType, outcomes: Outcomes) -> None:
    """Run the rewritten source of a module in its namespace."""

    def note(name: str, value: Any) -> Any:
        if isinstance(value, np.ndarray):  # lanes of a register
            outcomes[name].update(value.tolist())
            return value
        outcomes[name].add(bool(value))
        return bool(value) if isinstance(value, np.bool) else value  # no arithmetic on NumPy's

    vars(module)[NOTE] = note
    tree = Conditions(module.__name__, outcomes).visit(ast.parse(source))
    exec(compile(ast.fix_missing_locations(tree), file, "exec"), vars(module))


def as_python(patch: pytest.MonkeyPatch, modules: Iterable[str]) -> Outcomes:
    """Replace modules, each after those that it imports, by plain Python; returns the outcomes."""
    outcomes: Outcomes = {}
    for name in modules:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        module = ModuleType(name)
        patch.setitem(sys.modules, name, module)
        execute(Path(spec.origin).read_text(), spec.origin, module, outcomes)
    return outcomes
