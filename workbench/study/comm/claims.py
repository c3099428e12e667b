"""What a campaign of communication benchmarks is to measure, read from a TOML file.

A file has claims. Each is about one benchmark, whose variants it compares: every combination of the
values of its dimensions is a line of its table and its figure. docs/comm.md describes the keys.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from miniapps import communication, drivers
from miniapps.communication.catalogue import ANATOMY, CATALOGUE, Benchmark
from miniapps.communication.settings import Settings, Span
from miniapps.parameters import InputError, require
from miniapps.workbench.comm.variants import DRIVER, LIBRARY, VALUES, in_words
from miniapps.workbench.run.shapes import (
    COUNT,
    FLAG,
    LINE,
    NUMBER,
    OBJECT,
    SEVERAL,
    misfit,
    unknown,
)
from miniapps.workbench.study.options import COMM, published_values, table_of

FILE = "FILE.toml"
QUICK, PAPER = "quick", "paper"
CALLS = "calls"
DIMENSIONS = (DRIVER, *VALUES, LIBRARY)
CLAIM_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
MEASURED: Mapping[str, Any] = {
    "ranks?": [SEVERAL],
    "sizes?": LINE,
    "iterations?": SEVERAL,
    "warmups?": COUNT,
    "window?": SEVERAL,
    "oversubscribe?": FLAG,
}  # keys that the tables for short campaigns and for the papers' own may replace
CLAIM: Mapping[str, Any] = {
    "name": LINE,
    "title": LINE,
    "says?": LINE,
    "benchmark": LINE,
    **MEASURED,
    DRIVER: [LINE],
    **{f"{name}?": [LINE] for name in (*VALUES, LIBRARY, CALLS)},
    "published?": LINE,
    "series?": OBJECT,
}
SHAPE: Mapping[str, Any] = {
    "kind": LINE,
    "source?": LINE,
    "trials?": SEVERAL,
    "seed?": NUMBER,
    "claims": [CLAIM],
    f"{QUICK}?": OBJECT,
    f"{PAPER}?": OBJECT,
}


@dataclass(frozen=True)
class Claim:
    """One claim on one number of ranks.

    ``choices``: the values of each dimension; ``calls``: the paths of an anatomy, if it is one;
    ``series``: published values by the name of the line and the size.
    """

    name: str
    title: str
    says: str
    benchmark: Benchmark
    ranks: int
    settings: Settings
    choices: Mapping[str, tuple[Any, ...]]
    calls: tuple[str, ...]
    oversubscribe: bool
    published: str | None
    series: Mapping[str, Mapping[int, float]]

    def line_name(self, values: Mapping[str, Any], call: str) -> str:
        """The name of a line: its call, if any, and the dimensions that have several values."""
        several = [name for name, choices in self.choices.items() if len(choices) > 1]
        called = calls_of([values[DRIVER]]).get(call)
        words = [called, *(in_words(name, values[name]) for name in several)]
        return " ".join(filter(None, words)) or str(values[DRIVER])

    def check_names(self) -> None:
        """Raise InputError if published values are of a line that the claim does not have."""
        every = itertools.product(*self.choices.values())
        chosen = [dict(zip(self.choices, values, strict=True)) for values in every]
        names = [self.line_name(values, call) for values in chosen for call in self.calls or ("",)]
        for name in self.series:
            require(name in names, "line", name, f"{self.name} has {', '.join(names)}")


@dataclass(frozen=True)
class Wanted:
    """What a file asks for."""

    source: str
    trials: int
    seed: int
    claims: tuple[Claim, ...]

    @classmethod
    def read(cls, path: Path, quick: bool = False, as_published: bool = False) -> Self:
        """Read a file, with one of its tables that replace values. Raises InputError."""
        table = table_of(path)
        words = misfit(table, SHAPE, "it") or unknown(table, SHAPE, "it")
        require(words is None, FILE, path, str(words))
        require(table["kind"] == COMM, "kind", table["kind"], f"must be {COMM}")
        over: dict[str, Any] = {}
        options = (QUICK, "--quick", quick), (PAPER, "--as-published", as_published)
        for name, option, asked in options:
            if asked:
                require(name in table, option, path, f"the file has no table [{name}]")
                over = table[name]
        names = [claim["name"] for claim in table["claims"]]
        require(len({*names}) == len(names) > 0, FILE, path, "must name each claim once, and one")
        _check_over(path, over, names)
        claims = [made for claim in table["claims"] for made in _claims(path, claim, over)]
        trials = over.get("trials", table.get("trials", 10))
        source = table.get("source", path.stem)
        return cls(source, trials, int(table.get("seed", 0)), tuple(claims))

    def changed(self, trials: int | None, seed: int | None) -> Self:
        """With other trials or another seed, if they are given. Raises InputError."""
        trials = self.trials if trials is None else trials
        require(trials >= 1, "--trials", trials, "must be 1 or more")
        return replace(self, trials=trials, seed=self.seed if seed is None else seed)


def calls_of(names: Iterable[str]) -> Mapping[str, str]:
    """The calls whose anatomy the runtimes of some drivers can make, with their names."""
    known = communication.runtimes()
    made = [known[driver] for driver in names if driver in known]
    return {call: name for one in made for call, name in {**one.anatomy, **one.sides}.items()}


def _shared(over: Mapping[str, Any], benchmark: Benchmark) -> dict[str, Any]:
    """The values for all claims, without those that a claim's benchmark does not use."""
    settings = {"sizes": "span", "warmups": "warmups", "window": "window"}
    unused = [key for key, setting in settings.items() if not benchmark.takes(setting)]
    known = {key.removesuffix("?") for key in MEASURED}.difference(unused)
    return {key: value for key, value in over.items() if key in known}


