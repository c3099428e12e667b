"""Write docs/performance.md: the text of performance.md with the numbers that were measured."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, ROOT, table
from benchmarks.gpu import host
from benchmarks.gpu.report import NOT, PUBLISHED_MELT, number, numbers

PAGE = ROOT / "docs/performance.md"
TEMPLATE = Path(__file__).with_name("performance.md")
ON_GPU = {  # a kernel of each app, and what it is called if its rate is not the app's
    "jacobi2d": ("jacobi2d", ""),
    "stencil3d": ("stencil3d", ""),
    "pic": ("pic push", ""),
    "leanmd": ("leanmd melt, 1 M atoms", ""),
    "cg": ("cg operator, 27 points", "operator: "),
    "transpose": ("transpose turn", "own part: "),
    "amr": ("amr sweep", "sweep: "),
}
Numbers = dict[str, Any]  # of a part of the template, by its names: tables and single numbers


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
    rows += [[app, gpu["device"], *row] for app, row in on_gpu(gpu).items()]
    columns = ["app", "on", "10^9/s", "beside", "ratio", "of the machine's limit"]
    return table(columns, rows)


def of_patterns(loaded: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The rows of cg, transpose and amr on CPU cores."""
    solver, others = loaded["cg"]["104^3"], loaded["cg"]["others at 104^3, GFLOP/s"]
    iterations = solver["exact, noise, GFLOP/s"]
    share = loaded["cg"]["320^3"]["operator and exact dot, of the triad"]
    exchange = loaded["transpose"]["matrices on 2 PEs, GB/s"]["2000"]
    turn = loaded["transpose"]["kernels"]["2000"]["turn, of the triad"]
    sweep = loaded["amr"]["sweeps on 1 core"]["4000x4000"]
    found = (
        ("cg", "1 core of a Xeon", iterations, "C, without a matrix", others,
         f"operator: {share:.2f}"),
        ("transpose", "2 cores of a Xeon", exchange["mpi"], "C, one partner at a time", exchange,
         f"own part: {turn:.2f}"),
        ("amr", "1 core", sweep["ours, MFlop/s"] / 1e3, "C", {"C": sweep["C, MFlop/s"] / 1e3},
         f"{sweep['ours, of the triad']:.2f}"),
    )  # fmt: skip
    return [
        [app, on, number(rate, 1.0), peer, f"{rate / beside[peer]:.2f}", f"{limit} of a triad"]
        for app, on, rate, peer, beside, limit in found
    ]


def on_gpu(gpu: dict[str, Any]) -> dict[str, list[str]]:
    """The ends of the rows of a GPU, by app: of a kernel, or of leanmd's melt, if measured.

    The rates of cg, transpose and amr are of another unit than on a CPU, and only shares are given.
    """
    atoms, published = "1.02 M", json.loads(PUBLISHED_MELT.read_text())
    theirs = dict(zip(published["atoms"], published["rates"], strict=True))[atoms]
    rows = {}
    for app, (name, part) in ON_GPU.items():
        rows[app] = [NOT, "", "", ""]
        if (entry := gpu["kernels"].get(name)) is None:
            continue
        rate, over, share = entry["per_s"], entry["over_cupy"], entry["share_of_copy"]
        peer = "CuPy expressions" if over else ""
        if app == "leanmd":
            peer, over = f"LAMMPS KOKKOS, published, {published['device']}", rate / 1e6 / theirs
        limit = f"{part}{share:.2f} of a copy" if share else ""
        shown = number(over, form=".2f" if app == "leanmd" else ".1f")
        rows[app] = ["" if part else number(rate, 1e9), peer, shown, limit]
    return rows


def in_short(loaded: dict[str, dict[str, Any]]) -> Numbers:
    """The numbers of the summary, from the results that the tables show."""
    sweeps = [entry for entry in loaded["stencils"].values() if "triad_bytes_per_s" in entry]
    both = [entry for name, entry in loaded["stencils"].items() if "on 2 core" in name]
    triads = [r["triad_bytes_per_s"] / 1e9 for r in both if "triad_bytes_per_s" in r]
    apps = loaded["comparison"].values()
    charm = {odf: span(r[f"charm_over_mpi, ODF {odf}"] for r in apps) for odf in (1, 8)}
    melts = loaded["leanmd"]["melt"].values()
    lammps = {name: span(r[name]["leanmd_over_it"] for r in melts) for name in LAMMPS}
    stencil3d = [r[name] for r in loaded["balancing"].values() for name in BALANCERS]
    pic = [
        r
        for found in loaded["pic"]["balancing"].values()
        for name, r in found.items()
        if not name.startswith("ideal_gain")
    ]
    return {
        "shares": span(r["share_of_triad"] for r in sweeps),
        "triads": span(triads, ".0f"),
        "charm": charm,
        "lammps": lammps,
        "gain": span(r["gain"] for r in stencil3d),
        "share": span(r["fraction_achieved"] for r in stencil3d),
        "best": {base: max(r[f"gain_over_{base}"] for r in pic) for base in ("none", "mpi")},
        "starts": span(r["median_s"] for r in loaded["startup"].values()),
    }


