"""Exports a campaign: tidy CSV, the seed code's CSV, Extra-P's text format, a ReFrame check.

Only runs that count are exported, in the order in which they were made. The seed code is the
program from which this project started.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from miniapps import drivers
from miniapps.parameters import InputError, require, shown
from miniapps.workbench.quoting import csv_of, csv_text
from miniapps.workbench.run.record import disturbed
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.reframe import reframe_check
from miniapps.workbench.study.titles import configuration
from miniapps.workbench.study.validation import mean_step_s

SUFFIXES = {"csv": ".csv", "seed-csv": "", "extra-p": ".extra-p.txt", "reframe": ".reframe.py"}
FORMATS = tuple(SUFFIXES)

SEED_COLUMNS = ("Process", "Iteration", "Iteration Time", "Communication Time", "Computation Time")
SEED_REASON = """\
One file per run; a row per process and iteration; seconds.

Iteration           number of the time step, warm-up included; where a round takes several steps at
                    once, the time of the round is divided equally among them
Iteration Time      from the end of the previous step, on the last process, to the end of this one
Computation Time    of this process: physics, packing of messages, checks of received messages
Communication Time  the rest of the iteration, under {alone}: messages, and waiting for
                    slower processes. A single row may be negative, if a process began while a
                    slower one was still in the previous step; sums over rows are correct.

Communication Time is empty under {others}. There a process holds several blocks; while one waits
for a message another computes: the same time would be counted twice. The rest of an iteration is
idle time, scheduling and load balancing, and does not measure communication.
"""
RUN_COLUMNS = ("driver", "pes", "odf", "balancer", "lb_period", "steps", "warmup")
MEASURED_COLUMNS = ("compute_s", "utilisation", "imbalance", "migrations", "jit_s", "import_s")


def export(campaign: Campaign, form: str, target: Path | None, source: Path) -> list[Path]:
    """Write a campaign in one of FORMATS; returns the paths of the files.

    ``target`` is a file, or a folder for "seed-csv"; default: beside ``source``, the campaign file.
    Raises InputError if the format is unknown, there is nothing to export, or writing fails.
    """
    require(form in FORMATS, "--format", form, f"one of {', '.join(FORMATS)}")
    require(any(campaign.of("run")), "export", form, "the campaign holds no run that counts")
    target = target or source.with_name(source.stem + SUFFIXES[form])
    require(target.resolve() != source.resolve(), "--to", target, "is the campaign itself")
    if form == "seed-csv":
        texts = {target / name: text for name, text in seed_csv(campaign).items()}
    else:
        write = {"csv": tidy_csv, "extra-p": extra_p, "reframe": reframe_check}[form]
        texts = {target: write(campaign)}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
    except OSError as error:
        raise InputError("--to", target, f"cannot be written: {error.strerror}") from None
    return list(texts)


# Tidy CSV -----------------------------------------------------------------------------------------


def tidy_csv(campaign: Campaign) -> str:
    """CSV with a row per run and a column per quantity; ``problem.NAME``: parameters of the app.

    Units as in the records: seconds, bytes, and ``rate`` in ``rate_unit``. ``step_s`` is the mean
    wall time of a step, ``balancing_s`` the time of all load-balancing steps.
    """
    rows = [tidy_row(run) for run in campaign.of("run")]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return csv_of(rows, columns)


def tidy_row(run: dict[str, Any]) -> dict[str, Any]:
    """The columns of one run of a campaign."""
    record = run["record"]
    problem = {
        f"problem.{name}": shown(tuple(value) if isinstance(value, list) else value)
        for name, value in record["problem"].items()
    }
    return {
        "trial": run["trial"],
        "point": run["point"],
        "app": record["app"],
        **{name: record[name] for name in RUN_COLUMNS},
        "lb_first": record.get("lb_first"),
        "step_s": mean_step_s(record),
        **{f"step_{name}_s": record["step_time_s"][name] for name in ("median", "min", "max")},
        "rate": record["rate"]["value"],
        "rate_unit": record["rate"]["unit"],
        **{name: record.get(name) for name in MEASURED_COLUMNS},
        "balancing_s": sum(entry["seconds"] for entry in record["lb"]),
        "peak_rss_bytes": record["peak_rss_bytes"],
        "oversubscribed": record["oversubscribed"],
        "disturbed": disturbed(record),
        "state_hash": record["state_hash"],
        "command": run["command"],
        **problem,
    }


# The seed code's CSV ------------------------------------------------------------------------------


def seed_csv(campaign: Campaign) -> dict[str, str]:
    """CSV in the seed code's columns, one file per run, and README.txt: texts by file name.

    Communication time is empty under drivers where one block may compute while another waits;
    README.txt explains this. Raises InputError for a record without compute times of PEs.
    """
    return {_run_name(run) + ".csv": _seed_table(run["record"]) for run in campaign.of("run")} | {
        "README.txt": SEED_REASON.format(alone=_named(True), others=_named(False))
    }


def _named(alone: bool) -> str:
    """The names of the drivers whose `Driver.waits_alone` is ``alone``."""
    found = drivers.found().values()
    return " and ".join(driver.name for driver in found if driver.waits_alone == alone)


def _run_name(run: dict[str, Any]) -> str:
    """The name of a run's file, such as trial03-point07-charm-2pe-odf4-Greedy30."""
    return f"trial{run['trial']:02}-point{run['point']:02}-{configuration(run['record'], '-')}"


