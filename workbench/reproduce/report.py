"""The report of all figures, as Markdown and as a page, from the campaigns in a folder."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from miniapps.workbench.plural import counted
from miniapps.workbench.quoting import markdown_row
from miniapps.workbench.reproduce.ideal import gains_table
from miniapps.workbench.reproduce.predicates import FACTOR, FAILS, HOLDS, OPEN, RULE
from miniapps.workbench.reproduce.results import Found
from miniapps.workbench.reproduce.settings import is_as_asked
from miniapps.workbench.reproduce.tables import changes_table, claims_table, summary_table
from miniapps.workbench.run.record import DISTURBED, disturbed
from miniapps.workbench.run.replaced import replacing, write_text
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.cells import columns_of, distinct
from miniapps.workbench.study.provenance import noise_line
from miniapps.workbench.study.report import inline_svg, rendered
from miniapps.workbench.study.titles import machine_of
from miniapps.workbench.table import Table

TITLE = "Published results, measured again"
FIRST = "espm2-fig7"  # the figure at the top of the page
COLUMNS = 120
CAPTION = (
    "Left: means of the trials with 99 % intervals; dotted: published values, on an axis of their "
    "own if it says so. Right: claims that are ratios, or differences over the published one, and "
    "in blue what agrees with the published."
)
HEAD = f"""For readers who want to know which published results about parallel Python hold on
their own machine, and which do not. The command above runs one study in about 5 minutes (with
`--quick` in about one), and draws the published and the measured points. For each claim it prints
the published value, the measured one with its 99 % interval, and whether the claim *{HOLDS}*,
*{FAILS}* or is *{OPEN}*. `miniapps reproduce --list` names all figures and claims of five
publications, and what this machine lacks to measure some of them. `miniapps reproduce --all
--quick` writes this page; no number in it is written by hand.
[studies.md](studies.md#published-claims) describes the command and the files of claims.

The publications: ESPM2 2021 (Fink et al., a comparison of Charm4Py and mpi4py), CharmPy (Galvez
et al., CLUSTER 2018), OMB-Py (Alnaasan et al., 2021), the documentation of Charm4Py, and pPython
(Byun et al., 2023). Processors and MPI differ from the published ones, so most comparisons are of
ratios. A claim that needs more cores than this machine has is undecided. Problems are smaller than
the published ones unless `--full` is given; each figure says how."""
CHANGES = """The code behind some publications has a bug. For each bug there is a model: our program
with that bug, which runs beside the correct program in the same study. The model's validation must
fail, and its records say `valid: false, as published`. The models are in
`workbench/reproduce/as_published`, where only `miniapps reproduce` finds them. A model shows the
effect of the bug alone, with the speed of our kernels, not of the published ones. Its times include
what it needs to have the bug: `pic_hopping` stores the velocities of the previous step."""


def prose(text: str) -> str:
    """Paragraphs, each filled to the width of a page."""
    return "\n\n".join(
        textwrap.fill(
            " ".join(part.split()), COLUMNS, break_long_words=False, break_on_hyphens=False
        )
        for part in text.split("\n\n")
    )


def markdown(table: Table, titled: bool = True) -> str:
    """A table in Markdown, with its title and notes."""
    rows = [[column.title for column in table.columns], ["---"] * len(table.columns), *table.rows]
    lines = [*([f"**{table.title}**", ""] if titled else []), *map(markdown_row, rows)]
    notes = [line for note in table.notes for line in ("", prose(f"{note[0].upper()}{note[1:]}"))]
    return "\n".join([*lines, *notes])


def page(found: Sequence[Found], scale: str, folder: Path) -> str:
    """The report as Markdown; ``folder``: that of the campaigns and figures, beside the page."""
    parts = [
        f"# {TITLE}",
        f"    miniapps reproduce {FIRST}",
        f"![{FIRST}, published and measured]({folder.name}/{FIRST}.png)",
        prose(HEAD),
        "## Results",
        prose(_how(found, scale)),
        markdown(summary_table(found), titled=False),
        prose(RULE),
        "## As published, and as corrected",
        prose(CHANGES),
        markdown(changes_table(found), titled=False),
        *(markdown(gains_table(one.figure)) for one in found if one.figure.name == FIRST),
        *(part for one in found for part in _section(one, folder)),
    ]
    return "\n\n".join(parts) + "\n"


def _how(found: Sequence[Found], scale: str) -> str:
    """Where and how the results were made."""
    campaigns = [campaign for one in found for campaign in one.campaigns.values()]
    machines = ", ".join(distinct(map(machine_of, campaigns))) or "no machine yet"
    every = [run for campaign in campaigns for run in campaign.of("run")]
    distinct_runs = {(run["command"], run["trial"], run.get("seconds")): run for run in every}
    runs = [run["record"] for run in distinct_runs.values()]  # figures may share a campaign
    others = sum(disturbed(record) > DISTURBED for record in runs)
    said = f"Measured on {machines}, {scale}: {counted(len(runs), 'run')} that count."
    if others:
        said += (
            f" In {others} of them other programs took more than {DISTURBED:.0%} of a PE's time:"
            f" intervals are wider than on a quiet machine, and means may be wrong. Each figure"
            f" says how many of its runs were disturbed."
        )
    other = [
        one.figure.name
        for one in found
        if one.campaign and not is_as_asked(one.figure, scale, one.campaign)
    ]
    if other:
        said += (
            f" These figures show campaigns with other settings than with `--{scale}`:"
            f" {', '.join(other)}."
        )
    return said


def _section(one: Found, folder: Path) -> Iterator[str]:
    """A figure: its command, the figure itself, and its claims."""
    figure = one.figure
    yield f"## {figure.source}, {figure.shows}: {figure.title}"
    yield f"    miniapps reproduce {figure.name}"
    if one.campaign is not None:
        yield f"![{figure.title}]({folder.name}/{figure.name}.png)"
        noise = noise_line(one.campaign).partition(": ")[2]
        made = f"{made_of(one.campaign)}, on {machine_of(one.campaign)}"
        said = [f"{made}. Noise of the machine: {noise}.", disturbed_text(one)]
        if one.departures:
            said.append(f"Different from `--full`: {'; '.join(one.departures)}.")
        yield prose(" ".join(said))
    yield markdown(claims_table(one), titled=False)


def made_of(campaign: Campaign) -> str:
    """How many runs of how many trials count."""
    runs = [run["trial"] for run in campaign.of("run")]
    return f"{counted(len(runs), 'run')} of {counted(max(runs) + 1, 'trial')}"


def disturbed_text(found: Found) -> str:
    """In how many runs of a figure, those of models included, others took a PE's time."""
    runs = [run["record"] for one in found.campaigns.values() for run in one.of("run")]
    shares = [share for share in map(disturbed, runs) if share > DISTURBED]
    if not shares:
        return f"In no run did other programs take more than {DISTURBED:.0%} of a PE's time."
    models = ", those of wrong programs included," if found.figure.models else ""
    return (
        f"In {len(shares)} of {counted(len(runs), 'run')}{models} other programs took more than "
        f"{DISTURBED:.0%} of a PE's time, up to {max(shares):.0%}."
    )


def write(found: Sequence[Found], scale: str, folder: Path) -> list[Path]:
    """Write the report beside a folder with campaigns, and the figures in it; returns its files."""
    shown = [shown_of(one, made[1]) for one in found if (made := draw(one, folder))]
    files = [folder.with_suffix(".md"), folder.with_suffix(".html")]
    write_text(files[0], page(found, scale, folder))
    write_text(files[1], html(found, scale, shown))
    return files


def html(found: Sequence[Found], scale: str, shown: list[dict[str, Any]]) -> str:
    """The report as a page."""
    ideal = [gains_table(one.figure) for one in found if one.figure.name == FIRST]
    commands = tuple((one.figure.name, f"miniapps reproduce {one.figure.name}") for one in found)
    return rendered(
        "reproduction.html",
        title=TITLE,
        head=HEAD.split("\n\n"),
        how=_how(found, scale),
        rule=RULE,
        changes=CHANGES,
        tables=[summary_table(found), changes_table(found), *ideal, *map(claims_table, found)],
        commands=Table("Commands", columns_of("figure", "$command"), commands),
        figures=shown,
        factor=FACTOR,
    )


def draw(found: Found, folder: Path) -> tuple[Path, Any] | None:
    """Write the figure of results as PNG; returns its file and itself, None if there is none."""
    from miniapps.workbench.reproduce.drawing import figure_of
    from miniapps.workbench.study.figures import saved

    figure, path = figure_of(found), folder / f"{found.figure.name}.png"
    if figure is None:
        return None
    with replacing(path) as part:
        part.write_bytes(saved(figure, "png", salt=path.stem))
    return path, figure


def shown_of(found: Found, figure: Any) -> dict[str, Any]:
    """What a page shows of a figure."""
    from miniapps.workbench.study.figures import saved

    name = found.figure.name
    title = f"{found.figure.source}, {found.figure.shows}: {found.figure.title}"
    svg = inline_svg(saved(figure, "svg", salt=name).decode(), name, title)
    return {"name": name, "title": title, "caption": CAPTION, "wide": True, "svg": svg}
