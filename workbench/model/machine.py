"""A machine as the performance model sees it: a few costs with intervals, in a TOML file.

Every cost is a list of three numbers, value, low and high: a 99 % interval. docs/model.md describes
the keys; the files in ``machines/`` are examples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from miniapps.parameters import InputError, require
from miniapps.workbench.run.shapes import AMOUNT, FLAG, LINE, NAMED, POSITIVE, SEVERAL, fits, misfit
from miniapps.workbench.study.options import table_of
from miniapps.workbench.study.statistics import Interval

SHIPPED = Path(__file__).parent / "machines"
LEVEL_WIDTH = 2 * 2.5758  # of a 99 % interval, in standard deviations
BLOCK, LATENCY, LATENCY_HOSTS = "block_s", "latency_s", "latency_hosts_s"
WHERE = ("inside", "between", "hosts")  # the same PE; another PE of the host; another host
MESSAGE: Mapping[str, str] = {where: f"message_{where}_s" for where in WHERE}
BYTE: Mapping[str, str] = {where: f"byte_{where}_s" for where in WHERE}
DRIVER = (BLOCK, LATENCY, LATENCY_HOSTS, *MESSAGE.values(), *BYTE.values())
JOINT = 4  # of the norm that joins two limits
KEPT = "kept"  # of the imbalance, by a balancer
MEMORY: Mapping[str, Any] = {
    "cache_bytes": POSITIVE,  # of a PE, where kernels run at their full rate
    "last_cache_bytes": POSITIVE,  # a PE's part of the last cache
    "last_cache_bytes_per_s": POSITIVE,  # of one PE
    "pe_bytes_per_s": POSITIVE,  # to and from memory, of one PE
    "host_bytes_per_s": POSITIVE,  # of all PEs of a host together
}
SHAPE: Mapping[str, Any] = {
    "name": LINE,
    "sources": [LINE],
    "pes_per_host": SEVERAL,
    "memory": MEMORY,
    "asynchronous?": FLAG,
}


@dataclass(frozen=True)
class Machine:
    """Costs of a machine.

    ``costs``: by name, such as ``kernel.pic.particles`` or ``driver.mpi.block_s``, seconds per unit
    with a 99 % interval; ``moved``: bytes that a unit of work moves to and from memory, by app and
    kind; ``memory``: the keys of `MEMORY`; ``asynchronous``: kernels run on a device of their own,
    beside what the runtime does.
    """

    name: str
    sources: tuple[str, ...]
    pes_per_host: int
    memory: Mapping[str, float]
    costs: Mapping[str, Interval]
    moved: Mapping[str, float] = field(default_factory=dict)
    asynchronous: bool = False

    def cost(self, name: str) -> Interval:
        """A cost by its name. Raises InputError if the machine has none."""
        known = self.costs.get(name)
        if known is None:
            hint = "; `measure --hosts` finds those between hosts" if "_hosts_" in name else ""
            raise InputError("--machine", self.name, f"has no cost {name}{hint}")
        return known

    @property
    def has_hosts(self) -> bool:
        """Whether it has costs between hosts."""
        return any(name.endswith(MESSAGE["hosts"]) for name in self.costs)

    def spread(self, name: str) -> float:
        """The standard deviation of the logarithm of a cost, from its 99 % interval."""
        found = self.cost(name)
        return max(math.log(found.high / found.low) / LEVEL_WIDTH, 1e-3)

    def slowdown(self, app: str, kind: str, memory: Any, sweeps: int, pes: int) -> Any:
        """How many times longer a unit takes than in cache, by the memory of a PE's blocks, bytes.

        A sweep from memory takes as long as its bytes; ``sweeps`` at once share one pass. The PEs
        of a host share its bandwidth. What fits into a cache is not read again from farther away.
        Both limits are joined by a norm, so the one turns smoothly into the other.
        """
        moved = self.moved.get(f"{app}.{kind}", 0.0) / sweeps
        if not moved:
            return 1.0 + 0.0 * memory
        own, last = self.memory["cache_bytes"], self.memory["last_cache_bytes"]
        share = min(self.memory["pe_bytes_per_s"], self.memory["host_bytes_per_s"] / pes)
        outside = 1 - own / memory.clip(own)
        far = 1 - last / memory.clip(last)
        per_byte = (1 - far) / self.memory["last_cache_bytes_per_s"] + far / share
        ratio = moved * outside * per_byte / self.cost(kernel(app, kind)).value
        return joined(1.0, ratio)


def joined(one: Any, other: Any) -> Any:
    """The larger of two limits, and somewhat more where they are alike: a smooth maximum."""
    return (one**JOINT + other**JOINT) ** (1 / JOINT)


def kernel(app: str, kind: str) -> str:
    """The name of the cost of a unit of an app's work."""
    return f"kernel.{app}.{kind}"


def driver(name: str, cost: str) -> str:
    """The name of a cost of a driver."""
    return f"driver.{name}.{cost}"


