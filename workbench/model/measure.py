"""Measures this machine once: a few short runs, to which the costs of the model are fitted.

Kernels: each app alone on one PE, with blocks in the cache, beyond it, and as small as possible, so
that only the fixed cost of a block is left. Memory: jacobi2d beyond all caches, on one PE and on
all. Drivers: echo, with short and long messages within a PE, between PEs, and between hosts.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from miniapps import apps, tiling
from miniapps.drivers.hosts import Hosts, Place
from miniapps.drivers.job import RunError
from miniapps.parameters import require, shown
from miniapps.workbench import environment
from miniapps.workbench.model import fitting, machine
from miniapps.workbench.model.campaigns import Cell, situation
from miniapps.workbench.model.formula import counts
from miniapps.workbench.model.machine import Machine
from miniapps.workbench.model.runtimes import alone, ranks, usual
from miniapps.workbench.plural import counted
from miniapps.workbench.run import launch, restarts
from miniapps.workbench.run.cases import Case
from miniapps.workbench.run.record import DISTURBED, disturbed
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.run.writable import check_writable
from miniapps.workbench.show.captions import machine_text
from miniapps.workbench.study.analysis import Result
from miniapps.workbench.study.statistics import Interval

START = "two-cores"  # the machine whose costs, with wide intervals, the fit starts from
WIDE = 20.0  # how far this machine's costs may be from those, either way
NARROWEST = 1.5  # a cost may be so different for another problem, either way
TRIALS = 3
LITTLE = 0.3  # of the time of a cell, which hardly changes a smooth maximum
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
# Costs between PEs, and those between hosts from which a fit starts there.
HOSTS: Mapping[str, str] = {
    machine.MESSAGE["between"]: machine.MESSAGE["hosts"],
    machine.BYTE["between"]: machine.BYTE["hosts"],
    machine.LATENCY: machine.LATENCY_HOSTS,
}
SHORT, LONG = 64, 1 << 17  # bytes of a message
LARGE = (4096, 4096)  # cells beyond all caches
MIDDLE = (512, 512)  # cells in the last cache


@dataclass(frozen=True)
class Run:
    """One run of the measurement."""

    app: str
    case: Case
    problem: dict[str, Any]
    steps: int
    hosts: Hosts | None = None


def own_file() -> Path:
    """The file of this machine, in the user's cache folder."""
    return tiling.cache_folder() / "machine.toml"


def machine_named(name: str | None) -> Machine:
    """The machine that the user names, or this one, measured if that has not been done yet.

    Raises InputError, and RunError if a run fails.
    """
    if name is not None:
        return machine.read(name)
    path = own_file()
    if not path.exists():
        print("measuring this machine, once; it takes a minute or two", file=sys.stderr)
        measure(path)
    return machine.read(path)


def measure(path: Path, hosts: Hosts | None = None) -> Path:
    """Measure, and write the machine's TOML file; returns its path.

    ``hosts``: two or more, with equally many places, for the costs between hosts. Raises InputError
    for a file that cannot be written, and RunError for a run that fails.
    """
    if path == own_file():
        path.parent.mkdir(parents=True, exist_ok=True)
    check_writable("--to", path)
    if hosts is not None:
        equal = len(hosts) > 1 and len({place.pes for place in hosts}) == 1
        require(equal, "--hosts", str(hosts), "must be two hosts or more, with equally many places")
    found = measured(hosts)
    write_text(path, machine.text_of(found))
    return path


def measured(hosts: Hosts | None = None) -> Machine:
    """Measure the machine that this runs on. Raises RunError if a run fails."""
    start = machine.read(START)
    here = machine_text([record_of(Run("echo", Case(alone()), {}, 10))["host"]])
    start = dataclasses.replace(
        start,
        name=here,
        sources=(
            f"miniapps model measure: {counted(TRIALS, 'run')} of each case, costs fitted to them",
            f"balancing: of {START}.toml",
        ),
        pes_per_host=hosts[0].pes if hosts else environment.cores(),
    )
    if hosts is not None:
        start = with_hosts(start)
    for app in ("jacobi2d", "stencil3d", "pic", "leanmd", "echo"):
        start = fitted(start, list(measurements(app, start.pes_per_host, hosts)))
        if app == "jacobi2d":
            start = with_memory(start)
    return start


