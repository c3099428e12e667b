"""Fuzzes all that reads input: ``python tests/fuzz/run.py --inputs 10000``.

Per kind of input one process changes inputs, keeps those that reach new branches of the project,
and lets the project read them within limits of memory and time. Atheris, if it is installed, sees
which branches an input reaches (``pip install -e .[fuzz]``); without it nothing is kept. The
result, a JSON file, lists failures with their inputs in base64. Exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import base64
import faulthandler
import importlib.util
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 5.0  # of a core; an input that needs more hangs
STUCK_S = 600.0  # after which the process ends, if a library does not return
SPARE = 128 << 20  # bytes that an input may take beside its size times the kind's factor
LONGEST = 1 << 18  # bytes of an input that is changed
MOST_SHOWN = 1 << 16  # bytes of a failing input in the result
KINDS = (
    "command line", "TOML", "H5MD", "extended XYZ", "LAMMPS data", "campaign", "record", "schedule",
    "export", "trajectory",
)  # fmt: skip
RESULT = Path(__file__).with_name("results.json")
ROOT = Path(__file__).resolve().parents[2]
COMPILED = "devices", "kernels"  # their branches are not watched: numba compiles what is in them


def main() -> int:
    """Fuzz kinds of input, each in a process of its own; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1000, help="of each kind; default: 1000")
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all")
    parser.add_argument("--seed", type=int, default=1, help="of the changes; default: 1")
    parser.add_argument("--go-on", action="store_true", help="add to the inputs of the result")
    parser.add_argument("--to", type=Path, default=RESULT, help="the result; keeps other kinds")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)  # of the process of a kind
    options = parser.parse_args()
    if options.inside:
        return fuzz(options.kind[0], options.inputs, options.seed, options.inside)
    results = json.loads(options.to.read_text()) if options.to.exists() else {}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for kind in options.kind or KINDS:
        done = results.get(kind, {}) if options.go_on else {}
        if done.get("inputs", 0) >= options.inputs:
            continue
        results[kind] = of_kind(kind, options.inputs, options.seed, done)
        print(f"{kind}: {json.dumps(results[kind] | {'failed': results[kind]['failed'][:3]})}")
        options.to.write_text(json.dumps(results, indent=1) + "\n")
    return int(any(result["failures"] for result in results.values()))


def of_kind(kind: str, inputs: int, seed: int, earlier: dict[str, Any]) -> dict[str, Any]:
    """Fuzz one kind; a process that dies is a failure, and another goes on.

    Ctrl-C ends it; the result is that of the inputs until then. ``earlier``: that of an earlier
    run, to which inputs are added; or empty.
    """
    began, entries, stopped = time.monotonic(), list[dict[str, Any]](), False
    inputs -= earlier.get("inputs", 0)
    seed += earlier.get("inputs", 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "corpus").mkdir()
        while not stopped and len(entries) < inputs and len(failed_of(entries)) < 50:
            words = ["--kind", kind, "--inputs", str(inputs - len(entries)), "--inside", name]
            words = [sys.executable, __file__, *words, "--seed", str(seed + len(entries))]
            (folder / "log").unlink(missing_ok=True)
            with open(folder / "said", "w+") as said:
                try:
                    status = subprocess.call(  # Ctrl-C is for this process alone
                        words,
                        stdin=subprocess.DEVNULL,
                        stdout=said,
                        stderr=said,
                        start_new_session=True,
                    )
                except KeyboardInterrupt:
                    status, stopped = 0, True
                said.seek(0)
                end = " ".join(said.read()[-300:].split())
            log = folder / "log"
            if not (stopped or log.exists()):
                raise SystemExit(f"{kind}: fuzzing did not begin: {end}")
            lines = log.read_text().splitlines() if log.exists() else []
            entries += map(json.loads, lines[: inputs - len(entries)])
            if status:
                last = (folder / "last").read_bytes() if (folder / "last").exists() else b""
                entries.append(failure(f"the process ended with {status}: {end}", last))
        kept = len(list((folder / "corpus").iterdir()))
        about = json.loads((folder / "about").read_text())
    failed = earlier.get("failed", []) + failed_of(entries)
    outcomes = Counter(entry["outcome"] for entry in entries)
    slowest = max((entry.get("seconds", 0) for entry in entries), default=0)
    return {
        "inputs": earlier.get("inputs", 0) + len(entries),
        "accepted": earlier.get("accepted", 0) + outcomes["accepted"],
        "refused": earlier.get("refused", 0) + outcomes["refused"],
        "failures": len(failed),
        **about,
        "of large inputs": max(earlier.get("of large inputs", 0), about["of large inputs"]),
        "kept for new branches": max(earlier.get("kept for new branches", 0), kept),
        "slowest, s of a core": max(earlier.get("slowest, s of a core", 0), slowest),
        "seconds": earlier.get("seconds", 0) + round(time.monotonic() - began),
        "failed": failed,
    }


