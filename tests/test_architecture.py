"""The rules of the tree: which way imports run, what a serial run loads, how long functions are."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import support

from miniapps import apps, drivers
from miniapps.parameters import InputError

LAYERS = (*support.LAYERS, "tests")
INSIDE = {*support.LAYERS} - {"miniapps"}  # packages within the one that is installed
ONLY_IN = {
    "mpi4py": r"(drivers|communication|lessons)/mpi/\w+\.py",
    "charm4py": r"(drivers|communication|lessons)/charm/\w+\.py",
    "cupy": r"devices/cuda/\w+\.py",
    "numba": r"((devices|kernels)/(\w+/)+|lessons/serial/)\w+\.py|"
    r"tests/gpu(_budget|/(emulat|stub/python/)\w+)\.py",
    "numba.njit": r"devices/cpu/compiler\.py",  # where compiler options are set
    "numba.vectorize": r"devices/cpu/compiler\.py",
    "numba.cuda": r"(devices/cuda|lessons/serial)/\w+\.py|tests/(gpu/)?\w+\.py",
    "numba_cuda": r"devices/cuda/\w+\.py",
    "cuda": r"devices/cuda/driver\.py|tests/gpu_budget\.py",
    "cuda.pathfinder": r"workbench/doctor\.py",
    "matplotlib": r"workbench/(show/\w+|study/(drawing|figures))\.py"
    r"|tests/(figure_faults|drawn|test_run_drawing)\.py",
    "plotly": r"workbench/show/(?:animation|page)\.py|tests/test_animation_drawing\.py",
    "playwright": r"tests/conftest\.py",
    "pandas": r"workbench/api\.py|tests/\w+\.py",
    "scipy.fft": r"kernels/pencils/cpu\.py|benchmarks/apps/transpose\.py",
    "h5py": r"(workbench/\w+|tests(/fuzz)?)/\w+\.py"
    r"|miniapps/(hdf5|leanmd/(inputs/h5md|plain_input))\.py",
}
FREE = {
    "devices": {"numpy", "numba", "cupy", "llvmlite"},
    "kernels": {"numpy", "numba"},
    "miniapps": {"numpy"},
    "drivers": {"numpy"},
    "communication": {"numpy"},
    "workbench": {"numpy", "scipy", "rich", "jinja2", "markupsafe", "pytest"},
    "lessons": {"numpy", "jinja2", "markdown_it", "markupsafe", "nbformat"},
}
ENTRANCE, BEHIND_IT = "miniapps/__main__.py", "workbench"  # what users start, and its import
FOR_USERS = {"miniapps", *(f"miniapps.{name}" for name in (*apps.FOR_PROGRAMS, "InputError"))}
LONGEST = 60
MUTATORS = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "clear", "remove"}


def source_files() -> list[str]:
    """The project's Python files: those that git knows, and new ones that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=support.ROOT, capture_output=True, text=True, check=True)
    return sorted(name for name in listed.stdout.splitlines() if (support.ROOT / name).exists())


FILES = source_files()
EXERCISES = r"lessons/\w+/(for_\w+|(mistakes|right)/\w+)\.py"  # programs of students
IN_LAYERS = [
    name for name in FILES if name.split("/")[0] in LAYERS and not re.fullmatch(EXERCISES, name)
]


@cache
def tree_of(name: str) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse((support.ROOT / name).read_text(), name)


@cache
def _by_kind(tree: ast.AST) -> dict[type, list[Any]]:
    """The nodes of a tree, which is walked once: there are a million of them."""
    found = defaultdict[type, list[Any]](list)
    for node in ast.walk(tree):
        found[type(node)].append(node)
    return found


def nodes(tree: ast.AST, *kinds: type) -> list[Any]:
    """The nodes of a tree that are of one of some kinds."""
    return [node for kind in kinds for node in _by_kind(tree)[kind]]