def with_hosts(start: Machine) -> Machine:
    """The machine with costs between hosts, from which their fit starts: those between PEs."""
    split = {name.rpartition("."): cost for name, cost in start.costs.items()}
    own = {f"{of}.{HOSTS[name]}": cost for (of, _, name), cost in split.items() if name in HOSTS}
    return dataclasses.replace(start, costs={**start.costs, **own})


def with_memory(start: Machine) -> Machine:
    """The machine with this one's caches and bandwidths, measured by jacobi2d, whose rate is known.

    Caches that the system does not tell are as before.
    """
    cores = environment.cores()
    memory = dict(start.memory) | caches(CACHES, cores)
    found = {
        "last_cache_bytes_per_s": bandwidth(start, MIDDLE, Case(alone()), 400),
        "pe_bytes_per_s": bandwidth(start, LARGE, Case(alone()), 20),
    }
    several = Case(ranks(), cores) if cores > 1 else Case(alone())
    found["host_bytes_per_s"] = bandwidth(start, LARGE, several, 20)
    return dataclasses.replace(start, memory=memory | found)


def bandwidth(start: Machine, size: tuple[int, ...], case: Case, steps: int) -> float:
    """Bytes per second of all PEs together, where a sweep takes longer than in the cache.

    `machine.joined` inverted: what is left of the time of a cell is that of its bytes. If memory is
    no limit, a bandwidth of which little is left.
    """
    in_cache = start.cost(machine.kernel("jacobi2d", "cells")).value
    per_cell = case.pes / rate(size, case, steps)
    least = (LITTLE * per_cell) ** machine.JOINT
    bytes_s = max(per_cell**machine.JOINT - in_cache**machine.JOINT, least) ** (1 / machine.JOINT)
    return case.pes * start.moved["jacobi2d.cells"] / bytes_s


def rate(size: tuple[int, ...], case: Case, steps: int) -> float:
    """Cells per second of jacobi2d, all PEs together: the best of the trials."""
    run = Run("jacobi2d", case, {"size": size, "time_tile": 1}, steps)
    records = [record_of(run) for _ in range(TRIALS)]
    return max(record["rate"]["value"] for record in records)


