"""The mutation score: ``PYTHONPATH=tests python -m mutation.run [FILE ...]``.

A mutant is the program with one small change in one function (`mutation.operators`). A mutant of a
file of numbers is tried by tests (`mutation.numbers`). One of a kernel or a block makes the small
runs of `mutation.problems`, serial and under the sim driver, with their validation and their
audits. It is killed by

* *checks*, if a run that should be valid is not, ends by an error, or takes too long;
* *results*, if all are valid, but one has another state hash, other measures or another error than
  the right program. `test_mutation.py` knows these, a run does not;
* *tests*, if only a test of the function fails (`mutation.problems.TESTS`).

A mutant that survives must be in `explained.toml`, with the reason why its results are
right; otherwise the exit status is 1. A changed kernel runs as plain Python, which is stricter: an
index out of bounds and a negative unsigned integer are errors there. GPU kernels are not tried.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest
from mutation import numbers, program
from mutation.files import NUMBERS, PHYSICS, ROOT, matching
from mutation.operators import Mutant, mutants_of
from mutation.problems import Case, Seen, cases_of, known, tests_of
from mutation.processes import ENDED, forked

EXPLAINED = Path(__file__).with_name("explained.toml")
KNOWN = Path(__file__).with_name("known.json")  # what the cases show
RESULT = Path(__file__).with_name("results.json")
SLOWER, LEAST_S = 10.0, 1.0  # how much longer than the right program a mutant may take
CHECKS, RESULTS, TESTS = "checks", "results", "tests"  # what killed a mutant
SURVIVED, EXPLAINED_TOO = "survives", "explained"


class Outcome(NamedTuple):
    """What became of a mutant: killed by ``CHECKS``, ``RESULTS`` or ``TESTS``, or not; and how."""

    by: str
    how: str


def by_runs(runs: Sequence[Case], right: Mapping[Case, Seen]) -> Outcome:
    """The outcome of the program of this process, by the first runs that notice it."""
    other = ""
    for run in runs:
        seen = run.see()
        if seen.failed and not right[run].failed:
            return Outcome(CHECKS, seen.failed[0])
        if seen.facts != right[run].facts and not other:
            other = seen.facts
    return Outcome(RESULTS, other) if other else Outcome(SURVIVED, "")


def by_tests(tests: Sequence[str]) -> Outcome:
    """The outcome of the program of this process, by tests, given by their names in pytest."""
    options = "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", f"--rootdir={ROOT}"
    failed = pytest.main([*options, *(f"{ROOT}/tests/{test}" for test in tests)])
    return Outcome(TESTS if failed else SURVIVED, "")


class Trials:
    """Tries the mutants of one file by runs, and those that survive by tests."""

    def __init__(
        self, file: str, runs: Sequence[Case] | None = None, tests: Sequence[str] | None = None
    ) -> None:
        self.file, self.runs = file, cases_of(file) if runs is None else runs
        self.tests = tests_of(file) if tests is None else tests
        program.plain()
        self.right = {run: run.see() for run in self.runs}
        self.limits: dict[tuple[str, str], float] = {}
        gc.freeze()

    def outcome(self, mutant: Mutant) -> Outcome:
        """Try a mutant in processes of its own."""
        outcome = self._of("runs", mutant)
        if outcome.by == SURVIVED and self.tests:
            return self._of("tests", mutant)
        return outcome

    def _of(self, stage: str, mutant: Mutant) -> Outcome:
        """Try a mutant by the runs or by the tests, within the time of the right program."""
        key = stage, mutant.function
        if key not in self.limits:
            self.limits[key] = self._limit(stage, mutant.function)
        by, how, _ = self._found(stage, mutant.function, mutant.code, self.limits[key])
        return Outcome(TESTS if stage == "tests" and by != SURVIVED else by, how)

    def _found(self, stage: str, function: str, code: CodeType, limit_s: float) -> list[str]:
        """The lines of what `_tried` says in a process of its own."""
        found = forked(lambda: self._tried(stage, function, code), limit_s)
        return [CHECKS, found, "0"] if found.startswith(ENDED) else found.split("\n")

    def _tried(self, stage: str, function: str, code: CodeType) -> str:
        """Change a function in this process; returns the outcome and the seconds that it took."""
        program.change(self.file, function, code)
        begin = time.process_time()
        outcome = by_runs(self.runs, self.right) if stage == "runs" else by_tests(self.tests)
        how = " ".join(outcome.how.split())
        return "\n".join((outcome.by, how, str(time.process_time() - begin)))

    def _limit(self, stage: str, function: str) -> float:
        """Seconds that a mutant of a function may take; the right one must give what is right."""
        code = program.right_codes(self.file)[function]
        by, how, seconds = self._found(stage, function, code, 1000.0)
        if by != SURVIVED:
            raise RuntimeError(f"{self.file}: {function}: the right program fails: {by} {how}")
        return LEAST_S + SLOWER * float(seconds)


class Explained:
    """The mutants of a file that are right, too, with the reasons, from `explained.toml`.

    ``changes`` lists statements as mutants have them, ``statements`` those of the right program of
    which every mutant that survives is right; each after the function and a colon.
    """

    def __init__(self, file: str, path: Path = EXPLAINED) -> None:
        entries = [e for e in tomllib.loads(path.read_text())["mutants"] if e["file"] == file]
        self.reasons = {
            name: entry["reason"]
            for entry in entries
            for name in (*entry.get("changes", ()), *entry.get("statements", ()))
        }
        self.used: set[str] = set()

    def has(self, mutant: Mutant) -> bool:
        """Whether a mutant is explained; notes the entry as used."""
        names = {mutant.change, mutant.statement} & self.reasons.keys()
        self.used |= names
        return bool(names)

    def unused(self) -> list[str]:
        """The entries that explain no survivor."""
        return sorted(self.reasons.keys() - self.used)


def main() -> int:
    """Try the mutants of each file and print the scores; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument(
        "--of", default="", help="only the mutants of functions with this in their name"
    )
    parser.add_argument("--verbose", action="store_true", help="print every outcome")
    parser.add_argument("--known", action="store_true", help="write known.json, try nothing")
    parser.add_argument(
        "--stale", action="store_true", help="list files with other mutants than were tried"
    )
    parser.add_argument(
        "--tests", nargs="*", metavar="FILE", default=(), help="which try mutants of numbers"
    )
    parser.add_argument(
        "--reach", metavar="FILE", type=Path, help="keep there what each test reaches"
    )
    parser.add_argument("--processes", metavar="N", type=int, default=2, help="at once, if so")
    options = parser.parse_args()
    if options.known:
        KNOWN.write_text(json.dumps(known(), indent=1) + "\n")
        return 0
    if options.stale:
        print(*stale(matching((*PHYSICS, *NUMBERS))), sep="\n")
        return 0
    chosen = options.files or matching((*PHYSICS, *NUMBERS))
    of_numbers = set(matching(NUMBERS))
    open_ones = sum(tried(file, options) for file in chosen if file not in of_numbers)
    return int(open_ones + by_all_tests([f for f in chosen if f in of_numbers], options) > 0)


