"""What a file of tests catches alone: ``PYTHONPATH=tests python -m mutation.by_file [FILE]``.

For a file of tests mutants are drawn in statements that it reaches, those first that few others
reach. Its tests try each; if one fails, the tests of all other files try the mutant, too. So a file
that catches nothing alone may repeat what others say. Tests that start processes or take seconds
show nothing here. There are no mutants of kernels, which `mutation.run` tries, and none of files
that delete something or end processes.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from mutation import numbers
from mutation.files import ROOT, matching
from mutation.numbers import Items, Reach
from mutation.operators import Mutant, mutants_of
from mutation.processes import at_once

RESULT = Path(__file__).with_suffix(".json")
SOURCES = (
    *("miniapps/**/*.py", "drivers/**/*.py", "communication/**/*.py", "workbench/**/*.py"),
    "lessons/checking/*.py",
)
OF_FUNCTION = 3  # mutants of one function, at most, for a file of tests
# In these files a mutant could delete what belongs to others, or end their processes.
CLEANS_UP = re.compile(r"rmtree|unlink|rmdir|os\.remove|kill|terminate|orphan")
COUNTS = "tried", "caught", "alone"  # of a file's mutants
NOT_TRIED = "-m", "not slow and not launch"
Job = tuple[str, Mutant]  # a file of tests, and a mutant that it reaches


class Trials(numbers.Trials):
    """A plugin of pytest that tries mutants in place of making tests.

    ``files``: those of tests, empty for all; ``most``: how many mutants to try for each.
    """

    def __init__(self, files: Sequence[str], known: Path | None, most: int, processes: int) -> None:
        super().__init__((), lambda *_: None, sources(), known, processes)
        self.chosen, self.most = files, most
        self.found = defaultdict[str, Counter[str]](Counter)

    def try_mutants(self, items: Items, reach: Mapping[str, Reach]) -> None:
        """Try mutants for each file of tests; ``found`` has the counts."""
        tests = {file_of(test) for test in reach}
        chosen = [
            file for file in sorted(tests) if not self.chosen or Path(file).name in self.chosen
        ]
        jobs = list(drawn(reach, chosen, self.most))
        gc.freeze()
        by_whom = at_once(partial(killers, items, reach), jobs, self.processes)
        for (file, mutant), (own, other) in zip(jobs, by_whom, strict=True):
            counts = 1, bool(own), bool(own) and not other
            self.found[file].update(dict(zip(COUNTS, map(int, counts), strict=True)))
            if own and not other:
                print(f"{file}: {own} alone: {mutant}", flush=True)


def sources() -> list[str]:
    """The files of which there are mutants."""
    found = (file for file in matching(SOURCES) if not file.endswith("faults.py"))
    return [file for file in found if not CLEANS_UP.search((ROOT / file).read_text())]


def file_of(test: str) -> str:
    """The file of a test, by its name in pytest."""
    return test.partition("::")[0]


def drawn(reach: Mapping[str, Reach], chosen: Sequence[str], most: int) -> Iterator[Job]:
    """Mutants for some files of tests, in the statements that fewest other files reach."""
    reached_by = defaultdict[tuple[str, int], set[str]](set)
    for test, one in reach.items():
        for file, lines in one.lines.items():
            for line in lines:
                reached_by[file, line].add(file_of(test))
    draw = random.Random(3)
    for tests in chosen:
        mine = [place for place, files in reached_by.items() if tests in files]
        of_function, count = Counter[tuple[str, str]](), 0
        for file, line in sorted(mine, key=lambda at: (len(reached_by[at]), draw.random())):
            here = [mutant for mutant in mutants_of(file) if mutant.line == line]
            if not here or of_function[file, here[0].function] == OF_FUNCTION:
                continue
            of_function[file, here[0].function] += 1
            yield tests, draw.choice(here)
            count += 1
            if count == most:
                break


def killers(items: Items, reach: Mapping[str, Reach], job: Job) -> tuple[str, str]:
    """The test of the file that kills the mutant, and if so one of another file; else ""."""
    file, mutant = job
    own = {test: one for test, one in reach.items() if file_of(test) == file}
    others = {test: one for test, one in reach.items() if file_of(test) != file}
    by = numbers.killer(items, own, mutant)
    other = numbers.killer(items, others, mutant) if by else ""
    return by, "" if other == numbers.UNREACHED else other


def summary() -> str:
    """The results as a sentence."""
    found: dict[str, dict[str, int]] = json.loads(RESULT.read_text())
    tried, caught, alone = (sum(one[key] for one in found.values()) for key in COUNTS)
    repeated = sum(not one["alone"] for one in found.values())
    return (
        f"Of {tried} mutants, {caught} are caught by the file for which they were drawn, "
        f"and {alone} of these ({100 * alone / caught:.0f} %) by no other; "
        f"{repeated} of {len(found)} files catch none alone."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants for files of tests, write the counts; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="of tests; default: all")
    parser.add_argument("--most", type=int, default=8, help="mutants for each file of tests")
    parser.add_argument("--reach", metavar="FILE", type=Path, help="what each test reaches")
    parser.add_argument("--processes", metavar="N", type=int, default=2, help="at once")
    options = parser.parse_args(arguments)
    trials = Trials(options.files, options.reach, options.most, options.processes)
    numbers.try_all((), trials, NOT_TRIED)
    kept = json.loads(RESULT.read_text()) if options.files and RESULT.exists() else {}
    kept |= {Path(file).name: dict(counts) for file, counts in trials.found.items()}
    RESULT.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")
    print(summary())
    return 0


if __name__ == "__main__":
    sys.exit(main())
