"""The section on one GPU in docs/results/README.md, from the results of GPUs."""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, ROOT, table
from benchmarks.gpu.cases import CONFIGURATIONS, FULL, PIC_CONFIGURATIONS, in_words
from benchmarks.gpu.check import FORKED, LATE, TOOLS, UNFINISHED
from benchmarks.gpu.report import NOT, number
from benchmarks.gpu.validation import VALIDATION

PAGE = ROOT / "docs/results/README.md"
TITLE, NEXT = "## On one GPU\n", "\n## "
FIRST_RUNS = Path(__file__).with_name("first_runs.json")
PUBLISHED = ROOT / "studies/published/espm2_jacobi2d_gpu.json"
EDGE, GPUS_PER_NODE = 73728, 6  # of the published problem and machine
EIGHT = "jacobi2d --size 8192x8192 --time-tile 1 --steps 100 --warmup 10 --pe-grid 8x1"
SINGLE_RUNS = {  # those of the first runs that are in configurations of the benchmark
    "serial, 8 blocks": EIGHT,
    "pic, 1 block": "pic --preset large",
    "pic, 8 blocks": "pic --preset large --pe-grid 4x2",
}
FAILED_FIRST = "charm, 2 PEs, ODF 4"  # a configuration of the first runs, which failed
WIDTH = 120  # of the page


def loaded() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The last benchmark, the first runs, and the last validation."""
    files = RESULTS / "gpu.json", FIRST_RUNS
    last, first = (json.loads(file.read_text())["results"] for file in files)
    return last, first, json.loads(VALIDATION.read_text())


def filled(text: str) -> str:
    """A paragraph in lines of the page's width."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_on_hyphens=False) + "\n"


def section() -> str:
    """The whole section."""
    last, first, validation = loaded()
    again = last if last.get("revision") != first["revision"] else {}
    return "\n".join(
        [TITLE, checked(validation), sizes(last), blocks(first, again), published(last)]
    )


def checked(validation: dict[str, Any]) -> str:
    """What passed, what failed, and what is open."""
    tests = validation["tests"]
    passed, failed = (tests.get(word, 0) for word in ("passed", "failed"))
    same = [name.split() for name, run in validation["runs"].items() if run.get("same_state")]
    clean = [n.split()[0] for n, said in validation["sanitizer"].items() if said.startswith("0 ")]
    done = [f"{passed} of {passed + failed} tests passed"] if tests else []
    if same:
        types = listed("float32" if "float32" in words else "float64" for words in same)
        done.append(
            f"{len(same)} large runs of {listed(words[0] for words in same)} under "
            f"{listed(words[-1] for words in same)} (two ranks or PEs on the GPU), in {types}, "
            "had the state hash of the CPU"
        )
    if clean:
        done.append(f"{len(clean)} runs under {listed(clean)} had no error")
    ran = f"""On {validation["date"]}, revision {validation["revision"]} ran on one
{validation["device"]["name"]}: {"; ".join(done) or "nothing has passed"}."""
    return filled(" ".join([ran, *wrong(validation["failures"], failed)]))


def wrong(failures: Iterable[str], tests: int) -> Iterator[str]:
    """Sentences on what failed and on what is open; ``tests``: the number of those that failed."""
    parts = [failure.partition(": ") for failure in failures if failure != UNFINISHED]
    late = [name for name, _, why in parts if why.startswith(LATE)]
    forked = [name for name, _, why in parts if FORKED in why]
    # The tests that failed with such runs had the same cause.
    explained = {*late, *forked, *(["tests"] if forked else [])}
    if forked:
        yield f"""The {tests} tests and {len(forked)} runs that failed have one cause: charm with
two PEs opened CUDA before its runtime forked. That is fixed, but no GPU has run it since."""
    if failed := [f"{name} ({why})" for name, _, why in parts if name not in explained]:
        yield f"Failed: {'; '.join(failed)}."
    if late:
        kinds = Counter(name.split()[0] if name.split()[0] in TOOLS else "runs" for name in late)
        numbers = listed(f"{count} of {kind}" for kind, count in kinds.items())
        yield f"Not run, for lack of time: {numbers}."
    if UNFINISHED in failures:
        yield "The check did not run to its end."


def listed(words: Iterable[str]) -> str:
    """The different words in an enumeration."""
    *most, last = dict.fromkeys(words)
    return f"{', '.join(most)} and {last}" if most else last