def chosen_of(file: str, options: Any) -> list[Mutant]:
    """The mutants of a file that are to be tried."""
    return [mutant for mutant in mutants_of(file) if options.of in mutant.function]


def tried(file: str, options: Any) -> int:
    """Try mutants of one file; returns how many survive without an explanation."""
    every = chosen_of(file, options)
    if not every:
        return 0
    trials, outcomes = Trials(file), Outcomes(file, options)
    for mutant in every:
        outcomes.add(mutant, trials.outcome(mutant))
    return outcomes.end()


def by_all_tests(chosen: Sequence[str], options: Any) -> int:
    """Try mutants of files of numbers; returns how many survive without an explanation."""
    every = [mutant for file in chosen for mutant in chosen_of(file, options)]
    outcomes = {file: Outcomes(file, options) for file in chosen}
    left = Counter(mutant.file for mutant in every)

    def see(mutant: Mutant, killed_by: str) -> None:
        by = SURVIVED if killed_by in ("", numbers.UNREACHED) else TESTS
        outcomes[mutant.file].add(mutant, Outcome(by, killed_by))
        left[mutant.file] -= 1
        if not left[mutant.file]:
            outcomes[mutant.file].end()

    if every:
        trials = numbers.Trials(every, see, matching(NUMBERS), options.reach, options.processes)
        numbers.try_all(options.tests, trials)
    return sum(one.counts[SURVIVED] for one in outcomes.values())


class Outcomes:
    """What became of the mutants of a file: said, counted, and at the end written."""

    def __init__(self, file: str, options: Any) -> None:
        self.file, self.options = file, options
        self.explained, self.counts, self.begin = Explained(file), Counter[str](), time.monotonic()

    def add(self, mutant: Mutant, outcome: Outcome) -> None:
        """Note what became of a mutant, and say if it survives."""
        survives = outcome.by == SURVIVED
        by = EXPLAINED_TOO if survives and self.explained.has(mutant) else outcome.by
        self.counts[by] += 1
        if by == SURVIVED or self.options.verbose:
            print(f"{by}: {mutant} {outcome.how}".rstrip(), flush=True)

    def end(self) -> int:
        """Say and write the score; returns how many survive without an explanation."""
        found, seconds = score(self.counts), time.monotonic() - self.begin
        print(f"{self.file}: {json.dumps(found)}, {seconds:.0f} s", flush=True)
        if not self.options.of:
            for name in self.explained.unused():
                print(f"explained, but does not survive: {self.file}: {name}")
            keep(self.file, found)
        return self.counts[SURVIVED]


def score(counts: Mapping[str, int]) -> dict[str, int]:
    """The entry of a file in the results, given how many mutants had each outcome."""
    killed = {f"killed by {how}": counts[how] for how in (CHECKS, RESULTS, TESTS)}
    total = {"mutants": sum(counts.values()), "killed": sum(killed.values())}
    return total | killed | {"explained": counts[EXPLAINED_TOO], "unexplained": counts[SURVIVED]}


def keep(file: str, found: dict[str, int]) -> None:
    """Write the entry of a file to the results."""
    row = {**found, "digest": digest(file)}
    RESULT.write_text(json.dumps(dict(sorted({**results(), file: row}.items())), indent=1) + "\n")


def results() -> dict[str, Any]:
    """What became of mutants, by file."""
    found: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    return found


def digest(file: str) -> str:
    """A hash of all mutants of a file: another one if a function has changed."""
    changes = "\n".join(mutant.change for mutant in mutants_of(file))
    return hashlib.sha256(changes.encode()).hexdigest()[:12]


def stale(files: Sequence[str]) -> list[str]:
    """The files whose mutants are not those that were tried."""
    tried_ones = results()
    some = [file for file in files if mutants_of(file)]
    return [file for file in some if tried_ones.get(file, {}).get("digest") != digest(file)]


if __name__ == "__main__":
    sys.exit(main())
