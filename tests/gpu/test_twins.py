"""Kernels for a GPU and for the CPU: what blocks call has the same name and arguments on both."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import support

import kernels

USERS = {
    "jacobi2d": ("miniapps/grid.py", "miniapps/jacobi2d", "miniapps/tiling.py"),
    "stencil3d": ("miniapps/grid.py", "miniapps/stencil3d", "miniapps/tiling.py"),
    "pic": ("miniapps/pic",),
    "leanmd": ("miniapps/leanmd",),
}


def called(app: str) -> Iterator[str]:
    """Names that blocks of an app look up in their kernels."""
    for place in USERS[app]:
        path = support.ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Attribute) and _is_kernels(node.value):
                    yield node.attr


def _is_kernels(node: ast.expr) -> bool:
    """Whether an expression is ``kernels``, of a block or as an argument."""
    return getattr(node, "attr", getattr(node, "id", "")) == "kernels"


def arguments(function: Any) -> list[str] | None:
    """Names of a function's arguments; None for what is no function."""
    function = getattr(function, "py_func", function)
    if not inspect.isfunction(function):
        return None
    return [
        str(p.replace(annotation=p.empty)) for p in inspect.signature(function).parameters.values()
    ]


OF_THE_PACKAGE = {"load", "__file__"}


@pytest.mark.parametrize("app", USERS)
def test_blocks_find_the_same_functions_on_both(app: str) -> None:
    """Catches a kernel of one device that blocks cannot call, or call with other arguments."""
    cpu, gpu = kernels.load(app, "cpu"), kernels.load(app, "gpu")
    names = set(called(app)) - OF_THE_PACKAGE
    assert len(names) > 2
    for name in sorted(names):
        there, here = arguments(getattr(cpu, name)), arguments(getattr(gpu, name))
        assert there == here, name


ON_CPU_ONLY = {"fused"}  # which the reference uses


@pytest.mark.parametrize("app", ["pic", "leanmd"])
def test_both_offer_the_same(app: str) -> None:
    """Catches a kernel that only one device has, or that takes any number of arguments."""
    cpu, gpu = kernels.load(app, "cpu"), kernels.load(app, "gpu")
    assert set(cpu.__all__) - ON_CPU_ONLY == set(gpu.__all__)
    for name in gpu.__all__:
        here = arguments(getattr(gpu, name))
        assert arguments(getattr(cpu, name)) == here, name
        assert here is None or not any(argument.startswith("*") for argument in here), name
