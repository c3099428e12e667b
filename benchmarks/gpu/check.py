"""``make gpu-check``: all checks that need a GPU.

It begins with one file of tests and one tiny run, also under memcheck. Then it has three parts: the
tests of tests/gpu on the device; every app at full size under every driver, also with load
balancing and in single precision, where runs must be valid and have the state hash of a run on the
CPU; and NVIDIA's sanitizers on small runs. A failure does not end it. After every step the results
are written to validation.json, from which `validation.py` later finds the kernels that have
changed. It stops after nine minutes. If called again with the same files, packages and GPU, it
continues with the steps that have not passed.

    python -m benchmarks.gpu.check --steps memcheck    only steps with this first word, or name
    python -m benchmarks.gpu.check --steps "* charm,synccheck"    like one of these patterns

Exit status: 0 all passed, 1 something failed, 2 there is no GPU to check on.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import itertools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from benchmarks.common import revision
from benchmarks.gpu.validation import ROOT, VALIDATION, kernel_cache, program, read, sources
from miniapps.devices.cuda import driver_info as nvidia
from miniapps.workbench import environment
from miniapps.workbench.run.replaced import write_text

TOTAL_S = 520.0
TESTS_S, RUN_S, SANITIZER_S = 150.0, 60.0, 60.0
TEST_S = 60  # of one test: pytest ends a process whose test hangs in a call of the driver
MOST_FAILED = "12"  # tests: more would take too long if they hang
MOST_HANGS = 2  # steps of a kind that take too long; then no other one is tried
FIRST_FILE, LAUNCHED = "tests/gpu/test_stencils_gpu.py", "tests/gpu/test_drivers_gpu.py"
TAIL, WIDTH = 40, 400  # lines that are shown of a step that fails, and characters of a line
WORKERS = 4  # processes of tests, or runs under sanitizers, on one GPU at the same time
SMALL = "tiny"
MOST_RANKS = 8  # of the run on the CPU
MIGRATING = "--balancer Rotate --lb-period 40"
CONFIGURATIONS = {  # in all but the first, two processes share the GPU
    "serial": "--driver serial",
    "mpi": "--driver mpi -n 2",
    "charm": f"--driver charm -n 2 --odf 4 {MIGRATING}",
    "staged": f"--driver charm -n 2 --odf 4 --gpu-ipc off {MIGRATING}",
    "pairs": f"--driver charm -n 2 --decomposition pairs {MIGRATING}",
}
USUAL = ("serial", "mpi", "charm")
# Not initcheck: arrays have unused entries that are never written, and copies include them.
TOOLS = {  # Python packages provoke some API errors on purpose, and raise the others
    "memcheck": ("--report-api-errors", "no"),
    "racecheck": (),
    "synccheck": (),
}
# Small runs for the sanitizers: with halos, emigrants, ghosts and residuals, in both precisions,
# with several sweeps at once, and by pairs.
WATCHED = {
    "jacobi2d": "--pe-grid 2x2 --time-tile 7 --tolerance 1e-30 --check-every 7",
    "jacobi2d float32": "--pe-grid 2x2 --boundary periodic --dtype float32 --time-tile 7",
    "stencil3d": "--pe-grid 2x1x2 --time-tile 3",
    "stencil3d float32": "--pe-grid 1x2x1 --dtype float32 --time-tile 3",
    "pic": "--pe-grid 2x2",
    "leanmd": "--pe-grid 2x2x1",
    "cg": "--pe-grid 2x2x1 --preconditioner sgs",
    "transpose": "--pe-grid 3x1",
    "amr": "--pe-grid 2x1",
    "amr float32": "--pe-grid 1x2 --dtype float32",
    "leanmd float32": "--pe-grid 2x1x1 --dtype float32",
    "leanmd pairs": "--decomposition pairs",
}
SANITIZER = "compute-sanitizer"


class Case(NamedTuple):
    """A problem at full size, and the configurations in which it runs on the GPU.

    All runs end in the state of the run on the CPU.
    """

    words: str
    configurations: tuple[str, ...] = USUAL


CASES = {
    "jacobi2d": Case("--preset large", (*USUAL, "staged")),
    "stencil3d": Case("--preset large"),
    "pic": Case("--preset large"),
    "leanmd": Case("--preset large"),
    "cg": Case("--preset large --solution noise"),
    "transpose": Case("--preset large --steps 45"),  # more than a period of load balancing
    "amr": Case("--preset large"),
    "leanmd paper": Case("--preset paper", ("pairs",)),
    "jacobi2d float32": Case("--preset large --dtype float32", ("mpi",)),
    "stencil3d float32": Case("--preset large --dtype float32", ("mpi",)),
    "leanmd float32": Case("--preset large --dtype float32", ("mpi",)),
}
FOUND = 9  # exit status of a sanitizer that found something
PACKAGES = ("numba", "numba-cuda", "cupy-cuda13x", "numpy", "mpi4py", "charm4py")
OK, FAILED, NO_GPU = 0, 1, 2
# Failures of steps that lacked time, and of a check that was not made to its end.
LATE = NO_TIME, CUT_OFF = "not run: no time left", "no time left to end it"
HANG = f"not run: {MOST_HANGS} of its kind took too long"
UNFINISHED = "it has not ended"
FORKED = "CUDA initialized before forking"  # a failure of charm at revision b3821c8


class Done(NamedTuple):
    """A command that has ended, or was killed at its time limit (status None)."""

    status: int | None
    stdout: str
    stderr: str = ""

    @property
    def last_words(self) -> str:
        """The last line of its output."""
        said = f"{self.stdout}\n{self.stderr}".strip().splitlines()
        return said[-1].strip()[:WIDTH] if said else "it said nothing"

    @property
    def tail(self) -> str:
        """The last lines of its output; a record is a line of many thousand characters."""
        lines = f"{self.stdout}\n{self.stderr}".strip().splitlines()[-TAIL:]
        return "\n".join(line[:WIDTH] for line in lines)


Runner = Callable[[list[str], float], Done]  # command, time limit in seconds


@dataclass
class Findings:
    """The results so far."""

    tests: dict[str, int] = field(default_factory=dict)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)  # those that have passed
    sanitizer: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)  # by step
    done: list[str] = field(default_factory=list)  # steps that have passed

    def restore(self, written: Mapping[str, Any]) -> None:
        """Restore the results that an earlier call has written."""
        self.tests, self.runs = written["tests"], written["runs"]
        self.sanitizer, self.done = written["sanitizer"], written["done"]
        lines = [line.partition(": ") for line in written["failures"] if line != UNFINISHED]
        self.failures = {name: why for name, _, why in lines}


class Step(NamedTuple):
    """A command, and a function that stores its results and returns an error line, if any."""

    name: str
    command: list[str]
    limit_s: float
    validate: Callable[[Done, Findings], str | None]
    kind: str = ""  # its configuration or tool
    shares: bool = False  # whether others of this kind may run at the same time


# Steps -------------------------------------------------------------------------------------------


def steps(python: str, sanitizer: str | None, cores: int) -> Iterator[Step]:
    """All steps, the most informative first, because time may run out.

    What only a GPU can show of each app comes before other drivers, precisions and tools.
    """
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--require-gpu"]
    pytest += ["--timeout", str(TEST_S), "--timeout-method", "thread"]
    miniapps = [python, "-m", "miniapps.workbench.cli", "run"]
    sanitized = {step.name: step for step in _sanitizer_steps(miniapps, sanitizer)}
    first = [*pytest, "--maxfail", "3", FIRST_FILE]  # all tests run later, and count
    yield Step("first tests", first, RUN_S, lambda done, _: validate_tests(done, Findings()))
    name = next(iter(WATCHED))
    small = [*miniapps, name, "--preset", SMALL, *WATCHED[name].split(), "--device", "gpu"]
    yield Step("first run", [*small, "--json", "-"], RUN_S, lambda done, _: wrong_with(done, "gpu"))
    yield sanitized.pop(f"memcheck {name}")
    pytest += ["--maxfail", MOST_FAILED, *in_parallel(cores)]
    yield Step("tests", [*pytest, "--ignore", LAUNCHED, "tests/gpu"], TESTS_S, validate_tests)
    # Apart, because runs that hang would end the others. Only the others are counted.
    launched = [*pytest, LAUNCHED]
    yield Step(
        "launched tests", launched, TESTS_S, lambda done, _: validate_tests(done, Findings())
    )
    left = {step.name: step for step in _large_runs(miniapps, cores)} | sanitized
    for app in [name for name, case in CASES.items() if {*USUAL} <= {*case.configurations}]:
        for early in (f"{app} cpu", f"{app} serial", f"memcheck {app}", f"racecheck {app}"):
            if early in left:
                yield left.pop(early)
    yield from left.values()


def in_parallel(cores: int) -> list[str]:
    """The options of pytest that distribute tests to several processes, if it can."""
    if importlib.util.find_spec("xdist") is None:
        return []
    return ["-n", str(min(WORKERS, cores)), "--dist", "worksteal"]


def _large_runs(miniapps: list[str], cores: int) -> Iterator[Step]:
    """The runs at full size."""
    for name, case in CASES.items():
        full = [*miniapps, name.split()[0], *case.words.split(), "--json", "-"]
        ranks = str(min(MOST_RANKS, cores))
        runs = {"cpu": ["--driver", "mpi", "-n", ranks]}
        for configuration in case.configurations:
            runs[configuration] = ["--device", "gpu", *CONFIGURATIONS[configuration].split()]
        for how, more in runs.items():
            validate = partial(validate_run, name=name, how=how)
            yield Step(f"{name} {how}", [*full, *more], RUN_S, validate, how)


def _sanitizer_steps(miniapps: list[str], sanitizer: str | None) -> Iterator[Step]:
    """The small runs under sanitizers."""
    for tool, more in TOOLS.items():
        watch = ["env", "MINIAPPS_NO_POOL=1", sanitizer or SANITIZER]
        watch += ["--tool", tool, *more, "--error-exitcode", str(FOUND)]
        for name, words in WATCHED.items():
            small = [*miniapps, name.split()[0], "--preset", SMALL, *words.split()]
            command = [*watch, *small, "--device", "gpu"]
            validate = partial(validate_small, name=f"{tool} {name}", there=bool(sanitizer))
            yield Step(f"{tool} {name}", command, SANITIZER_S, validate, tool, shares=True)


def validate_small(done: Done, findings: Findings, name: str, there: bool) -> str | None:
    """Store what a sanitizer says of a small run; that is the error line unless it found nothing.

    ``there``: whether there is a sanitizer.
    """
    found = re.findall(r"SUMMARY: (.*)", done.stdout + done.stderr)  # one per process
    wrong = [said for said in found if not said.startswith("0 ")]
    clean = done.status == 0 and bool(found) and not wrong
    said = (found if clean else [*wrong, how_ended(done)])[0].strip()
    findings.sanitizer[name] = said if there else f"{SANITIZER} not found"
    return None if clean else findings.sanitizer[name]


def validate_tests(done: Done, findings: Findings) -> str | None:
    """Store the counts of tests; an error line unless all passed and there was at least one."""
    last = done.stdout.strip().splitlines()[-1:] or [""]
    findings.tests = {what: int(n) for n, what in re.findall(r"(\d+) ([a-z]+)", last[0])}
    counts = {k: n for k, n in findings.tests.items() if k not in ("warning", "warnings")}
    if done.status == 0 and set(counts) == {"passed"}:
        return None
    return how_ended(done)


def wrong_with(done: Done, device: str) -> str | None:
    """What is wrong with a run that should be valid and have used a device; None if nothing is."""
    try:
        record = json.loads(done.stdout.splitlines()[-1])
        device_of = record["device"]
    except (IndexError, ValueError, TypeError, KeyError):
        return how_ended(done)
    if done.status != 0 or record["valid"] is not True:
        failed = [check["name"] for check in record.get("checks", ()) if not check["ok"]]
        words = ": ".join(["is not valid", *filter(None, [", ".join(failed)])])
        return how_ended(done) if record["valid"] is True else words
    return None if device_of == device else f"ran on {device_of}, not on {device}"


KEPT = ("valid", "state_hash", "rate", "oversubscribed", "migrations", "lb", "transport")


def validate_run(done: Done, findings: Findings, name: str, how: str) -> str | None:
    """Store a run; an error line unless it is valid, on its device, in the reference's state."""
    wrong = wrong_with(done, "cpu" if how == "cpu" else "gpu")
    if wrong is not None:
        return wrong
    record = json.loads(done.stdout.splitlines()[-1])
    if MIGRATING in CONFIGURATIONS.get(how, "") and not record["migrations"]:
        return "no block has migrated"
    kept = {word: record.get(word) for word in KEPT}
    if how != "cpu":
        reference = findings.runs.get(f"{name} cpu")
        if reference is None:
            return "there is no run to compare its state with"
        if record["state_hash"] != reference["state_hash"]:
            return "its final state differs"
        kept["same_state"] = True
    findings.runs[f"{name} {how}"] = kept
    return None


