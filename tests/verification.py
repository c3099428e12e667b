"""What shows that results are right, as one page: ``python tests/verification.py``.

The page, docs/verification.md, contains only numbers from committed result files, which other
commands write. A file that is missing leaves its section out.
"""

from __future__ import annotations

import ast
import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import conditions
from mutation.files import NUMBERS as OF_NUMBERS
from mutation.files import PHYSICS, matching

from miniapps.workbench.run.stall import IDLE
from miniapps.workbench.selftest import numbered
from miniapps.workbench.selftest.trials import ran_out_of_time

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/verification.md"
SELFTEST = ROOT / "tests/selftest.jsonl"
SCHEDULES = ROOT / "benchmarks/results/schedules.json"
MUTATION = ROOT / "tests/mutation/results.json"
ORDERING = ROOT / "docs/adversary.md"
KILLS = ROOT / "tests/kills.json"
FLIPS = ROOT / "benchmarks/results/flips.json"
FUZZ = ROOT / "tests/fuzz/results.json"
PRESETS = "tiny", "small", "large"
NUMBERS = numbered.PRESET  # in place of a preset, in lines of faults that no app or driver has
REFERENCE, AUDIT, ENDS = "differs from reference", "audit: ", "ends: "
HEAD = """# Why trust a number from this program?

For scientists who use its results, and for reviewers. `make verification` writes this page from
the results of the commands that it names; each section says how to make them again.

Every run of an app gives the same bits under every driver, on every number of PEs and in every
decomposition. So runs are compared without a tolerance: one different bit is a mistake. A run is
valid only if its own checks hold, and only a valid run reports times
([validation.md](validation.md)). This page is about the checks themselves: what they were shown to
find."""

Rows = list[dict[str, Any]]


def prose(text: str) -> str:
    """Headings and paragraphs, separated by empty lines, each filled to the width of a page."""
    parts = (" ".join(part.split()) for part in text.split("\n\n"))
    how: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return "\n\n".join(textwrap.fill(part, 120, **how) for part in parts) + "\n\n"


