"""Functions of all benchmarks: launching runs, medians, results with the machine they are from."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from miniapps import apps
from miniapps.devices.backend import Device
from miniapps.drivers.engine import Engine
from miniapps.workbench.run.record import host, versions
from miniapps.workbench.run.replaced import write_text

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("results")
WRITTEN = "benchmarks/results", "benchmarks/gpu/validation.json", "docs"  # by benchmarks
MINIAPPS = [sys.executable, "-m", "miniapps.workbench.cli"]


def run(*arguments: object, timeout_s: float | None = None) -> dict[str, Any]:
    """Run ``miniapps run``; returns its record. Raises RuntimeError if it fails or is not valid."""
    command = [*MINIAPPS, "run", *map(str, arguments), "--json", "-"]
    pipes: dict[str, Any] = {"capture_output": True, "text": True, "timeout": timeout_s}
    done = subprocess.run(command, check=False, **pipes)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def interleaved(
    configurations: dict[str, list[object]], trials: int
) -> dict[str, list[dict[str, Any]]]:
    """Run each configuration in turn, ``trials`` times, so disturbances affect all of them."""
    return in_turn(
        {name: partial(run, *arguments) for name, arguments in configurations.items()}, trials
    )


def revision() -> str:
    """The revision of this tree; it ends in ``-dirty`` if files were changed since.

    Results and pages that a benchmark writes are no change. In a copy without its repository it is
    what the variable REVISION says, or else ``unknown``.
    """
    git = ["git", "-C", str(ROOT)]
    described = [*git, "describe", "--always", "--abbrev=7", "--exclude=*"]
    compared = [*git, "diff", "--quiet", "HEAD", "--", ".", *(f":!{name}" for name in WRITTEN)]
    try:
        done = subprocess.run(described, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("REVISION", "unknown")
    changed = subprocess.run(compared, check=False).returncode
    return f"{done.stdout.strip()}{'-dirty' if changed else ''}"


def in_turn(calls: Mapping[str, Callable[[], Any]], trials: int) -> dict[str, list[Any]]:
    """The results of each call; the calls are made in turn, ``trials`` times."""
    returned: dict[str, list[Any]] = {name: [] for name in calls}
    for _ in range(trials):
        for name, call in calls.items():
            returned[name].append(call())
    return returned


def seconds(work: Callable[[], object]) -> float:
    """The seconds of a call."""
    before = perf_counter()
    work()
    return perf_counter() - before


def printed(command: list[object]) -> Any:
    """What a program prints in its last line as JSON: a number, or an object."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def median(values: Iterable[float]) -> float:
    """The median, to six digits: more would be noise."""
    return float(f"{statistics.median(values):.6g}")


def spread(values: Iterable[float]) -> dict[str, float]:
    """The median, and the smallest and the largest value.

    These two are the bounds of an interval of the median, of the level 1 - 2^(1 - n) for n values.
    """
    found = sorted(values)
    low, high = (float(f"{value:.6g}") for value in (found[0], found[-1]))
    return {"median": median(found), "low": low, "high": high}


def gains(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[str, float]:
    """What balanced runs gain over others, made in turn: in time, and as a share of max/mean."""
    pairs = zip(before, after, strict=True)
    found = [(off["wall_s"] / on["wall_s"], off["imbalance"]) for off, on in pairs]
    return {
        "gain": median(gain for gain, _ in found),
        "fraction_achieved": median(gain / ideal for gain, ideal in found),
    }


def balanced(records: list[dict[str, Any]]) -> dict[str, float]:
    """What load balancing left and did in runs, and the seconds that it took."""
    return {
        "imbalance": median(record["imbalance"] for record in records),
        "migrations": median(record["migrations"] for record in records),
        "balancing_s": median(sum(lb["seconds"] for lb in record["lb"]) for record in records),
    }


def stepped(app: str, problem: Any, steps: int, where: Device) -> Any:
    """The only block of a problem on a device, after some steps."""
    layout = problem.cut(1, 1, None)
    problem = problem.prepared(layout, where.name)
    block = apps.load(app).Block(problem, layout, layout.indices()[0], where)
    engine = Engine([block]).setup()
    for step in range(steps):
        engine.round(step, 1)
    return block


def require_same_state(name: str, records: Iterable[dict[str, Any]]) -> None:
    """Raise RuntimeError if runs ended in different states."""
    if len({record["state_hash"] for record in records}) != 1:
        raise RuntimeError(f"{name}: the runs ended in different states")


def save(name: str, results: dict[str, Any]) -> None:
    """Print results and write them with the machine's description."""
    print(json.dumps(results, indent=1))
    write(name, results)


def write(name: str, results: dict[str, Any]) -> None:
    """Write results with the machine's description."""
    RESULTS.mkdir(exist_ok=True)
    document = {"benchmark": name, "host": host(), "versions": versions(), "results": results}
    write_text(RESULTS / f"{name}.json", json.dumps(document, indent=1) + "\n")


def earlier(name: str) -> dict[str, Any]:
    """The results that were written so far."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text())["results"] if file.exists() else {}


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
