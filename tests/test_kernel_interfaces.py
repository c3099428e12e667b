"""Every app has one interface to its kernels; the kernels for the CPU and the blocks keep it.

`tests/gpu/test_counterparts.py` compares the kernels for a GPU with it, and
`test_third_backend.py` those of another device.
"""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest
import support
from kernel_interfaces import APPS, FOLDER, differences, interface, load, members

USERS = {
    "halo": ("miniapps/halo_user.py",),
    "jacobi2d": ("miniapps/grid_block.py", "miniapps/jacobi2d", "miniapps/tiling.py"),
    "stencil3d": ("miniapps/grid_block.py", "miniapps/stencil3d", "miniapps/tiling.py"),
    "pic": ("miniapps/pic",),
    "leanmd": ("miniapps/leanmd",),
    "cg": ("miniapps/cg",),
    "amr": ("miniapps/amr",),
    "transpose": ("miniapps/transpose/block.py",),
    "exact_sum": ("benchmarks/apps/exact_sums.py",),  # for own apps
}


def test_kernels_of_several_devices_have_an_interface() -> None:
    """Catches kernels for two devices with nothing that says what both must offer."""
    several = {p.parent.name for p in FOLDER.glob("*/cpu*")} & {
        p.parent.name for p in FOLDER.glob("*/gpu*")
    }
    assert set(APPS) == several == set(USERS)


@pytest.mark.parametrize("app", APPS)
def test_kernels_for_the_cpu_keep_the_interface(app: str) -> None:
    """Catches a kernel that the CPU lacks, or whose arguments differ from those blocks pass."""
    assert differences(interface(app), load(app, "cpu")) == []


def called(app: str) -> set[str]:
    """Names that blocks of an app look up in their kernels."""
    found = set()
    for place in USERS[app]:
        path = support.ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Attribute) and _is_kernels(node.value, app):
                    found.add(node.attr)
    return found - {"load", "__file__"}  # of the package `kernels`


def _is_kernels(node: ast.expr, app: str) -> bool:
    """Whether an expression is the app's kernels: `x.kernels`, `kernels` or `kernels.load(...)`."""
    if isinstance(node, ast.Call):
        loads = getattr(node.func, "attr", "") == "load"
        return loads and getattr(node.args[0], "value", app) == app
    return app != "halo" and getattr(node, "attr", getattr(node, "id", "")) == "kernels"


@pytest.mark.parametrize("app", APPS)
def test_blocks_call_what_the_interface_has(app: str) -> None:
    """Catches a call of a function that is in no interface, and a member that nothing uses."""
    assert called(app) == members(interface(app))


def needless(source: str, offered: set[str]) -> set[str]:
    """Names that a package lists or imports, and that are neither offered nor used in its file."""
    tree = ast.parse(source)
    aliases = [a for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names]
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    listed = {name.id for name in names if name.id == "__all__"}
    used = {name.id for name in names if isinstance(name.ctx, ast.Load)}
    return listed | {alias.asname or alias.name for alias in aliases} - offered - used


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*/__init__.py")), ids=str)
def test_packages_offer_the_interface_only(file: Path) -> None:
    """Catches a second list of the functions, and one that is offered on a single device."""
    offered = members(interface(file.parent.parent.name)) | {"annotations"}
    assert needless(file.read_text(), offered) == set()


def test_needless_names_are_found() -> None:
    """Catches a search that finds nothing."""
    source = "from a import b, c, d\n__all__ = ['b']\nTABLE = {'float64': d}"
    assert needless(source, {"b"}) == {"__all__", "c"}


class Wanted(Protocol):
    """An interface to compare with."""

    WIDTH: int

    def add(self, a: Any, b: Any) -> Any:
        """Add."""


@pytest.mark.parametrize(
    ("add", "said"),
    [
        (lambda a, b: None, []),
        (lambda a, c: None, ["add has arguments ['a', 'c'], not ['a', 'b']"]),
        (lambda a: None, ["add has arguments ['a'], not ['a', 'b']"]),
        (lambda b, a: None, ["add has arguments ['b', 'a'], not ['a', 'b']"]),
        (lambda *how: None, ["add has arguments ['*how'], not ['a', 'b']"]),
        (lambda a, b=0: None, ["add has arguments ['a', 'b=0'], not ['a', 'b']"]),
        (4, ["add has arguments None, not ['a', 'b']"]),
    ],
)
def test_other_arguments_are_found(add: Any, said: list[str]) -> None:
    """Catches a comparison that a renamed, missing or additional argument passes."""
    assert differences(Wanted, SimpleNamespace(WIDTH=8, add=add)) == said


def test_other_types_are_found() -> None:
    """Catches a function that takes or returns something else under the same names."""

    def add(a: Any, b: str) -> Any:
        """Add."""

    (said,) = differences(Wanted, SimpleNamespace(WIDTH=8, add=add))
    assert said.startswith("add has types {'a': typing.Any, 'b': <class 'str'>")


def test_a_missing_member_is_found() -> None:
    """Catches a comparison that looks only at what a module has."""
    assert differences(Wanted, SimpleNamespace()) == ["WIDTH is missing", "add is missing"]