def how_ended(done: Done) -> str:
    """The status and the last line of output."""
    status = "took too long" if done.status is None else f"status {done.status}"
    return f"{status}: {done.last_words}"


# Execution ---------------------------------------------------------------------------------------


def check(
    todo: Iterable[Step],
    run: Runner,
    findings: Findings,
    keep: Callable[[bool], None],
    total_s: float = TOTAL_S,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = lambda text: print(text, flush=True),
) -> None:
    """Run all steps that have not passed and for which time is left, and report each result.

    ``keep`` is called with False after each step, and with True at the end.
    """
    begin, hangs = clock(), Counter[str]()
    for group in batches([step for step in todo if step.name not in findings.done]):
        batch = [step for step in group if hangs[step.kind] < MOST_HANGS]
        findings.failures |= {step.name: HANG for step in group if step not in batch}
        if not batch:
            continue
        left = total_s - (clock() - begin)
        if left > 0:
            say(f"[{clock() - begin:4.0f} s] {', '.join(step.name for step in batch)} ...")
        for step, done in zip(batch, run_together(batch, run, left), strict=True):
            wrong = step.validate(done, findings) if left > 0 else NO_TIME
            if done.status is None and 0 < left < step.limit_s:
                wrong = CUT_OFF
            elif done.status is None and left > 0 and step.kind:
                hangs[step.kind] += 1
            if wrong:
                findings.failures[step.name] = wrong
                say(f"{done.tail}\n[{clock() - begin:4.0f} s] {step.name} FAILED: {wrong}")
            else:
                findings.failures.pop(step.name, None)
                findings.done.append(step.name)
        keep(False)
    keep(True)


