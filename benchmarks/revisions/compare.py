"""Compare another revision with this working tree: the same cases on both, in turns.

    make compare REV=v0.1.0
    .venv/bin/python -m benchmarks.revisions.compare v0.1.0 --trials 20 --only messages,start

Each side is a copy of its sources in ``build/compare``, with an environment that shares this
environment's packages, so only the project differs. Both sides are run by the command line alone,
because files have other names in other revisions; kernels are run by `compare_kernels.py`.

In each trial both sides run every case, one after the other; they alternate in being first. A
case's ratio is new rate / old rate, the geometric mean over trials with a 99 % bootstrap interval.
A case has no number if a run fails or is not valid, or if the two sides end in different states.
``slower`` means that the whole interval is below 0.97. Exit status: 1 if a case is slower or has no
number, 2 if the revision does not exist.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, ROOT, median, table
from benchmarks.common import revision as this_revision
from benchmarks.revisions import environments
from miniapps.workbench.run.record import host, versions
from miniapps.workbench.study.statistics import Interval, mean_interval

SCRATCH = ROOT / "build" / "compare"
LIMIT = 0.97
TRIALS = 10
GROUPS = ("kernels", "runs", "messages", "start")
LAUNCHERS = ("PMI_", "OMPI_", "MV2_", "SLURM_", "PMIX_", "HYDI_", "MINIAPPS_", "NETSTART")


class CaseFailed(Exception):
    """A run has no number; the message gives the reason in one line."""


@dataclass(frozen=True)
class Side:
    """One of the two revisions: a tree, and an environment that imports the project from it."""

    name: str  # old or new
    tree: Path
    python: Path

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables without those of launchers; the side has caches of its own.

        Python may write bytecode; else each start would compile a tree's modules, by its lines.
        """
        others = (*LAUNCHERS, "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(others)}
        return kept | {"XDG_CACHE_HOME": str(self.tree.with_name("cache"))}

    def output(self, words: Sequence[object]) -> str:
        """The output of a command in this side's environment. Raises CaseFailed if it fails."""
        done = subprocess.run(
            [*map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.tree.parent,
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise CaseFailed(f"{self.name}: status {done.returncode}: {said[-1]}")
        return done.stdout


@dataclass(frozen=True)
class Case:
    """A case whose rates are compared: ``miniapps run`` with ``words``; without words, the kernels.

    ``steady``: all steps do the same work, so the median step represents all of them.
    """

    name: str
    group: str
    words: tuple[object, ...] = ()
    steady: bool = True


def cases(pes: int, scale: int = 1) -> list[Case]:
    """All cases. ``scale`` makes problems smaller and runs shorter by about that factor."""
    short = max(1, 20 // scale)  # the shortest run's steps
    apps: dict[str, tuple[tuple[object, ...], bool]] = {
        "jacobi2d": (
            ("--size", f"{1024 // scale}x1024", "--time-tile", 8, "--steps", 20 * short),
            True,
        ),
        "stencil3d": (
            ("--size", f"{128 // scale}x128x96", "--time-tile", 4, "--steps", 8 * short),
            True,
        ),
        "pic": (("--preset", "small", "--particles", 100000 // scale, "--steps", 4 * short), False),
        "amr": (("--size", f"{500 // scale + 250}x500", "--steps", 4 * short), False),
        "cg": (("--size", f"{64 // scale}x64x64", "--steps", 2 * short), False),
        "transpose": (("--size", 1024 // scale, "--steps", 4 * short), False),
        "leanmd": (("--lattice", f"{8 + 8 // scale}x8x8", "--steps", 5 * short), False),
    }
    mpi, charm = ("--driver", "mpi", "-n", pes), ("--driver", "charm", "-n", pes)
    configurations: dict[str, tuple[object, ...]] = {
        "serial": (),
        f"mpi {pes}": mpi,
        f"charm {pes}, ODF 1": charm,
        f"charm {pes}, ODF 4": (*charm, "--odf", 4),
    }
    warmup = ("--warmup", 10)
    found = [Case("kernels", "kernels")]
    for app, (words, steady) in apps.items():
        for name, more in configurations.items():
            found.append(Case(f"{app}, {name}", "runs", (app, *words, *warmup, *more), steady))
    balanced = (*charm, "--odf", 4, "--balancer", "GreedyRefine", "--lb-period", 2 * short)
    found.append(Case("pic, balanced", "runs", ("pic", *apps["pic"][0], *warmup, *balanced), False))
    pairs = ("leanmd", *apps["leanmd"][0], *warmup, "--decomposition", "pairs")
    found.append(Case("leanmd by pairs, serial", "runs", pairs, False))
    found.append(Case(f"leanmd by pairs, charm {pes}", "runs", (*pairs, *charm), False))
    melt = ("leanmd", "--lattice", f"{4 + 16 // scale}x20x20", "--steps", 35 * short, *warmup)
    for name, more in list(configurations.items())[:2]:
        found.append(Case(f"leanmd, melt, {name}", "runs", (*melt, *more), False))
    for size in (64, 32768):
        for name, more in configurations.items():
            words = ("echo", "--bytes", size, "--steps", 50 * short, *warmup, *more)
            found.append(Case(f"echo, {size} B, {name}", "messages", words))
    for name, more in list(configurations.items())[:3]:
        found.append(Case(f"start, {name}", "start", ("jacobi2d", "--preset", "tiny", *more)))
    return found


# The two sides ------------------------------------------------------------------------------------


def tree_of_revision(revision: str, folder: Path) -> Path:
    """Write the files of a revision to ``folder``. Raises ValueError if it does not exist."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", revision]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise ValueError(f"REV {revision}: {done.stderr.decode().strip().splitlines()[-1]}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        _clear(folder, {member.name for member in archive.getmembers() if not member.isdir()})
        archive.extractall(folder, filter="data")  # noqa: S202
    return folder


def tree_of_work(folder: Path) -> Path:
    """Copy the working tree to ``folder``: the files that git tracks or does not ignore."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {name for name in listed.splitlines() if os.path.lexists(ROOT / name)}
    _clear(folder, names)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name, follow_symlinks=False)
        os.utime(folder / name, (0, (ROOT / name).lstat().st_mtime), follow_symlinks=False)
    return folder


def _clear(folder: Path, names: set[str]) -> None:
    """Remove the files of a folder that are not among ``names``, except compiled kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.rglob("*"):
        known = path.relative_to(folder).as_posix() in names or "__pycache__" in path.parts
        if path.is_symlink() or path.is_file() and not known:
            path.unlink()


def side(name: str, tree: Path) -> Side:
    """Create a side of the comparison: a tree, and an environment next to it."""
    folder = tree.with_name("environment")
    python = environments.make(folder)
    scripts = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["scripts"]
    environments.add_tree(folder, tree, scripts["miniapps"])
    return Side(name, tree, python)


# Measuring ----------------------------------------------------------------------------------------


@dataclass
class Measured:
    """Rates of one case on both sides, by trial, or the reason why it has none."""

    group: str
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    failed: str = ""

    def ratio(self) -> Interval:
        """New over old: the geometric mean over trials, and its interval."""
        logs = [math.log(b / a) for a, b in zip(self.old, self.new, strict=True)]
        mean = mean_interval(logs)
        return Interval(*(math.exp(value) for value in (mean.value, mean.low, mean.high)))

    def result(self) -> str:
        """The result of comparing the interval of the ratio with `LIMIT`."""
        if self.failed:
            return f"no number: {self.failed}"
        ratio = self.ratio()
        if ratio.high < LIMIT:
            return "**slower**"
        if ratio.low > 1 / LIMIT:
            return "faster"
        return "" if ratio.value >= LIMIT else "not shown to be slower"


def rates_of(side: Side, case: Case, scale: int) -> tuple[dict[str, float], str]:
    """Rates of a case on one side by name, and the hash of the final state. Raises CaseFailed."""
    if not case.words:
        script = Path(__file__).with_name("compare_kernels.py")
        return json.loads(side.output([side.python, script, scale])), ""
    before = time.time()
    words = [side.python.with_name("miniapps"), "run", *case.words, "--json", "-"]
    record = json.loads(side.output(words).splitlines()[-1])
    if not record["valid"]:
        raise CaseFailed(f"{side.name}: the run is not valid")
    if case.group == "start":
        found = {case.name: 1 / (record["first_step_at"] - before)}
    else:
        found = {case.name: 1 / seconds_per_step(record["rounds"]["wall_s"], record, case.steady)}
        if case.group == "runs" and record["driver"] == "serial":
            inside = [sum(pes) for pes in zip(*record["rounds"]["compute_s"], strict=True)]
            name = f"{case.name}, inside blocks"
            found[name] = 1 / seconds_per_step(inside, record, case.steady)
    return found, record["state_hash"]


def seconds_per_step(rounds: list[float], record: dict[str, Any], steady: bool) -> float:
    """Seconds per step, from those of each round: the median if all steps do the same work."""
    if steady:
        return median(s / n for s, n in zip(rounds, record["rounds"]["count"], strict=True))
    return sum(rounds) / record["steps"]


def measure(
    old: Side, new: Side, chosen: list[Case], trials: int, scale: int = 1
) -> dict[str, Measured]:
    """Run all cases on both sides in turns; the first trial, which compiles, is not counted."""
    results: dict[str, Measured] = {}
    broken: set[str] = set()
    for trial in range(trials + 1):
        for case in chosen:
            if case.name in broken:
                continue
            print(f"trial {trial} of {trials}: {case.name}", file=sys.stderr, flush=True)
            try:
                pair = _pair(old, new, case, scale, old_first=trial % 2 == 0)
            except (CaseFailed, KeyError) as error:
                broken.add(case.name)
                lacks = f"a record has no {error}"
                failed = lacks if isinstance(error, KeyError) else str(error)
                results[case.name] = Measured(case.group, failed=failed)
                continue
            for name in pair[0] if trial else ():
                one = results.setdefault(name, Measured(case.group))
                one.old.append(pair[0][name])
                one.new.append(pair[1][name])
    return results


def _pair(
    old: Side, new: Side, case: Case, scale: int, old_first: bool
) -> tuple[dict[str, float], dict[str, float]]:
    """Rates of a case on both sides. Raises CaseFailed if a run fails or the states differ."""
    order = (old, new) if old_first else (new, old)
    found = {side.name: rates_of(side, case, scale) for side in order}
    (old_rates, old_state), (new_rates, new_state) = found[old.name], found[new.name]
    if old_state != new_state:
        raise CaseFailed(f"another state: {old_state[:8]} before, {new_state[:8]} now")
    return old_rates, new_rates


# Results ------------------------------------------------------------------------------------------


def document(revision: str, trials: int, results: dict[str, Measured]) -> dict[str, Any]:
    """All measurements, as plain data."""
    described = {}
    for name, one in results.items():
        entry: dict[str, Any] = {"group": one.group, "result": one.result().strip("*")}
        if not one.failed:
            ratio = one.ratio()
            bounds = {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
            entry |= {key: float(f"{value:.4g}") for key, value in bounds.items()}
            entry |= {"old": list(map(_short, one.old)), "new": list(map(_short, one.new))}
        described[name] = entry
    return {
        "benchmark": "compare",
        "old": revision,
        "new": this_revision(),
        "trials": trials,
        "limit": LIMIT,
        "host": host(),
        "versions": versions(),
        "cases": described,
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def markdown(results: dict[str, Measured]) -> str:
    """A table of all cases with their groups, ratios and results."""
    rows = []
    for name, one in results.items():
        ratio = None if one.failed else one.ratio()
        shown = f"{ratio.value:.3f}" if ratio else ""
        bounds = f"{ratio.low:.3f} to {ratio.high:.3f}" if ratio else ""
        rows.append([one.group, name, shown, bounds, one.result()])
    return table(["group", "case", "new / old", "99 % interval", ""], rows)


def compare(
    revision: str, trials: int, chosen: list[Case], scale: int = 1, scratch: Path = SCRATCH
) -> dict[str, Measured]:
    """Compare a revision with the working tree. Raises ValueError if it does not exist."""
    old = side("old", tree_of_revision(revision, scratch / "old" / "tree"))
    new = side("new", tree_of_work(scratch / "new" / "tree"))
    return measure(old, new, chosen, trials, scale)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print the table and write it; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revision", help="what git calls it")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"default: {TRIALS}")
    parser.add_argument("--only", default=",".join(GROUPS), help="groups of cases; default: all")
    parser.add_argument("--case", default="", help="only cases whose names contain this")
    parser.add_argument("--scale", type=int, default=1, help="smaller and shorter by this factor")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where the results go")
    options = parser.parse_args(arguments)
    pes = min(2, len(os.sched_getaffinity(0)))
    groups = options.only.split(",")
    chosen = [c for c in cases(pes, options.scale) if c.group in groups and options.case in c.name]
    try:
        results = compare(options.revision, options.trials, chosen, options.scale)
    except ValueError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    found = markdown(results)
    print(found)
    options.folder.mkdir(parents=True, exist_ok=True)
    target = options.folder / f"compare-{options.revision.replace('/', '-')}.json"
    written = document(options.revision, options.trials, results)
    target.write_text(json.dumps(written, indent=1) + "\n")
    target.with_suffix(".md").write_text(found)
    ends = [one.result() for one in results.values()]
    return int(any(end.startswith(("**slower", "no number")) for end in ends))


if __name__ == "__main__":
    raise SystemExit(main())
