"""What each call of NVIDIA's driver costs the host, and how often a step of each app makes it.

    python benchmarks/gpu_calls.py           on a GPU, in less than a minute
    python benchmarks/gpu_calls.py --smoke   few repetitions, over the stub driver too; no results

The calls are made as `devices.cuda` makes them, so their times contain Python and cuda.bindings; a
call that does nothing shows what these two cost alone. A time is that of one call in a group of
`GROUP`, and between groups the host waits for the GPU: so queues are never full. Given are the
median over the groups, and the tenth and the ninetieth percentile.

Then few rounds of each case of `host.py` are made, and the same calls are counted in them.
Calls times their cost give a part of the host's time per block and round; the rest is Python's.

Exit status: 0; 1 if there is too little time; 2 if there is no GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this is started by its path

from benchmarks.common import earlier, table, write  # noqa: E402
from benchmarks.gpu.costs import (  # noqa: E402
    ARRAY,
    LAUNCH,
    NOTHING,
    STANDS_FOR,
    SWITCH,
    SYNCHRONIZE,
)
from benchmarks.gpu.host import CASES, Rounds, few  # noqa: E402
from benchmarks.gpu.validation import program  # noqa: E402
from miniapps.devices import backend  # noqa: E402

GROUP, GROUPS = 20, 200  # calls, and groups of them
FEW_GROUPS = 2  # of a smoke test
SIZES = {"1 KB": 1 << 10, "64 KB": 1 << 16, "1 MB": 1 << 20, "16 MB": 1 << 24}
LARGE, LARGE_GROUP = 1 << 20, 2  # bytes of a copy from which on groups have fewer calls
WITHOUT_TIME = 2  # CU_EVENT_DISABLE_TIMING
TAKES_S = 60.0
MEASURED, NO_TIME, NO_GPU = 0, 1, 2  # exit status
SMOKE_CASES = "jacobi2d", "jacobi2d, 8 blocks"


class Timed(NamedTuple):
    """A call to be timed, how often in a group, and what ends the work of a group."""

    call: Callable[[], Any]
    group: int = GROUP
    synchronize: Callable[[], Any] = lambda: None


def calls(gpu: Any) -> Iterator[tuple[str, Timed]]:
    """The calls to be timed, by name, with what they need around them; ``gpu``: a `Gpu`."""
    toolkit, stream = gpu.backend.toolkit, gpu.stream
    timed = partial(Timed, synchronize=stream.synchronize)
    yield NOTHING, Timed(toolkit.driver.driver.cuCtxGetCurrent)
    yield SWITCH, Timed(partial(switched, stream.queue))
    yield from launches(stream, timed)
    yield from events(toolkit.driver, stream, timed)
    yield SYNCHRONIZE, Timed(stream.synchronize)
    yield ARRAY, timed(partial(toolkit.array, "empty", 512, "f8", stream))
    yield "pinned memory, allocate and release", Timed(partial(toolkit.pinned, 1 << 16))
    yield "fill, 64 KB", timed(partial(toolkit.array, "zeros", 1 << 13, "f8", stream))
    yield from copies(toolkit, stream, timed)


def switched(queue: Any) -> None:
    """Make a stream of CuPy's the current one, and the earlier one again."""
    with queue:
        pass


def launches(stream: Any, timed: Callable[..., Timed]) -> Iterator[tuple[str, Timed]]:
    """Launches of a kernel of one warp."""
    from miniapps.devices.cuda.memory import zeros
    from miniapps.devices.cuda.primitives import _fill

    numbers = zeros(1, np.int64, stream)
    where = 1, 32, stream
    packed = _fill.prepared(where, 1, numbers, 0)

    def launched_and_ended() -> None:
        packed()
        stream.synchronize()

    yield LAUNCH, timed(packed)
    yield "launch, packed now", timed(partial(_fill[where], 1, numbers, 0))
    yield "launch, until done", timed(launched_and_ended)


def events(driver: Any, stream: Any, timed: Callable[..., Timed]) -> Iterator[tuple[str, Timed]]:
    """Calls about events, with and without times."""
    cuda, checked, made = driver.driver, driver.checked, []

    def recorded(flags: int) -> Any:
        event = checked(cuda.cuEventCreate(flags))
        made.append(event)
        checked(cuda.cuEventRecord(event, stream.handle))
        return event

    first, last, untimed = recorded(0), recorded(0), recorded(WITHOUT_TIME)
    stream.synchronize()
    for what, event in {"": first, " without time": untimed}.items():
        flags = WITHOUT_TIME if what else 0
        yield f"event{what}, create", Timed(lambda f=flags: made.append(cuda.cuEventCreate(f)[1]))  # type: ignore[misc]
        yield f"event{what}, record", timed(partial(cuda.cuEventRecord, event, stream.handle))
    stream.synchronize()
    yield "event, query", Timed(partial(cuda.cuEventQuery, first))
    yield "event, elapsed time", Timed(partial(cuda.cuEventElapsedTime, first, last))
    yield "event, wait on the host once reached", Timed(partial(cuda.cuEventSynchronize, last))
    other = stream.toolkit.stream()
    waiting = partial(cuda.cuStreamWaitEvent, other.handle, last, 0)
    yield "stream, wait for an event", Timed(waiting, synchronize=other.synchronize)
    stream.toolkit.idle.append(other)
    for event in made:
        checked(cuda.cuEventDestroy(event))


