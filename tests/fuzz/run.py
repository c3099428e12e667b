"""Fuzzes all that reads input: ``python tests/fuzz/run.py --inputs 10000``.

Per kind of input one process changes inputs, keeps those that reach new lines of the project, and
lets the project read them within limits of memory and time. The result, a JSON file, lists failures
with their inputs in base64. Exit status 1 if there is a failure.
"""

from __future__ import annotations

import argparse
import base64
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
from pathlib import Path
from typing import Any

SECONDS = 10.0  # an input that takes longer hangs
MEMORY = 1 << 30  # bytes that a process may take beyond what it has when it begins
KINDS = "command line", "TOML", "H5MD", "extended XYZ", "LAMMPS data", "campaign", "record"
RESULT = Path(__file__).with_name("results.json")


def main() -> int:
    """Fuzz kinds of input, each in a process of its own; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1000, help="of each kind; default: 1000")
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all")
    parser.add_argument("--seed", type=int, default=1, help="of the changes; default: 1")
    parser.add_argument("--to", type=Path, default=RESULT, help="the result")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)  # of the process of a kind
    options = parser.parse_args()
    if options.inside:
        return fuzz(options.kind[0], options.inputs, options.seed, options.inside)
    results = {}
    for kind in options.kind or KINDS:
        results[kind] = of_kind(kind, options.inputs, options.seed)
        print(f"{kind}: {json.dumps({**results[kind], 'failures': results[kind]['failures'][:3]})}")
    options.to.write_text(json.dumps(results, indent=1) + "\n")
    return int(any(result["failures"] for result in results.values()))


def of_kind(kind: str, inputs: int, seed: int) -> dict[str, Any]:
    """Fuzz one kind; a process that dies is a failure, and another goes on."""
    total: Counter[str] = Counter()
    failures: list[dict[str, str]] = []
    guided, reached = False, 0
    while total["inputs"] < inputs and len(failures) < 50:
        with tempfile.TemporaryDirectory() as folder:
            rest = str(inputs - total["inputs"])
            words = ["--kind", kind, "--inputs", rest, "--seed", str(seed + total["inputs"])]
            words = [sys.executable, __file__, *words, "--inside", folder]
            done = subprocess.run(words, capture_output=True, text=True)
            lines = (Path(folder) / "log").read_text().splitlines()
            log = [json.loads(line) for line in lines]
            last = Path(folder) / "last"
            total.update(entry["outcome"] for entry in log)
            total["inputs"] += len(log)
            failures += [entry for entry in log if entry["outcome"] == "failed"]
            if done.returncode:
                data = base64.b64encode(last.read_bytes() if last.exists() else b"").decode()
                why = f"the process ended with {done.returncode}: {done.stderr[-300:]}"
                failures.append({"outcome": "failed", "why": why, "input": data})
                total["inputs"] += 1
            guided, reached = json.loads((Path(folder) / "coverage").read_text() or "[false, 0]")
    return {
        "inputs": total["inputs"],
        "taken": total["taken"],
        "refused": total["refused"],
        "guided by coverage": guided,
        "lines reached": reached,
        "failures": failures,
    }


def fuzz(kind: str, inputs: int, seed: int, folder: Path) -> int:
    """Fuzz one kind in this process; writes a line per input to the file ``log``."""
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    (folder / "coverage").write_text("[false, 0]")
    coverage = Coverage()
    import targets  # after the coverage, which watches the project's code

    target = targets.TARGETS[kind]
    targets.SCRATCH = folder
    targets.replace_what_runs()
    dice = random.Random(seed)
    corpus = target.seeds()
    for data in corpus:
        coverage.is_new(lambda data=data: target.attempt(data))
    os.chdir(folder)
    signal.signal(signal.SIGALRM, _too_long)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + MEMORY
    with open(folder / "log", "w") as log, targets.writes_watched(folder) as written:
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.RLIM_INFINITY))
        for _ in range(inputs):
            data = target.mutated(dice.choice(corpus), dice)
            while dice.random() < 0.4:
                data = target.mutated(data, dice)
            (folder / "last").write_bytes(data)
            entry, new = tried(target, data, coverage, written)
            log.write(json.dumps(entry) + "\n")
            log.flush()
            if new and entry["outcome"] != "failed" and len(data) < 1 << 18:
                corpus.append(data)
                (folder / "coverage").write_text(json.dumps([True, coverage.reached]))
    return 0


def tried(target: Any, data: bytes, coverage: Coverage, written: list[str]) -> tuple[Any, bool]:
    """The outcome of one input, and whether it reached new code."""
    begun, why, outcome, new = time.monotonic(), "", "failed", False
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        taken, new = coverage.is_new(lambda: target.attempt(data))
        outcome = "taken" if taken else "refused"
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if ".venv" not in frame.filename]
        frame = own[-1]
        why = f"{type(error).__name__}: {str(error)[:200]} at {frame.filename}:{frame.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if time.monotonic() - begun > SECONDS:
        why = f"took more than {SECONDS:.0f} s: {why}"
    if written:
        why = f"wrote outside its folder: {written}"
        written.clear()
    if not why:
        return {"outcome": outcome}, new
    return {"outcome": "failed", "why": why, "input": base64.b64encode(data).decode()}, new


def _too_long(*_: Any) -> None:
    raise TimeoutError("too long")


class Coverage:
    """Lines of the project that inputs reach, by `sys.settrace` in the project's files only."""

    def __init__(self) -> None:
        self.seen: set[tuple[Any, int]] = set()
        self.new = False
        self.root = str(Path(__file__).resolve().parents[2])

    @property
    def reached(self) -> int:
        """The number of lines."""
        return len(self.seen)

    def is_new(self, call: Any) -> Any:
        """The result of a call, and whether it reached new lines."""
        self.new = False
        sys.settrace(self._called)
        try:
            result = call()
        finally:
            sys.settrace(None)
        return result, self.new

    def _called(self, frame: Any, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        inside = name.startswith(self.root) and ".venv" not in name and "/fuzz/" not in name
        return self._line if inside else None

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        key = frame.f_code, frame.f_lineno
        if key not in self.seen:
            self.seen.add(key)
            self.new = True
        return self._line


if __name__ == "__main__":
    raise SystemExit(main())