def batches(todo: Iterable[Step]) -> Iterator[list[Step]]:
    """The steps in turn; up to `WORKERS` that may share the GPU and follow each other together."""
    for shares, group in itertools.groupby(todo, lambda step: step.shares):
        steps = list(group)
        size = WORKERS if shares else 1
        yield from (steps[n : n + size] for n in range(0, len(steps), size))


def run_together(batch: list[Step], run: Runner, left: float) -> list[Done]:
    """The ends of commands that run at the same time; of none if no time is left."""
    if left <= 0:
        return [Done(None, "") for _ in batch]
    with ThreadPoolExecutor(len(batch)) as pool:
        return list(pool.map(lambda step: run(step.command, min(step.limit_s, left)), batch))


def execute(command: list[str], limit_s: float) -> Done:
    """Run a command in the project's folder; at the time limit its process group is killed."""
    places = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, start_new_session=True, **pipes
        )
    except OSError as error:
        return Done(127, "", str(error))
    try:
        stdout, stderr = process.communicate(timeout=limit_s)
        return Done(process.returncode, stdout, stderr)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        return Done(None, stdout, stderr)


def sanitizer_program() -> str | None:
    """The path of the sanitizer: from PATH, from CUDA_HOME, or from NVIDIA's wheel."""
    wheel = Path(sysconfig.get_path("purelib"), "nvidia", "cu13", "bin")
    places = [os.environ.get("PATH", ""), Path(os.environ.get("CUDA_HOME", ""), "bin"), wheel]
    return shutil.which(SANITIZER, path=os.pathsep.join(map(str, places)))