def _seed_table(record: dict[str, Any]) -> str:
    rounds = record.get("rounds", {})
    few = "a record has no times of single PEs: there were too many PEs and rounds"
    require("compute_s" in rounds, "export", "seed-csv", few)
    spans = list(zip(rounds["first"], rounds["count"], rounds["wall_s"], strict=True))
    rows = []
    alone = drivers.of_record(record["driver"]).waits_alone
    for process, computed in enumerate(rounds["compute_s"]):
        for (first, count, wall), compute in zip(spans, computed, strict=True):
            waited = (wall - compute) / count if alone else None
            times = (wall / count, waited, compute / count)
            rows += [(process, step, *times) for step in range(first, first + count)]
    return csv_text(SEED_COLUMNS, rows)


# Extra-P ------------------------------------------------------------------------------------------


def extra_p(campaign: Campaign) -> str:
    """Extra-P's text format: seconds per step over PEs ``p``, with a line of trials per point.

    There is a region per configuration (and per problem if a study has several on the same PEs).
    All regions must have the same points, so only numbers of PEs that all configurations have are
    exported.
    Points with more PEs than cores and configurations with a single number of PEs are left out.
    Raises InputError if fewer than two numbers of PEs are left.
    """
    regions: dict[str, dict[int, list[float]]] = {}
    for run in campaign.of("run"):
        if not run["record"]["oversubscribed"]:
            points = regions.setdefault(_region(campaign, run), {})
            points.setdefault(run["record"]["pes"], []).append(mean_step_s(run["record"]))
    regions = {name: points for name, points in regions.items() if len(points) > 1}
    pes = sorted(set.intersection(*map(set, regions.values()))) if regions else []
    allowed = "needs runs on two or more numbers of PEs, each with a core for every PE"
    require(len(pes) > 1, "export", "extra-p", allowed)
    lines = ["PARAMETER p", f"POINTS {' '.join(f'( {count} )' for count in pes)}"]
    for name, points in regions.items():
        lines += ["", f"REGION {name}", "METRIC time"]
        lines += [f"DATA {' '.join(map(repr, points[count]))}" for count in pes]
    return "\n".join(lines) + "\n"


def _region(campaign: Campaign, run: dict[str, Any]) -> str:
    named = configuration(run["record"], "_", pes=False)
    study = campaign.head["study"]
    if study["kind"] != "granularity" and "vary" not in study:
        return named
    problems: list[Any] = []
    for point in campaign.head["points"]:
        parameters = _size(point["problem"])
        if parameters not in problems:
            problems.append(parameters)
    return f"{named}_problem{problems.index(_size(run['record']['problem']))}"


def _size(problem: dict[str, Any]) -> dict[str, Any]:
    """A problem without the temporal-blocking depth, which may differ between numbers of PEs."""
    return {name: value for name, value in problem.items() if name != "time_tile"}