def sizes(last: dict[str, Any]) -> str:
    """The largest problem of each app that was measured on GPU and CPU."""
    rows = []
    for app, every in FULL["sizes"].items():
        entries = last.get("sizes", {}).get(app, {})
        for size in [size for size in every if size in entries][-1:]:
            entry = entries[size]
            gpu, cpu = entry["gpu"], entry["cpu"]
            rates = [f"{number(rate, 1e9)}" for rate in (gpu, cpu)]
            rows.append([app, size, entry["unit"], *rates, f"{gpu / cpu:.0f}"])
    columns = ["app", "size", "unit", "GPU, 10^9/s", "CPU, 8 ranks, 10^9/s", "ratio"]
    said = filled(f"""Whole runs in float64 on the {last["device"]} and on 8 of the 16 cores
beside it, at the largest of the sizes in the figure; [performance.md](../performance.md#gpu) has
all of them, and the kernels.""")
    return f"![Rates on a GPU](../figures/gpu.png)\n\n{said}\n{table(columns, rows)}"


def blocks(first: dict[str, Any], again: dict[str, Any]) -> str:
    """Over-decomposition and processes that share the GPU, at first and now."""
    rows = []
    before = {name: first["runs"][words]["rate"] for name, words in SINGLE_RUNS.items()}
    before |= first["jacobi2d"]
    for name in (*CONFIGURATIONS, *PIC_CONFIGURATIONS):
        now = again.get("blocks", {}).get(name, {}).get("rate")
        then = number(before.get(name), 1e9) or ("failed" if name == FAILED_FIRST else NOT)
        rows.append([name, then, number(now, 1e9) or NOT])
    runs = [[f"`{words}`", number(run["rate"], 1e9)] for words, run in first["runs"].items()]
    rate = f"10^9 points or particles/s at {first['revision']}"
    columns = ["configuration", rate, "since"]
    cells, eight = math.prod(FULL["blocks"]), first["runs"][EIGHT]["rate"]
    took, needed = (1e6 * cells / rate / 8 for rate in (eight, first["jacobi2d"]["serial"]))
    lost = 1 - first["jacobi2d"]["charm, ODF 8"] / first["jacobi2d"]["charm, ODF 1"]
    said = filled(f"""Jacobi2D, {in_words(FULL["blocks"])}, one sweep per exchange, and PIC, preset
large. **With ODF 8 on
one GPU, {lost:.0%} of the rate was lost** at revision {first["revision"]}: eight blocks in one
process took {took:.0f} us per block and step, of which the GPU needs {needed:.0f}, so it waited for
the host. [gpu-kernels.md](../gpu-kernels.md#what-a-step-costs-the-host) says what has changed
since.""")
    single = filled("""Single runs of that revision, all with the CPU's bits. For charm with
several PEs the test for a GPU was disabled by hand, because it made such runs fail.""")
    made = table(["run", "10^9 points or particles/s"], runs)
    return f"{said}\n{table(columns, rows)}\n{single}\n{made}"


def published(last: dict[str, Any]) -> str:
    """Figs. 5 and 6 of ESPM2 2021, as far as one GPU goes."""
    paper = json.loads(PUBLISHED.read_text())
    rates = [
        [str(nodes * GPUS_PER_NODE), f"{low} to {high}", " to ".join(
            number(EDGE**2 / (1e-3 * ms) / (nodes * GPUS_PER_NODE), 1e9) for ms in (high, low)
        )]
        for nodes, (low, high) in zip(
            paper["nodes"], paper["mpi4py, 99 % intervals"], strict=True
        )
    ]  # fmt: skip
    found = last.get("blocks", {})
    ours = [found.get(name, {}).get("rate") for name in ("charm, ODF 1", "serial")]
    size = in_words(FULL["blocks"])
    rows = [
        *(["V100, published", gpus, ms, rate] for gpus, ms, rate in rates),
        [f"{last['device'].removeprefix('NVIDIA ')}, {size}", "1", "", number(ours[1], 1e9) or NOT],
    ]
    columns = ["GPU", "GPUs", "ms per step", "10^9 points/s and GPU"]
    charm = ""
    if all(ours):
        charm = f"""On one, charm with ODF 1 has {ours[0] / ours[1]:.2f} of the rate of a process
without a runtime."""
    said = filled(f"""Fink et al. (ESPM2 2021) ran Jacobi2D on GPUs with {EDGE}x{EDGE} cells in all
(Fig. 5) and per node of six (Fig. 6). Their smallest published time is of 96 GPUs, so one GPU
repeats none of their points: the rates per GPU below differ in card, cells per GPU, and whether
halos travel. Their conclusion, no significant difference between Charm4Py and mpi4py, needs several
GPUs. {charm}""")
    return f"{said}\n{table(columns, rows)}"


def page() -> str:
    """The page with the section as the results have it."""
    text = PAGE.read_text()
    before, _, rest = text.partition(TITLE)
    _, found, after = rest.partition(NEXT)
    return f"{before}{section()}{found}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
