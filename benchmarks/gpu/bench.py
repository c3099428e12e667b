"""``make gpu-bench``: rates of the kernels on a GPU as shares of its memory speed, in ten minutes.

It first measures the speed of a copy, read and written: the ceiling. Then it measures kernels as
shares of the ceiling, and CuPy expressions for the same work; blocks per PE; the gain of one stream
per block; how much of the copies to and from the host is hidden by the sweep of the interior; and
whole runs on CPU and GPU over sizes. A kernel's rate counts only if its result has the bits of its
CPU counterpart, a run's rate only if it is valid and ends in the same state.

The measurement consists of parts. A part that fails, or for which no time is left, is reported with
the reason, and the others are still measured. After every part, results/gpu.json has all results so
far. At the end docs/performance.md and docs/figures/gpu.png are made from it. If called again with
the same files and GPU before all was measured, it continues with the parts that are missing.

``--smoke`` makes everything tiny and writes nothing, to test the script; numba's simulator allows
nothing else. Exit status: 0 all was measured, 1 some part was not, 2 there is no GPU. A kernel
below its required rate is reported, but is not a failure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from benchmarks.common import RESULTS, ROOT, revision, write
from benchmarks.gpu import rates
from benchmarks.gpu.cases import (
    BARS,
    CONFIGURATIONS,
    CUPY,
    DOUBLE,
    FULL,
    IN_SINGLE,
    MELTS,
    PIC_CONFIGURATIONS,
    SINGLE,
    SMOKE,
    STREAMS,
    in_word,
    in_words,
    reaches,
    share_of_copy,
)
from benchmarks.gpu.validation import program
from benchmarks.gpu.works import WORKS, kernel_rate
from miniapps.devices import backend as device

TOTAL_S = 450.0  # no part begins after it; a part makes at most two runs
ALL_MEASURED, SOME_FAILED, NO_GPU = 0, 1, 2
DRAWN_FROM_IT = ("benchmarks.gpu.figure", "benchmarks.report", "benchmarks.gpu.section")


class Part(NamedTuple):
    """A measurement, and its path in the results."""

    path: tuple[str, ...]
    measure: Callable[[], Any]

    @property
    def name(self) -> str:
        """The path in words."""
        return ": ".join(self.path)


def kernel_parts(gpu: Any, cases: dict[str, Any], simulated: bool) -> Iterator[Part]:
    """Rates of kernels by name and data type, and of CuPy expressions if not simulated."""
    for name, (app, _) in WORKS.items():
        for dtype in (DOUBLE, SINGLE) if app in IN_SINGLE else (DOUBLE,):
            measure = partial(kernel_rate, gpu, name, cases["kernels"][app], dtype)
            yield Part(("rates", name, dtype), measure)
    if simulated:
        return
    for app in ("jacobi2d", "stencil3d"):
        yield Part(("rates", app, CUPY), partial(rates.cupy_stencil, gpu, cases["kernels"][app]))
    yield Part(("rates", "pic push", CUPY), partial(rates.cupy_push, gpu, *cases["kernels"]["pic"]))


def run_parts(gpu: Any, cases: dict[str, Any], simulated: bool) -> Iterator[Part]:
    """Whole runs, and the overlap in them."""
    steps = cases["steps"]
    for configuration, more in CONFIGURATIONS.items():
        measure = partial(rates.jacobi2d_blocks, cases["blocks"], steps, more)
        yield Part(("blocks", configuration), measure)
    for configuration, more in PIC_CONFIGURATIONS.items():
        measure = partial(rates.pic_blocks, *cases["pic_blocks"], steps=steps, more=more)
        yield Part(("blocks", configuration), measure)
    for name, lattice in zip(MELTS, cases["melts"], strict=True):
        for dtype in (DOUBLE, SINGLE) if BARS[name].single else (DOUBLE,):
            yield Part(("rates", name, dtype), partial(rates.leanmd_melt, lattice, steps, dtype))
    if not simulated:
        yield Part(("rates", MELTS[0], CUPY), partial(rates.cupy_forces, gpu, cases["melts"][0]))
    yield Part(("copies",), partial(rates.hidden_copies, cases["blocks"]))
    for size in cases["streams"]:
        yield Part(("streams", in_words(size), str(STREAMS)), partial(rates.streams, size, STREAMS))
    for app, sizes in cases["sizes"].items():
        for size in sizes:
            yield Part(("sizes", app, size), partial(rates.on_both, app, size, steps))


def parts(gpu: Any, cases: dict[str, Any], simulated: bool) -> Iterator[Part]:
    """All parts, the ceiling first."""
    yield Part(("copy_bytes_per_s",), partial(rates.copy_bytes_per_s, gpu, cases["copy"]))
    yield from kernel_parts(gpu, cases, simulated)
    yield from run_parts(gpu, cases, simulated)


def say(text: str) -> None:
    """Print a line without buffering."""
    print(text, flush=True)


def measure(
    todo: Iterable[Part],
    keep: Callable[[dict[str, Any]], None],
    clock: Callable[[], float] = monotonic,
    total_s: float = TOTAL_S,
    before: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure all parts for which time is left; ``keep`` receives the results after each part.

    ``before``: the results of an earlier call, which are not measured again.
    """
    results: dict[str, Any] = {**(before or {}), "failures": {}}
    begin = clock()
    for part in todo:
        if is_in(results, part.path):
            continue
        passed = clock() - begin
        try:
            if passed >= total_s:
                raise TimeoutError("no time was left")
            found = part.measure()
        except Exception as error:
            results["failures"][part.name] = why = f"{type(error).__name__}: {error}"[:500]
            line = f"{part.name} FAILED: {why}"
        else:
            put(results, part.path, found)
            line = f"{part.name}: {found}"
        keep(results | {"kernels": compared(results)})
        say(f"[{passed:4.0f} s] {line}")  # last: `first.py` copies results when a line comes
    return results | {"kernels": compared(results)}