def some(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """What was found in the files in which there is something."""
    return {file: names for file, names in found.items() if names}


def imported(tree: ast.AST, file: str) -> Iterator[str]:
    """Full names of all modules that a file imports, at its top or in a function.

    Those of the program are as in the source tree, without the name under which it is installed.
    """
    for name in names_in(tree, file):
        own = name.removeprefix("miniapps.")
        yield own if own.split(".")[0] in LAYERS else name


def names_in(tree: ast.AST, file: str) -> Iterator[str]:
    """The names of modules as they stand in a file; relative ones are made whole."""
    package = file.split("/")[:-1]
    package = ["miniapps", *package] if package[0] in INSIDE else package
    for node in nodes(tree, ast.Import, ast.ImportFrom, ast.Call):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            parts = [*base, *(node.module.split(".") if node.module else [])]
            yield from (".".join([*parts, alias.name]) for alias in node.names)
        elif node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            argument = node.args[0]
            if isinstance(argument, ast.JoinedStr) and argument.values:
                argument = argument.values[0]
            if name in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                yield str(argument.value)


def rule_of(name: str) -> str | None:
    """The key of ONLY_IN for a module: itself or the nearest package around it."""
    parts = name.split(".")
    around = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((key for key in around if key in ONLY_IN), None)


def enters(file: str, name: str) -> bool:
    """Whether a file may import a module as the entrance for users."""
    return file == ENTRANCE and f"{name}.".startswith(f"{BEHIND_IT}.")


def forbidden(tree: ast.AST, file: str) -> list[str]:
    """The imports of a file that the rules do not allow, each with the rule."""
    layer = file.split("/")[0]
    above = LAYERS[LAYERS.index(layer) + 1 :] if layer in LAYERS else ()
    of_apps = tuple(f"miniapps.{app}" for app in apps.names())
    outside = [name for name in names_in(tree, file) if name.split(".")[0] in INSIDE]
    found = [f"{file}: {name} is not installed; import miniapps.{name}" for name in outside]
    if layer in support.LAYERS:
        of_users = FOR_USERS.intersection(names_in(tree, file))
        found += [f"{file}: {name} is for users" for name in sorted(of_users)]
    for name in imported(tree, file):
        top = name.split(".")[0]
        if top in above and not enters(file, name):
            found.append(f"{file}: {layer} must not import {name}")
        rule = rule_of(name)
        named = rule is not None and re.fullmatch(ONLY_IN[rule], file) is not None
        if layer in LAYERS and rule is not None and not named:
            found.append(f"{file}: {rule} belongs to {ONLY_IN[rule]}")
        free = named or top in LAYERS or top in sys.stdlib_module_names
        if layer in FREE and not free and top not in FREE[layer]:
            found.append(f"{file}: {layer} must not import {name}")
        if layer == "drivers" and name.startswith(of_apps):
            found.append(f"{file}: a driver must not know the app {name}")
    return found


def test_the_walk_sees_every_layer() -> None:
    """Catches a walk that finds no files and therefore nothing wrong."""
    assert {name.split("/")[0] for name in IN_LAYERS} == set(LAYERS)
    assert {"kernels/jacobi2d/cpu.py", "drivers/mpi/driver.py", "workbench/cli.py"} <= set(FILES)


def test_imports_run_one_way() -> None:
    """Catches a driver in the physics, physics in a driver, mpi4py where it is not needed."""
    own = [file for file in FILES if not re.fullmatch(EXERCISES, file)]
    found = {file: forbidden(tree_of(file), file) for file in own}
    assert some(found) == {}


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("devices/backend.py", "import miniapps"),
        ("devices/backend.py", "import scipy.sparse"),
        ("devices/backend.py", "from . import state_hash\nfrom .. import miniapps"),
        ("miniapps/__main__.py", "from miniapps import drivers"),
        ("miniapps/__init__.py", "def __getattr__(name):\n    from miniapps.workbench import api"),
        ("miniapps/jacobi2d/__main__.py", "from miniapps.workbench import main"),
        ("miniapps/jacobi2d/block.py", "from miniapps.drivers.inbox import Inbox"),
        (
            "miniapps/jacobi2d/block.py",
            "def step():\n    from miniapps.drivers import serial as engine",
        ),
        ("miniapps/jacobi2d/block.py", "from ...drivers import serial"),
        ("miniapps/jacobi2d/block.py", "import mpi4py.MPI"),
        ("miniapps/jacobi2d/block.py", "import cupy"),
        ("kernels/jacobi2d/gpu.py", "import cupy"),
        ("kernels/jacobi2d/gpu.py", "from numba import cuda"),
        ("kernels/jacobi2d/gpu.py", "def f():\n    import numba.cuda.libdevice"),
        ("devices/backend.py", "import numba_cuda"),
        ("kernels/jacobi2d/cpu.py", "from numba import int64, njit"),
        ("drivers/mpi/gpu_aware.py", "from numba import cuda"),
        ("workbench/doctor.py", "import cuda.core"),
        ("miniapps/leanmd/inputs/text.py", "def read():\n    import h5py"),
        (
            "miniapps/grid.py",
            "import importlib\nx = importlib.import_module('miniapps.workbench.run.execute')",
        ),
        ("miniapps/grid.py", "from importlib import import_module as _\n__import__('charm4py')"),
        ("drivers/serial.py", "import miniapps.workbench.run.progress_file"),
        ("drivers/serial.py", "import drivers.timing"),
        ("drivers/serial.py", "import miniapps"),
        ("workbench/verify.py", "from miniapps import run"),
        ("tests/support.py", "from kernels import halo"),
        ("drivers/serial.py", "if True:\n    from mpi4py import MPI"),
        ("drivers/serial.py", "from charm4py import charm"),
        ("drivers/mpi/driver.py", "from miniapps.jacobi2d.block import JacobiBlock"),
        ("drivers/mpi/driver.py", "from miniapps import echo"),
        (
            "drivers/charm/driver.py",
            "import importlib\nimportlib.import_module(f'miniapps.workbench.{name}')",
        ),
        ("communication/session.py", "from miniapps.workbench.run import record"),
        ("communication/timing.py", "from mpi4py import MPI"),
        ("drivers/mpi/driver.py", "from miniapps import communication"),
        ("workbench/cli.py", "def add():\n    from miniapps.lessons.checking import command"),
        ("workbench/run/launch.py", "from miniapps import lessons"),
        ("lessons/checking/check.py", "import tests.support"),
        ("workbench/run/execute.py", "import tests.support"),
        ("workbench/doctor.py", "from mpi4py import MPI"),
        ("workbench/doctor.py", "import cupy"),
        ("workbench/run/record.py", "def save():\n    from benchmarks import common"),
        ("drivers/file/driver.py", "import yaml"),
        ("tests/test_x.py", "import charm4py"),
    ],
)
def test_the_walk_can_fail(file: str, source: str) -> None:
    """Catches a walk that allows everything: each of these breaks a rule."""
    assert len(forbidden(ast.parse(source), file)) >= 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        (
            "drivers/mpi/driver.py",
            "from mpi4py import MPI\nimport numpy\nfrom miniapps.contract import Post",
        ),
        ("drivers/charm/pe.py", "from charm4py import Chare\nfrom . import inbox"),
        (
            "miniapps/echo/block.py",
            "from .problem import X\nfrom .. import block\nfrom miniapps import kernels",
        ),
        ("miniapps/leanmd/inputs/h5md.py", "def read():\n    import h5py"),
        ("miniapps/__main__.py", "from miniapps.workbench import main"),
        ("devices/cuda/compiler.py", "from numba import cuda\ndef f():\n    import cupy"),
        ("kernels/jacobi2d/gpu.py", "from miniapps.kernels import cuda\nfrom numba import types"),
        ("lessons/checking/check.py", "from miniapps.workbench.run import launch"),
        ("tests/gpu/test_x.py", "from numba import cuda"),
        (
            "workbench/run/record.py",
            "import importlib.metadata\nimportlib.metadata.version('mpi4py')",
        ),
    ],
)
def test_the_walk_allows_what_is_right(file: str, source: str) -> None:
    """Catches a walk that would forbid the tree as it is meant to be."""
    assert forbidden(ast.parse(source), file) == []


