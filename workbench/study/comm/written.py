"""What it does to a benchmark that its buffers are written before, and read after, each message.

All ratios are of times: of rates the inverse, so more is slower everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from miniapps.communication import USUAL
from miniapps.communication.actions import BOTH, NONE
from miniapps.workbench.study.cells import columns_of, with_bounds
from miniapps.workbench.study.comm.plan import POINT
from miniapps.workbench.study.comm.series import Line, Result
from miniapps.workbench.study.statistics import Interval, ratio_interval
from miniapps.workbench.table import NONE as EMPTY
from miniapps.workbench.table import Table

SIZES: Mapping[int, str] = {65536: "64 KiB", 1048576: "1 MiB", 4194304: "4 MiB"}
SAME = ("benchmark", "driver", "library", "pes", *(name for name in POINT if name != "touch"))
SAME_WORK = ("benchmark", "pes", "buffer", "pickle", "window")  # under another runtime


@dataclass(frozen=True)
class Pair:
    """One thing measured with unchanged buffers, and with written ones."""

    unchanged: Line
    written: Line

    @property
    def point(self) -> Mapping[str, Any]:
        """What was measured."""
        return self.unchanged.point

    def ratio(self, size: int) -> Interval | None:
        """How many times as long written buffers take; None if the size was not measured."""
        return times_as_long(self.written, self.unchanged, size)


@dataclass(frozen=True)
class Comparison:
    """The times of one size under a runtime over those under the usual one, by kind of buffer."""

    point: Mapping[str, Any]
    size: int
    unchanged: Interval
    written: Interval


def pairs(found: Sequence[Result]) -> list[Pair]:
    """All that was measured with both kinds of buffers, whatever its claim."""
    every: dict[tuple[Any, ...], dict[str, Line]] = {}
    for line in (line for result in found for line in result.lines if not line.oversubscribed):
        key = tuple(line.point[name] for name in SAME)
        every.setdefault(key, {})[line.point["touch"]] = line
    both = [lines for lines in every.values() if NONE in lines and BOTH in lines]
    return [Pair(lines[NONE], lines[BOTH]) for lines in both]


def times_as_long(line: Line, base: Line, size: int) -> Interval | None:
    """The ratio of times of one size; None if one was not measured."""
    if size not in line.trials or size not in base.trials:
        return None
    values, others = line.trials[size], base.trials[size]
    return ratio_interval(*((others, values) if line.unit == "MB/s" else (values, others)))


def effects_table(made: Sequence[Pair]) -> Table:
    """A row for each benchmark, runtime and library: written over unchanged buffers."""
    rows = []
    for pair in made:
        ratios = [pair.ratio(size) for size in SIZES]
        names = (pair.point[name] or EMPTY for name in ("benchmark", "driver", "library"))
        rows.append((*names, *(EMPTY if one is None else with_bounds(one) for one in ratios)))
    columns = columns_of(
        "benchmark", "runtime", "library", *(f"#{name}" for name in SIZES.values())
    )
    said = ("ratios are of times, for bandwidths too: more is slower", *in_words(made))
    return Table("Time of written buffers over that of unchanged ones", columns, tuple(rows), said)


def comparisons(made: Sequence[Pair]) -> Iterator[Comparison]:
    """Every other runtime than the usual one, where that has done the same work."""
    bases = {_work(pair): pair for pair in reversed(made) if pair.point["driver"] == USUAL}
    for pair in made:
        base = bases.get(_work(pair))
        if base is None or pair.point["driver"] == USUAL:
            continue
        for size in SIZES:
            unchanged = times_as_long(pair.unchanged, base.unchanged, size)
            written = times_as_long(pair.written, base.written, size)
            if unchanged is not None and written is not None:
                yield Comparison(pair.point, size, unchanged, written)


def _work(pair: Pair) -> tuple[Any, ...]:
    return tuple(pair.point[name] for name in SAME_WORK)


def comparisons_table(made: Sequence[Pair]) -> Table:
    """A row for each benchmark, runtime and size: its time over that of the usual one."""
    rows = []
    for one in comparisons(made):
        names = str(one.point["benchmark"]), str(one.point["driver"]), SIZES[one.size]
        rows.append((*names, with_bounds(one.unchanged), with_bounds(one.written)))
    columns = columns_of("benchmark", "runtime", "size", "#unchanged buffers", "#written buffers")
    return Table(f"Time under a runtime over that under {USUAL}", columns, tuple(rows))


def in_words(made: Sequence[Pair]) -> Iterator[str]:
    """What the tables show, in sentences."""
    every = [pair.ratio(size) for pair in made for size in SIZES]
    ratios = [ratio for ratio in every if ratio is not None]
    slower = sum(ratio.low > 1 for ratio in ratios)
    faster = sum(ratio.high < 1 for ratio in ratios)
    yield (
        f"Of {len(ratios)} cases, written buffers take longer in {slower} and less time in "
        f"{faster}; in the others, 1 is in the interval."
    )
    found = list(comparisons(made))
    for runtime in dict.fromkeys(str(one.point["driver"]) for one in found):
        mine = [one for one in found if one.point["driver"] == runtime]
        better = sum(one.written.high < one.unchanged.low for one in mine)
        worse = sum(one.written.low > one.unchanged.high for one in mine)
        yield (
            f"Compared with {USUAL}, {runtime} does better with written buffers in {better} of "
            f"{len(mine)} cases and worse in {worse}; in the others the intervals overlap."
        )
