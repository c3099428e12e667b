"""Write docs/performance.md from the results; its tables contain only measured numbers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.common import RESULTS, ROOT, table
from benchmarks.gpu import host
from benchmarks.gpu.report import PUBLISHED_MELT, number, section

PAGE = ROOT / "docs/performance.md"
HEAD = """# Performance

For readers who want to know how fast the apps are, and compared with what.

{glance}
{short}

`benchmarks/report.py` writes this page from `benchmarks/results/*.json`, which `make bench`
updates. Measured on {cores} cores of a virtual machine that reports its CPU as {processor};
{system}, Python {python}, numba {numba}, mpi4py {mpi4py}, Charm4Py {charm4py}. Others share the
machine, so configurations that are compared run in turn.

Numbers are medians over trials. A ratio of two configurations is the median of the ratios of each
trial, so it can differ from the quotient of the two medians beside it. Most numbers repeat within
10 %; ratios of charm to mpi and times per message vary more (see [Remarks](#remarks)). *PE*: a
process, on a core of its own. *ODF* (over-decomposition factor): blocks per PE.
"""


def load(name: str) -> dict[str, Any]:
    """A benchmark's document."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def span(values: Iterable[float], form: str = ".2f") -> str:
    """The smallest and the largest value, or the only one."""
    found = sorted(values)
    return " to ".join(dict.fromkeys(f"{value:{form}}" for value in (found[0], found[-1])))


def at_a_glance(loaded: dict[str, dict[str, Any]], gpu: dict[str, Any]) -> str:
    """The apps on CPU cores and on a GPU: rates, beside what peers and the machine can do."""
    rows = []
    for name in ("jacobi2d 8192x8192", "stencil3d 400x400x400"):
        entry = loaded["stencils"][f"{name} on 2 core(s)"]
        app, share = name.split()[0], f"{entry['share_of_triad']:.2f} of a triad"
        tile, over = max(entry["tile_over_sweep"].items(), key=lambda found: found[1])
        rows.append([app, "2 cores", number(entry["sweep_points_per_s"], 1e9), "", "", share])
        rate = number(entry["tile_points_per_s"][tile], 1e9)
        several = f"{app}, {tile} sweeps per exchange"
        rows.append([several, "2 cores", rate, "one sweep per exchange", f"{over:.2f}", ""])
    speed = loaded["pic"]["speed"]["serial"]
    rate, over = number(speed["particles_per_s"], 1e9), f"{speed['over_numba_loop']:.1f}"
    rows.append(["pic", "1 core", rate, "a loop over particles in Numba", over, ""])
    melt = loaded["leanmd"]["melt"]["256000 atoms, 2 ranks"]
    rate, over = number(melt["leanmd_atom_steps_per_s"], 1e9), melt[IN_TIME]["leanmd_over_it"]
    rows.append(
        ["leanmd", "2 cores", rate, "LAMMPS `lj/cut/opt`, lists when needed", f"{over:.2f}", ""]
    )
    rows += of_patterns(loaded)
    for name in ("jacobi2d", "stencil3d", "pic push"):
        entry = gpu["kernels"][name]
        share, over = f"{entry['share_of_copy']:.2f} of a copy", f"{entry['over_cupy']:.1f}"
        row = [gpu["device"], number(entry["per_s"], 1e9), "CuPy expressions", over, share]
        rows.append([name.split()[0], *row])
    atoms, published = "1.02 M", json.loads(PUBLISHED_MELT.read_text())
    theirs = dict(zip(published["atoms"], published["rates"], strict=True))[atoms]
    rate = gpu["kernels"]["leanmd melt, 1 M atoms"]["per_s"]
    peer = f"LAMMPS KOKKOS, published, {published['device']}"
    row = [gpu["device"], number(rate, 1e9), peer, f"{rate / 1e6 / theirs:.2f}", ""]
    rows.append(["leanmd", *row])
    rows += [[app, gpu["device"], "not measured", "", "", ""] for app in ("cg", "transpose", "amr")]
    columns = ["app", "on", "10^9/s", "beside", "ratio", "of the machine's limit"]
    return f"""{table(columns, rows)}
Rates count cells times sweeps, or particles or atoms times steps, in float64; of cg and amr the
operations that HPCG and PRK count, of transpose bytes. *Ratio*: this program's rate divided by that
of the one under *beside*. *Of the machine's limit*: if memory is the limit, bytes per second
divided by those of a plain loop in the same run. The sections below say what each number means.
"""


def of_patterns(loaded: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The rows of cg, transpose and amr on CPU cores."""
    solver, others = loaded["cg"]["104^3"], loaded["cg"]["others at 104^3, GFLOP/s"]
    iterations, share = solver["exact, noise, GFLOP/s"], solver["operator, of the triad"]
    exchange = loaded["transpose"]["matrices on 2 PEs, GB/s"]["4096"]
    turn = loaded["transpose"]["kernels"]["4096"]["turn, of the triad"]
    sweep = loaded["amr"]["sweeps on 1 core"]["4000x4000"]
    found = (
        ("cg", "1 core", iterations, "C, without a matrix", others, f"operator: {share:.2f}"),
        ("transpose", "2 cores", exchange["mpi"], "C, one partner at a time", exchange,
         f"own part: {turn:.2f}"),
        ("amr", "1 core", sweep["ours, MFlop/s"] / 1e3, "C", {"C": sweep["C, MFlop/s"] / 1e3},
         f"{sweep['ours, of the triad']:.2f}"),
    )  # fmt: skip
    return [
        [app, on, number(rate, 1.0), peer, f"{rate / beside[peer]:.2f}", f"{limit} of a triad"]
        for app, on, rate, peer, beside, limit in found
    ]


def in_short(loaded: dict[str, dict[str, Any]]) -> str:
    """The answers of the page in five lines, from the results that its tables show."""
    sweeps = [entry for entry in loaded["stencils"].values() if "triad_bytes_per_s" in entry]
    both = [entry for name, entry in loaded["stencils"].items() if "on 2 core" in name]
    triads = [r["triad_bytes_per_s"] / 1e9 for r in both if "triad_bytes_per_s" in r]
    apps = loaded["comparison"].values()
    charm = {odf: span(r[f"charm_over_mpi, ODF {odf}"] for r in apps) for odf in (1, 8)}
    melts = loaded["leanmd"]["melt"].values()
    lammps = {name: span(r[name]["leanmd_over_it"] for r in melts) for name in LAMMPS}
    stencil3d = [r[name] for r in loaded["balancing"].values() for name in STENCIL_BALANCERS]
    pic = [
        r
        for found in loaded["pic"]["balancing"].values()
        for name, r in found.items()
        if not name.startswith("ideal_gain")
    ]
    starts = span(r["median_s"] for r in loaded["startup"].values())
    gains = span(r["gain"] for r in stencil3d), span(r["fraction_achieved"] for r in stencil3d)
    best = {base: max(r[f"gain_over_{base}"] for r in pic) for base in ("none", "mpi")}
    shares = span(r["share_of_triad"] for r in sweeps)
    return f"""* **Stencils.** A sweep from memory reaches {shares} of a triad's bandwidth, which is
  {span(triads, ".0f")} GB/s on 2 cores.
* **Charm4Py and mpi4py.** On 2 PEs a stencil under Charm4Py takes {charm[1]} times as long as
  under mpi4py with one block per PE, and {charm[8]} times with 8.
* **LeanMD and LAMMPS.** In the melt LeanMD is {lammps[EVERY_20]} times as fast as LAMMPS
  `lj/cut/opt` with lists rebuilt every 20 steps, {lammps[IN_TIME]} times with lists rebuilt when
  needed.
* **Load balancing.** Stencil3D with the published imbalance becomes {gains[0]} times as fast,
  {gains[1]} of the ideal gain. PIC under Charm4Py becomes at most {best["none"]:.2f} times as fast,
  and reaches at most {best["mpi"]:.2f} times the speed of mpi4py, which balances no load.
* **Start.** A run takes {starts} s from the command to the first step."""


def stencils(results: dict[str, Any]) -> str:
    """Kernels: share of the triad, tiles over sweep, rates in cache."""
    rows, cached = [], []
    for name, entry in results.items():
        if "in cache" in name:
            cached.append([name, f"{entry['sweep_points_per_s'] / 1e9:.2f}"])
        elif "vectors" not in name:
            tiles = entry["tile_over_sweep"]
            shown = ", ".join(f"{tile}: {factor:.2f}" for tile, factor in tiles.items())
            rate = max(entry["tile_points_per_s"].values()) / 1e9
            rows.append([
                name, f"{entry['triad_bytes_per_s'] / 1e9:.1f}",
                f"{entry['sweep_points_per_s'] / 1e9:.2f}", f"{entry['share_of_triad']:.2f}",
                shown, f"{rate:.2f}",
            ])  # fmt: skip
    vectors = {name: kind for name, kind in results.items() if "vectors" in name}
    columns = [
        "case", "triad, GB/s", "one sweep", "share", "factors by sweeps per exchange", "best rate",
    ]  # fmt: skip
    return f"""## Kernels

A sweep of a field larger than the caches is bound by memory bandwidth. Per cell it moves 24 bytes:
it reads the cell, reads the target cell (write-allocate) and writes it. Counted in the same way, a
triad a = b + s c moves 32 bytes per element. *Share* is the sweep's bytes per second divided by the
triad's. A sweep bound by memory has a share of at most about 1; values above 1 are noise. *Factors*
are the rates with temporal blocking divided by that of one sweep, for each number of sweeps per
exchange. Rates are in 10^9 points per second, of all cores together. Widest vector registers in the
machine code of the sweeps: {", ".join(sorted(set(vectors.values())))}.

{table(columns, rows)}
In cache, 10^9 points per second (two arrays of less than 1 MiB):

{table(["case", "rate"], cached)}"""


def messages(results: dict[str, Any]) -> str:
    """Microseconds per message and PE."""
    rows = [
        [name, f"{r['whole_us']:.1f}", f"{r['block_us']:.1f}", f"{r['driver_us']:.1f}",
         f"{r['uneven_us']:.1f}", f"{r['crossing']:.0%}"]
        for name, r in results.items() if "whole_us" in r
    ]  # fmt: skip
    crossing = []
    for size in ("64 B", "1024 B", "32768 B"):
        row = [size]
        own = results[f"serial, 1 block, {size}"]["driver_us"]
        for ours, bare in (("mpi, 2 ranks", "mpi4py"), ("charm, 2 PEs, ODF 1", "Charm4Py")):
            driver = results[f"{ours}, {size}"]
            share = driver["crossing"]
            per_message = (driver["driver_us"] - (1 - share) * own) / share
            row += [f"{per_message:.1f}", f"{results[f'bare {bare}, {size}']['bare_us']:.1f}"]
        crossing.append(row)
    columns = [
        "case", "time per message", "blocks", "driver", "imbalance wait", "messages that cross PEs",
    ]  # fmt: skip
    return f"""## Messages

Microseconds, for the app `echo`. *Time per message*: elapsed time divided by the messages that a PE
sends. It has two parts. *Blocks*: creating each message and comparing it with the expected one.
*Driver*: all the rest, including waiting. *Imbalance wait*: the part of the driver's time in which
PEs wait for the PE whose blocks took longest in that step. [messages.md](messages.md) explains how
the drivers send messages, and why.

{table(columns, rows)}
The next table gives the driver's time per message between PEs: the driver's time, minus that of the
messages within a PE (at their cost under serial), divided by the number of messages that cross PEs.
*Bare*: the same exchange of arrays without blocks or drivers, in runs made in turn. These times
cannot be compared with those in [messages.md](messages.md). Here they are medians of whole steps
and include all waiting; the first table there has minima of three runs, and the ping-pongs there
include the wake-ups of both PEs.

{table(["size", "mpi", "bare mpi4py", "charm, ODF 1", "bare Charm4Py"], crossing)}"""


def comparison(results: dict[str, Any]) -> str:
    """Charm over mpi."""
    rows = []
    for name, entry in results.items():
        ratios = [f"{entry[f'charm_over_mpi, ODF {odf}']:.2f}" for odf in (1, 4, 8)]
        rows.append([name, f"{entry['mpi_step_s'] * 1e3:.2f}", *ratios])
    columns = ["problem, 2 PEs", "mpi, ms per step", "charm/mpi ODF 1", "ODF 4", "ODF 8"]
    return f"""## Charm4Py against mpi4py

Charm4Py's time per step divided by mpi4py's, on 2 PEs; below 1, charm is faster. Medians of runs
made in turn.

{table(columns, rows)}"""


GAIN_COLUMNS = [
    "balancer", "ideal gain", "gain", "gain / ideal gain", "remaining imbalance", "moved",
    "cost, ms",
]  # fmt: skip
STENCIL_BALANCERS = "Greedy", "GreedyRefine"
EVERY_20, IN_TIME = "lammps, lists every 20 steps", "lammps, lists in time"
LAMMPS = {
    EVERY_20: "LAMMPS, rebuild every 20 steps, no check (rebuilds)",
    IN_TIME: "LAMMPS, rebuild when needed (rebuilds)",
}


def gain_row(
    name: str, ideal: float, gain: float, share: float, rest: dict[str, float]
) -> list[str]:
    """A row of `GAIN_COLUMNS`."""
    ratios = [f"{ratio:.2f}" for ratio in (ideal, gain, share, rest["imbalance"])]
    return [name, *ratios, f"{rest['migrations']:.0f}", f"{rest['balancing_s'] * 1e3:.0f}"]


def balancing(results: dict[str, Any]) -> str:
    """The gain of load balancing, and its share of the ideal gain."""
    rows = []
    for mode, entry in results.items():
        ideal = entry["ideal_gain"]
        for name in STENCIL_BALANCERS:
            r = entry[name]
            gain, share = r["gain"], r["fraction_achieved"]
            rows.append(gain_row(f"{mode}, {name}", ideal, gain, share, r))
    return f"""## Load balancing

Stencil3D of 128^3 points with the published imbalance, 2 PEs, ODF 4, 300 timed steps. Load is
first balanced at step 10, after 5 warm-up steps and 5 timed steps, then every 30 steps. As
additional load, a block spins for a time (`wait`) or repeats the sweep (`work`).

* *Ideal gain*: max/mean of the compute time per PE without load balancing.
* *Gain*: the time without load balancing divided by the time with it. Times are of whole runs, with
  the steps before the first load-balancing step and all migrations.
* *Gain / ideal gain*: median of the ratios of each trial. It is 1 for a perfect balancer, and
  1 / ideal gain, not 0, for a run without gain. So it is not the *fraction achieved* of
  [studies](studies.md#what-the-numbers-are).
* *Remaining imbalance*: max/mean of the compute time per PE with load balancing, of the whole run.
* *Moved*: how often blocks changed their PE. *Cost*: the time of all load-balancing steps.

{table(GAIN_COLUMNS, rows)}"""


def memory(results: dict[str, Any]) -> str:
    """Bytes per cell."""
    rows = [
        [name, f"{r['bytes_per_cell']:.2f}", f"{r['over_two_arrays']:.3f}"]
        for name, r in results.items()
    ]
    return f"""## Memory

Peak resident bytes per cell of the PE that uses most, minus those of a tiny problem. Two arrays
take 16 bytes per cell. The problems are
Jacobi2D 8192 x 8192, Stencil3D 400 x 400 x 400, one sweep per exchange.

{table(["case", "bytes per cell", "over two arrays"], rows)}"""


def startup(results: dict[str, Any]) -> str:
    """Seconds to the first step."""
    rows = [[name, f"{r['median_s']:.2f}", f"{r['worst_s']:.2f}"] for name, r in results.items()]
    return f"""## Start

Seconds from the command to the first step, with compiled kernels in the cache.

{table(["case", "median", "worst"], rows)}"""


def pic(results: dict[str, Any]) -> str:
    """Particles per second, bytes per particle, gain of balancing."""
    names = {"numba_loop": "Numba, a loop over particles", "numpy_arrays": "NumPy, whole arrays"}
    speed = [
        [names.get(name, name), f"{r['particles_per_s'] / 1e6:.0f}", f"{r['over_numba_loop']:.1f}"]
        for name, r in results["speed"].items()
    ]
    memory = [[name, f"{found:.0f}"] for name, found in results["bytes_per_particle"].items()]
    bases, gains = {"none": "charm unbalanced", "mpi": "mpi"}, []
    for (tile, found), base in itertools.product(results["balancing"].items(), bases):
        ideal = found[f"ideal_gain, {base}"]
        configuration = f"{tile} steps per exchange, " if tile != "1" else ""
        for name in (name for name in found if not name.startswith("ideal_gain")):
            r = found[name]
            gain, share = r[f"gain_over_{base}"], r[f"fraction_achieved_over_{base}"]
            gains.append(
                gain_row(f"{configuration}{name}, over {bases[base]}", ideal, gain, share, r)
            )
    return f"""## PIC

The published problem, L 2998, 600 000 particles, GEOMETRIC 0.999, k 0, m 1: millions of particles
per second over whole steps, exchange included. The first two are straightforward programs on one
core, with the charges in a mesh of doubles.

{table(["configuration", "10^6 particles/s", "over the Numba loop"], speed)}
Peak resident bytes per particle, 20 million particles, without the mesh (one byte per cell):

{table(["case", "bytes per particle"], memory)}
Balancing every 80 of 1000 steps, 2 PEs, ODF 8, blocks cut along the direction of the imbalance.
Columns as under [Load balancing](#load-balancing). *Over*: the unbalanced runs to which gain and
ideal gain refer.

{table(GAIN_COLUMNS, gains)}"""


def leanmd(results: dict[str, Any]) -> str:
    """Atom-steps per second beside LAMMPS, the published load, memory, gain of balancing."""
    melts = []
    for case, r in results["melt"].items():
        row = [case, f"{r['leanmd_atom_steps_per_s'] / 1e6:.2f}"]
        for name in LAMMPS:
            rate, ratio = r[name]["atom_steps_per_s"] / 1e6, r[name]["leanmd_over_it"]
            row += [f"{rate:.2f} ({r[name]['builds']:.0f})", f"{ratio:.2f}"]
        melts.append(row)
    columns = [column for head in LAMMPS.values() for column in (head, "ratio")]
    exact = results["exactness"]
    cost = exact["exact_ns_per_atom"] / exact["float_ns_per_atom"] - 1
    loads = [
        [name, f"{r['step_ms']:.1f}", f"{r['median_step_ms']:.1f}", f"{r['compute_ms_per_pe']:.1f}"]
        for name, r in results["paper"].items()
    ]
    memory = [[name, f"{found:.0f}"] for name, found in results["bytes_per_atom"].items()]
    gains = []
    for cut, found in results["balancing"].items():
        ideal = found["ideal_gain"]
        for name in ("Greedy", "GreedyRefine"):
            r = found[name]
            gains.append(gain_row(f"{cut}, {name}", ideal, r["gain"], r["fraction_achieved"], r))
    compared = single(results["single"])
    return f"""## LeanMD

Rates of LeanMD and of LAMMPS `lj/cut/opt` for the standard melt, in 10^6 atom-steps per second,
list building included, in runs made in turn. LAMMPS's own benchmark rebuilds its lists every 20
steps, and does not check whether atoms have left the skin by then
(`neigh_modify delay 0 every 20 check no`). *When needed*: LAMMPS checks this in every step, as
LeanMD does (`neigh_modify delay 0 every 1 check yes`). *Ratio*: LeanMD's rate divided by that of
LAMMPS.

{table(["case", "leanmd", *columns], melts)}{compared}
Exact sums add {cost:.0%} to the force loop: {exact["exact_ns_per_atom"]:.0f} ns per atom and step
instead of {exact["float_ns_per_atom"]:.0f} ns with floating-point sums.

The published load, 64 cells of 300 atoms, on 2 PEs, in milliseconds per step:

{table(["case", "mean step", "median step", "computing, per PE"], loads)}
Peak resident bytes per atom of the melt, beyond those of a small run, lists included:

{table(["case", "bytes per atom"], memory)}
Balancing every 20 steps, 2 PEs, a gradient of 100 to 250 atoms per cell, cut along it; columns as
under [Load balancing](#load-balancing):

{table(GAIN_COLUMNS, gains)}"""


def cg(results: dict[str, Any]) -> str:
    """Conjugate gradients: shares of a triad, rates, and what exactness costs."""
    sizes = {name: entry for name, entry in results.items() if "triad, GB/s" in entry}
    (others,) = [(name, entry) for name, entry in results.items() if name not in sizes]
    kernels = [name for name in next(iter(sizes.values())) if name.endswith(", of the triad")]
    shares = [
        [name.removesuffix(", of the triad"), *(f"{entry[name]:.2f}" for entry in sizes.values())]
        for name in kernels
    ]
    shares.append(["triad, GB/s", *(f"{entry['triad, GB/s']:.1f}" for entry in sizes.values())])
    rates = [
        [
            f"{size}, solution {solution}",
            *(f"{entry[f'{how}, {solution}, GFLOP/s']:.2f}" for how in ("exact", "plain")),
            f"{entry[f'exact over plain, {solution}']:.2f}",
        ]
        for size, entry in sizes.items()
        for solution in ("noise", "ones")
    ]
    rates += [
        [f"{others[0].split(',')[0]}: {name}", "", f"{rate:.2f}", ""]
        for name, rate in others[1].items()
    ]
    return f"""## Conjugate gradients

The kernels of [cg](cg.md) on one core, with the vectors of iteration 25, of the solution noise
(`benchmarks/apps/cg.py`): bytes that a kernel must move at least, per second, over those of a triad
called in turn with it.

{table(["kernel", *sizes], shares)}
Iterations without preconditioner, in HPCG's operations: 10^9 per second. *Plain*: the same kernels
with NumPy's dot products in place of exact ones, which do not give the same bits on other blocks.
With the solution ones, most points of the residual are 0 or tiny, so that exact products take the
slower loops of [exact sums](exact-sums.md#how-it-works). SciPy multiplies by a matrix in compressed
rows; the C is that of `benchmarks/apps/cg.c`, without a matrix, and with one in rows as in HPCG's
reference code.

{table(["iterations", "exact", "plain", "time of exact over plain"], rates)}"""


def transposes(results: dict[str, Any]) -> str:
    """Transposes: shares of a triad, rates of programs, and transforms beside others."""
    sizes, programs = results["kernels"], results["matrices on 2 PEs, GB/s"]
    shares = [
        [name, *(f"{entry[name]:.2f}" for entry in sizes.values())]
        for name in next(iter(sizes.values()))
    ]
    rates = [
        [name, *(f"{entry[name]:.2f}" for entry in programs.values())]
        for name in next(iter(programs.values()))
    ]
    transforms = [
        [f"{name.removesuffix(', ms')}, {where}", f"{ms:.1f}"]
        for where, key in (("1 core", "transforms on 1 core"), ("2 ranks", "transforms on 2 ranks"))
        for name, ms in results[key].items()
    ]
    peer = any("mpi4py-fft" in name for name in results["transforms on 2 ranks"])
    missing = "" if peer else " mpi4py-fft was not installed: FFTW was missing."
    return f"""## Transposes

The kernels of [transpose](transpose.md) on one core (`benchmarks/apps/transpose.py`): bytes that a
kernel must move at least, per second, over those of a triad called in turn with it. *PRK's GB/s*:
16 bytes per element, of B += A^T and A += 1 on the whole matrix, by `turn` and by NumPy. `take` and
`add` have a quarter of the matrix, which partly stays in L3, as all does at order 2000: so shares
may exceed 1.

{table(["order", *sizes], shares)}
The same rate of whole runs on 2 PEs. C is `benchmarks/apps/transpose.c`, which exchanges with one
partner at a time, as PRK's program does, or by `MPI_Alltoall`.

{table(["order", *programs], rates)}
A Fourier transform of 128^3 points and back, in milliseconds, beside SciPy's `fftn` and `ifftn` on
one core.{missing}

{table(["transform", "ms"], transforms)}"""


def amrs(results: dict[str, Any]) -> str:
    """AMR: its sweep beside a triad, C and NumPy, and rates of runs."""
    sizes = results["sweeps on 1 core"]
    swept = [
        [
            name,
            *(f"{entry[name]:{'.0f' if 'MFlop' in name else '.2f'}}" for entry in sizes.values()),
        ]
        for name in next(iter(sizes.values()))
    ]
    runs = [[name, f"{rate:.0f}"] for name, rate in results["runs, MFlop/s"].items()]
    return f"""## AMR

The sweep of [amr](amr.md) on one core (`benchmarks/apps/amr.py`), in the operations of the Parallel
Research Kernels: 19 for each point. It makes 11 operations for 32 bytes that it moves at least, so
memory is the limit: a triad, called in turn, moves as many bytes for each element. C is
`benchmarks/apps/amr.c`, with a loop for the stencil and one that adds 1, which moves 40 bytes a
point; NumPy is the app's reference. Arrays of 1000x1000 points may stay in L3, so shares may exceed
1.

{table(["background", *sizes], swept)}
The rate of whole runs of the preset `small`, with the refinements, their checks and all messages;
those of mpi and charm on 2 PEs.

{table(["run", "MFlop/s"], runs)}"""


def single(results: dict[str, Any]) -> str:
    """Atom-steps per second in both precisions, and of GROMACS."""
    rows = []
    for case, entry in results.items():
        for name, found in entry.items():
            over, rate = "", f"{found['atom_steps_per_s'] / 1e6:.1f}"
            if "over_gromacs" in found:
                ratio = found["over_gromacs"]
                over = f"{ratio['median']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"
            rows.append([f"{case}, {name}", rate, over, f"{found['drift']:.1e}"])
    return f"""
The same melt for 1000 steps in both precisions, beside GROMACS 2022.5 of Debian 12 in mixed
precision (`benchmarks/apps/gromacs_peer.py`: lists every 10 steps, 0.3 beyond the cutoff, automatic
buffer off). LeanMD rebuilds its lists when needed. Ratios are medians, minima and maxima of five
runs made in turn. *Drift*: of the energy, in epsilon per atom and step, from the first to the last
step, as each program reports it.

Debian builds GROMACS for SIMD registers of 128 bits. LeanMD's force loops use 256 bits in float64
and 512 bits in float32. So the table compares these two builds, not the two codes at their best.

{table(["case", "10^6 atom-steps/s", "over GROMACS", "drift"], rows)}"""


def host_of_gpu(results: dict[str, Any]) -> str:
    """What a step on a GPU costs the host."""
    cases = host.CASES
    over = [name for name, case in results.items() if case["us"] > cases[name].most_us]
    missed = f"above it: {'; '.join(over)}" if over else "none is above it"
    processor = load("gpu_host")["host"]["processor"]
    return f"""## A step on a GPU: the host's part

The table gives the host's time in Python per step, over a stub CUDA driver whose calls return at
once, and the number of driver calls and of allocated arrays per step (`benchmarks/gpu/host.py`). A
step whose kernels take less time than the host is launch-bound. Kernels are not executed; what the
host reads back was recorded in an earlier run with emulated kernels. Measured on {processor}.
*Target*: the limit that the project sets itself; {missed}.

{host.table_of(results)}"""


PARTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "stencils": stencils,
    "comparison": comparison,
    "messages": messages,
    "balancing": balancing,
    "memory": memory,
    "startup": startup,
    "pic": pic,
    "leanmd": leanmd,
    "cg": cg,
    "transpose": transposes,
    "amr": amrs,
    "gpu_host": host_of_gpu,
}


def page() -> str:
    """The whole page; a part that has not been measured yet is left out."""
    document = load("stencils")
    there = [name for name in PARTS if (RESULTS / f"{name}.json").exists()]
    loaded = {name: load(name)["results"] for name in there}
    glance = at_a_glance(loaded, load("gpu")["results"])
    around = document["host"] | document["versions"]
    head = HEAD.format(glance=glance, short=in_short(loaded), **around)
    remarks = RESULTS.with_name("remarks.md").read_text()
    parts = [PARTS[name](loaded[name]) for name in there]
    parts.append(section(load("gpu")))
    return "\n".join([head, *parts, remarks])


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