def circles(trees: dict[str, ast.Module]) -> list[str]:
    """Files that import each other, be it in functions: what is left when all others are gone."""
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
               for name in trees}  # fmt: skip
    graph: dict[str, set[str]] = {}
    for module, name in modules.items():
        graph[module] = set()
        for found in imported(trees[name], name):
            while found and found not in modules:
                found = found.rpartition(".")[0]
            graph[module] |= {found} - {"", module}
    while leaves := [m for m, needs in graph.items() if not needs & set(graph)]:
        for leaf in leaves:
            del graph[leaf]
    while roots := set(graph) - set().union(*graph.values()):
        for root in roots:
            del graph[root]
    return sorted(graph)


def test_no_files_import_each_other() -> None:
    """Catches two files that can only be understood, moved or tested together."""
    own = [name for name in IN_LAYERS if not name.startswith("tests/")]
    assert circles({name: tree_of(name) for name in own}) == []


@pytest.mark.parametrize(
    "how", ["import miniapps.devices.b", "def f():\n    from miniapps.devices import b"]
)
def test_circles_are_seen(how: str) -> None:
    """Catches a walk that finds no circle, in a chain of files or inside a function."""
    chain = {
        "devices/b.py": "from miniapps.devices.c import x",
        "devices/c.py": "import miniapps.devices.a",
    }
    files = {"devices/__init__.py": "", "devices/a.py": how, **chain}
    open_chain = files | {"devices/c.py": "", "devices/d.py": "import miniapps.devices.a"}
    closed, opened = (
        {name: ast.parse(text) for name, text in some.items()} for some in (files, open_chain)
    )
    assert circles(closed) == ["devices.a", "devices.b", "devices.c"]
    assert circles(opened) == []