def put(results: dict[str, Any], path: tuple[str, ...], found: Any) -> None:
    """Store a value at a path of nested dictionaries."""
    *folders, name = path
    for folder in folders:
        results = results.setdefault(folder, {})
    results[name] = found


def is_in(results: dict[str, Any], path: tuple[str, ...]) -> bool:
    """Whether there is a value at a path of nested dictionaries."""
    here: Any = results
    for name in path:
        if name not in here:
            return False
        here = here[name]
    return True


def earlier(now: dict[str, Any], resume: bool, file: Path = RESULTS / "gpu.json") -> dict[str, Any]:
    """The results of a call with the same files and GPU; none if there was no such call.

    None either if that call has measured all, unless ``resume``.
    """
    try:
        found = json.loads(file.read_text())["results"]
    except (OSError, ValueError, KeyError):
        return {}
    same = all(found.get(name) == value for name, value in now.items())
    return found if same and (resume or not found["complete"]) else {}


def compared(results: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Rates in float64: as shares of a copy's, and over CuPy's."""
    ceiling, found = results.get("copy_bytes_per_s"), {}
    for name in BARS:
        measured = results.get("rates", {}).get(name, {})
        if DOUBLE not in measured:
            continue
        per_s = measured[DOUBLE]
        found[name] = {
            "per_s": per_s,
            "share_of_copy": share_of_copy(name, DOUBLE, per_s, ceiling),
            "over_cupy": per_s / measured[CUPY] if CUPY in measured else None,
        }
    return found


def draw() -> list[str]:
    """Make the page and the figure from the results; returns the failures."""
    python = [sys.executable, "-m"]
    done = {name: subprocess.run([*python, name], cwd=ROOT) for name in DRAWN_FROM_IT}
    return [f"{name}: status {end.returncode}" for name, end in done.items() if end.returncode]


def main() -> int:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, and no results")
    parser.add_argument("--resume", action="store_true", help="measure nothing again")
    parser.add_argument("--seconds", type=float, default=TOTAL_S, help="no part begins later")
    options = parser.parse_args()
    smoke = options.smoke
    try:
        backend: Any = device.open_backend("gpu")
        from miniapps.devices.cuda.compiler import simulated
    except device.DeviceUnavailable as error:
        print(f"gpu-bench: {error}", file=sys.stderr)
        return NO_GPU
    if simulated() and not smoke:
        print("gpu-bench: the simulator's speed says nothing; --smoke", file=sys.stderr)
        return NO_GPU
    name = backend.described()
    now, named = {"device": name, "program": program()}, revision()
    every = list(parts(device.get("gpu"), SMOKE if smoke else FULL, simulated()))

    def keep(results: dict[str, Any]) -> None:
        backend.toolkit.free_unused()  # runs in other processes need memory too
        if not smoke:
            complete = all(is_in(results, part.path) for part in every)
            write("gpu", now | results | {"revision": named, "complete": complete})

    before = {} if smoke else earlier(now, options.resume)
    results = measure(every, keep, total_s=options.seconds, before=before)
    failures = [f"{part}: {why}" for part, why in results["failures"].items()]
    if smoke:
        print(json.dumps(results, indent=1))
    else:
        failures += draw()
    for kernel, entry in results["kernels"].items():
        reached = reaches(kernel, DOUBLE, entry["per_s"], results.get("copy_bytes_per_s"))
        say(f"{kernel}: {in_word(reached)}, {entry['per_s'] / 1e9:.3g} 10^9/s on {name}")
    for failure in failures:
        say(f"FAILED {failure}")
    return SOME_FAILED if failures else ALL_MEASURED


if __name__ == "__main__":
    raise SystemExit(main())
