"""Kernels for a GPU, compiled for the CPU: a launch runs all threads one after another.

numba's simulator interprets a thread at a time and looks at no types. Here the source of a kernel
is rewritten: where a thread is becomes an argument, atomics become plain operations, and what it
calls of `devices.cuda.compiler` is that of `emulated`. Then numba compiles it for the types that
the kernel declares. A kernel with barriers becomes a generator that yields at each, and threads of
a block go on when all of them wait at the same one. Half of the launches run threads and blocks in
reverse order, so that a result that depends on their order differs.

The first small launch of every kernel runs in the simulator too, and must give the same bits.
What the simulator does not see fails: arguments of other types than are declared, grids that no GPU
takes, barriers that some threads do not reach. Out of bounds is an error in both. What no GPU but a
real one shows (races inside a statement, speed) stays unchecked.

What is written is kept in a folder, by a hash of it, and what numba makes of it beside it: a
second test run compiles nothing.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import importlib.util
import inspect
import itertools
import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import emulated
import numba
import numpy as np
from numba.core import sigutils

from miniapps.devices.cuda import compiler
from miniapps.devices.cuda.toolkit import Launcher, Simulator

FOLDER = Path(__file__).parent / "__pycache__" / "emulated"
GRID_MOST, BLOCK_MOST, THREADS_MOST = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024
Sizes = tuple[int, int, int]  # along x, y and z
COMPARED_THREADS = 1024  # of a launch that runs in the simulator too
TYPES: dict[Any, Any] = {}  # of arrays, by dtype, dimensions and flags
UNWRITTEN = 0x7F  # in every byte of shared memory at first
OPERATIONS = (
    "mul", "fma", "bits", "from_bits", "rounded", "once", "quad", "estimate", "estimate_of_root",
    "estimate_in_single",
)  # fmt: skip


class Unsupported(Exception):
    """A kernel that cannot be emulated; the message says why."""


def barriers(function: Any) -> bool:
    """Whether a function has a barrier, or one that it calls."""
    outer = inspect.getclosurevars(function)
    called = map(function_of, [*outer.globals.values(), *outer.nonlocals.values()])
    inside = "syncthreads" in ast.dump(_tree(function))
    return inside or any(barriers(one) for one in called if one is not None)


def _tree(function: Any) -> ast.FunctionDef:
    """The syntax tree of a function."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


def function_of(value: Any) -> Any:
    """The Python function of one that kernels call; None for what is none, or is `emulated`.

    The simulator has it as ``fn``, and numba-cuda, where it compiles, as ``py_func``.
    """
    if any(value is getattr(compiler, name) for name in OPERATIONS):
        return None
    of_cuda = type(value).__module__.startswith("numba.cuda.")
    found = getattr(value, "fn", None) or getattr(value, "py_func", None) if of_cuda else None
    return found if isinstance(found, FunctionType) else None