@pytest.mark.long
def test_gpu_library_is_never_imported_at_module_top() -> None:
    """Catches kernels that can be neither compiled nor simulated where there is no cupy."""
    for file in IN_LAYERS:
        top = ast.Module([n for n in tree_of(file).body if not hasattr(n, "body")], [])
        assert not [name for name in imported(top, file) if name.split(".")[0] == "cupy"], file


def test_drivers_name_no_app() -> None:
    """Catches a special case for one app in a driver, under whatever disguise."""
    names = re.compile(r"\b(" + "|".join(apps.names()) + r")\b", re.IGNORECASE)
    for file in FILES:
        if file.startswith("drivers/"):
            assert not names.findall((support.ROOT / file).read_text()), file


ORDINARY = {"file"}  # drivers named by a word; one counts where it is chosen or compared
SCALING_LAW = re.compile(r"\bserial(?= (part|fraction)\b)")  # a term of the field, not the driver


def drivers_named(tree: ast.AST) -> list[str]:
    """Names of drivers in the texts of a file that are no docstrings, and in its imports."""
    plain = "|".join({*drivers.names()} - ORDINARY)
    chosen = rf"--driver (?:{'|'.join(ORDINARY)})\b"
    names = re.compile(rf"(?<!--)\b(?:{plain})\b|{chosen}")  # srun has a --mpi
    docstrings = {
        id(node.body[0].value)
        for node in nodes(tree, ast.Module, ast.ClassDef, ast.FunctionDef)
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    texts = [
        SCALING_LAW.sub("", node.value)
        for node in nodes(tree, ast.Constant)
        if isinstance(node.value, str) and id(node) not in docstrings
    ]
    found = [name for text in texts for name in names.findall(text)]
    found += [name for name in imported(tree, "workbench/x.py") if names.search(name)]
    compared = [part for node in nodes(tree, ast.Compare)
                for part in ast.walk(node) if isinstance(part, ast.Constant)]  # fmt: skip
    return found + [part.value for part in compared if part.value in ORDINARY]


def test_the_workbench_names_no_driver() -> None:
    """Catches what a new driver would have to be added to, and would silently be wrong without."""
    files = [name for name in FILES if name.startswith(("workbench/", "lessons/checking/"))]
    assert some({file: drivers_named(tree_of(file)) for file in files}) == {}


@pytest.mark.parametrize(
    "source",
    [
        "if spec.driver == 'mpi':\n    pass",
        "if spec.driver == 'file':\n    pass",
        "example = 'run echo --driver file'",
        "print(f'{x} under charm')",
        "example = 'run echo --driver serial'",
        "titles = {'serial': 1}",
        "from miniapps.drivers.charm.balancers import BALANCERS",
    ],
)
def test_the_name_of_a_driver_is_seen(source: str) -> None:
    """Catches a count of names that cannot fail."""
    assert len(drivers_named(ast.parse(source))) == 1


def test_other_words_are_no_names_of_drivers() -> None:
    """Catches a count that forbids a docstring, a library or a law of scaling."""
    source = "def f():\n  'Under mpi.'\n  return 'mpi4py', 'charmrun', 'the serial part'"
    assert drivers_named(ast.parse(source)) == []


def test_drivers_describe_themselves() -> None:
    """Catches a driver that nobody finds, or whose file cannot be run."""
    assert {"serial", "file", "mpi", "charm"} <= set(drivers.names())
    for name, driver in drivers.found().items():
        assert driver.name == name and driver.summary and driver.without and driver.example
        assert (support.ROOT / f"{driver.file.replace('.', '/')}.py").exists()


def test_no_file_hides_a_library() -> None:
    """Catches a file that Python would import in place of the library of the same name."""
    hiding = {"mpi4py.py", "charm4py.py", "numpy.py", "numba.py", "cupy.py", "h5py.py"}
    stand_in = "tests/gpu/stub/python/cupy.py"  # which is meant to
    assert [name for name in FILES if Path(name).name in hiding] == [stand_in]
    assert not [name for name in FILES if set(name.split("/")[:-1]) & {"mpi4py", "charm4py"}]


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions of a tree, nested ones too."""
    return nodes(tree, ast.FunctionDef, ast.AsyncFunctionDef)


def too_long(tree: ast.AST) -> list[str]:
    """Functions of more than `LONGEST` lines."""
    return [f.name for f in functions(tree) if (f.end_lineno or 0) - f.lineno + 1 > LONGEST]


def test_functions_are_short() -> None:
    """Catches a function that does more than one thing."""
    assert some({file: too_long(tree_of(file)) for file in IN_LAYERS}) == {}


def test_length_is_counted() -> None:
    """Catches a length check that cannot fail."""
    body = "    x = 1\n" * LONGEST
    assert too_long(ast.parse("class A:\n  def f():\n" + body)) == ["f"]
    assert too_long(ast.parse("def f():\n" + "    x = 1\n" * (LONGEST - 1))) == []


PRODUCT = [name for name in IN_LAYERS if not name.startswith(("tests/", "workbench/skeleton/"))]


def without_encoding(tree: ast.AST) -> list[str]:
    """Calls that read or write text in the encoding of the user's locale, by their lines."""
    found = []
    for call in nodes(tree, ast.Call):
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        named = {word.arg: word.value for word in call.keywords}
        words = [one.value for one in call.args if isinstance(one, ast.Constant)]
        modes = [
            word for word in words if isinstance(word, str) and re.fullmatch("[rwax][+]?", word)
        ]
        path = isinstance(call.func, ast.Name)
        text = name in ("read_text", "write_text") and isinstance(call.func, ast.Attribute)
        text |= name == "open" and (bool(modes) or path and len(call.args) == 1)
        text |= getattr(named.get("text"), "value", None) is True
        if text and "encoding" not in named:
            found.append(f"{name} in line {call.lineno}")
    return found


def test_no_text_is_read_in_the_encoding_of_the_locale() -> None:
    """Catches a file of the project that is read otherwise, or not at all, with LC_ALL=C."""
    assert some({file: without_encoding(tree_of(file)) for file in PRODUCT}) == {}


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("path.read_text()", 1),
        ("path.write_text(words)", 1),
        ("open(path)", 1),
        ("open(path, 'w')", 1),
        ("path.open('a')", 1),
        ("run(words, text=True)", 1),
        ("path.read_text(encoding='utf-8')", 0),
        ("write_text(path, words)", 0),
        ("open(path, 'rb')", 0),
        ("os.open(path, 0)", 0),
        ("run(words, encoding='utf-8')", 0),
    ],
)
def test_an_encoding_that_is_missing_is_seen(source: str, seen: int) -> None:
    """Catches a walk that allows everything, or that forbids bytes."""
    assert len(without_encoding(ast.parse(source))) == seen


