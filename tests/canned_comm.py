"""Canned launches of communication benchmarks, whose values can be computed by hand."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import support

from miniapps.workbench.cli import build_parser
from miniapps.workbench.comm.spec import CommSpec
from miniapps.workbench.run import launch
from miniapps.workbench.study import noise, report

PUBLISHED = {"source": "A paper", "bytes": [8, 64], "slow": [30.0, 90.0], "fast": [10.0, 20.0]}
PUBLISHED |= {"numbers": {"added": 1.25, "span": [2, 3]}}  # type: ignore[dict-item]
TWO = """
kind = "comm"
source = "A paper"
trials = 3
[[claims]]
name = "touch"
title = "Written buffers"
says = "not published"
benchmark = "latency"
driver = ["mpi"]
touch = ["none", "sender"]
sizes = "8:64:8"
published = "values.json"
[claims.series]
"touch none" = "fast"
"touch sender" = "slow"
[[claims]]
name = "rate"
title = "Bandwidth"
benchmark = "bw"
driver = ["mpi"]
sizes = "8:8"
[quick]
trials = 2
window = 8
sizes = "64:64"
[paper]
ranks = [2]
[paper.rate]
sizes = "8:128"
"""
LEFT_OUT = """
kind = "comm"
[[claims]]
name = "many"
title = "Many ranks"
benchmark = "bcast"
driver = ["mpi"]
ranks = [2, 64]
[[claims]]
name = "devices"
title = "Buffers"
benchmark = "latency"
driver = ["mpi"]
buffer = ["numpy", "cupy"]
[[claims]]
name = "runtimes"
title = "Runtimes"
benchmark = "latency"
driver = ["mpi", "serial"]
[[claims]]
name = "libraries"
title = "Libraries"
benchmark = "latency"
driver = ["mpi"]
library = ["mpich", "openmpi"]
"""


def spec_of(words: str) -> CommSpec:
    """What ``miniapps WORDS`` asks for."""
    return CommSpec.create(build_parser(words.split()).parse_args(words.split()))


def value_of(spec: CommSpec, size: int, trial: int) -> float:
    """In us or MB/s: written buffers take three times as long, for 64 B 4 us more."""
    base = {8: 2.0, 64: 4.0}.get(size, 8.0) + 0.01 * trial
    written = spec.settings.touch != "none"
    return 3 * base + 4 * (size == 64) if written else base


def record_of(spec: CommSpec, trial: int = 0, **more: Any) -> dict[str, Any]:
    """A canned record of a launch."""
    sizes = spec.settings.sizes(spec.benchmark)
    measured = [{"trial": 0, "size": size, "value": value_of(spec, size, trial)} for size in sizes]
    return {
        "schema": 2,
        "benchmark": spec.benchmark.name,
        "driver": spec.driver,
        "pes": spec.pes,
        **spec.recorded(),
        "sizes": sizes,
        "valid": None if spec.settings.no_check else True,
        "wrong": None,
        "barrier_us": 1.0,
        "measured": measured,
        "disturbance": {"load_average": 0.0, "waited": 0.0, "switches_per_s": 0.0, "steal": 0.0},
        "versions": {"python": "3", "mpi": "MPICH Version: 5"},
        "host": support.HOST,
        "oversubscribed": False,
    } | more


def replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., list[tuple[CommSpec, list[str]]]]:
    """``canned(function of the spec and the trial)``: launches return its result; the launches.

    The current folder is an empty one with published values. No figure is written.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(noise, "REPEATS", 3)
    monkeypatch.setattr(report, "FORMATS", ())
    (tmp_path / "values.json").write_text(json.dumps(PUBLISHED))
    (tmp_path / "two.toml").write_text(TWO)

    def replace(result: Any = record_of) -> list[tuple[CommSpec, list[str]]]:
        made: list[tuple[CommSpec, list[str]]] = []
        counts: dict[str, int] = {}

        def launched(spec: CommSpec, command: list[str], limit: float | None) -> Any:
            made.append((spec, command))
            key = f"{spec.benchmark.name} {spec.settings.touch}"
            counts[key] = counts.get(key, -1) + 1
            return result(spec, counts[key])

        monkeypatch.setattr(launch, "launch", launched)
        return made

    return replace


def rows_of(folder: Path) -> list[dict[str, str]]:
    """The values as the CSV file has them."""
    with (folder / "values.csv").open() as file:
        return list(csv.DictReader(file))