def _check_over(path: Path, over: Mapping[str, Any], names: list[str]) -> None:
    """Raise InputError unless a table replaces what it may replace."""
    shape = {**MEASURED, "trials?": SEVERAL, **{f"{name}?": dict(MEASURED) for name in names}}
    words = misfit(over, shape, "its table") or unknown(over, shape, "its table")
    require(words is None, FILE, path, str(words))


def _claims(path: Path, claim: dict[str, Any], over: Mapping[str, Any]) -> Iterator[Claim]:
    """A claim for each number of ranks; ``over``: values that replace some. Raises InputError."""
    name, benchmark = claim["name"], claim["benchmark"]
    require(bool(CLAIM_NAME.fullmatch(name)), "name", name, "must be of a-z, 0-9 and -")
    known = {**CATALOGUE, ANATOMY.name: ANATOMY}
    require(benchmark in known, "benchmark", benchmark, "one of `miniapps comm --list`")
    table = claim | _shared(over, known[benchmark]) | over.get(name, {})
    choices = _choices(table)
    dissected = benchmark == ANATOMY.name
    calls = tuple(table.get(CALLS, ("c", "array") if dissected else ()))
    allowed = "a claim about anatomy needs some, and no other claim has any"
    require(bool(calls) == dissected, CALLS, list(calls), allowed)
    for call in calls:
        able = calls_of(choices[DRIVER])
        require(call in able, CALLS, call, f"one of {', '.join(able)}")
    given = {key: table[key] for key in ("iterations", "warmups", "window") if key in table}
    settings = Settings(span=span_of(table, "sizes"), trials=1, **given)
    settings.check()
    data = published_values(path.parent / table["published"]) if "published" in table else {}
    series = {line: _series(data, key) for line, key in table.get("series", {}).items()}
    counts = table.get("ranks", [2])
    for ranks in counts:
        several = len(counts) > 1
        made = Claim(
            name=f"{name}-{ranks}" if several else name,
            title=table["title"] + (f", {ranks} ranks" if several else ""),
            says=table.get("says", ""),
            benchmark=known[benchmark],
            ranks=ranks,
            settings=settings,
            choices=choices,
            calls=calls,
            oversubscribe=table.get("oversubscribe", False),
            published=data.get("source"),
            series=series,
        )
        made.check_names()
        yield made


def _choices(table: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The values of each dimension that a claim names. Raises InputError."""
    choices: dict[str, tuple[Any, ...]] = {}
    for name in DIMENSIONS:
        if name not in table:
            continue
        known = {DRIVER: tuple(drivers.found()), LIBRARY: None}.get(name, VALUES.get(name))
        values = tuple(
            None if (name, value) == ("pickle", "no") else value for value in table[name]
        )
        require(len({*values}) == len(values) > 0, name, table[name], "must name each value once")
        for value in values:
            allowed = ", ".join("no" if one is None else str(one) for one in known or ())
            require(known is None or value in known, name, value, f"one of {allowed}")
        choices[name] = values
    return choices


def span_of(table: Mapping[str, Any], key: str) -> Span | None:
    """The span under a key of a table; None if it has none. Raises InputError."""
    try:
        return Span.parse(table[key]) if key in table else None
    except ValueError as error:
        raise InputError(key, table[key], f"must be {error}") from None


def _series(data: Mapping[str, Any], key: Any) -> dict[int, float]:
    """Published values by size: those under a key, beside the sizes under ``bytes``."""
    sizes, values = data.get("bytes"), data.get(str(key))
    lists = isinstance(sizes, list) and isinstance(values, list) and len(sizes) == len(values)
    require(lists, "series", key, "must be a list in the published file, as long as its bytes")
    return dict(zip(sizes or (), values or (), strict=True))
