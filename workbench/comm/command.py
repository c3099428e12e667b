"""The command ``miniapps comm``: options, the launch, and what is shown."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from miniapps import communication, drivers
from miniapps.communication.catalogue import ANATOMY, CATALOGUE
from miniapps.communication.session import least_bytes
from miniapps.communication.settings import Settings
from miniapps.drivers.hosts import hosts
from miniapps.parameters import require
from miniapps.workbench.arguments import (
    add_driver_options,
    add_launcher,
    add_options,
    add_stall,
    typed,
)
from miniapps.workbench.comm import anatomy, text, variants
from miniapps.workbench.comm.execute import execute
from miniapps.workbench.comm.spec import CommSpec
from miniapps.workbench.exit_status import VALID
from miniapps.workbench.parser import Prints
from miniapps.workbench.run import launch
from miniapps.workbench.run.execute import NOTHING_TO_LAUNCH, refuse_other_launchers
from miniapps.workbench.run.memory import require_memory, require_shared
from miniapps.workbench.run.writable import check_figure, check_writable, require_apart
from miniapps.workbench.show.marks import write
from miniapps.workbench.table import Column, Table, show

EXAMPLES = """examples:
  miniapps comm latency
  miniapps comm allreduce -n 2 -m 4:65536 --buffer bytearray -f
  miniapps comm bw --touch sender --json bw.json --figure bw.png
  miniapps comm latency --compare buffer,pickle
  miniapps comm anatomy -m 8:1024
  miniapps comm --list
"""


def add_comm_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``miniapps comm``."""
    names = list(communication.runtimes())
    parser.add_argument("name", metavar="NAME", help="of a benchmark, as in OMB")
    help = "the benchmarks under each driver"
    parser.add_argument("--list", action=Prints, const=print_benchmarks, help=help)
    group = parser.add_argument_group("run")
    add = group.add_argument
    add("--driver", choices=names, default=names[0], help=f"default: {names[0]}")
    add("-n", dest="pes", type=typed(int), metavar="RANKS", help="default: 2")
    add("--hosts", type=typed(hosts), metavar="a:1,b:1", help="as of `miniapps run`")
    add_launcher(group)
    add_stall(group)
    add("--no-launch", action="store_true", help="run as a rank of a launcher that runs already")
    add("--dry-run", action="store_true", help="print the launch command, and run nothing")
    add_options(parser, Settings)
    for name, runtime in communication.runtimes().items():
        add_driver_options(parser, drivers.get(name), Settings, runtime.options)
    add = parser.add_argument_group("files").add_argument
    add("--json", metavar="FILE|-", help="write the record as one JSON object")
    add("--csv", type=Path, metavar="FILE", help="write the results, a line for each size")
    add("--figure", type=Path, metavar="FILE", help="draw them: .png, .svg or .pdf")
    known = f"with commas between; default: {variants.USUAL}"
    parser.add_argument(
        "--compare",
        nargs="?",
        const=variants.USUAL,
        type=typed(variants.dimensions),
        metavar="WHAT",
        help=f"all variants in one table, with ratios: {variants.DRIVER}, "
        f"{', '.join(variants.VALUES)}, {known}",
    )
    check = "check every byte of every message before the trials (default)"
    parser.add_argument(
        "-c", "--check", dest="no_check", action="store_const", const=False, help=check
    )


def comm(options: argparse.Namespace, runtime: list[str]) -> int:
    """Make one benchmark; returns the exit status."""
    around = drivers.launchers().get(options.driver)
    if options.pes is None and around is not None:
        options.pes = around.size
    refuse_other_launchers(options, runtime)
    drivers.get(options.driver).require_modules()
    files = {"--json": options.json, "--csv": options.csv, "--figure": options.figure}
    named = {name: Path(path) for name, path in files.items() if path not in (None, "-")}
    for option, path in named.items():
        check_writable(option, path)
    require_apart(named)
    check_figure(options.figure)
    spec = CommSpec.create(options)
    if spec.benchmark == ANATOMY:
        require(options.compare is None, "--compare", "given", "no option of anatomy")
        require(options.figure is None, "--figure", options.figure, "no option of anatomy")
    started = not (options.no_launch or around is not None)
    if started and options.launcher is None and not options.dry_run:
        if spec.device == "cpu" and not spec.hosts:
            needed = least_bytes(spec.benchmark, spec.settings, spec.pes)
            require_memory("comm", spec.benchmark.name, needed)
        require_shared("comm", spec.benchmark.name, spec.shared_bytes, spec.own)
    if options.compare is not None:
        require(started, "--compare", ",".join(options.compare), "starts launchers itself")
        return _compare(spec, options, runtime)
    if not started and options.dry_run:
        print(NOTHING_TO_LAUNCH)
        return VALID
    if not started:
        if spec.benchmark == ANATOMY:
            return execute(spec, lambda record: anatomy.deliver([record], options))
        return execute(spec, partial(deliver, options=options))
    if spec.benchmark == ANATOMY and not options.dry_run:
        return anatomy.comm_anatomy(spec, options, runtime)
    command = launch.command(spec, runtime, options.launcher)
    if options.dry_run:
        print(shlex.join(command))
        return VALID
    result = launch.launch(spec, command, options.stall)
    return deliver(result, options) if isinstance(result, dict) else result


