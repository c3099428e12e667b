"""Faults of GPUs that concern every app, of memory and messages; how faulty kernels are made.

`miniapps selftest` tries them, and those in the module ``gpu_faults`` of an app's package, where
numba simulates a GPU. These modules import no kernel: only a process that simulates can.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

import numpy as np

from miniapps.faults import ACTED, Fault, fault, in_place_of

FOR_ONE = "sweep"  # what kernels for many blocks call the function for one
GPU = "miniapps.devices.cuda.backend:Gpu"
BUFFER = "miniapps.devices.cuda.buffers:MessageBuffer"


# How kernels are faulty --------------------------------------------------------------------------


def edited(right: Any, *changes: tuple[str, str]) -> Any:
    """A kernel, or a function that kernels call, in whose source some words are replaced.

    ``changes``: (words, their replacement); the words must occur once. Raises ValueError. It
    reports itself that it is called, so its fault is `conditional`. Of a kernel for many blocks,
    the function for one is changed; of a tuple or dict, all kernels are.
    """
    if isinstance(right, tuple):
        return tuple(edited(one, *changes) for one in right)
    if isinstance(right, dict):
        return {key: edited(one, *changes) for key, one in right.items()}
    kernel = hasattr(right, "signatures")  # `devices.cuda.compiler.Kernel`, or numba's simulated
    function = right.function if kernel else right.fn
    if kernel and FOR_ONE in function.__code__.co_freevars:
        return _for_many(right, *changes)
    source = textwrap.dedent(inspect.getsource(function))
    for words, replacement in changes:
        if source.count(words) != 1:
            raise ValueError(f"{function.__name__}: not once in its source: {words}")
        source = source.replace(words, replacement)
    tree = ast.parse(source)
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    definition.body[:0] = ast.parse("fault_acts()").body
    outer = inspect.getclosurevars(function).nonlocals
    names: dict[str, Any] = {**function.__globals__, **outer, "fault_acts": ACTED.now}
    exec(compile(ast.fix_missing_locations(tree), "<fault>", "exec"), names)
    wrong = names[definition.name]
    if kernel:
        return type(right)(wrong, right.signatures, right.options)
    return type(right)(wrong, device=True)


def _for_many(kernel: Any, *changes: tuple[str, str]) -> Any:
    """A kernel that calls `edited` in place of the function for one block that it closes over."""
    function = kernel.function
    cells = [
        CellType(edited(cell.cell_contents, *changes)) if name == FOR_ONE else cell
        for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True)
    ]
    wrong = FunctionType(function.__code__, function.__globals__, closure=tuple(cells))
    return type(kernel)(wrong, kernel.signatures, kernel.options)


def kernel_fault(
    targets: str | tuple[str, ...], words: str, replacement: str, **options: Any
) -> Callable[[Callable[[], None]], Fault]:
    """A fault of kernels whose source is `edited`; a function without a body names it."""

    def declare(named: Callable[[], None]) -> Fault:
        @functools.wraps(named)
        def change(right: Any) -> Any:
            return edited(right, (words, replacement))

        every = (targets,) if isinstance(targets, str) else targets
        return fault(*every, conditional=True, **options)(change)

    return declare


# Memory and copies -------------------------------------------------------------------------------


@in_place_of("miniapps.devices.cuda.toolkit:Simulator.array", conditional=True)
def zeros_not_written(right: Any, self: Any, how: str, size: int, dtype: Any, stream: Any) -> Any:
    """Memory that should be zero holds ones, of what was there before."""
    made = right(self, how, size, dtype, stream)
    if how == "zeros" and size:
        ACTED.now()
        made.copy_to_device(np.ones(size, dtype), stream=stream)
    return made


@in_place_of(f"{GPU}.to_host")
def copy_to_host_left_out(right: Any, self: Any, array: Any) -> np.ndarray:
    """Memory of the host that should receive a copy keeps its zeros."""
    return np.zeros(array.shape, array.dtype)


@in_place_of(f"{GPU}.to_device", conditional=True)
def copy_to_the_device_cut(right: Any, self: Any, array: np.ndarray) -> Any:
    """Copies to the device lack their second half, which is 0 there."""
    cut = np.ascontiguousarray(array).copy()
    behind = cut.reshape(-1)[cut.size // 2 :]
    if behind.any():
        ACTED.now()
        behind[:] = 0
    return right(self, cut)


# Messages ----------------------------------------------------------------------------------------


@in_place_of(f"{BUFFER}.__init__", conditional=True)
def messages_on_top_of_each_other(right: Any, self: Any, *arguments: Any) -> None:
    """All messages of a Post begin at the same place in their buffer."""
    right(self, *arguments)
    if sum(np.prod(shape) > 0 for shape in self.shapes.values()) > 1:
        ACTED.now()
    self.starts = dict.fromkeys(self.starts, min(self.starts.values(), default=0))


@in_place_of(f"{GPU}.received", conditional=True)
def old_messages(right: Any, self: Any, came: Any) -> Any:
    """A block reads the messages of its round before, where they have the same shapes."""
    views = dict(right(self, came))
    shapes = {edge: view.shape for edge, view in views.items()}
    before = vars(self).setdefault("kept", {})
    old = before.get(str(shapes))
    before[str(shapes)] = views
    if old is None or all(0 in shape for shape in shapes.values()):
        return views
    ACTED.now()
    return old