def balancing(balancer: str) -> str:
    """The name of the cost of a balancer, per block of a PE and load-balancing step."""
    return f"balancing.{balancer}"


def shipped() -> dict[str, Path]:
    """The machines that come with the project, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}


def read(name: str | Path) -> Machine:
    """A machine of the project by its name, or one of a TOML file. Raises InputError."""
    path = shipped().get(str(name), Path(name))
    require(path.exists(), "--machine", name, f"no such file, and none of {', '.join(shipped())}")
    table = table_of(path)
    wrong = misfit(table, SHAPE, "the file")
    require(wrong is None, "--machine", path, f"{wrong}")
    known = {*(key.removesuffix("?") for key in SHAPE), "kernel", "driver", "balancing"}
    below = {f"memory.{key}" for key in set(table["memory"]) - set(MEMORY)}
    strange = sorted(set(table) - known | below)
    require(not strange, "--machine", path, f"has unknown keys {', '.join(map(repr, strange))}")
    costs, moved = dict(_costs(path, table)), {}
    for app, kinds in table.get("kernel", {}).items():
        for kind, entry in kinds.items():
            moved[f"{app}.{kind}"] = float(entry.get("bytes", 0.0))
    memory = {key: float(table["memory"][key]) for key in MEMORY}
    text = tuple(table["sources"])
    beside = table.get("asynchronous", False)
    return Machine(table["name"], text, table["pes_per_host"], memory, costs, moved, beside)


def _costs(path: Path, table: dict[str, Any]) -> Iterator[tuple[str, Interval]]:
    """All costs of a file, by name. Raises InputError."""
    for app, kinds in _tables(path, table, "kernel"):
        for kind, entry in _tables(path, {app: kinds}, app):
            strange = sorted(set(entry) - {"seconds", "bytes"})
            require(not strange, "--machine", path, f"kernel.{app}.{kind} has {strange}")
            words = f"kernel.{app}.{kind}.bytes must be {AMOUNT.allowed}"
            require(AMOUNT.fits(entry.get("bytes", 0)), "--machine", path, words)
            name = kernel(app, kind)
            yield name, _interval(path, f"{name}.seconds", entry.get("seconds"))
    for name, entry in _tables(path, table, "driver"):
        for key, value in entry.items():
            require(key in DRIVER, "--machine", path, f"driver.{name} has {key!r}, no cost")
            yield driver(name, key), _interval(path, driver(name, key), value)
    for name, value in _table(path, table, "balancing").items():
        require(fits(NAMED, name), "--machine", path, f"balancing has {name!r}, no balancer")
        yield balancing(name), _interval(path, balancing(name), value)


def _table(path: Path, table: dict[str, Any], key: str) -> dict[str, Any]:
    """The table below a key, empty if there is none. Raises InputError for something else."""
    below = table.get(key, {})
    if not isinstance(below, dict):
        raise InputError("--machine", path, f"{key} must be a table")
    return below


def _tables(path: Path, table: dict[str, Any], key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables below a key, in a table. Raises InputError if something else is there."""
    for name, entry in _table(path, table, key).items():
        whole = isinstance(entry, dict) and fits(NAMED, name)
        require(whole, "--machine", path, f"{key}.{name!r} must be a table")
        yield name, entry


def _interval(path: Path, name: str, value: Any) -> Interval:
    """A cost: a list of value, low and high. Raises InputError."""
    allowed = f"{name} must be [value, low, high], numbers above 0 in this order of size: low first"
    three = isinstance(value, list) and len(value) == 3 and all(map(POSITIVE.fits, value))
    require(three and value[1] <= value[0] <= value[2], "--machine", path, allowed)
    return Interval(*map(float, value))


def text_of(machine: Machine) -> str:
    """The TOML text of a machine, which `read` reads as the same."""
    quoted = partial(json.dumps, ensure_ascii=False)  # TOML quotes as JSON does
    lines = [f"name = {quoted(machine.name)}", "sources = ["]
    lines += [f"    {quoted(source)}," for source in machine.sources]
    lines += ["]", f"pes_per_host = {machine.pes_per_host}"]
    lines += [*(["asynchronous = true"] if machine.asynchronous else []), "", "[memory]"]
    lines += [f"{key} = {value:.6g}" for key, value in machine.memory.items()]
    tables: dict[str, list[str]] = {}
    for name, cost in machine.costs.items():
        table, _, key = name.rpartition(".")
        numbers = ", ".join(f"{value:.6g}" for value in (cost.value, cost.low, cost.high))
        if table.startswith("kernel"):
            table, key = name, "seconds"
        tables.setdefault(table, []).append(f"{key} = [{numbers}]")
        own = name.removeprefix("kernel.")
        if own in machine.moved:
            tables[table].append(f"bytes = {machine.moved[own]:.6g}")
    for table, entries in tables.items():
        lines += ["", f"[{table}]", *entries]
    return "\n".join([*lines, ""])