def failed_of(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The failures among the outcomes of inputs."""
    return [entry for entry in entries if entry["outcome"] == "failed"]


def failure(why: str, data: bytes) -> dict[str, Any]:
    """The entry of an input that failed."""
    shown = base64.b64encode(data[:MOST_SHOWN]).decode()
    return {"outcome": "failed", "why": why, "size": len(data), "input": shown}


def fuzz(kind: str, inputs: int, seed: int, folder: Path) -> int:
    """Fuzz one kind in this process; writes a line per input to the file ``log``."""
    os.environ["XDG_CACHE_HOME"] = os.environ["MPLCONFIGDIR"] = str(folder / "cache")
    targets, guided = imported()
    target = targets.TARGETS[kind]
    targets.SCRATCH = folder
    about = {"memory factor": target.factor, "of large inputs": 0.0, "guided": guided}
    (folder / "about").write_text(json.dumps(about))
    seeds = target.seeds()
    targets.replace_what_runs()
    for data in seeds:  # also imports what is imported late, and compiles
        target.attempt(data)
    signal.signal(signal.SIGPROF, _too_long)
    with open(folder / "log", "w") as log, targets.writes_watched(folder) as written:

        def attempt(data: bytes) -> None:
            (folder / "last").write_bytes(data)
            log.write(json.dumps(tried(target, data, written)) + "\n")
            log.flush()

        large = target.large() if inputs > 100 else []
        used = max([memory_per_byte(attempt, data) for data in large], default=0.0)
        (folder / "about").write_text(json.dumps(about | {"of large inputs": used}))
        if used > target.factor:
            log.write(json.dumps(failure(f"{used:.1f} bytes of memory per byte", b"")) + "\n")
        if guided:
            by_atheris(attempt, target, seeds, inputs - len(large), seed, folder)
        for number in range(inputs - len(large)):
            attempt(changed(target, seeds[number % len(seeds)], seed + number))
    return 0


def changed(target: Any, data: bytes, seed: int) -> bytes:
    """An input with a few changes, drawn from a seed."""
    dice = random.Random(seed)
    data = target.mutated(data, dice)
    while dice.random() < 0.4:
        data = target.mutated(data, dice)
    return data[:LONGEST]


def memory_per_byte(attempt: Callable[[bytes], None], data: bytes) -> float:
    """How far the memory of this process grows while it reads an input, over the input's size."""

    def resident(what: str) -> int:
        return int(Path("/proc/self/status").read_text().partition(f"{what}:")[2].split()[0])

    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    before = resident("VmRSS")
    attempt(data)
    return round((resident("VmHWM") - before) * 1024 / len(data), 1)


def imported() -> tuple[Any, bool]:
    """The module `targets`, and whether Atheris watches the branches of what it imports."""
    sys.path.append(str(Path(__file__).parents[1]))
    if importlib.util.find_spec("atheris") is None:
        return importlib.import_module("targets"), False
    import atheris

    files = [file for package in COMPILED for file in (ROOT / package).rglob("*.py")]
    inside = [file.relative_to(ROOT).with_suffix("").parts for file in files]
    unwatched = [".".join(["miniapps", *parts]).removesuffix(".__init__") for parts in inside]
    with atheris.instrument_imports(include=["miniapps"], exclude=unwatched):
        return importlib.import_module("targets"), True


def by_atheris(
    attempt: Callable[[bytes], None],
    target: Any,
    seeds: list[bytes],
    inputs: int,
    seed: int,
    folder: Path,
) -> None:
    """Let libFuzzer choose which input to change next; ends the process.

    Memory and time are limited by `tried`, and `changed` draws the number of changes.
    """
    import atheris

    (folder / "seeds").mkdir(exist_ok=True)
    for number, data in enumerate(seeds):
        (folder / "seeds" / str(number)).write_bytes(data)
    words = [f"-runs={inputs}", f"-seed={seed}", f"-max_len={LONGEST}", "-len_control=0"]
    words += ["-mutate_depth=1", "-timeout=100000", "-rss_limit_mb=0", "-malloc_limit_mb=0"]
    words += ["-handle_segv=0", str(folder / "corpus"), str(folder / "seeds")]
    atheris.Setup(
        ["fuzz", *words],
        attempt,
        custom_mutator=lambda data, most, seed: changed(target, data, seed)[:most],
    )
    atheris.Fuzz()


def tried(target: Any, data: bytes, written: list[str]) -> dict[str, Any]:
    """The outcome of one input."""
    why, outcome = "", "failed"
    began = time.process_time()
    faulthandler.dump_traceback_later(STUCK_S, exit=True)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    previous = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + SPARE + target.factor * len(data)
    resource.setrlimit(resource.RLIMIT_AS, (memory, previous[1]))
    try:
        outcome = "accepted" if target.attempt(data) else "refused"
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        frame = [frame for frame in frames if ".venv" not in frame.filename][-1]
        why = f"{type(error).__name__}: {str(error)[:200]} at {frame.filename}:{frame.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, previous)
        faulthandler.cancel_dump_traceback_later()
    seconds = time.process_time() - began
    if seconds > SECONDS:
        why = f"took {seconds:.1f} s: {why}"
    if written:
        why = f"wrote outside its folder: {written}"
        written.clear()
    return failure(why, data) if why else {"outcome": outcome, "seconds": round(seconds, 3)}


def _too_long(*_: Any) -> None:
    raise TimeoutError("too long")


if __name__ == "__main__":
    raise SystemExit(main())