def stencils(results: dict[str, Any]) -> Numbers:
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
    vectors = {kind for name, kind in results.items() if "vectors" in name}
    columns = [
        "case", "triad, GB/s", "one sweep", "share", "factors by sweeps per exchange", "best rate",
    ]  # fmt: skip
    return {
        "kernels": table(columns, rows),
        "cached": table(["case", "rate"], cached),
        "vectors": ", ".join(sorted(vectors)),
    }


def messages(results: dict[str, Any]) -> Numbers:
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
    sizes = ["size", "mpi", "bare mpi4py", "charm, ODF 1", "bare Charm4Py"]
    return {"times": table(columns, rows), "crossing": table(sizes, crossing)}


def comparison(results: dict[str, Any]) -> Numbers:
    """Charm over mpi."""
    rows = []
    for name, entry in results.items():
        ratios = [f"{entry[f'charm_over_mpi, ODF {odf}']:.2f}" for odf in (1, 4, 8)]
        rows.append([name, f"{entry['mpi_step_s'] * 1e3:.2f}", *ratios])
    columns = ["problem, 2 PEs", "mpi, ms per step", "charm/mpi ODF 1", "ODF 4", "ODF 8"]
    return {"steps": table(columns, rows)}


GAIN_COLUMNS = [
    "balancer", "ideal gain", "gain", "gain / ideal gain", "remaining imbalance", "moved",
    "cost, ms",
]  # fmt: skip
BALANCERS = "Greedy", "GreedyRefine"
EVERY_20, IN_TIME = "lammps, lists every 20 steps", "lammps, lists in time"
LAMMPS = {
    EVERY_20: "LAMMPS, rebuild every 20 steps, no check (rebuilds)",
    IN_TIME: "LAMMPS, rebuild when needed (rebuilds)",
}


def gain_row(name: str, ideal: float, found: dict[str, float], over: str = "") -> list[str]:
    """A row of `GAIN_COLUMNS`; ``over``: ends the names of ratios to several other runs."""
    gain, share = found[f"gain{over}"], found[f"fraction_achieved{over}"]
    ratios = [f"{ratio:.2f}" for ratio in (ideal, gain, share, found["imbalance"])]
    return [name, *ratios, f"{found['migrations']:.0f}", f"{found['balancing_s'] * 1e3:.0f}"]


def balancing(results: dict[str, Any]) -> Numbers:
    """The gain of load balancing, and its share of the ideal gain."""
    rows = [
        gain_row(f"{how}, {name}", entry["ideal_gain"], entry[name])
        for how, entry in results.items()
        for name in BALANCERS
    ]
    return {"gains": table(GAIN_COLUMNS, rows)}


def memory(results: dict[str, Any]) -> Numbers:
    """Bytes per cell."""
    rows = [
        [name, f"{r['bytes_per_cell']:.2f}", f"{r['over_two_arrays']:.3f}"]
        for name, r in results.items()
    ]
    return {"cells": table(["case", "bytes per cell", "over two arrays"], rows)}


def startup(results: dict[str, Any]) -> Numbers:
    """Seconds to the first step."""
    rows = [[name, f"{r['median_s']:.2f}", f"{r['worst_s']:.2f}"] for name, r in results.items()]
    return {"seconds": table(["case", "median", "worst"], rows)}


def pic(results: dict[str, Any]) -> Numbers:
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
            row = f"{configuration}{name}, over {bases[base]}"
            gains.append(gain_row(row, ideal, found[name], f"_over_{base}"))
    return {
        "speed": table(["configuration", "10^6 particles/s", "over the Numba loop"], speed),
        "memory": table(["case", "bytes per particle"], memory),
        "gains": table(GAIN_COLUMNS, gains),
    }


def leanmd(results: dict[str, Any]) -> Numbers:
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
    loads = [
        [name, f"{r['step_ms']:.1f}", f"{r['median_step_ms']:.1f}", f"{r['compute_ms_per_pe']:.1f}"]
        for name, r in results["paper"].items()
    ]
    memory = [[name, f"{found:.0f}"] for name, found in results["bytes_per_atom"].items()]
    return {
        "melts": table(["case", "leanmd", *columns], melts),
        "single": single(results["single"]),
        "sums": exact,
        "cost": exact["exact_ns_per_atom"] / exact["float_ns_per_atom"] - 1,
        "loads": table(["case", "mean step", "median step", "computing, per PE"], loads),
        "memory": table(["case", "bytes per atom"], memory),
        **balancing(results["balancing"]),
    }


