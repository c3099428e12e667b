"""Mutation score of kernels and blocks: how many small changes of a file its runs' checks notice.

    python benchmarks/mutation.py [FILE ...] [--sample N] [--seed S] [--list]

A mutant is a copy of the program in which one operator, comparison, constant or statement of a file
is another one. Small runs of the apps that use the file are made with it, on one and on several
blocks, with all variants of the app. A mutant is killed if a run fails, is not valid or takes too
long. ``--sample`` mutants are drawn per file, because each has to be compiled; 0 takes all.
Prints a table in Markdown, and each mutant that survives.

The usual tools of mutation testing do not fit: they switch mutants in the running process, where
compiled kernels would not change, and Numba's cache on disk would hide a change of another file.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import drivers
import miniapps
from workbench.run.cases import Case, spec_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("devices", "kernels", "miniapps", "drivers", "workbench")
FILES = (
    "kernels/*/cpu.py",
    "kernels/*/cpu/*.py",
    "miniapps/*_block.py",
    "miniapps/*/block.py",
    "miniapps/*/pairs.py",
    "miniapps/*/domain.py",
    "miniapps/*/atoms.py",
    "miniapps/*/particles.py",
)
PARTS = (1, 6)  # blocks of the runs
SLOWER = 10.0  # times as long as the right program: the mutant hangs
OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAMES = {"min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """One change of a file."""

    file: str
    line: int
    change: str
    source: str


def mutants(file: str) -> list[Mutant]:
    """All mutants of a file, in the order of its lines."""
    tree = ast.parse((ROOT / file).read_text())
    count = len(list(places(tree)))
    found = []
    for number in range(count):
        changed = copy.deepcopy(tree)
        node = list(places(changed))[number]
        before = ast.unparse(node)
        mutate(node)
        after = ast.unparse(node)
        line = getattr(node, "lineno", 0)
        found.append(Mutant(file, line, f"{before} -> {after}", ast.unparse(changed)))
    return found


def places(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes inside functions that `mutate` can change; no decorators and no docstrings."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    nested = {id(inner) for f in functions for inner in ast.walk(f) if inner is not f}
    for function in functions:
        if id(function) not in nested:
            for statement in function.body:
                yield from filter(can_change, ast.walk(statement))


def can_change(node: ast.AST) -> bool:
    """Whether a node has another form."""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        return type(node.op) in OTHER
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in OTHER
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.Name):
        return node.id in NAMES
    return isinstance(node, ast.IfExp) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def mutate(node: ast.AST) -> None:
    """Change a node in its tree."""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        node.op = OTHER[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.Compare):
        node.ops[0] = OTHER[type(node.ops[0])]()  # type: ignore[call-overload]
    elif isinstance(node, ast.Constant):
        node.value = node.value + 1  # type: ignore[operator]
    elif isinstance(node, ast.Name):
        node.id = NAMES[node.id]
    elif isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
    elif isinstance(node, ast.UnaryOp):
        node.operand = ast.UnaryOp(ast.Not(), node.operand)


class Copy:
    """A copy of the program in a folder, in which one file at a time is another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for package in PACKAGES:
            shutil.copytree(
                ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
            )

    def check(self, apps: list[str], limit_s: float | None) -> bool:
        """Whether all runs of the apps are valid, within a time."""
        lines = "\n".join(line for app in apps for line in runs_of(app))
        # Files change within a second, so bytecode might be taken for that of the new ones.
        variables = os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                [sys.executable, "-m", "workbench.cli", "batch", "-"],
                input=lines, text=True, cwd=self.folder, env=variables, timeout=limit_s,
                capture_output=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def survives(self, mutant: Mutant, apps: list[str], limit_s: float) -> bool:
        """Whether no run notices a mutant; the file is restored."""
        file = self.folder / mutant.file
        right = file.read_text()
        file.write_text(mutant.source)
        self.forget(mutant.file)
        try:
            return self.check(apps, limit_s)
        finally:
            file.write_text(right)
            self.forget(mutant.file)

    def forget(self, file: str) -> None:
        """Remove compiled kernels of the file's folder, and of those that call them.

        Numba would keep them, because it does not see that a file which a kernel calls has changed.
        """
        if not file.startswith("kernels/"):
            return
        own = Path(file).parts[1]
        for folder in (self.folder / "kernels").iterdir():
            sources = [source.read_text() for source in folder.rglob("*.py")]
            if folder.name == own or any(f"kernels.{own}" in source for source in sources):
                for cache in list(folder.rglob("__pycache__")):
                    shutil.rmtree(cache)


def runs_of(app: str) -> list[str]:
    """The command lines of the small runs of an app: every variant, on one and several blocks."""
    driver = drivers.names()[0]
    every = miniapps.load(app).Problem.variants or (None,)
    cases = [Case(driver, variant=variant, parts=parts) for variant in every for parts in PARTS]
    return [shlex.join(spec_of(app, case, "tiny").arguments()) for case in cases]


def apps_of(file: str) -> list[str]:
    """The apps that use a file: the one whose folder it is in, else all."""
    own = [app for app in miniapps.names() if app in Path(file).parts]
    return own or miniapps.names()


def main() -> int:
    """Try the mutants of each file and print the scores; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--sample", type=int, default=20, help="mutants per file; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="draws the sample")
    parser.add_argument("--list", action="store_true", help="print the number of mutants only")
    options = parser.parse_args()
    files = options.files or sorted(
        str(path.relative_to(ROOT)) for pattern in FILES for path in ROOT.glob(pattern)
    )
    if options.list:
        for file in files:
            print(f"{len(mutants(file)):5} {file}")
        return 0
    with tempfile.TemporaryDirectory(prefix="miniapps-") as folder:
        report(Copy(Path(folder)), files, options.sample, options.seed)
    return 0


def report(program: Copy, files: list[str], sample: int, seed: int) -> None:
    """Print a row of the table for each file, and then the mutants that survived."""
    print("| file | mutants | tried | killed | score |\n|---|---|---|---|---|", flush=True)
    survivors: list[Mutant] = []
    for file in files:
        apps, every = apps_of(file), mutants(file)
        program.forget(file)
        begin = time.monotonic()
        if not every or not program.check(apps, None):
            print(f"| {file} | {len(every)} | 0 | the right program fails, or has none | |")
            continue
        limit_s = SLOWER * (time.monotonic() - begin)
        chosen = random.Random(seed).sample(every, min(sample or len(every), len(every)))
        alive = [mutant for mutant in chosen if program.survives(mutant, apps, limit_s)]
        survivors += alive
        killed = len(chosen) - len(alive)
        score = killed / len(chosen)
        print(f"| {file} | {len(every)} | {len(chosen)} | {killed} | {score:.0%} |", flush=True)
    print()
    for mutant in survivors:
        print(f"* survives: {mutant.file}, line {mutant.line}: `{mutant.change}`")


if __name__ == "__main__":
    sys.exit(main())