class Writer:
    """The text of a module with a kernel and all that it calls."""

    def __init__(self, function: Any) -> None:
        self.lines = ["import math", "import numpy as np", "import emulated"]
        self.names: dict[Any, str] = {}  # of what has been written, by what it is
        self.shared: list[tuple[str, str]] = []  # arrays of a block: name, how it is made
        self.barriers = itertools.count()
        self.has_barriers = barriers(function)
        tree = _tree(function)
        self.arguments = [argument.arg for argument in tree.args.args]
        body = Rewriter(self, function, "").body(tree)
        shared = [name for name, _ in self.shared]
        self._define("kernel", ["_t", *shared, *self.arguments], body)
        self.lines.append(f"SHARED = [{', '.join(how for _, how in self.shared)}]")
        self.lines.append(GENERATOR if self.has_barriers else LOOP.format(self._list()))

    def _list(self) -> str:
        """The kernel's arguments."""
        return ", ".join(self.arguments)

    def _define(self, name: str, arguments: list[str], body: list[ast.stmt]) -> None:
        """Write a function; the kernel itself is compiled with its types."""
        tree = ast.parse(f"def {name}({', '.join(arguments)}): pass").body[0]
        assert isinstance(tree, ast.FunctionDef)
        tree.body = body or tree.body
        compiled_later = name == "kernel" and self.has_barriers
        self.lines.append("" if compiled_later else "@emulated.inlined")
        self.lines.append(ast.unparse(ast.fix_missing_locations(tree)))

    def name_of(self, name: str, value: Any) -> str:
        """The name by which the module has a value that a function sees under another name."""
        key = (name, repr(value)) if isinstance(value, int | float | str | tuple) else id(value)
        if key not in self.names:
            self.names[key] = f"{name.strip('_')}_{len(self.names)}"
            self._write(self.names[key], value)
        return self.names[key]

    def _write(self, name: str, value: Any) -> None:
        """Write a value under a name."""
        operations = [n for n in OPERATIONS if value is getattr(compiler, n)]
        function, viewed = function_of(value), getattr(value, "_defn", value)
        if operations:
            self.lines.append(f"{name} = emulated.{operations[0]}")
        elif function is not None:
            tree, rewriter = _tree(function), Rewriter(self, function, "")
            arguments = [argument.arg for argument in tree.args.args]
            self._define(name, ["_t", *arguments], rewriter.body(tree))
        elif isinstance(value, numba.core.dispatcher.Dispatcher):
            called, file = value.py_func, sys.modules[value.py_func.__module__]
            self.lines.append(f"from {called.__module__} import {called.__name__} as {name}")
            self.lines.append(f"# {_digest(inspect.getsource(file))}")
        elif getattr(viewed, "__qualname__", "") == "viewer.<locals>.view":
            made = inspect.getclosurevars(viewed).nonlocals
            self.lines.append(f"{name} = emulated.viewer({made['dtype']!r}, {made['rows']})")
        elif isinstance(value, numba.types.Number):
            self.lines.append(f"{name} = emulated.types.{value.name}")
        elif isinstance(value, BuiltinFunctionType) and value.__module__ == "math":
            self.lines.append(f"{name} = math.{value.__name__}")
        elif isinstance(value, np.generic):
            self.lines.append(f"{name} = np.{type(value).__name__}({value.item()!r})")
        elif isinstance(value, int | float | str | tuple):
            self.lines.append(f"{name} = {value!r}".replace("inf", "math.inf"))
        else:
            raise Unsupported(f"{name}: {value!r} in a kernel")

    @property
    def text(self) -> str:
        """The module."""
        return "\n".join([f"# {_digest(inspect.getsource(emulated))}", *self.lines, ""])


LOOP = """
def run(_blocks, _threads, _reverse, {0}):
    _wide, _high = np.int64(_threads[0]), np.int64(_threads[0]) * np.int64(_threads[1])
    _across, _around = np.int64(_blocks[0]), np.int64(_blocks[0]) * np.int64(_blocks[1])
    _block = _high * np.int64(_threads[2])
    _count = _block * _around * np.int64(_blocks[2])
    for _n in range(_count):
        _k = _count - 1 - _n if _reverse else _n
        _i, _b = _k % _block, _k // _block
        _t = (
            np.int32(_i % _wide), np.int32(_i % _high // _wide), np.int32(_i // _high),
            np.int32(_b % _across), np.int32(_b % _around // _across), np.int32(_b // _around),
            _threads[0], _threads[1], _threads[2], _blocks[0], _blocks[1], _blocks[2],
        )
        kernel(_t, {0})
"""
GENERATOR = "run = kernel"


