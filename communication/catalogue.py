"""The communication benchmarks by name, as in the OSU Micro-Benchmarks (OMB).

Names, what is timed and the columns follow OMB 7 and OMB-Py (Alnaasan et al., 2021,
arXiv:2110.10659).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

LARGE = 8192  # bytes: above, there are fewer iterations
WORD = 4  # bytes: reductions add unsigned integers of this size
LATENCY, RATE, OVERLAP = "latency", "rate", "overlap"  # what is measured
PAIRS, ALL = "pairs", "all"  # the ranks that take part
LARGEST = {PAIRS: 1 << 22, ALL: 1 << 20}  # bytes of a message by default, as in OMB
COLLECTIVES = {
    "allgather": "Allgather",
    "allgatherv": "Allgatherv",
    "allreduce": "Allreduce",
    "alltoall": "All-to-All Personalized Exchange",
    "alltoallv": "All-to-All Personalized Exchange (v)",
    "barrier": "Barrier",
    "bcast": "Broadcast",
    "gather": "Gather",
    "gatherv": "Gatherv",
    "reduce": "Reduce",
    "reduce_scatter": "Reduce_scatter",
    "scatter": "Scatter",
    "scatterv": "Scatterv",
}
NEIGHBORS = {
    "neighbor_allgather": "Neighborhood Allgather",
    "neighbor_allgatherv": "Neighborhood Allgatherv",
    "neighbor_alltoall": "Neighborhood Alltoall",
    "neighbor_alltoallv": "Neighborhood Alltoallv",
}
REDUCTIONS = ("allreduce", "reduce", "reduce_scatter", "acc_latency")


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    ``title``: its heading in OMB; ``movement``: the key in `movement.MOVEMENTS` of what each rank
    sends and must receive; ``measures``: a latency (us), a rate (MB/s), or the overlap of a
    non-blocking collective; ``ranks``: whether pairs of ranks or all take part;
    ``counts_messages``: whether messages/s are reported, too; ``many_pairs``: whether there may be
    several pairs; ``windowed``: whether many messages are under way at once; ``one_sided``: whether
    rank 0 alone acts; ``usual``: the sizes of messages by default, if not all powers of 2.
    """

    name: str
    title: str
    movement: str
    measures: str = LATENCY
    ranks: str = ALL
    counts_messages: bool = False
    many_pairs: bool = False
    windowed: bool = False
    one_sided: bool = False
    usual: tuple[int, ...] = ()

    @property
    def trips(self) -> int:
        """How many messages follow one another in an iteration: a latency is divided by it."""
        return 2 if self.movement == "ping_pong" else 1

    @property
    def directions(self) -> int:
        """In how many directions a rate's messages travel."""
        return 2 if self.movement == "both_ways" else 1

    @property
    def unit(self) -> str:
        """The unit of its values."""
        return "MB/s" if self.measures == RATE else "us"

    @property
    def reduces(self) -> bool:
        """Whether messages are numbers that are added."""
        return self.movement in REDUCTIONS

    @property
    def touched_between(self) -> bool:
        """Whether data are touched between iterations: all but those of a ping-pong.

        In a window, touching a message would overlap with the transfer of others.
        """
        return self.ranks == ALL or self.one_sided or self.windowed

    @property
    def sized(self) -> bool:
        """Whether it moves data: all but barriers."""
        return self.movement != "barrier"

    @property
    def largest(self) -> int:
        """The largest message by default, in bytes."""
        return LARGEST[self.ranks]

    def takes(self, setting: str) -> bool:
        """Whether it uses a setting, which is named by its field in `Settings`."""
        if self.name == ANATOMY.name:
            return setting in ("span", "thread_level", "iterations", "trials", "seed")
        if setting == "window":
            return self.windowed
        return self.sized or setting not in ("span", "buffer", "touch")

    def iterations(self, size: int) -> int:
        """Timed iterations by default, as in ESPM2 2021."""
        return 1000 if size <= LARGE else 100

    @property
    def warmups(self) -> int:
        """Iterations before the timed ones by default, as in ESPM2 2021."""
        return 10 if self.measures == RATE else 60

    def refuses(self, ranks: int) -> str | None:
        """Which numbers of ranks are allowed, if this one is not."""
        if self.ranks == ALL:
            return None if ranks >= 2 else f"{self.name} needs 2 ranks or more"
        if not self.many_pairs:
            return None if ranks == 2 else f"{self.name} needs exactly 2 ranks"
        return None if ranks >= 2 and ranks % 2 == 0 else f"{self.name} needs an even number"


def _rate(name: str, title: str, movement: str) -> Benchmark:
    """A benchmark of the rate at which windows of messages move."""
    return Benchmark(name, title, movement, RATE, PAIRS, windowed=True)


def _pairs() -> Iterator[Benchmark]:
    yield Benchmark("latency", "Latency", "ping_pong", ranks=PAIRS)
    yield _rate("bw", "Bandwidth", "stream")
    yield _rate("bibw", "Bi-Directional Bandwidth", "both_ways")
    name, title = "multi_lat", "Multi Latency"
    yield Benchmark(name, title, "ping_pong", ranks=PAIRS, many_pairs=True)
    many = _rate("mbw_mr", "Multiple Bandwidth / Message Rate", "stream")
    yield replace(many, counts_messages=True, many_pairs=True)


def _collectives() -> Iterator[Benchmark]:
    titles = COLLECTIVES | NEIGHBORS
    for name, title in titles.items():
        yield Benchmark(name, f"{title} Latency", name)
    for name, title in titles.items():
        yield Benchmark(f"i{name}", f"Non-blocking {title} Latency", name, measures=OVERLAP)
    for name, title in titles.items():
        yield Benchmark(f"{name}_persistent", f"Persistent {title} Latency", name)


def _one_sided() -> Iterator[Benchmark]:
    titles = {"put": "Put", "get": "Get", "acc": "Accumulate"}
    for name, title in titles.items():
        movement = f"{name}_latency"
        yield Benchmark(movement, f"{title} Latency", movement, ranks=PAIRS, one_sided=True)
    for name in ("put", "get"):
        made = _rate(f"{name}_bw", f"{titles[name]} Bandwidth", f"{name}_bw")
        yield replace(made, one_sided=True)


CATALOGUE: Mapping[str, Benchmark] = {
    made.name: made for group in (_pairs, _collectives, _one_sided) for made in group()
}
MESSAGES = frozenset(made.name for made in _pairs())
# What the calls that move a message consist of; not of OMB, and made by other code (`anatomy`).
ANATOMY = Benchmark("anatomy", "Anatomy", "ping_pong", ranks=PAIRS, usual=(8, 1024, 65536, 1 << 20))
