"""The program of this process, in which one function at a time is another one.

A process that makes a mutant is forked for it and ends with it. Kernels that use the changed
function run as plain Python there, because a compiled kernel would not change; all others stay
compiled.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import unwrap
from types import CodeType, FunctionType, ModuleType
from typing import Any

from mutation.files import ROOT
from mutation.operators import TRUTH, compiled, functions, truth_of

from miniapps.devices.cpu import plain as python_vectors

KERNELS = "miniapps.kernels"
ENTRIES = tuple(  # importing them imports all kernels for the CPU
    f"{KERNELS}.{name}.cpu"
    for name in (
        "amr",
        "cg",
        "exact_sum",
        "halo",
        "jacobi2d",
        "leanmd",
        "pencils",
        "pic",
        "state_hash",
        "stencil3d",
        "transpose",
    )
)
COMPILER = "miniapps.devices.cpu.compiler"
VECTORS = tuple(f"miniapps.devices.cpu.{name}" for name in ("vectors", "quads", "prefetch"))


def module_of(file: str) -> str:
    """The name of the module in a file."""
    own = file.removeprefix("miniapps/").removesuffix(".py").removesuffix("/__init__")
    return f"miniapps.{own.replace('/', '.')}"


def change(file: str, function: str, code: CodeType) -> None:
    """Replace the code of a function, in this process, wherever it is used."""
    name = module_of(file)
    found = _raw(getattr_of(importlib.import_module(name), function))
    if not isinstance(found, FunctionType):  # compiled
        found = getattr(plain()[name], function)
        use_python(found)
    vars(importlib.import_module(name))[TRUTH] = truth_of
    found.__code__ = code


def getattr_of(module: ModuleType, function: str) -> Any:
    """A function of a module or of a class in it, without binding it to anything."""
    *classes, name = function.split(".")
    owner: Any = module
    for each in classes:
        owner = vars(owner)[each]
    return vars(owner)[name]


def _raw(found: Any) -> Any:
    """The function inside a property, a context manager and so on, or a cache, which is cleared."""
    if hasattr(found, "cache_clear"):
        found.cache_clear()
        return found.__wrapped__
    for attribute in ("fget", "func", "__func__"):
        found = getattr(found, attribute, found)
    return unwrap(found) if isinstance(found, FunctionType) else found  # else compiled


@cache
def plain() -> Mapping[str, ModuleType]:
    """The modules of the kernels as plain Python, by name."""
    for name in ENTRIES:
        importlib.import_module(name)
    importlib.import_module("miniapps.devices.cpu.fused")
    right = {name: sys.modules[name] for name in list(sys.modules) if _is_replaced(name)}
    parents = {name: dict(vars(module)) for name, module in right.items()}
    package = dict(vars(sys.modules[KERNELS]))
    for name in right:
        del sys.modules[name]
    sys.modules[COMPILER] = _compiler()
    sys.modules.update(dict.fromkeys(VECTORS, python_vectors))
    try:
        for name in ENTRIES:
            importlib.import_module(name)
        return {name: sys.modules[name] for name in list(sys.modules) if _is_replaced(name)}
    finally:
        sys.modules.update(right)
        vars(sys.modules[KERNELS]).update(package)
        for name, module in right.items():
            vars(module).update(parents[name])


def _is_replaced(name: str) -> bool:
    return name.startswith(f"{KERNELS}.") or name in (COMPILER, *VECTORS)


def _compiler() -> ModuleType:
    """A module in the place of `devices.cpu.compiler` that compiles nothing."""
    module = ModuleType(COMPILER)

    def njit(*given: Any, **options: Any) -> Any:
        return uncompiled(given[0]) if given and isinstance(given[0], FunctionType) else uncompiled

    vars(module).update(njit=njit, DISTINCT={}, OPTIONS={})
    return module


def uncompiled(function: FunctionType) -> FunctionType:
    """A kernel as Python."""
    function.__globals__[TRUTH] = truth_of
    file = str(function.__code__.co_filename).removeprefix(f"{ROOT}/")
    function.__code__ = right_codes(file)[function.__name__]
    return function


@cache
def right_codes(file: str) -> Mapping[str, CodeType]:
    """The code of each function of a file as it is."""
    tree = ast.parse((ROOT / file).read_text())
    return {".".join(names): compiled(file, names, node) for names, node in functions(tree)}


def use_python(changed: FunctionType) -> None:
    """Let plain Python take the place of the compiled kernels that use a function."""
    for name, module in plain().items():
        for key, function in list(vars(module).items()):
            if isinstance(function, FunctionType) and function.__module__ == name:
                compiled_one = vars(sys.modules[name]).get(key)
                if not isinstance(compiled_one, FunctionType) and changed in used_by(function):
                    _put(compiled_one, function)


def used_by(function: FunctionType) -> set[FunctionType]:
    """A function and those that it calls, directly or not."""
    found, left = set(), [function]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            names = {name for code in _within(one.__code__) for name in code.co_names}
            values = [one.__globals__.get(name) for name in names]
            left += [value for value in values if isinstance(value, FunctionType)]
    return found


def _within(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _within(part)


def _put(right: Any, other: Any) -> None:
    """Put another object in the place of one, in all modules and in their mappings."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "miniapps":
            for key, value in list(vars(module).items()):
                if value is right:
                    setattr(module, key, other)
                elif isinstance(value, dict) and not key.startswith("__"):
                    value.update({k: other for k, v in value.items() if v is right})
