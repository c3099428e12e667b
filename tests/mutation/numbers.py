"""Mutants in files of numbers: times, units, statistics, figures. No state shows them, tests do.

One session of pytest collects all tests. Each of them first runs alone, in a process that notes
which statements of the files it reaches. A mutant is tried by the tests that reach its statement,
those first that are quick and reach little else, until one fails or they have used up `BUDGET_S`.
A test that starts a process shows nothing here.
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest
from mutation import program
from mutation.files import ROOT
from mutation.operators import Mutant, compiled, functions
from mutation.problems import RUNS
from mutation.processes import ENDED, at_once, forked

BUDGET_S = 6.0  # of a core, for the tests of a mutant
LONGEST_S = 400.0  # of a core, for a file of tests with the right program
SLOWER, LEAST_S = 4.0, 5.0  # how much longer than with the right program tests may take
PROBE = "reached"  # what a probed function calls with the line of each statement
LEFT_OUT = "test_mutation.py", "test_gpu_*.py", "gpu"
LIBRARIES = (
    *("h5py", "jinja2", "matplotlib.pyplot", "matplotlib.backends.backend_svg", "plotly"),
    *("scipy.optimize", "scipy.stats"),
)
OPTIONS = (
    *("-q", "-s", "--tb=native", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout=0"),
    f"--rootdir={ROOT}",
)
UNREACHED = "no test reaches it"

Items = Mapping[str, pytest.Item]  # by name


class Reach(NamedTuple):
    """What a test reaches, as lines per file, and the seconds of a core that it takes."""

    seconds: float
    lines: Mapping[str, Sequence[int]]

    @property
    def rank(self) -> float:
        """By which tests are tried: quick ones and those that reach little come first."""
        return self.seconds * sum(map(len, self.lines.values()))


class Trials:
    """A plugin of pytest that tries mutants in place of making tests.

    ``see`` is called with each mutant and what killed it. ``known``: a file that keeps what each
    test reaches of ``files``; tests that are in it do not run to find out.
    """

    def __init__(
        self,
        mutants: Sequence[Mutant],
        see: Callable[[Mutant, str], None],
        files: Sequence[str],
        known: Path | None,
        processes: int,
    ) -> None:
        self.mutants, self.see, self.files, self.known = mutants, see, files, known
        self.processes = processes

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants."""
        session.config.option.quick = True  # from here on: a test that starts a process is skipped
        warm_up()
        items = {item.nodeid: item for item in session.items}
        self.try_mutants(items, self.reach(items))
        return True

    def try_mutants(self, items: Items, reach: Mapping[str, Reach]) -> None:
        """Try each mutant by the tests that reach it, and tell `see` what killed it."""
        gc.freeze()
        try_one = partial(killer, items, reach)
        found = at_once(try_one, self.mutants, self.processes)
        for mutant, killed_by in zip(self.mutants, found, strict=True):
            self.see(mutant, killed_by)

    def reach(self, items: Items) -> dict[str, Reach]:
        """What each test reaches that passes."""
        kept = json.loads(self.known.read_text()) if self.known and self.known.exists() else {}
        new = (item for name, item in items.items() if name not in kept)
        files = [list(some) for _, some in groupby(new, lambda item: item.path)]
        probes = {file: probes_of(file) for file in self.files}
        for found in at_once(partial(reach_of, probes), files, self.processes):
            kept |= found
            if self.known:
                self.known.write_text(json.dumps(kept))
        return {name: Reach(*kept[name]) for name in items if kept.get(name)}


def warm_up() -> None:
    """Import and load what tests use, so that not every process does it anew."""
    for library in LIBRARIES:
        importlib.import_module(library)
    for runs in RUNS.values():
        runs[0].see()


# What tests reach ---------------------------------------------------------------------------------


Probes = Mapping[str, CodeType]  # the code of functions, which says the line of each statement


def probes_of(file: str) -> Probes:
    """The probed functions of a file, by name."""
    return {
        ".".join(names): compiled(file, names, _Probed().visit(function))
        for names, function in functions(ast.parse((ROOT / file).read_text()))
    }


def reach_of(probes: Mapping[str, Probes], items: Sequence[pytest.Item]) -> dict[str, Any]:
    """The fields of `Reach` of each test of a file, None of one that does not pass."""
    said = alone(partial(_noted, probes, items), items[0], LONGEST_S)
    return {} if said.startswith(ENDED) else json.loads(said)