class Rewriter(ast.NodeTransformer):
    """Rewrites a function of a kernel; local names get a prefix, all others those of a `Writer`."""

    def __init__(self, writer: Writer, function: Any, prefix: str) -> None:
        self.writer, self.prefix = writer, prefix
        outer = inspect.getclosurevars(function)
        self.seen = {**outer.globals, **outer.nonlocals}
        self.local: set[str] = set()

    def body(self, tree: ast.FunctionDef) -> list[ast.stmt]:
        """The statements of a function, rewritten, without its docstring."""
        self.local = {argument.arg for argument in tree.args.args}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.local.add(node.id)
        body = tree.body[1:] if ast.get_docstring(tree) else tree.body
        return [new for statement in body for new in self._statement(statement)]

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        """Return the statements that replace one."""
        new = self.visit(node)
        return new if isinstance(new, list) else [new]

    def visit_Name(self, node: ast.Name) -> ast.AST:  # noqa: N802
        """A name: a local one, one of the module, or a builtin."""
        if node.id in self.local:
            return ast.Name(self.prefix + node.id, node.ctx)
        value = self._value(node)
        return node if value is None else self._named(node.id, value)

    def _named(self, name: str, value: Any) -> ast.Name:
        """The name of a value in the module."""
        return ast.Name(self.writer.name_of(name, value), ast.Load())

    def _value(self, node: ast.expr) -> Any:
        """Return the value of a name, or of a member of a module of the project, or None."""
        if isinstance(node, ast.Name):
            value = None if node.id in self.local else self.seen.get(node.id)
            return None if isinstance(value, ModuleType) else value
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = None if node.value.id in self.local else self.seen.get(node.value.id)
            own = isinstance(module, ModuleType) and module not in (math, np, compiler.cuda)
            return getattr(module, node.attr) if own else None
        return None

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:  # noqa: N802
        """Replace the position of a thread, such as ``cuda.threadIdx.x``."""
        words = self._of_cuda(node)
        if not words:
            value = self._value(node)
            return self.generic_visit(node) if value is None else self._named(node.attr, value)
        if len(words) != 2 or words[0] not in emulated.PLACES:
            raise Unsupported(f"cuda.{'.'.join(words)}")
        return _read(f"_t[{3 * emulated.PLACES.index(words[0]) + 'xyz'.index(words[1])}]")

    def visit_Call(self, node: ast.Call) -> ast.AST:  # noqa: N802
        """A call of ``cuda``, or of a function that must know where the thread is."""
        words = self._of_cuda(node.func)
        if words:
            return self._call_of_cuda(words, node)
        function = function_of(self._value(node.func))
        if function is not None:
            if barriers(function):
                raise Unsupported("a barrier inside an expression")
            node.args.insert(0, _read("_t"))
        return self.generic_visit(node)

    def _call_of_cuda(self, words: list[str], node: ast.Call) -> ast.AST:
        """Replace a call of a function of ``cuda``."""
        arguments = [self.visit(argument) for argument in node.args]
        if words[0] in ("grid", "gridsize"):
            return _read(f"emulated.{words[0]}_{ast.unparse(node.args[0])}(_t)")
        if words[0] == "atomic" and hasattr(emulated, f"atomic_{words[1]}"):
            return ast.Call(_read(f"emulated.atomic_{words[1]}"), arguments, [])
        if words == ["local", "array"]:
            return ast.Call(_read("np.empty"), [arguments[0], self._type(node.args[1])], [])
        raise Unsupported(f"cuda.{'.'.join(words)}()")

    def visit_Assign(self, node: ast.Assign) -> Any:  # noqa: N802
        """An array of the block becomes an argument."""
        if isinstance(node.value, ast.Call):
            if self._of_cuda(node.value.func) == ["shared", "array"]:
                (target,) = node.targets
                shape = ast.unparse(self.visit(node.value.args[0]))
                kind = ast.unparse(self._type(node.value.args[1]))
                self.writer.shared.append((self.visit(target).id, f"({shape}, {kind})"))
                return []
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> Any:  # noqa: N802
        """A barrier, or a call of a function with one, which is written in its place."""
        if isinstance(node.value, ast.Call):
            if self._of_cuda(node.value.func) == ["syncthreads"]:
                return ast.Expr(ast.Yield(ast.Constant(next(self.writer.barriers))))
            value = self._value(node.value.func)
            function = function_of(value)
            if function is not None and barriers(function):
                return self._inlined(function, node.value.args)
        return self.generic_visit(node)

    def _inlined(self, function: Any, arguments: list[ast.expr]) -> list[ast.stmt]:
        """The statements of a function, with its arguments set before."""
        name = function.__name__
        tree, inner = _tree(function), Rewriter(self.writer, function, f"{self.prefix}{name}__")
        if any(isinstance(inside, ast.Return) for inside in ast.walk(tree)):
            raise Unsupported(f"{name}: a barrier in a function that returns something")
        body = inner.body(tree)
        names = [ast.Name(inner.prefix + a.arg, ast.Store()) for a in tree.args.args]
        values = [self.visit(argument) for argument in arguments]
        return [*(ast.Assign([n], v) for n, v in zip(names, values, strict=True)), *body]

    def _type(self, node: ast.expr) -> ast.expr:
        """The type of elements, which is given as a string."""
        said = self.seen[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)
        return _read(f"np.{said}")

    def _of_cuda(self, node: ast.expr) -> list[str]:
        """``["atomic", "add"]`` for ``cuda.atomic.add``; empty for what does not begin so."""
        words: list[str] = []
        while isinstance(node, ast.Attribute):
            words.insert(0, node.attr)
            node = node.value
        is_cuda = isinstance(node, ast.Name) and self.seen.get(node.id) is compiler.cuda
        return words if is_cuda else []