def _compare(spec: CommSpec, options: argparse.Namespace, runtime: list[str]) -> int:
    """Make all variants of a benchmark; returns the exit status."""
    from miniapps.workbench.comm import compare

    require(not spec.settings.full, "-f", "given", "not with --compare")
    made, left_out = variants.variants(spec, options.compare)
    if options.dry_run:
        for variant in made:
            print(shlex.join(launch.command(variant.spec, runtime, options.launcher)))
        return VALID

    def launched_once(one: CommSpec) -> dict[str, Any] | int:
        command = launch.command(one, runtime, options.launcher)
        return launch.launch(one, command, options.stall)

    records = compare.measured(made, launched_once)
    if isinstance(records, int):
        return records
    if records[0]["wrong"]:
        return deliver(records[0], options)
    if options.json != "-":
        notes = [f"left out: {line}" for line in left_out]
        show(compare.tables(records, [*notes, *text.warnings(records)]))
    first, *others = (text.table(record, record["results"]) for record in records)
    rows = (lines.partition("\n")[2] for lines in others)
    text.written(options, json.dumps(records), "".join([first, *rows]), None)
    if options.figure:
        from miniapps.workbench.show.comm_figure import figure_of

        write(figure_of(records, compare.ratios(records)), options.figure)
    return VALID


def deliver(record: dict[str, Any], options: argparse.Namespace) -> int:
    """Show a record and write it to the requested files; returns the exit status."""
    from miniapps.workbench.comm import results  # which loads SciPy, and ranks do not need

    found = [] if record["wrong"] else results.rows(record)
    made = record | {"results": found}
    if found and options.json != "-":
        print(*text.lines(made, found, options.full), sep="\n")
    table = text.table(made, found) if found else None
    status = text.written(options, json.dumps(made), table, record["wrong"])
    if options.figure and found:
        from miniapps.workbench.show.comm_figure import figure_of

        write(figure_of([made]), options.figure)
    return status


def _reasons(driver: str, lacks: Mapping[str, str]) -> Iterator[str]:
    """Why a runtime does not make benchmarks, which are named if there are several reasons."""
    names: dict[str, list[str]] = {}
    for name, reason in lacks.items():
        names.setdefault(reason, []).append(name)
    for reason, some in names.items():
        which = f" ({', '.join(some)})" if len(names) > 1 else ""
        yield f"{driver}: {reason}{which}"


def print_benchmarks() -> None:
    """Print the benchmarks and the runtimes that make them."""
    runtimes = communication.runtimes()
    rows = tuple(
        (name, made.title, *("yes" if one.makes(name) else "no" for one in runtimes.values()))
        for name, made in CATALOGUE.items()
    )
    columns = (Column("benchmark"), Column("measures"), *map(Column, runtimes))
    able = [driver for driver, runtime in runtimes.items() if runtime.anatomy]
    notes = (
        *(note for name, one in runtimes.items() for note in _reasons(name, one.lacks)),
        *(
            f"{driver} --buffer {' or '.join(runtime.buffers)}: {runtime.buffers_why}"
            for driver, runtime in runtimes.items()
            if runtime.buffers_why
        ),
        *(
            f"{driver} --method {method} ({', '.join(name for name in CATALOGUE if name in names)})"
            for driver, runtime in runtimes.items()
            for method, names in runtime.methods.items()
        ),
        f"{ANATOMY.name}: what the calls of a ping-pong consist of ({', '.join(able)})",
    )
    show([Table("communication benchmarks", columns, rows, notes)])
