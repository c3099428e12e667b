"""Writes docs/results/communication.md: what papers say about messages, and what two cores show.

    python benchmarks/messages/claims.py

Every number comes from the studies' files and from their campaigns in docs/results, which
`miniapps study comm` writes. A campaign that is not there leaves its column empty. Which claims two
cores can test is stated here, for each claim.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.common import ROOT, table
from miniapps.workbench.study.comm.campaign import CommCampaign
from miniapps.workbench.study.comm.claims import Claim, Wanted
from miniapps.workbench.study.comm.holding import RULE, of_claim, of_quantity
from miniapps.workbench.study.comm.report import RUNS
from miniapps.workbench.study.comm.series import Result, quantities, results
from miniapps.workbench.study.comm.tables import claims_table, quantities_table
from miniapps.workbench.study.comm.written import comparisons_table, effects_table, in_words, pairs
from miniapps.workbench.study.titles import machine_of
from miniapps.workbench.table import Table

RESULTS = ROOT / "docs/results"
PAGE = RESULTS / "communication.md"
NONE = "-"
MAX_NOISE = "2%"  # of a core's time, which others may take in a campaign that counts

RATIOS = "ratios only: the paper's processors and MPI are others"
NO_GPU = "without a GPU only the lines in host memory"
WRITTEN = "not published; yes, between two cores of one processor"
WRITTEN_TOO = f"{WRITTEN}, and with Open MPI if it is there"
OVER = "on two ranks; more ranks than cores give no times to quote"
# For each study an estimate of the time that it takes, and what two cores can test of each claim.
STUDIES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ombpy": (
        "15 minutes",
        {
            "overhead": "yes: a difference on the same cores; other processors, so not to 0.1 us",
            "thread-level": "yes, inside one host",
            "latency": NO_GPU,
            "bandwidth": NO_GPU,
            "pickle": "yes: pickling is work of one core; other processors, so ratios",
            "allreduce": "no: the paper's ranks are on several hosts; two ranks of one host",
            "allgather": "no: the paper's ranks are on several hosts; two ranks of one host",
            "libraries-latency": "yes, if Open MPI is there",
            "libraries-overhead": "yes, if Open MPI is there",
            "libraries-allreduce": "two ranks of one host only",
        },
    ),
    "espm2-latency": (
        "35 minutes",
        {
            "cpu": f"{RATIOS}; its cores are on two sockets",
            "cpu-over-c": f"{RATIOS}; its cores are on two sockets",
            "cpu-over-charm": f"{RATIOS}; Charm++ without a program in C++, see the anatomy",
            "bandwidth": f"{RATIOS}; its values are only in a figure",
            "gpu": "no: needs two GPUs",
        },
    ),
    "charm4py-direct-copy": (
        "an hour",
        {
            "direct-copy": "ratios: the published run was on two processes of one host, too",
            "sides": "ratios, in messages of a process to itself; the published size is not known",
            "direct-copy-bandwidth": "not published; yes",
        },
    ),
    "ppython": (
        "20 minutes",
        {
            "point-to-point": "yes, in memory; the paper's files are on a parallel file system",
            "bandwidth": "yes, in memory; the paper's files are on a parallel file system",
            "aggregation": OVER,
            "broadcast": OVER,
            "trees": "no: more ranks than cores",
        },
    ),
    "written": (
        "15 minutes",
        {
            "latency": WRITTEN,
            "bandwidth": WRITTEN,
            "bcast": WRITTEN_TOO,
            "allreduce": WRITTEN_TOO,
            "allgather": WRITTEN_TOO,
            "alltoall": WRITTEN_TOO,
        },
    ),
}
HEAD = """# What papers say about messages

For readers who want to know which published claims about messages in Python hold here, and which
two cores cannot test. `python benchmarks/messages/claims.py` writes this page from the studies in
`studies/` and from their campaigns in this folder. No number is written by hand.

Four publications have claims about messages: OMB-Py (Alnaasan et al., 2021), the comparison of
Charm4Py and mpi4py (Fink et al., ESPM2 2021), Charm4Py's documentation, and pPython (Byun et al.,
2023). A campaign measures each claim by [communication benchmarks](../comm.md). Values are compared
as ratios to the first line of a claim where the machine matters, which is nearly always. One more
study measures what no publication has: buffers that are written before they are sent.

What the same publications say about applications is measured by [studies](README.md): Jacobi2D and
PIC of ESPM2 2021, and Stencil3D and LeanMD of CharmPy (Galvez et al., 2018), whose cores, up to
131 thousand, no workstation has.