# Results -----------------------------------------------------------------------------------------


def device() -> dict[str, Any] | None:
    """The first GPU and its driver; None if no GPU works."""
    driver = nvidia.library()
    gpus, cuda = nvidia.seen(), nvidia.cuda_version(driver)
    if not gpus or cuda is None:
        return None
    version = nvidia.driver_version() or "unknown"
    return {**gpus[0]._asdict(), "driver": version, "cuda": ".".join(map(str, cuda))}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def document(environment: dict[str, Any], found: Findings, ended: bool) -> dict[str, Any]:
    """The stored results of a validation; one that has not ended has not passed."""
    failures = [f"{step}: {wrong}" for step, wrong in found.failures.items()]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        **environment,
        "passed": ended and not failures,
        "failures": failures if ended else [*failures, UNFINISHED],
        "tests": found.tests,
        "runs": found.runs,
        "sanitizer": found.sanitizer,
        "done": found.done,
    }


def main(
    run: Runner = execute,
    gpu: dict[str, Any] | None = None,
    file: Path = VALIDATION,
    options: argparse.Namespace | None = None,
) -> int:
    """Check, write the results and report; returns the exit status."""
    options = options or arguments([])
    gpu = gpu or device()
    if gpu is None:
        print("gpu-check: there is no NVIDIA GPU with a working driver: nothing was checked")
        return NO_GPU
    print(f"checking on {gpu['name']}, driver {gpu['driver']}", flush=True)
    # Hashed before the checks, because later changes are not checked.
    now = {"device": gpu, "versions": versions(), "sources": sources(), "program": program()}
    found, written = Findings(), read(file)
    begun = written and (options.resume or not written["passed"])
    if written and begun and all(written.get(name) == now[name] for name in now):
        found.restore(written)
    checked = {"revision": revision(), **now}

    def keep(ended: bool) -> None:
        whole = ended and {step.name for step in every} <= {*found.done, *found.failures}
        write_text(file, json.dumps(document(checked, found, whole), indent=1) + "\n")

    every = list(steps(sys.executable, sanitizer_program(), environment.cores()))
    todo = chosen(every, options.steps)
    # The usual cache may have kernels of the CPU with old constants of other files.
    with mock.patch.dict(os.environ, NUMBA_CACHE_DIR=kernel_cache()):
        check(todo, run, found, keep, options.seconds)
    print(f"tests: {found.tests}; {len(found.runs)} runs; {len(found.sanitizer)} sanitizer runs")
    failed = [step.name for step in todo if step.name in found.failures]
    for name in failed:
        print(f"FAILED {name}: {found.failures[name]}")
    print(f"{len(failed)} failures; written to {file.name}")
    return FAILED if failed else OK


def chosen(every: list[Step], patterns: str) -> list[Step]:
    """The steps that ``--steps`` selects, and the runs on the CPU with which they are compared."""
    names = {step.name for step in every if selects(patterns, step.name)}
    names |= {f"{name.rpartition(' ')[0]} cpu" for name in names}
    return [step for step in every if step.name in names]


def selects(patterns: str, name: str) -> bool:
    """Whether ``--steps`` selects a step: without patterns, or one like its name or first word."""
    each = patterns.split(",")
    return not patterns or any(
        fnmatchcase(word, one) for one in each for word in (name, name.split()[0])
    )


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The options; of this process if ``words`` is None."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", default="", help="only those like these patterns")
    parser.add_argument("--resume", action="store_true", help="repeat nothing that has passed")
    parser.add_argument("--seconds", type=float, default=TOTAL_S, help="no step begins later")
    return parser.parse_args(words)


if __name__ == "__main__":
    raise SystemExit(main(options=arguments()))