def _noted(probes: Mapping[str, Probes], items: Sequence[pytest.Item]) -> str:
    """What tests reach in this process, as JSON."""
    noted = Noted()
    for file, codes in probes.items():
        lines = noted.lines.setdefault(file, set())
        vars(importlib.import_module(program.module_of(file)))[PROBE] = lines.add
        for function, code in codes.items():
            program.change(file, function, code)
    items[0].config.pluginmanager.register(noted)
    pairs = pairwise([*items, None])
    return json.dumps({item.nodeid: noted.of(item, after) for item, after in pairs})


class Noted:
    """A plugin that notes what tests and shared fixtures reach, and how long they take.

    A test reaches what its fixtures reach, whichever test they were made for.
    """

    def __init__(self) -> None:
        self.lines: dict[str, set[int]] = {}  # reached since the last `_taken`
        self.begin = 0.0
        self.shared: dict[str, tuple[float, dict[str, set[int]]]] = {}  # by name of the fixture

    def _taken(self) -> tuple[float, dict[str, set[int]]]:
        """The seconds since this was last called, and what was reached meanwhile."""
        begin, self.begin = self.begin, time.process_time()
        taken = {file: set(lines) for file, lines in self.lines.items()}
        for lines in self.lines.values():
            lines.clear()
        return self.begin - begin, taken

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        """Note what a fixture reaches that several tests share."""
        if fixturedef.scope == "function":
            return (yield)
        before = self._taken()
        try:
            return (yield)
        finally:
            self.shared[fixturedef.argname] = self._taken()
            self.begin -= before[0]
            for file, lines in before[1].items():
                self.lines[file] |= lines

    def of(self, item: pytest.Item, following: pytest.Item | None) -> Any:
        """The fields of `Reach` of a test, None if it does not pass."""
        self._taken()
        passed = passes(item, following)
        names = item.fixturenames  # type: ignore[attr-defined]
        parts = [self._taken(), *(self.shared[name] for name in names if name in self.shared)]
        lines = {
            file: sorted(set().union(*(part[1][file] for part in parts))) for file in self.lines
        }
        seconds = sum(part[0] for part in parts)
        return (seconds, {file: some for file, some in lines.items() if some}) if passed else None


class _Probed(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                setattr(node, name, [part for one in statements for part in (_call(one), one)])
        return node


def _call(statement: ast.stmt) -> ast.stmt:
    name, line = ast.Name(PROBE, ast.Load()), ast.Constant(statement.lineno)
    return ast.Expr(ast.Call(name, [line], []))


# What kills a mutant ------------------------------------------------------------------------------


def killer(items: Items, reach: Mapping[str, Reach], mutant: Mutant) -> str:
    """The test that kills a mutant, "" if none does, or `UNREACHED`."""
    names = [name for name, one in reach.items() if mutant.line in one.lines.get(mutant.file, ())]
    chosen, seconds = [], 0.0
    for name in sorted(names, key=lambda name: reach[name].rank):
        if seconds + reach[name].seconds <= BUDGET_S or not chosen:
            chosen.append(items[name])
            seconds += reach[name].seconds
    if not chosen:
        return UNREACHED
    work = partial(_first_failure, mutant, chosen)
    return alone(work, chosen[0], LEAST_S + SLOWER * seconds)


def _first_failure(mutant: Mutant, chosen: Sequence[pytest.Item]) -> str:
    program.change(mutant.file, mutant.function, mutant.code)
    pairs = pairwise([*chosen, None])
    return next((item.nodeid for item, after in pairs if not passes(item, after)), "")


def passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Whether a test passes, which leaves in place what the following one uses, too."""
    reports = Reports()
    item.config.pluginmanager.register(reports)
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    item.config.pluginmanager.unregister(reports)
    return all(report.passed for report in reports.found)


class Reports:
    """A plugin that keeps the reports of tests."""

    def __init__(self) -> None:
        self.found: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a report."""
        self.found.append(report)


def alone(work: Callable[[], str], item: pytest.Item, limit_s: float) -> str:
    """What `forked` returns of work with a test and others, for which there is a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        factory = item.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = Path(folder)
        return forked(work, limit_s)


def try_all(tests: Sequence[str], trials: Trials, options: Sequence[str] = ()) -> None:
    """Try mutants by tests, given by names of files, else by all; ``options``: of pytest."""
    left_out = [f"--ignore-glob={ROOT}/tests/{name}" for name in LEFT_OUT]
    chosen = [f"{ROOT}/tests/{test}" for test in tests or [""]]
    status = pytest.main([*OPTIONS, *options, *left_out, *chosen], [trials])
    if status:
        raise RuntimeError(f"pytest ends with status {int(status)}")