Not here: anything between hosts, as one host has no network; anything in a GPU's memory, as two
GPUs of a host are needed; and collectives on more ranks than cores, which are measured, but have no
times to quote. For broadcast and gather by files there is a [model](../comm.md#trees-of-files)."""


WRITTEN_HEAD = """The tables compare the time of messages whose buffers are written before and read
after (`--touch both`) with that of the same buffer sent again and again, and the runtimes in both
cases. Ratios are of times, for bandwidths too: more is slower. The time of writing and reading is
not in them. In a window, written messages have memory of their own, and unchanged ones share it."""


def prose(text: str) -> str:
    """Paragraphs, each filled to the width of a page."""
    parts = (" ".join(part.split()) for part in text.split("\n\n"))
    return "\n\n".join(
        textwrap.fill(part, 120, break_long_words=False, break_on_hyphens=False) for part in parts
    )


def campaign_of(study: str, folder: Path) -> CommCampaign | None:
    """The campaign of a study in a folder of results; None if it was not made."""
    path = folder / study / RUNS
    return CommCampaign.read(path) if path.exists() else None


def what_two_cores_test(study: str, claim: Claim) -> str:
    """Which part of a claim two cores can test, in words. Raises KeyError if that is not stated."""
    _, known = STUDIES[study]
    return known[claim.name if claim.name in known else claim.name.removesuffix(f"-{claim.ranks}")]


def section(study: str, folder: Path) -> Iterator[str]:
    """A study: its command, its claims, and the published numbers."""
    wanted, campaign = Wanted.read(ROOT / f"studies/{study}.toml"), campaign_of(study, folder)
    yield f"## {wanted.source}"
    to = f"docs/results/{study}"
    yield f"    miniapps study comm {study} --campaign {to} --max-noise {MAX_NOISE}"
    found = [] if campaign is None else results(campaign)
    here: dict[str, str] = {}
    if campaign is None:
        lasts, _ = STUDIES[study]
        yield f"Not measured yet. An estimate of the time: {lasts}, on cores that are not used."
    else:
        made = claims_table(campaign, found)
        here = {one.name: row[-1] for one, row in zip(found, made.rows, strict=True)}
        report = f"[The report]({study}/report.html) has all values and figures."
        yield prose(f"On {machine_of(campaign)}. {' '.join(f'{n}.' for n in made.notes)} {report}")
    yield claims_of(study, wanted, {one.name: one for one in found}, here)
    if any(one.claim["quantities"] for one in found):
        yield from numbers_of(found)
    yield from written(found)


def claims_of(
    study: str, wanted: Wanted, found: Mapping[str, Result], here: Mapping[str, str]
) -> str:
    """The claims of a study: what was measured of each, and whether it holds."""
    rows = []
    for claim in wanted.claims:
        test = what_two_cores_test(study, claim)
        result = NONE
        if claim.name in found:
            result = of_claim(found[claim.name], testable=not test.startswith("no:"))
        rows.append([claim.title, claim.says or NONE, test, here.get(claim.name, NONE), result])
    columns = ["claim", "published", "what two cores can test", "here", "result"]
    return table(columns, rows).rstrip()


def written(found: Sequence[Result]) -> Iterator[str]:
    """What writing the buffers does, if it was measured: in words, and in tables."""
    made = pairs(found)
    if made:
        yield prose(f"{WRITTEN_HEAD} {' '.join(in_words(made))}")
        tables = effects_table(made), comparisons_table(made)
        yield from (markdown(one) for one in tables if one.rows)


def markdown(made: Table) -> str:
    """A table with its title, in Markdown."""
    columns = [column.title for column in made.columns]
    rows = table(columns, [list(row) for row in made.rows]).rstrip()
    return f"{made.title}:\n\n{rows}"


def numbers_of(found: Sequence[Result]) -> Iterator[str]:
    """The published numbers of a study, and whether each holds."""
    numbers = quantities_table(found)
    held = [of_quantity(measured) or NONE for one in found for measured in quantities(one)]
    columns = [*(column.title for column in numbers.columns), "result"]
    rows = [[*row, word] for row, word in zip(numbers.rows, held, strict=True)]
    yield table(columns, rows).rstrip()
    yield prose(" ".join(f"{note[0].upper()}{note[1:]}." for note in numbers.notes))


def page(folder: Path = RESULTS) -> str:
    """The whole page."""
    parts = [
        prose(f"{HEAD}\n\n{RULE}"),
        *(part for study in STUDIES for part in section(study, folder)),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
