"""Faults that are changes of a line: each is made in a process of its own, and a test must see it.

The process is forked from one that has loaded the libraries and the kernels. It imports the rest of
the program anew, with the changed file, and then makes a run or the tests that must see the fault.
Nothing is written to the file. Where the program is installed without its tests, faults that only a
test sees are left out.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from miniapps import apps, kernels

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
KEPT = re.compile(r"miniapps\.(devices|kernels)(\.|$)")  # stay as they are
LIBRARIES = "hypothesis", "pytest", "h5py", "scipy.optimize", "scipy.stats", "matplotlib.figure"
AT_ONCE, LIMIT_S = 2, 600.0
PREFIX = "numbers: "  # of the keys of these faults
RUN = "run "  # begins what is no test but a run, which must not be valid
FAILED = 1  # the exit status of pytest if a test has failed
OPTIONS = "-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-p", "pytest_timeout"


@dataclass(frozen=True)
class Change:
    """A fault: words of a file that become others, and what must see it.

    ``file``: relative to the project; it has the words ``old`` once. ``seen_by``: tests as pytest
    names them, in the folder of tests, or `RUN`, an app and a driver of one process.
    """

    name: str
    file: str
    old: str
    new: str
    seen_by: str

    @property
    def key(self) -> str:
        """The name that tells it from all other faults."""
        return f"{PREFIX}{self.name}"

    @property
    def by_run(self) -> bool:
        """Whether a run sees it, and no test is needed."""
        return self.seen_by.startswith(RUN)

    @property
    def witness(self) -> str:
        """What sees it: "run" or "tests"."""
        return RUN.strip() if self.by_run else "tests"

    def source(self) -> str:
        """The changed text of the file. Raises ValueError if it does not have the words once."""
        text = (ROOT / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: not once in it: {self.old}")
        return text.replace(self.old, self.new)


class Tried(NamedTuple):
    """What became of a change: whether its file was used, what saw it, and what went wrong."""

    change: Change
    acted: bool
    caught: str
    error: str = ""

    @property
    def is_right(self) -> bool:
        """Whether this is the right program, which nothing may fail."""
        return not self.change.file

    @property
    def wrong(self) -> str:
        """Why this shows that the program or its catalogue of faults is wrong; empty if not."""
        if self.error:
            return f"cannot be made: {self.error}"
        if self.is_right:
            return f"the right program fails: {self.caught}" if self.caught else ""
        if not self.acted:
            return "changes nothing: no module of this file was imported"
        return "" if self.caught else f"survives {self.change.seen_by}"


def possible(changes: Iterable[Change]) -> list[Change]:
    """The changes that can be tried here: without the tests, those that a run sees."""
    return [change for change in changes if change.by_run or TESTS.is_dir()]


def tried(changes: Sequence[Change]) -> Iterator[Tried]:
    """Make all changes, each in a process of its own; yields what became of each, in order.

    The first is no change: what must see the others must let the right program pass.
    """
    if not changes:
        return
    tests = " ".join(dict.fromkeys(one.seen_by for one in changes if not one.by_run))
    runs = list(dict.fromkeys(one.seen_by for one in changes if one.by_run))
    right = [Change("none", "", "", "", seen_by) for seen_by in filter(None, [tests, *runs])]
    context: Any = get_context("forkserver")
    names = [name for name in apps.names() if kernels.exist(name, "cpu")]
    loaded = [f"miniapps.kernels.{name}.cpu" for name in names]
    context.set_forkserver_preload(["__main__", *LIBRARIES, *loaded, __name__])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(lambda change: in_process(context, change), [*right, *changes])


def in_process(context: Any, change: Change) -> Tried:
    """Make a change in a new process."""
    read, write = context.Pipe(duplex=False)
    process = context.Process(target=make, args=(change, write))
    process.start()
    write.close()
    try:
        if not read.poll(LIMIT_S):
            return Tried(change, True, "", "takes too long")
        return Tried(change, *read.recv())
    except EOFError:
        return Tried(change, True, "", "ends its process")
    finally:
        process.kill()
        process.join()


def make(change: Change, write: Connection) -> None:
    """Make a change in this process and send what has become of it."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # it takes half a second
    with contextlib.chdir(ROOT):
        write.send(made(change))


def made(change: Change) -> tuple[bool, str, str]:
    """Make a change in this process; returns whether the file was used, what saw it, an error."""
    forget()
    try:
        finder = Finder(change.file, change.source() if change.file else "")
        sys.meta_path.insert(0, finder)
        caught = failures(change.seen_by) if change.by_run else failed_tests(change.seen_by)
        return finder.used, caught, ""
    except Exception as error:
        return True, "", " ".join(f"{type(error).__name__}: {error}".split())


def forget() -> None:
    """Let the modules that may use a changed file be imported anew, and those of the tests."""
    tests = f"{TESTS}{os.sep}"
    for name, module in list(sys.modules.items()):
        of_tests = (getattr(module, "__file__", None) or "").startswith(tests)
        own = name.partition(".")[0] == "miniapps" and not KEPT.match(name)
        if of_tests or own:
            del sys.modules[name]


class Finder(MetaPathFinder):
    """Finds the module of one file, with another source."""

    def __init__(self, file: str, source: str) -> None:
        self.path, self.source, self.used = str(ROOT / file), source, False
        own = file.removeprefix("miniapps/").removesuffix(".py").removesuffix("/__init__")
        self.name = f"miniapps.{own.replace('/', '.')}"

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of the file; no other."""
        if fullname != self.name:
            return None
        self.used = True
        loader = Loader(fullname, self.path)
        loader.source = self.source
        return spec_from_file_location(fullname, self.path, loader=loader)


class Loader(SourceFileLoader):
    """Loads a module from another source than that of its file."""

    source: str

    def get_code(self, fullname: str) -> CodeType:
        """The code of the other source."""
        return compile(self.source, self.path, "exec", dont_inherit=True)


def failures(run: str) -> str:
    """The checks that a run fails, or why its record does not count; empty if it is right."""
    from miniapps.workbench.run import batch
    from miniapps.workbench.run.cases import Case, spec_of
    from miniapps.workbench.run.revalidation import objection
    from miniapps.workbench.selftest.trials import PARTS, seen

    app, driver = run.removeprefix(RUN).split()
    (result,) = batch.solve_all([spec_of(app, Case(driver, parts=PARTS), "tiny")])
    return seen(result) or (objection(result) or "" if isinstance(result, dict) else "")


def failed_tests(tests: str) -> str:
    """The tests that fail; empty if none does. Raises RuntimeError if they cannot be made."""
    import pytest

    failed: list[str] = []

    class Noted:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                failed.append(report.nodeid.rpartition("tests/")[2])

    status = pytest.main([*OPTIONS, *(str(TESTS / test) for test in tests.split())], [Noted()])
    if status not in (0, FAILED):
        raise RuntimeError(f"pytest ends with status {int(status)}")
    return ", ".join(failed)
