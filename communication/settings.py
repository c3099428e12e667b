"""The options of a communication benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from miniapps.communication.actions import NONE, TOUCHES
from miniapps.communication.buffers import KINDS
from miniapps.communication.catalogue import WORD, Benchmark
from miniapps.parameters import integer, parameter, require

DATA, TIMES, SHOWN = "messages", "repetitions", "output"  # groups of options
IN_BAND, OUT_OF_BAND = "in", "out"
LEVELS = ("single", "funneled", "serialized", "multiple")
METHODS = ("channel", "proxy", "future", "group", "section", "tree", "flat")
MOST_BYTES = 1 << 31  # of a message: MPI counts in 32 bits
MOST_TIMES = 1 << 40  # iterations, trials and messages per window


@dataclass(frozen=True)
class Span:
    """The smallest and the largest size of messages, in bytes, and the ratio of neighbours."""

    least: int
    most: int
    factor: int = 2

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``"16:4096"``, ``"16:4096:4"``, or ``"4096"`` as the largest size.

        Raises ValueError.
        """
        try:
            numbers = [integer(word) for word in text.split(":")]
            span = cls(1, *numbers) if len(numbers) == 1 else cls(*numbers)
        except (TypeError, ValueError):
            raise ValueError("MIN:MAX, MIN:MAX:FACTOR or MAX, such as 16:4194304") from None
        if not 0 <= span.least <= span.most < MOST_BYTES or span.factor < 2:
            raise ValueError("MIN:MAX:FACTOR with 0 <= MIN <= MAX < 2^31 and FACTOR 2 or more")
        return span

    def __str__(self) -> str:
        more = "" if self.factor == 2 else f":{self.factor}"
        return f"{self.least}:{self.most}{more}"

    def sizes(self) -> list[int]:
        """The smallest size, and its multiples by powers of the factor up to the largest."""
        found = [0] if self.least == 0 else []
        size = max(self.least, 1)
        while size <= self.most:
            found.append(size)
            size *= self.factor
        return found


@dataclass(frozen=True)
class Percentiles:
    """Percentiles of single iterations."""

    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``"50,99.9"``. Raises ValueError."""
        allowed = "numbers from 0 to 100 with commas between, such as 50,90,99"
        try:
            values = tuple(float(part) for part in text.split(","))
        except ValueError:
            raise ValueError(allowed) from None
        if not all(0 <= value <= 100 for value in values):
            raise ValueError(allowed)
        return cls(values)

    def __str__(self) -> str:
        return ",".join(f"{value:.15g}" for value in self.values)


@dataclass(frozen=True)
class Settings:
    """How a benchmark is made. `check` raises InputError if it cannot be."""

    buffer: str = parameter(
        "--buffer", "numpy", str, "kind of buffer; default: numpy", KINDS, group=DATA, key="buffer"
    )
    pickle: str | None = parameter(
        "--pickle",
        None,
        str,
        "send pickled objects: all data in the pickle, or out of it (protocol 5)",
        (IN_BAND, OUT_OF_BAND),
        group=DATA,
        key="pickle",
    )
    touch: str = parameter(
        "--touch",
        NONE,
        str,
        "write the buffer before each send; both: also read it after each receive; default: none",
        TOUCHES,
        group=DATA,
        key="touch",
    )
    touch_only: bool = parameter(
        "--touch-only",
        False,
        bool,
        "with --touch, do not also time the same with unchanged buffers",
        group=DATA,
    )
    span: Span | None = parameter(
        "-m",
        None,
        Span.parse,
        "sizes of messages in bytes, doubled from MIN to MAX, or MIN:MAX:FACTOR; default: 1 to 4 "
        "MiB, collectives 1 MiB",
        group=DATA,
        metavar="MIN:MAX",
    )
    window: int = parameter(
        "-W", 64, int, "messages per window; default: 64", group=DATA, metavar="N", key="window"
    )
    thread_level: str | None = parameter(
        "--thread-level",
        None,
        str,
        "thread level to start MPI with; default: the library's",
        LEVELS,
        group=DATA,
        key="thread_level",
    )
    method: str | None = parameter(
        "--method",
        None,
        str,
        "how data are moved, where a driver has several ways; --list has them, the default first",
        METHODS,
        group=DATA,
        key="method",
    )
    iterations: int | None = parameter(
        "-i",
        None,
        int,
        "timed iterations; default: 1000, 100 above 8192 B",
        group=TIMES,
        metavar="N",
    )
    warmups: int | None = parameter(
        "-x",
        None,
        int,
        "iterations before the timed ones; default: 60, 10 where a rate is measured",
        group=TIMES,
        metavar="N",
    )
    trials: int = parameter(
        "--trials",
        5,
        int,
        "how often all sizes are timed, each time in another order; default: 5",
        group=TIMES,
        metavar="N",
        key="trials",
    )
    seed: int = parameter(
        "--seed", 0, int, "seed of these orders; default: 0", group=TIMES, metavar="K", key="seed"
    )
    no_check: bool = parameter("--no-check", False, bool, "do not check the data", group=TIMES)
    percentiles: Percentiles | None = parameter(
        "-z",
        None,
        Percentiles.parse,
        "percentiles of single iterations, from 0 to 100, not nan",
        group=SHOWN,
        metavar="P,P",
    )
    full: bool = parameter(
        "-f", False, bool, "more columns: min, max, iterations, interval", group=SHOWN
    )

    def sizes(self, benchmark: Benchmark) -> list[int]:
        """The sizes of messages in bytes. Raises InputError if there is none."""
        if self.span is None and benchmark.usual:
            return list(benchmark.usual)
        span = self.span or Span(1, benchmark.largest)
        if not benchmark.sized:
            return [0]
        sizes = span.sizes()
        if benchmark.reduces:
            sizes = [size for size in sizes if size % WORD == 0 and size]
        allowed = f"{benchmark.name} needs multiples of {WORD} B above 0"
        require(bool(sizes), "-m", span, allowed)
        return sizes

    def iterations_of(self, benchmark: Benchmark, size: int) -> int:
        """Timed iterations for a size."""
        return benchmark.iterations(size) if self.iterations is None else self.iterations

    def warmups_of(self, benchmark: Benchmark) -> int:
        """Iterations before the timed ones."""
        return benchmark.warmups if self.warmups is None else self.warmups

    def check(self) -> None:
        """Raise InputError for numbers out of range."""
        for option, value, least in (
            ("-i", self.iterations, 1),
            ("-x", self.warmups, 0),
            ("-W", self.window, 1),
            ("--trials", self.trials, 1),
        ):
            allowed = f"must be from {least} to 2^40"
            require(value is None or least <= value <= MOST_TIMES, option, value, allowed)