def mutated_globals(tree: ast.Module) -> list[str]:
    """Module-level names that functions rebind (``global``), or containers that they change."""
    found = [name for node in nodes(tree, ast.Global) for name in node.names]
    containers = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            made = isinstance(
                node.value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp
            )
            called = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") in (
                "dict",
                "list",
                "set",
                "defaultdict",
                "deque",
            )
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if made or called:
                containers |= {t.id for t in targets if isinstance(t, ast.Name)}
    for function in functions(tree) if containers else ():
        for node in ast.walk(function):
            touched = None
            if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                touched = node.value
            elif isinstance(node, ast.Attribute) and node.attr in MUTATORS:
                touched = node.value
            if isinstance(touched, ast.Name) and touched.id in containers:
                found.append(touched.id)
    return found


@pytest.mark.long
def test_no_mutable_module_state() -> None:
    """Catches state that a second run in the same process would inherit, or numba would freeze."""
    files = [name for name in IN_LAYERS if not name.startswith("tests/")]
    assert some({file: mutated_globals(tree_of(file)) for file in files}) == {}


@pytest.mark.parametrize(
    "source",
    [
        "seen = []\ndef f(x):\n    seen.append(x)",
        "cache: dict = {}\ndef f(x):\n    cache[x] = 1",
        "count = 0\ndef f():\n    global count\n    count += 1",
    ],
)
def test_mutable_state_is_seen(source: str) -> None:
    """Catches a check of module state that cannot fail."""
    assert mutated_globals(ast.parse(source))


