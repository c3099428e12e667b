"""What a program may not do, found by reading it: what reaches the checker instead of the task.

The rules find what is done openly. They are not what protects a machine (`lessons.checking.apart`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from miniapps.lessons.lesson import Lesson

MODULES = {  # with all that is in them
    "numpy", "mpi4py", "charm4py", "math", "cmath", "time", "itertools", "functools", "operator",
    "collections", "typing", "dataclasses", "enum", "fractions", "random", "copy", "string",
    "statistics", "textwrap", "pprint", "__future__", "argparse", "abc", "contextlib", "warnings",
}  # fmt: skip
NAMES = {"open", "eval", "exec", "compile", "getattr", "setattr", "delattr", "globals", "locals"}
NAMES |= {"vars", "breakpoint", "input", "memoryview"}
ATTRIBUTES = {"f_back", "f_globals", "f_locals", "f_builtins", "tb_frame", "gi_frame", "cr_frame"}
ATTRIBUTES |= {"sys", "os", "builtins", "ctypeslib", "ctypes", "load", "loadtxt", "genfromtxt"}
ATTRIBUTES |= {"fromfile", "memmap", "tofile", "save", "savez", "savetxt", "DataSource"}
ATTRIBUTES |= {"savez_compressed", "open_memmap", "dump", "fromregex", "FileType", "linecache"}
ATTRIBUTES |= {"_os", "_sys", "_getframe", "inspect", "importlib", "attrgetter", "methodcaller"}
ATTRIBUTES |= {"runstring", "get_type_hints", "ForwardRef", "f2py", "bltns", "get_field"}
COMMUNICATORS = {"Comm", "Intracomm", "Intercomm", "Topocomm", "Cartcomm", "Graphcomm"}
COMMUNICATORS |= {"Distgraphcomm"}
SPECIAL = {"__name__", "__init__", "__main__", "__file__", "__doc__"}


def breach(tree: ast.Module, lesson: Lesson) -> str:
    """The first thing in a program that is not allowed, with its line; empty if there is none."""
    brought, own = set(_brought(tree)), ATTRIBUTES.intersection(_own(tree))
    constants = set(_constants(tree))
    for node in ast.walk(tree):
        mine = getattr(node, "attr", "") in own and _root(node) not in ("", *brought)
        found = _imports(node, lesson) or ("" if mine else _names(node))
        found = found or _changes(node, brought) or _hides(node) or _varies(node, constants)
        if found:
            return f"line {getattr(node, 'lineno', 1)}: {found}"
    return ""


def _brought(tree: ast.Module) -> Iterator[str]:
    """The names that imports define."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)


def _own(tree: ast.Module) -> Iterator[str]:
    """The attributes that a program gives to objects and classes of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        for part in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(part, ast.FunctionDef):
                yield part.name
            elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                yield part.target.id


def _constants(tree: ast.Module) -> Iterator[str]:
    """The names to which a program gives a value outside functions and classes."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            stored = (part for part in ast.walk(node) if isinstance(part, ast.Name))
            yield from (name.id for name in stored if isinstance(name.ctx, ast.Store))


def _root(node: ast.AST) -> str:
    """The name with which an expression begins; empty if it begins with none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _imports(node: ast.AST, lesson: Lesson) -> str:
    """Why an import is not allowed."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
    else:
        return ""
    offered = MODULES | lesson.offers
    for name in names:
        if name not in offered and name.split(".")[0] not in offered:
            allowed = ", ".join(sorted(offered))
            return f"imports {name}; a program may import {allowed}"
    return ""


def _names(node: ast.AST) -> str:
    """Why a name or an attribute is not allowed."""
    not_allowed = ATTRIBUTES
    match node:
        case ast.Name(id=name):
            names, not_allowed = [name], NAMES
        case ast.Attribute(attr=name):
            names = [name]
        case ast.alias(name=name):
            names = [name.split(".")[-1]]
        case ast.MatchClass(kwd_attrs=names):
            pass
        case _:
            return ""
    for name in names:
        special = name.startswith("__") and name.endswith("__") and name not in SPECIAL
        if special and name != "__future__" or name in not_allowed:
            return f"uses {name}, which the lessons do not need"
    return ""


def _changes(node: ast.AST, brought: set[str]) -> str:
    """Why an assignment is not allowed: it changes what was imported."""
    if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
        return ""
    if _root(node) in brought:
        return f"changes {ast.unparse(node)}, which it has imported"
    if _root(node) == "type":
        return f"changes {ast.unparse(node)}, a class that it has not made"
    return ""


def _hides(node: ast.AST) -> str:
    """Why a use of MPI's classes is not allowed: what they send is not counted.

    As annotations, or for isinstance, they are.
    """
    used = node.func if isinstance(node, ast.Call) else getattr(node, "value", None)
    name = getattr(used, "attr", getattr(used, "id", ""))
    if isinstance(node, ast.Call | ast.Attribute) and name in COMMUNICATORS:
        return f"uses {ast.unparse(node)}; a program calls methods of the communicator it gets"
    return ""


def _varies(node: ast.AST, constants: set[str]) -> str:
    """Why the shape of a kernel's shared array is not allowed: the compiler does not know it."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("shared.array")):
        return ""
    shape = next((one.value for one in node.keywords if one.arg == "shape"), None)
    for part in ast.walk(shape or ast.Tuple(node.args[:1])):
        known = not isinstance(part, ast.Name) or part.id in constants
        if isinstance(part, ast.Attribute | ast.Call) or not known:
            return f"uses {ast.unparse(part)}; the shape of a shared array must be a constant"
    return ""