def _read(expression: str) -> Any:
    """The tree of an expression."""
    return ast.parse(expression, mode="eval").body


def _digest(text: str) -> str:
    """A name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def module_of(text: str, name: str) -> ModuleType:
    """A module with that text, from the folder where numba keeps what it has compiled."""
    name = f"emulated_{name}_{_digest(text)}"
    file = FOLDER / f"{name}.py"
    if not file.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        mine = file.with_suffix(f".{os.getpid()}")
        mine.write_text(text)
        mine.rename(file)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def alone(function: Any) -> Iterator[None]:
    """Compile a kernel in no other process meanwhile: they find it on disk afterwards."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f"{function.__module__}.{function.__qualname__}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Emulated:
    """A kernel as `compiler.Kernel` declares it, ready to be launched on the CPU.

    ``on_host`` gives the memory of a device array as one of NumPy, and returns other arguments.
    """

    def __init__(
        self, function: Any, signatures: tuple[str, ...], on_host: Callable[[Any], Any]
    ) -> None:
        self.function, self.on_host = function, on_host
        self.signatures = [sigutils.normalize_signature(text)[0] for text in signatures]
        self.compiled: dict[int, Any] = {}
        self.launches = 0

    @cached_property
    def module(self) -> ModuleType:
        """The kernel, rewritten."""
        return module_of(Writer(self.function).text, self.function.__name__.strip("_"))

    @cached_property
    def has_barriers(self) -> bool:
        """Whether its threads wait for one another."""
        return barriers(self.function)

    def _ready(self, number: int) -> Any:
        """The kernel compiled for one of its signatures."""
        if number not in self.compiled:
            declared = self.signatures[number]
            three = numba.types.UniTuple(numba.int32, 3)
            before = (three, three, numba.boolean)
            if self.has_barriers:
                shared = [numba.typeof(np.empty(*one)) for one in self.module.SHARED]
                before = (numba.types.UniTuple(numba.int32, 12), *shared)
            with alone(self.function):
                self.compiled[number] = emulated.njit(self.module.run, (*before, *declared))
        return self.compiled[number]

    def _chosen(self, arguments: list[Any]) -> int:
        """The number of the signature that arrays have. Raises TypeError where none has."""
        types = [_type_of(a) if isinstance(a, np.ndarray) else None for a in arguments]
        for number, declared in enumerate(self.signatures):
            if len(declared) == len(types) and all(
                kind is None or kind == wanted for kind, wanted in zip(types, declared, strict=True)
            ):
                return number
        name = self.function.__qualname__
        raise TypeError(f"{name} takes {self.signatures}, not {types} (None: no array)")

    def launch(self, blocks: Any, threads: Any, arguments: tuple[Any, ...]) -> None:
        """Run all threads. Raises TypeError, ValueError for a grid, IndexError, RuntimeError."""
        grid, block = _checked(_three(blocks), _three(threads))
        if any(isinstance(argument, np.ndarray) for argument in arguments):
            raise TypeError(f"{self.function.__qualname__}: an array of the host")
        given = [self.on_host(argument) for argument in arguments]
        run = self._ready(self._chosen(given))
        reverse = self.launches.bit_count() % 2 == 1  # not periodic, as the launches of a step are
        self.launches += 1
        if not self.has_barriers:
            run(grid, block, reverse, *given)
            return
        for place in _places(grid, reverse):
            self._run_block(run, place, block, grid, reverse, given)

    def _run_block(
        self, run: Any, place: Any, block: Any, grid: Any, reverse: bool, given: list[Any]
    ) -> None:
        """Run the threads of a block from barrier to barrier."""
        shared = [np.empty(*one) for one in self.module.SHARED]
        for array in shared:
            array.view(np.uint8).fill(UNWRITTEN)
        live = [
            run((*thread, *place, *block, *grid), *shared, *given)
            for thread in _places(block, reverse)
        ]
        while live:
            waits = [next(thread, None) for thread in live]
            if len(set(waits)) > 1:
                name = self.function.__qualname__
                raise RuntimeError(f"{name}: threads wait at different barriers: {set(waits)}")
            live = live if waits[0] is not None else []


