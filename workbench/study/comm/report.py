"""The folder of a campaign of communication benchmarks: tables, CSV, figures and a page.

``campaign.jsonl`` has every run; all other files are made from it, and are always the same.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

from miniapps.json_input import parsed_object
from miniapps.parameters import require
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.comm.campaign import CommCampaign
from miniapps.workbench.study.comm.figures import captions, figures
from miniapps.workbench.study.comm.plan import label
from miniapps.workbench.study.comm.series import Result, results
from miniapps.workbench.study.comm.tables import csv_text, tables
from miniapps.workbench.study.options import COMM
from miniapps.workbench.study.provenance import commands_table, disturbed_lines, failures_table
from miniapps.workbench.study.report import drawn, rendered
from miniapps.workbench.study.titles import machine_of
from miniapps.workbench.table import Table, show, width, wrapped

RUNS, PAGE, TABLES, VALUES = "campaign.jsonl", "report.html", "tables.txt", "values.csv"


def is_ours(path: Path) -> bool:
    """Whether the first line of a campaign file says that it is of communication benchmarks."""
    if not path.is_file():  # perhaps a FIFO, which nobody writes to
        return False
    try:
        with path.open("rb") as file:
            head = parsed_object(file.readline())
    except (OSError, ValueError):
        return False
    study = head.get("study")
    return isinstance(study, dict) and study.get("kind") == COMM


def write(path: Path) -> int:
    """Print a campaign's tables, and write all files beside the campaign file; the exit status.

    Raises InputError.
    """
    campaign = CommCampaign.read(path)
    require(any(campaign.events), "campaign", path, "holds no runs yet")
    found = results(campaign)
    folder = path.parent
    shown = tables(campaign, found)
    failures = failures_table(campaign, label)
    every = [*shown, *([failures] if failures.rows else [])]
    made = figures(found, machine_of(campaign))
    places = drawn(made, captions(found), lambda name, form: folder / f"{name}.{form}")
    write_text(folder / PAGE, html(campaign, found, shown, failures, places))
    write_text(folder / VALUES, csv_text(found))
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        for line in disturbed_lines(campaign):
            print(*wrapped(line, width()), sep="\n")
        show(every)
    write_text(folder / TABLES, text.getvalue())
    print(text.getvalue(), end="")
    print(f"report: {folder / PAGE}")
    return WRONG if campaign.failures else VALID


def html(
    campaign: Campaign,
    found: list[Result],
    shown: list[Table],
    failures: Table,
    places: list[dict[str, Any]],
) -> str:
    """The report as an HTML page."""
    return rendered(
        "comm.html",
        title=f"Communication benchmarks: {campaign.head['study']['source']}",
        machine=machine_of(campaign),
        study=campaign.head["study"],
        tables=shown,
        failures=failures,
        commands=commands_table(campaign, label),
        disturbed=disturbed_lines(campaign),
        oversubscribed=any(result.oversubscribed for result in found),
        figures=places,
    )