def copies(toolkit: Any, stream: Any, timed: Callable[..., Timed]) -> Iterator[tuple[str, Timed]]:
    """Copies between pinned and device memory: the call alone, and until they are done."""
    for size, nbytes in SIZES.items():
        host = toolkit.pinned(nbytes)
        there, more = (toolkit.array("zeros", nbytes, np.uint8, stream) for _ in range(2))
        group = GROUP if nbytes < LARGE else LARGE_GROUP
        for where, copy in {
            "to host": partial(there.copy_to_host, host, stream),
            "to device": partial(there.copy_to_device, host, stream),
            "within device": partial(there.copy_to_device, more, stream),
        }.items():

            def done(copy: Callable[[], None] = copy) -> None:
                copy()
                stream.synchronize()

            yield f"copy {where}, {size}, the call", timed(copy, group)
            yield f"copy {where}, {size}, until done", timed(done, group)


def cost(timed: Timed, groups: int) -> dict[str, float]:
    """Microseconds of one call: median, tenth and ninetieth percentile over groups of calls."""
    seconds = []
    for _ in range(groups):
        timed.synchronize()
        before = perf_counter()
        for _ in range(timed.group):
            timed.call()
        seconds.append((perf_counter() - before) / timed.group)
    low, median, high = (float(f"{1e6 * s:.4g}") for s in np.percentile(seconds, [10, 50, 90]))
    return {"us": median, "p10_us": low, "p90_us": high}


class Counting:
    """The driver as `devices.cuda.driver` calls it, which counts."""

    def __init__(self, real: Any, counts: Counter[str]) -> None:
        self.real, self.counts = real, counts

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.real, name)
        if name not in STANDS_FOR:
            return function

        def counted(*arguments: Any) -> Any:
            self.counts[name] += 1
            return function(*arguments)

        return counted


@contextmanager
def counting(toolkit: Any) -> Iterator[Counter[str]]:
    """Count the calls of the driver, and arrays that are allocated, meanwhile."""
    counts: Counter[str] = Counter()

    def counted(name: str) -> Any:
        make = getattr(toolkit, name)

        def made(*arguments: Any) -> Any:
            counts[name] += 1
            return make(*arguments)

        return mock.patch.object(toolkit, name, made)

    driver = mock.patch.object(toolkit.driver, "driver", Counting(toolkit.driver.driver, counts))
    with driver, counted("array"), counted("pinned"):
        yield counts


def per_block(name: str) -> dict[str, float]:
    """The calls of a case of `host.py` per block and round, after a few rounds."""
    case = few(CASES[name])
    rounds = Rounds(case, computes=True)
    for _ in range(case.warmup):
        rounds.host_s()
    with counting(rounds.toolkit) as counts:
        for _ in range(case.rounds):
            rounds.host_s()
    each = case.rounds * rounds.blocks
    return {call: round(counts[call] / each, 3) for call in STANDS_FOR if counts[call]}


def measured(groups: int, cases: Iterable[str]) -> dict[str, Any]:
    """What calls cost, and how often each case makes them per block and round."""
    gpu = backend.get("gpu")
    costs = {}
    for name, timed in calls(gpu):
        timed.call()  # the first one may compile, or make what later ones use again
        costs[name] = cost(timed, groups)
    return {"calls": costs, "per_block_and_round": {name: per_block(name) for name in cases}}


def host_us(counts: dict[str, float], costs: dict[str, dict[str, float]]) -> float:
    """The microseconds that calls take, per block and round."""
    return sum(count * costs[STANDS_FOR[call]]["us"] for call, count in counts.items())


def shown(results: dict[str, Any]) -> str:
    """Both tables, in Markdown."""
    costs, counts = results["calls"], results["per_block_and_round"]
    rows = [[name, *(f"{us:.2f}" for us in found.values())] for name, found in costs.items()]
    first = table(["call", "µs", "10 %", "90 %"], rows)
    named = [call for call in STANDS_FOR if any(call in case for case in counts.values())]
    rows = [
        [name, *(f"{case.get(call, 0):g}" for call in named), f"{host_us(case, costs):.1f}"]
        for name, case in counts.items()
    ]
    return f"{first}\n{table(['per block and round', *named, 'µs in all'], rows)}"


def main() -> int:
    """Measure, print tables, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="few repetitions, and no results")
    parser.add_argument("--resume", action="store_true", help="measure nothing again")
    parser.add_argument("--seconds", type=float, default=TAKES_S, help="that are left")
    options = parser.parse_args()
    try:
        opened: Any = backend.open_backend("gpu")
        if not hasattr(opened.toolkit, "driver"):
            raise backend.DeviceUnavailable("the simulator calls no driver")
    except backend.DeviceUnavailable as error:
        print(f"gpu-calls: {error}", file=sys.stderr)
        return NO_GPU
    if options.smoke:
        print(shown(measured(FEW_GROUPS, SMOKE_CASES)))
        return MEASURED
    now = {"device": opened.described(), "program": program()}
    results = earlier("gpu_calls") if options.resume else {}
    if not now.items() <= results.items():  # of another GPU or program, or none
        if options.seconds < TAKES_S:
            print(f"gpu-calls: needs {TAKES_S:.0f} s", file=sys.stderr)
            return NO_TIME
        results = now | measured(GROUPS, CASES)
        write("gpu_calls", results)
    print(shown(results))
    return MEASURED


if __name__ == "__main__":
    sys.exit(main())