def cg(results: dict[str, Any]) -> Numbers:
    """Conjugate gradients: shares of a triad, rates, runs, and what exactness costs."""
    sizes = {name: entry for name, entry in results.items() if "triad, GB/s" in entry}
    kernels = [name for name in next(iter(sizes.values())) if name.endswith(", of the triad")]
    shares = [
        [name.removesuffix(", of the triad"), *(f"{entry[name]:.2f}" for entry in sizes.values())]
        for name in kernels
    ]
    shares.append(["triad, GB/s", *(f"{entry['triad, GB/s']:.1f}" for entry in sizes.values())])
    ways = "exact", "plain fused", "plain by NumPy"
    rates = []
    for size, entry in sizes.items():
        for solution in ("noise", "ones"):
            exact, fused, numpy = (entry.get(f"{way}, {solution}, GFLOP/s") for way in ways)
            over = fused and fused / exact
            cells = [number(rate, form=".2f") or NOT for rate in (exact, fused, numpy, over)]
            rates.append([f"{size}, solution {solution}", *cells])
    rates += [
        [f"others at 104^3: {name}", "", "", f"{rate:.2f}", ""]
        for name, rate in results["others at 104^3, GFLOP/s"].items()
    ]
    runs = [
        [name, str(run["iterations"]), *(number(run[key]) for key in list(run)[1:])]
        for name, run in results.get("runs at 104^3 to 1e-08", {}).items()
    ]
    reduction = results.get("a reduction, µs", {})
    parts = "adding two accumulators", "rounding one"
    return {
        "kernels": table(["kernel", *sizes], shares),
        "iterations": table(["iterations", *ways, "time of exact over plain fused"], rates),
        "runs": table(
            ["run", "iterations", "ms per iteration", "GFLOP/s", "seconds"],
            runs or [[NOT, "", "", "", ""]],
        ),
        "reduction": "; ".join(f"{part}: {number(reduction.get(part)) or NOT}" for part in parts),
    }


def by_size(head: str, sizes: dict[str, dict[str, float]]) -> str:
    """A table with a column for each size, and a row for each of its numbers."""
    rows = [
        [
            name,
            *(f"{entry[name]:{'.0f' if 'MFlop' in name else '.2f'}}" for entry in sizes.values()),
        ]
        for name in next(iter(sizes.values()))
    ]
    return table([head, *sizes], rows)


def transposes(results: dict[str, Any]) -> Numbers:
    """Transposes: shares of a triad, rates of programs, and transforms beside others."""
    transforms = [
        [f"{name.removesuffix(', ms')}, {where}", f"{ms:.1f}"]
        for where, key in (("1 core", "transforms on 1 core"), ("2 ranks", "transforms on 2 ranks"))
        for name, ms in results[key].items()
    ]
    peer = any("mpi4py-fft" in name for name in results["transforms on 2 ranks"])
    runs = results["matrices on 2 PEs, GB/s"]
    return {
        "kernels": by_size("order", results["kernels"]),
        "runs": by_size("order", runs),
        "over_c": {int(n): one["mpi"] / one["C, one partner at a time"] for n, one in runs.items()},
        "transforms": table(["transform", "ms"], transforms),
        "missing": "" if peer else " mpi4py-fft was not installed: FFTW was missing.",
    }


def amrs(results: dict[str, Any]) -> Numbers:
    """AMR: its sweep beside a triad, C and NumPy, and rates of runs."""
    runs = [[name, f"{rate:.0f}"] for name, rate in results["runs, MFlop/s"].items()]
    return {
        "sweeps": by_size("background", results["sweeps on 1 core"]),
        "runs": table(["run", "MFlop/s"], runs),
    }


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
    return table(["case", "10^6 atom-steps/s", "over GROMACS", "drift"], rows)


def host_of_gpu(results: dict[str, Any]) -> Numbers:
    """What a step on a GPU costs the host."""
    over = [name for name, case in results.items() if case["us"] > host.CASES[name].most_us]
    return {
        "steps": host.table_of(results),
        "missed": f"above it: {'; '.join(over)}" if over else "none is above it",
        "processor": load("gpu_host")["host"]["processor"],
    }


PARTS: dict[str, Callable[[dict[str, Any]], Numbers]] = {
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
    """The whole page: the text of `TEMPLATE` with the numbers of the results."""
    document, gpu = load("stencils"), load("gpu")["results"]
    loaded = {name: load(name)["results"] for name in PARTS}
    return TEMPLATE.read_text().format(
        glance=at_a_glance(loaded, gpu),
        short=in_short(loaded),
        gpu=numbers(gpu),
        **{name: part(loaded[name]) for name, part in PARTS.items()},
        **document["host"] | document["versions"],
    )


if __name__ == "__main__":
    PAGE.write_text(page())