def _type_of(array: np.ndarray) -> Any:
    """Numba's type of an array; numba would look at it anew in each launch."""
    key = array.dtype, array.ndim, array.flags.num
    if key not in TYPES:
        TYPES[key] = numba.typeof(array)
    return TYPES[key]


def _three(sizes: Any) -> Sizes:
    """Sizes of a grid or a block along x, y, z."""
    sizes = (sizes,) if isinstance(sizes, int | np.integer) else tuple(sizes)
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    return x, y, z


@cache
def _checked(grid: Sizes, block: Sizes) -> tuple[Sizes, Sizes]:
    """Return a grid and a block. Raises ValueError if no GPU takes them."""
    fits = all(0 < n <= most for n, most in zip(grid, GRID_MOST, strict=True))
    fits = fits and all(0 < n <= most for n, most in zip(block, BLOCK_MOST, strict=True))
    if not fits or math.prod(block) > THREADS_MOST:
        raise ValueError(f"no GPU takes {grid} blocks of {block} threads")
    return grid, block


def _places(sizes: Sizes, reverse: bool) -> Iterator[Sizes]:
    """(x, y, z) of all threads of a block or blocks of a grid, x fastest."""
    places = [(x, y, z) for z, y, x in np.ndindex(*sizes[::-1])]
    return iter(places[::-1] if reverse else places)


class Emulator(Simulator):
    """The toolkit of tests: kernels are emulated, all else is the simulator's.

    ``MINIAPPS_CUDA_TOOLKIT=emulation:Emulator`` chooses it.
    """

    def compile(self, kernel: compiler.Kernel) -> Launcher:
        """The kernel for the CPU; numba compiles it when it is first launched."""
        return Compared(kernel, super().compile(kernel)).launcher


class Compared:
    """A kernel of which the first small launch runs in numba's simulator too."""

    def __init__(self, kernel: Any, simulated: Launcher) -> None:
        self.emulated = Emulated(
            kernel.function, kernel.signatures, lambda a: getattr(a, "_ary", a)
        )
        self.kernel, self.simulated = kernel, simulated

    def launcher(self, how: tuple[Any, ...]) -> Callable[..., None]:
        """``launcher((blocks, threads, stream))(*arguments)``."""
        return lambda *arguments: self._launch(how, arguments)

    def _launch(self, how: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
        """Launch it, in one way or both."""
        self.kernel.was_launched = True
        threads = math.prod(_three(how[0])) * math.prod(_three(how[1]))
        if not hasattr(self.kernel, "was_compared") and threads <= COMPARED_THREADS:
            self.kernel.was_compared = True
            self._compare(how, arguments)
        else:
            self.emulated.launch(*how[:2], arguments)

    def _compare(self, how: tuple[Any, ...], arguments: tuple[Any, ...]) -> None:
        """Launch both, the simulator on copies. Raises AssertionError where the bits differ.

        A kernel that writes by addresses cannot be given copies: it runs in the simulator alone,
        and the test that launched it sees what it has written.
        """
        if "emulated.viewer" in inspect.getsource(self.emulated.module):
            self._simulate(how, arguments)
            return
        copies: dict[int, Any] = {}
        for array in arguments:
            if hasattr(array, "_ary"):
                copies.setdefault(id(array._ary), type(array)(array._ary.copy()))
        self.emulated.launch(*how[:2], arguments)
        given = [copies[id(a._ary)] if hasattr(a, "_ary") else a for a in arguments]
        with np.errstate(all="ignore"):
            self._simulate(how, given)
        for number, array in enumerate(arguments):
            if hasattr(array, "_ary"):
                same = array._ary.tobytes() == copies[id(array._ary)]._ary.tobytes()
                name = self.kernel.function.__qualname__
                assert same, f"{name}: the simulator gives other bits in argument {number}"

    def _simulate(self, how: tuple[Any, ...], arguments: Sequence[Any]) -> None:
        """Launch it in the simulator."""
        self.simulated(how)(*arguments)