def table(columns: list[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def trials(lines: Iterable[str]) -> Rows:
    """The trials in which a fault acted, the newest of each, from lines of JSON.

    Where the right program failed too, as on a machine that is too slow, its trials show nothing;
    nor does a run that was ended while it still computed.
    """
    found = [json.loads(line) for line in lines]
    every = [in_time(trial) for trial in found if trial["preset"] != NUMBERS]
    newest = {(t["preset"], t["app"], t["driver"], t["fault"]): t for t in every}
    return [
        trial
        for (*where, fault), trial in newest.items()
        if fault and trial["acted"] and not newest[*where, None]["caught"]
    ]


def in_time(trial: dict[str, Any]) -> dict[str, Any]:
    """The trial; if its run only ran out of time, as one in which nothing caught the fault."""
    late = trial["fault"] is not None and ran_out_of_time(trial["caught"])
    return trial | {"caught": "", "allowed": "**ran out of time**"} if late else trial


def left_out(lines: Iterable[str]) -> str:
    """Where the right program failed, so that `trials` has none."""
    rights = (trial for trial in map(json.loads, lines) if trial["fault"] is None)
    newest = {(t["preset"], t["app"], t["driver"]): t for t in rights}
    places = sorted(" ".join(where) for where, trial in newest.items() if trial["caught"])
    head = "Left out, because the right program failed there too:"
    return prose(f"{head} {', '.join(places)}.") if places else ""


def kinds_of(trial: dict[str, Any]) -> dict[str, list[str]]:
    """The checks that caught a fault, by their kind."""
    if trial["caught"].startswith(ENDS) and IDLE in trial["caught"]:
        return {"the limit of time without progress, in a deadlock": []}
    if trial["caught"].startswith(ENDS):
        return {"an error that ends the run": []}
    found: dict[str, list[str]] = {}
    for check in trial["caught"].split(", "):
        kind = "audits" if check.startswith(AUDIT) else "the app's own checks"
        kind = "comparison with the reference" if check == REFERENCE else kind
        found.setdefault(kind, []).append(check.removeprefix(AUDIT))
    return found


def faults() -> str:
    """Faults caught at which size and by which check."""
    every = trials(SELFTEST.read_text().splitlines())
    sizes = [size for size in PRESETS if any(t["preset"] == size for t in every)]
    drivers = sorted({t["driver"] for t in every})
    rows = []
    for size in sizes:
        for driver in drivers:
            some = [t for t in every if (t["preset"], t["driver"]) == (size, driver)]
            caught = [t for t in some if t["caught"]]
            later = sum(t["every_round_audited"] for t in caught)
            different = len({t["fault"] for t in some})
            if some:
                rows.append([size, driver, different, len(some), len(caught), later])
    names = ["size", "driver", "faults", "trials", "caught", "... once every round was audited"]
    return (
        prose(f"""## Known mistakes

`miniapps selftest` makes mistakes in the running program, one at a time, and requires that the
run becomes invalid or ends. {len({t["fault"] for t in every})} different mistakes act in at
least one app and driver: wrong formulas, halos, messages, reductions, migrations, hashes,
results, audits. A trial is one mistake in one app under one driver. `tiny` problems are
compared with a second program, the reference. `small` and `large` are the presets of these
names, with few steps: up to 134 million cells, 20 million particles or 256 000 atoms. At these
sizes only echo has a reference. LeanMD by pairs takes long: it is left out at `large`, and at
`small` some of its trials under charm were drawn at random. Simulated GPUs run `tiny` only.
[What is a fault](validation.md#do-the-checks-see-mistakes).""")
        + table(names, rows)
        + "\n"
        + left_out(SELFTEST.read_text().splitlines())
        + caught_by(every, sizes)
        + "\n"
        + not_seen(every)
    )


def caught_by(every: Rows, sizes: list[str]) -> str:
    """Which kinds of checks caught how many trials, and which checks of each kind."""
    seen: dict[str, Counter[str]] = {size: Counter() for size in sizes}
    alone: dict[str, Counter[str]] = {size: Counter() for size in sizes}
    named: dict[str, Counter[str]] = {}
    for trial in every:
        kinds = kinds_of(trial) if trial["caught"] else {}
        seen[trial["preset"]].update(kinds.keys())
        alone[trial["preset"]].update(kinds.keys() if len(kinds) == 1 else ())
        for kind, names in kinds.items():
            named.setdefault(kind, Counter()).update(names)
    rows = [
        [
            kind,
            *(f"{seen[size][kind]} ({alone[size][kind]})" for size in sizes),
            ", ".join(f"{name} {n}" for name, n in checks.most_common()),
        ]
        for kind, checks in sorted(named.items())
    ]
    head = "Trials that each kind of check caught (and those that no other kind caught):\n\n"
    return head + table(["caught by", *sizes, "checks, with their trials"], rows)


def not_seen(every: Rows) -> str:
    """The trials that nothing caught, with the reasons."""
    missed: dict[tuple[str, str, str], set[str]] = {}
    for trial in every:
        if not trial["caught"]:
            about = trial["fault"], trial["app"], trial["allowed"] or "**survives**"
            missed.setdefault(about, set()).add(trial["preset"])
    if not missed:
        return "No fault survives.\n"
    rows = [
        [fault, app, ", ".join(s for s in PRESETS if s in sizes), reason]
        for (fault, app, reason), sizes in sorted(missed.items())
    ]
    head = "Not caught, with the reason:\n\n"
    return head + table(["fault", "app", "sizes", "reason"], rows)


def of_numbers() -> str:
    """Faults of numbers, from the same file."""
    return numbers(SELFTEST.read_text().splitlines())


def numbers(lines: Iterable[str]) -> str:
    """Faults of times, units, statistics and figures, and what saw them; they belong to no app."""
    tried = (t for t in map(json.loads, lines) if t["preset"] == NUMBERS)
    known = {change.key for change in numbered.chosen("", None)}  # others are of earlier lines
    newest = {t["fault"]: t for t in tried if t["fault"] in known}
    files = sorted({t["app"] for t in newest.values()})
    rows = []
    for file in files:
        some = [t for t in newest.values() if t["app"] == file]
        by_run = [t for t in some if t["caught"] and t["driver"] == "run"]
        by_test = [t for t in some if t["caught"] and t["driver"] != "run"]
        rows.append([f"`{file}`", len(some), len(by_run), len(by_test)])
    rows.append(["all", *(sum(row[n] for row in rows) for n in (1, 2, 3))])  # type: ignore[misc]
    missed = [name for name, trial in newest.items() if not trial["caught"]]
    said = f"Not caught: {', '.join(missed)}." if missed else "All are caught."
    return prose(f"""## Mistakes about numbers

The checks of a run concern its bits, not its times. So `miniapps selftest` also changes
{len(newest)} single lines, one at a time, that decide a time, a unit, a statistic, a figure or an
exported number. Each change must be detected, either by a run, whose times or record then
contradict themselves ([timing.md](timing.md#independent-clocks)), or by a test that the fault
names, such as one whose clock only advances by known work. {said}""") + table(
        ["file", "faults", "caught by a run", "caught by a test"], rows
    )


def orders() -> str:
    """Schedules tried, and ordering bugs found."""
    apps = json.loads(SCHEDULES.read_text())["results"]
    rows = [
        [app, f"{one['schedules']:,}", one["pairs"], one["pairs_in_both_orders"], one["states"]]
        for app, one in sorted(apps.items())
    ]
    names = ["app", "schedules", "pairs of events", "seen in both orders", "different results"]
    return (
        prose("""## Orders of messages

`miniapps adversary` runs an app in many orders of messages, turns, reductions and migrations
([adversary.md](adversary.md)), here by `python -m benchmarks.resilience.schedules`. One result
means that all orders gave the same bits:""")
        + table(names, rows)
        + "\n"
        + bugs()
    )


def bugs() -> str:
    """How the mistakes of `ordering_bugs` were found, from the table that it writes."""
    found = re.findall(r"^\| [^|]+ \| (\d+) \| (\d+) \| (\d+) \| block", ORDERING.read_text(), re.M)
    schedules, _, needed = zip(*(map(int, row) for row in found), strict=True)
    return prose(f"""The search itself is tested by {len(found)} programs with one ordering bug
each, such as stale buffers, messages found without step or phase, state left behind in a migration,
or sums in the order of arrival. All {len(found)} are found, within {max(schedules)} schedules,
reduced to at most {max(needed)} exceptions from the usual order, and located: block, step and
message ([table](adversary.md#does-it-find-mistakes)).""")


def mutants() -> str:
    """The mutation score per file: kernels and blocks, and files of numbers."""
    files = json.loads(MUTATION.read_text())
    by_all = "killed by checks", "killed by results", "killed by tests"
    physics, numbers = (
        mutant_table({file: files[file] for file in matching(patterns) if file in files}, killed)
        for patterns, killed in ((PHYSICS, by_all), (OF_NUMBERS, ["killed"]))
    )
    head = prose("""## Mutants

A mutant is the program with one operator, comparison, constant or statement of a file changed
([checks.md](checks.md#mutation)). A mutant of a kernel or a block is killed by *checks* if a run
fails or is not valid, by *results* if all runs are valid but one gives another result, and by
*tests* if only a test fails. A mutant that survives is *explained* if it cannot change a result.
Counts are those of the day on which a file's mutants were tried: `python -m mutation.run --stale`
lists the files whose functions have changed since.""")
    between = prose("""The next files compute times, units, statistics and figures, which no state
shows. So their mutants are killed only by a test that fails. Changes of a figure's layout, such as
the size of a margin, are explained, too.""")
    return f"{head}{physics}\n{between}{numbers}"


def mutant_table(files: dict[str, dict[str, int]], killed: Iterable[str]) -> str:
    """Scores per file and of all; ``killed``: the keys of columns of mutants that were killed."""
    keys = "mutants", *killed, "explained"
    total = {key: sum(one[key] for one in files.values()) for key in (*keys, "killed")}
    entries = [*((f"`{file}`", one) for file, one in sorted(files.items())), ("all", total)]
    rows = [[name, *(one[key] for key in keys), score(one)] for name, one in entries]
    return table(["file", *keys, "killed or explained"], rows)


def score(one: dict[str, int]) -> str:
    """The share of mutants that were killed or explained."""
    done = one["killed"] + one["explained"]
    return f"{math.floor(1000 * done / one['mutants']) / 10:g} %" if one["mutants"] else "-"


def kills() -> str:
    """Kills survived."""
    found = json.loads(KILLS.read_text())
    cases = found["cases"]
    rows = []
    for driver in sorted({case["driver"] for case in cases}):
        for signal in sorted({case["signal"] for case in cases}):
            some = [c for c in cases if (c["driver"], c["signal"]) == (driver, signal)]
            if some:
                good, longest = sum(c["ok"] for c in some), max(c["seconds"] for c in some)
                rows.append([driver, signal, len(some), good, f"{longest:.1f} s"])
    return prose(f"""## Runs that are killed

`python tests/kills.py` sends signals to the launcher and to the launched processes of runs: at the
start, between steps, while load is balanced, while output is written. A run is right if it ends
within {found["limit_s"]:g} s, says why in one line, and leaves no process, file or shared memory. A
run that is only slowed down, for 2.5 s, must end with the right result within the
same time.""") + table(["driver", "signal", "runs", "right", "longest"], rows)


def inputs() -> str:
    """Inputs tried."""
    kinds = json.loads(FUZZ.read_text())
    kinds = kinds.get("kinds", kinds)
    keys = "inputs", "accepted", "refused", "memory factor", "failures"
    rows = [[kind, *(f"{one[key]:,}" for key in keys)] for kind, one in kinds.items()]
    return prose("""## Damaged input

`python tests/fuzz/run.py` changes command lines and files at random and keeps those that reach
new branches of the program ([what is a failure](checks.md#fuzzing)). Each must be accepted, or
refused in one line, within 5 s of CPU time, without writing a file that it does not name. Reading
may take 128 MiB of memory plus the input's size times the
factor.""") + table(["kind", *keys], rows)


def flips() -> str:
    """What runs notice of bits that flip in memory, and what noticing all would cost."""
    results = json.loads(FLIPS.read_text())["results"]
    kinds = list(dict.fromkeys(kind for one in results.values() for kind in one["flips"]))
    rows = [
        [name, *(one["flips"].get(kind, 0) for kind in kinds), f"{100 * one['share']:.0f} %"]
        for name, one in results.items()
    ]
    return prose("""## Errors of the machine

Checks are made for mistakes in programs. In memory without error correction a bit may flip, which
no check is sure to find: only computing everything again shows that the last bit of one of a
million cells is wrong. `python -m benchmarks.resilience.flips` flips one random bit of a block's
state between two rounds, in 25 runs of each app. All flips that have an effect are found only in
the matrices of transpose and the grids of amr, whose checks compare every value with an exact one.

A hash of each block at the end of a round, compared at the start of the next one, would find all of
these flips, though none within a round. Even if hashing took no longer than reading the memory, it
would take the share of a run in the last column; checks may take 1 %, so there is no such hash. To
be sure of a result, make the run twice: two runs, in whatever decomposition, must have the same
state hash.""") + table(["app", *kinds, "a hash of all blocks"], rows)


def branches() -> str:
    """How many conditions the kernels have, all of which tests evaluate with both outcomes."""
    rows = []
    for folder in sorted((ROOT / "kernels").glob("*/")):
        found: conditions.Outcomes = {}
        for file in sorted(
            {*folder.glob("cpu.py"), *folder.glob("cpu/*.py"), *folder.glob("initial.py")}
        ):
            conditions.Conditions(file.stem, found).visit(ast.parse(file.read_text()))
        if found:
            rows.append([folder.name, len(found)])
    return prose("""## Branches of kernels

`tests/test_kernel_conditions.py` runs the CPU kernels as plain Python, on problems as small as
the preset `tiny` and on runs that must fail, and requires that every condition was both true
and false.""") + table(["kernels", "conditions"], rows)


SECTIONS = {
    faults: SELFTEST,
    of_numbers: SELFTEST,
    orders: SCHEDULES,
    mutants: MUTATION,
    kills: KILLS,
    inputs: FUZZ,
    flips: FLIPS,
    branches: ROOT / "tests/test_kernel_conditions.py",
}


def page() -> str:
    """The page, from the result files that there are."""
    parts = [section() for section, file in SECTIONS.items() if file.exists()]
    return "\n".join(part.rstrip() + "\n" for part in [prose(HEAD), *parts])


if __name__ == "__main__":
    PAGE.write_text(page())
