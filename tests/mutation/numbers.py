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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol
from mutation import program
from mutation.files import ROOT
from mutation.operators import Mutant, compiled, functions
from mutation.problems import RUNS
from mutation.processes import ENDED, at_once, forked

BUDGET_S = 8.0  # of a core, for the tests of a mutant
LONGEST_S = 20.0  # of a core, for a test of the right program
SLOWER, LEAST_S = 4.0, 5.0  # how much longer than with the right program tests may take
PROBE = "reached"  # what a probed function calls with the line of each statement
LEFT_OUT = "test_mutation.py", "test_gpu_*.py", "gpu"
LIBRARIES = (
    *("h5py", "jinja2", "matplotlib.pyplot", "matplotlib.backends.backend_svg", "plotly"),
    *("scipy.optimize", "scipy.stats"),
)
OPTIONS = "-q", "-s", "--tb=native", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={ROOT}"
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
        reach = self.reach(items)
        gc.freeze()
        try_one = partial(killer, items, reach)
        found = at_once(try_one, self.mutants, self.processes)
        for mutant, killed_by in zip(self.mutants, found, strict=True):
            self.see(mutant, killed_by)
        return True

    def reach(self, items: Items) -> dict[str, Reach]:
        """What each test reaches that passes."""
        kept = json.loads(self.known.read_text()) if self.known and self.known.exists() else {}
        new = {name: item for name, item in items.items() if name not in kept}
        found = at_once(partial(reach_of, self.files), list(new.values()), self.processes)
        kept |= dict(zip(new, found, strict=True))
        if self.known:
            self.known.write_text(json.dumps(kept))
        return {name: Reach(*kept[name]) for name in items if kept[name]}


def warm_up() -> None:
    """Import and load what tests use, so that not every process does it anew."""
    for library in LIBRARIES:
        importlib.import_module(library)
    for runs in RUNS.values():
        runs[0].see()


# What tests reach ---------------------------------------------------------------------------------


def reach_of(files: Sequence[str], item: pytest.Item) -> Any:
    """The fields of `Reach` of a test, None if it does not pass."""
    said = alone(partial(_noted, files, item), item, LONGEST_S)
    return None if said.startswith(ENDED) else json.loads(said)


def _noted(files: Sequence[str], item: pytest.Item) -> str:
    """What a test reaches in this process, as JSON."""
    lines: dict[str, set[int]] = {file: set() for file in files}
    for file in files:
        probe(file, lines[file].add)
    begin = time.process_time()
    passed = passes(item, None)
    seconds = time.process_time() - begin
    found = {file: sorted(reached) for file, reached in lines.items() if reached}
    return json.dumps((seconds, found) if passed else None)


def probe(file: str, reached: Callable[[int], None]) -> None:
    """Let all functions of a file say the line of each statement before it."""
    vars(importlib.import_module(program.module_of(file)))[PROBE] = reached
    for names, function in functions(ast.parse((ROOT / file).read_text())):
        program.change(file, ".".join(names), compiled(file, names, _Probed().visit(function)))


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
    following = [*chosen[1:], None]
    pairs = zip(chosen, following, strict=True)
    return next((item.nodeid for item, after in pairs if not passes(item, after)), "")


def passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Whether a test passes, which leaves in place what the following one uses, too."""
    return all(report.passed for report in runtestprotocol(item, False, following))


def alone(work: Callable[[], str], item: pytest.Item, limit_s: float) -> str:
    """What `forked` returns of work with a test and others, for which there is a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        factory = item.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = Path(folder)
        return forked(work, limit_s)


def try_all(tests: Sequence[str], trials: Trials) -> None:
    """Try mutants by tests, given by names of files, else by all."""
    left_out = [f"--ignore-glob={ROOT}/tests/{name}" for name in LEFT_OUT]
    chosen = [f"{ROOT}/tests/{test}" for test in tests or [""]]
    status = pytest.main([*OPTIONS, *left_out, *chosen], [trials])
    if status:
        raise RuntimeError(f"pytest ends with status {int(status)}")