def caches(folder: Path, cores: int) -> dict[str, float]:
    """The bytes of a PE's own cache and of its part of the last one, as far as the system tells."""
    sizes: dict[int, tuple[float, int]] = {}
    for each in sorted(folder.glob("index*")):
        try:
            level = int((each / "level").read_text(encoding="utf-8"))
            text = (each / "size").read_text(encoding="utf-8").strip()
            shared = _listed((each / "shared_cpu_list").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if level > 1 and text.endswith("K") and text[:-1].isdigit():
            sizes[level] = int(text[:-1]) * 1024.0, shared
    if not sizes:
        return {}
    own, last = min(sizes), max(sizes)
    part = sizes[last][0] / min(cores, sizes[last][1])
    return {"cache_bytes": sizes[own][0], "last_cache_bytes": max(part, sizes[own][0])}


def _listed(text: str) -> int:
    """How many numbers a list such as "0-3,8" has."""
    ends = [word.split("-") for word in text.strip().split(",")]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


def measurements(app: str, cores: int, hosts: Hosts | None) -> Iterator[Run]:
    """The runs of an app: what they leave undecided stays as the machine has it."""
    problems: dict[str, list[tuple[dict[str, Any], int]]] = {
        "jacobi2d": [({"size": (16, 16)}, 4000), ({"size": (1024, 1024), "time_tile": 16}, 800)],
        "stencil3d": [({"size": (6, 6, 6)}, 4000), ({"size": (96, 96, 96), "time_tile": 4}, 200)],
        "pic": [({"size": 64, "particles": 10}, 4000), ({"size": 1000, "particles": 500_000}, 60)],
        "leanmd": [({"lattice": (4, 4, 4)}, 800), ({"lattice": (20, 20, 20)}, 60)],
    }
    for problem, steps in problems.get(app, []):
        tile = {"time_tile": 1} if app != "leanmd" else {}
        yield Run(app, Case(alone()), tile | problem, steps)
    if app == "pic":  # emigrants: blocks that many particles leave
        yield Run(app, Case(alone(), parts=8), {"particles": 500_000, "time_tile": 1}, 60)
    if app == "echo":
        yield from _messages(cores, hosts)


def _messages(cores: int, hosts: Hosts | None) -> Iterator[Run]:
    """Echo under every driver that works here."""
    for driver in usual():
        if driver.unavailable() is not None:
            continue
        name = driver.name
        cases = [Case(name, parts=4)] if driver.one_pe else [Case(name, min(2, cores))]
        if driver.over_decomposition:
            cases += [Case(name, 1, 4), Case(name, min(2, cores), 4)]
        for case in cases:
            for length in (SHORT, LONG):
                yield Run("echo", case, {"bytes": length}, 2000 if length == SHORT else 400)
        if hosts is not None and not driver.one_process:
            apart = Hosts(Place(host.host, 1) for host in hosts[:2])
            for length in (SHORT, LONG):
                yield Run("echo", Case(name, 2), {"bytes": length}, 500, apart)


def record_of(run: Run) -> dict[str, Any]:
    """Make a run; returns its record. Raises RunError."""
    problem = apps.load(run.app).Problem(**run.problem)
    asked = {"steps": run.steps, "warmup": max(5, run.steps // 10), "audit": 0}
    spec = run.case.spec(run.app, problem, hosts=run.hosts, **asked)

    def command(spec: Any) -> list[str]:
        pinned = run.hosts is None and spec.pes <= environment.cores()
        pinning = launch.pinning(spec) if pinned and not run.case.can.one_process else []
        return launch.command_for_all([spec], pinning)

    said = " ".join(f"{key} {shown(value)}" for key, value in run.problem.items())
    print(f"{run.app} {said}: {run.case}", file=sys.stderr)
    result = restarts.launch_until_done(spec, command, 60.0)
    if isinstance(result, str):
        raise RunError(result)
    if disturbed(result) > DISTURBED:
        print("  other programs disturbed it; measure again on a quiet machine", file=sys.stderr)
    return result


def fitted(start: Machine, runs: Sequence[Run]) -> Machine:
    """The machine with the costs that fit some runs, and their intervals."""
    wide = {
        name: Interval(cost.value, cost.value / WIDE, cost.value * WIDE)
        for name, cost in start.costs.items()
    }
    loose = dataclasses.replace(start, costs=wide)
    cells = []
    for number, run in enumerate(runs):
        # one PE of each host: then every message between PEs is one between hosts
        where = dataclasses.replace(loose, pes_per_host=1) if run.hosts else loose
        records = tuple(record_of(run) for _ in range(TRIALS))
        result = Result(number, run.case, records[0]["problem"], records)
        cells.append(Cell(result, counts(where, situation(run.app, result))))
    best = fitting.corrected(loose, cells)
    draws = fitting.drawn_costs(loose, cells, best)
    found = {name: _known(best.costs[name].value, draws[name]) for name in fitting.paid(cells)}
    return dataclasses.replace(start, costs={**start.costs, **found})


def _known(value: float, draws: Any) -> Interval:
    """A cost with the interval of its draws."""
    low, high = np.quantile(draws, [0.005, 0.995])
    return Interval(value, min(float(low), value / NARROWEST), max(float(high), value * NARROWEST))
