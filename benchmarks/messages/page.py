"""Writes the measured tables of docs/messages.md from the results of benchmarks.

    python -m benchmarks.messages.page

A table is found by its columns, and replaced; the text around it is written by hand, and quotes no
number that is not in a table. Which benchmark has measured what is in `TABLES`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.common import ROOT, earlier, table
from benchmarks.messages.shared_memory import MPI_ALONE

PAGE = ROOT / "docs/messages.md"
NONE = "-"
MEMORY_COLUMNS = [
    "size", "window", "mpi4py alone", "mpi, nothing shared", "mpi, shared", "ratio",
    "charm, datagrams", "charm, shared", "ratio",
]  # fmt: skip
APPS_COLUMNS = [
    "app, two PEs", "mpi, ms per step", "mpi, nothing shared", "ODF", "charm, datagrams",
    "charm, shared", "taken by others",
]  # fmt: skip
TRIED_COLUMNS = ["over mpi", "stencil3d, 8 sweeps", "leanmd, melt", "leanmd, published load"]
PARTS_COLUMNS = ["part", "us", "what it does"]
POLLED_COLUMNS = ["two PEs, us", "polled word", "messages of Charm4Py"]
WAITS_COLUMNS = ["bytes", "outside the blocks", "in Wait", "one Wait"]
FILES_COLUMNS = ["bytes", "mpi: whole / driver", "file, `/dev/shm`", "file, disk"]
PARTS = {
    "a round": "progress file, plan of the audit, reading the clock, row of the timings",
    "a request": "resumes the block with the answer to a Post or Collect, and reads the clock",
    "a message of the block to itself": "the contract's checks, then storing it in the inbox",
    "a message between ranks": "the sum of the next five rows",
    "of which MPI: Start, Isend, Wait, Test": (
        "calls through mpi4py, which find the message in the same process"
    ),
    "of which the contract's checks": (
        "contiguous, numbers, own memory; from then on the block may not write"
    ),
    "of which header": "the sender writes it, the receiver reads it",
    "of which the array around the received bytes": "created without a copy",
    "of which the rest": "its own lines; caches are colder than in the loops of the others",
}
NAMES = {
    1 << 10: "1 KB",
    1 << 16: "64 KB",
    1 << 18: "256 KB",
    1 << 19: "512 KB",
    1 << 20: "1 MB",
    1 << 22: "4 MB",
}


def short(value: float) -> str:
    """A number with one decimal below 10, and at most three digits before it."""
    return f"{value:.1f}" if value < 10 else f"{float(f'{value:.3g}'):.0f}"


def spread(found: Any, form: str = "{:.2f}") -> str:
    """A median with its bounds; results of the past have none."""
    if not isinstance(found, Mapping):
        return form.format(found)
    return "{} [{}, {}]".format(*(form.format(found[key]) for key in ("median", "low", "high")))


def memory_table(results: Mapping[str, Any]) -> str:
    """Microseconds per message between two PEs."""
    paths = {MPI_ALONE: "mpi", "charm, datagrams": "charm"}
    rows = []
    for case, found in results["messages"].items():
        size, window = map(int, re.findall(r"\d+", case))
        row = [NAMES[size], str(window), short(found["bare mpi4py"])]
        for path, driver in paths.items():
            times = short(found[path]), short(found[f"{driver}, shared memory"])
            row += [*times, f"{found[f'{path} over shared memory']:.1f}"]
        rows.append(row)
    return table(MEMORY_COLUMNS, rows)


def apps_table(results: Mapping[str, Any]) -> str:
    """Other runs over mpi, by app and ODF."""
    rows = []
    for (app, found), odf in itertools.product(results["apps"].items(), (1, 8)):
        others = found.get("disturbance")
        taken = NONE if others is None else f"{max(others.values()):.0%}"
        alone, *charm = (
            spread(found[f"{run} over mpi"])
            for run in (MPI_ALONE, f"ODF {odf}, datagrams", f"ODF {odf}, shared memory")
        )
        rows.append([app, spread(found["mpi_step_ms"], "{:.1f}"), alone, str(odf), *charm, taken])
    return table(APPS_COLUMNS, rows)


def tried_table(results: Mapping[str, Any]) -> str:
    """Charm over mpi with other options, and small blocks over large ones, by app."""
    by_app = list(results["tried"].values())
    options = dict.fromkeys(option for found in by_app for option in found)
    cells = {o: [spread(found[o]) if o in found else NONE for found in by_app] for o in options}
    return table(TRIED_COLUMNS, [[option, *row] for option, row in cells.items()])


def parts_table(results: Mapping[str, Any]) -> str:
    """What a message of 64 bytes costs the host, part by part."""
    found = results["parts, 64 B"]
    names = {name: name.replace("of which ", "- ") for name in PARTS}
    return table(
        PARTS_COLUMNS, [[names[name], f"{found[name]:.1f}", PARTS[name]] for name in PARTS]
    )


def waits_table(results: Mapping[str, Any]) -> str:
    """How long a rank of two is outside the blocks, and waits."""
    rows = []
    for case, found in results.items():
        if case.startswith("waits"):
            both = (
                f"{short(found[f'{part}_median_us'])} ({short(found[f'{part}_mean_us'])})"
                for part in ("outside", "wait")
            )
            deciles = found["one_wait_deciles_us"]
            one = f"{short(deciles[0])}, {short(deciles[4])}, {short(deciles[8])}"
            rows.append([case.removeprefix("waits, ").removesuffix(" B"), *both, one])
    return table(WAITS_COLUMNS, rows)


def polled_table(results: Mapping[str, Any]) -> str:
    """A polled word beside messages of Charm4Py."""
    found = {name: spread(value, "{:.1f}") for name, value in results.items()}
    idle, busy = (
        [found[f"one way: {way}, {load}, us"] for way in ("slot", "message")]
        for load in ("idle", "busy")
    )
    empty = [found["the same with looks, us"], found["an entry method of nothing, us"]]
    return table(
        POLLED_COLUMNS,
        [
            ["one way, nothing else to do", *idle],
            ["one way, an entry method of 100 us is always ready", *busy],
            ["a look, nothing else to do", found["a look, idle, us"], NONE],
            ["an entry method that does nothing", *empty],
            ["such calls between two looks", found["such calls per look"], NONE],
        ],
    )


def files_table(results: Mapping[str, Any]) -> str:
    """A message of the file driver beside one of mpi."""
    sizes = dict.fromkeys(case.rpartition(", ")[2] for case in results)
    rows = []
    for size in sizes:
        cases = (results[f"{name}, {size}"] for name in ("mpi", "file, /dev/shm", "file, disk"))
        cells = (" / ".join(short(r[f"{part}_us"]) for part in ("whole", "driver")) for r in cases)
        rows.append([size.removesuffix(" B"), *cells])
    return table(FILES_COLUMNS, rows)


TABLES: tuple[tuple[str, list[str], Callable[[Mapping[str, Any]], str]], ...] = (
    ("shared_memory", MEMORY_COLUMNS, memory_table),
    ("shared_memory", APPS_COLUMNS, apps_table),
    ("shared_memory", TRIED_COLUMNS, tried_table),
    ("message_parts", PARTS_COLUMNS, parts_table),
    ("polled_slot", POLLED_COLUMNS, polled_table),
    ("message_parts", WAITS_COLUMNS, waits_table),
    ("files", FILES_COLUMNS, files_table),
)


def page(text: str) -> str:
    """The page with the tables that the results give. Raises ValueError if it lacks one."""
    for name, columns, made in TABLES:
        none = table(columns, [["not measured yet", *[NONE] * (len(columns) - 1)]])
        results = earlier(name)
        new = made(results) if results else none
        head = re.escape(f"| {' | '.join(columns)} |\n")
        text, count = re.subn(f"{head}(?:\\|.*\n)*", lambda _, new=new: new, text)
        if count != 1:
            raise ValueError(f"{PAGE.name} has {count} tables with the columns {columns}")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