@pytest.mark.parametrize("app", apps.names())
def test_apps_export_the_contract(app: str) -> None:
    """Catches an app with another interface than drivers and workbench rely on."""
    module = apps.load(app)
    names = set(module.__all__) - {"Audit", "loads"}  # which an app may leave out
    assert names == {"Block", "Problem", "reference", "validate"}
    assert all(hasattr(module, name) for name in module.__all__)
    problem = support.small_problem(module)
    for block in support.blocks_of(app, problem, (1,) * len(problem.shape)):
        assert all(callable(getattr(block, method)) for method in ("step", "state", "measure"))


def test_unknown_app_is_refused_by_name() -> None:
    """Catches an app name that reaches the import system and fails there with a traceback."""
    with pytest.raises(InputError, match="APP nonesuch: must be one of .*jacobi2d"):
        apps.load("nonesuch")
    with pytest.raises(InputError):
        apps.load("grid")


SERIAL_COMMAND = """
import sys
asked = []
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("mpi4py", "charm4py", "cupy", "h5py", "matplotlib", "plotly"):
            asked.append(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
from miniapps.workbench.cli import main
assert main(["run", "jacobi2d", "--size", "7x5", "--steps", "3", "--json", "-"]) == 0
names = ("miniapps.devices.cuda.compiler", "miniapps.devices.cuda.backend", "cuda")
print(asked + [name for name in sys.modules if name in names or name.endswith(".gpu")])
"""

LAUNCHING_COMMANDS = """
import sys
from miniapps import apps
from miniapps.workbench.cli import main
for app in apps.names():
    tile = ["--time-tile", "1"] if hasattr(apps.load(app).Problem, "time_tile") else []
    for driver in ("mpi", "charm"):
        command = ["run", app, "--preset", "tiny", *tile, "--driver", driver, "-n", "2"]
        assert main([*command, "--dry-run"]) == 0
print(*sorted({"numba", "llvmlite", "scipy", "h5py", "mpi4py", "charm4py"} & set(sys.modules)))
"""


def test_a_serial_run_asks_for_no_library_that_it_does_not_need() -> None:
    """Catches an import that makes MPI or Charm4Py necessary for everybody, or starts MPI.

    Also one inside a ``try``, and a start that is slower, or fails, for what only a GPU needs.
    """
    done = support.execute([sys.executable, "-c", SERIAL_COMMAND], check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_only_launches_loads_no_compiler() -> None:
    """Catches an import that has every launch wait for Numba twice."""
    done = support.execute([sys.executable, "-c", LAUNCHING_COMMANDS], check=True)
    assert done.stdout.splitlines()[-1] == ""


def test_kernels_load_no_linear_algebra() -> None:
    """Catches a Numba that loads SciPy's for nothing, which takes a fifth of a run's start.

    And a library that stays hidden once Numba has been kept from it.
    """
    loaded = "import sys, miniapps.kernels.jacobi2d.cpu; print('scipy.linalg' in sys.modules)"
    after = "import scipy.linalg; print(scipy.linalg.norm([3.0, 4.0]))"
    done = support.execute([sys.executable, "-c", f"{loaded}\n{after}"])
    assert done.stdout.split() == ["False", "5.0"], done.stderr


def skipped_on_import(tree: ast.AST) -> list[str]:
    """Calls in tests that would hide a missing library."""
    return [
        node.attr for node in nodes(tree, ast.Attribute) if node.attr in ("importorskip", "skipif")
    ]


def test_no_test_is_skipped_for_a_missing_library() -> None:
    """Catches tests of mpi and charm that pass by not running; those for the GPU may skip."""
    files = [name for name in IN_LAYERS if name.startswith("tests/") and "gpu" not in name]
    files.remove("tests/test_architecture.py")
    assert some({file: skipped_on_import(tree_of(file)) for file in files}) == {}


def impatient(tree: ast.Module) -> list[float]:
    """Limits of commands, in seconds, that a busy machine may reach."""
    words = [word for call in nodes(tree, ast.Call) for word in call.keywords]
    given = [getattr(word.value, "value", None) for word in words if word.arg == "timeout"]
    limits = [value for value in given if isinstance(value, (int, float))]
    return [limit for limit in limits if 0 < limit < support.PATIENCE_S]


def test_no_test_fails_because_the_machine_is_busy() -> None:
    """Catches a command that must end within a time which a right one may need, too."""
    files = [name for name in IN_LAYERS if name.startswith("tests/")]
    assert some({file: impatient(tree_of(file)) for file in files}) == {}
    assert impatient(ast.parse("execute(command, timeout=20)")) == [20]
