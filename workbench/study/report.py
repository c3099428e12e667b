"""The report of a campaign: tables on the terminal, one HTML page, and its figures as files.

The page is self-contained and runs no script. The same campaign always gives the same files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from miniapps import apps
from miniapps.parameters import printable, require
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.quoting import markup
from miniapps.workbench.run.replaced import replacing, write_text
from miniapps.workbench.run.writable import check_writable
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.options import published_values
from miniapps.workbench.study.overlay import Overlay
from miniapps.workbench.study.plan import KINDS
from miniapps.workbench.study.provenance import (
    commands_table,
    disturbed_lines,
    failures_table,
    hashes,
    timed_steps,
)
from miniapps.workbench.study.tables import tables
from miniapps.workbench.study.titles import machine_of, title_of
from miniapps.workbench.study.validation import spaced
from miniapps.workbench.table import Column, Table, show, width, wrapped

FORMATS = ("png", "svg", "pdf")
WIDE = 8.0  # inches: a wider figure has no other one beside it


def write(
    campaign_path: Path,
    published: Path | None,
    predict: Callable[[Campaign], Overlay] | None = None,
) -> int:
    """Print a campaign's tables; write its page and its figures beside it.

    The files are ``STEM.html`` and ``STEM-<figure>`` as PNG, SVG and PDF. Returns WRONG if
    `is_wrong`, else VALID. ``predict``: makes what the performance model adds. Raises InputError.
    """
    campaign = read_study(campaign_path)
    beside = published_tables(published) if published else []
    page = campaign_path.with_suffix(".html")
    check_writable("campaign", page)
    shown = tables(campaign)
    overlay = predict(campaign) if predict else None
    if overlay:
        shown.append(overlay.table)
    failures = failures_table(campaign)
    figures = _draw(campaign, campaign_path, overlay)
    write_text(page, html(campaign, shown, beside, figures))
    # Print last: this process ends if the reader of standard output closes it.
    for line in disturbed_lines(campaign):
        print(*wrapped(line, width()), sep="\n")
    show([*shown, *beside, *([failures] if failures.rows else [])])
    print(f"report: {page}")
    return WRONG if is_wrong(campaign) else VALID


def is_wrong(campaign: Campaign) -> bool:
    """Whether a dropped run has no successful repeat, or runs of a problem differ in state."""
    return bool(campaign.failures) or any(len(states) > 1 for states in hashes(campaign).values())


def read_study(path: Path) -> Campaign:
    """The campaign of a study. Raises InputError, also if it has no runs."""
    campaign = Campaign.read(path)
    study, known = campaign.head["study"], apps.names()
    planned = study["kind"] in KINDS and bool(campaign.head["points"])
    require(planned, "campaign", path, "holds no study")
    require(study["app"] in known, "campaign", path, f"is of none of {', '.join(known)}")
    validated = any(campaign.of("run")) or any(campaign.of("dropped"))
    require(validated, "campaign", path, "holds no runs yet")
    return campaign


# Published values ---------------------------------------------------------------------------------


def published_tables(path: Path) -> list[Table]:
    """Tables of a JSON file with values that others have published. Raises InputError.

    ``source`` is the title. The longest lists become the columns of one table, each object becomes
    a table with a row per key, and anything else becomes a note.
    """
    found = published_values(path, "--published")
    return list(_published(f"Published: {found.pop('source')}", found))


def _published(title: str, values: dict[str, Any]) -> Iterator[Table]:
    lists = {key: value for key, value in values.items() if isinstance(value, list)}
    longest = max(map(len, lists.values()), default=0)
    shown = {key: value for key, value in lists.items() if len(value) == longest}
    inner = {key: value for key, value in values.items() if isinstance(value, dict)}
    notes = tuple(
        f"{spaced(key)}: {_text(values[key])}" for key in values if key not in shown | inner
    )
    columns = tuple(
        Column(spaced(key), all(map(_is_number, value))) for key, value in shown.items()
    )
    if columns or notes:
        cells = (map(_text, value) for value in shown.values())
        yield Table(title, columns, tuple(zip(*cells, strict=True)), notes)
    for key, value in inner.items():
        rows = tuple((spaced(name), _text(entry)) for name, entry in value.items())
        yield Table(f"{title}: {spaced(key)}", (Column("what"), Column("value")), rows)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _text(value: Any) -> str:
    """A JSON value as text; strings without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


# Figures and page ---------------------------------------------------------------------------------


def _draw(campaign: Campaign, path: Path, overlay: Overlay | None) -> list[dict[str, Any]]:
    """Write the figures beside the campaign; returns what the page shows of them."""
    from miniapps.workbench.study.figures import CAPTIONS, figures

    made = figures(campaign, overlay)
    return drawn(made, CAPTIONS, lambda name, form: path.with_name(f"{path.stem}-{name}.{form}"))


def drawn(
    figures: Mapping[str, Any],
    captions: Mapping[str, tuple[str, str]],
    place: Callable[[str, str], Path],
) -> list[dict[str, Any]]:
    """Write figures in all formats; returns name, title, caption, SVG and width of each.

    ``place``: the path of the file of a figure's name in a format; ``wide``: whether the figure
    takes the whole width of the page.
    """
    from miniapps.workbench.study.figures import saved

    shown: list[dict[str, Any]] = []
    for name, figure in figures.items():
        for form in FORMATS:
            data = saved(figure, form, salt=name)
            with replacing(place(name, form)) as part:
                part.write_bytes(data)
            if form == "svg":
                title, caption = captions[name]
                shown.append({"name": name, "title": title, "caption": caption})
                shown[-1]["wide"] = figure.get_figwidth() > WIDE
                shown[-1]["svg"] = inline_svg(data.decode(), name, title)
    return shown


def inline_svg(text: str, name: str, title: str) -> str:
    """An SVG file as an element of a page: with unique ids and a description."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{markup(title)}"', 1)


def html(
    campaign: Campaign, shown: list[Table], beside: list[Table], figures: list[dict[str, Any]]
) -> str:
    """The report as an HTML page."""
    study = campaign.head["study"]
    return rendered(
        "report.html",
        title=title_of(campaign),
        machine=machine_of(campaign),
        study=study,
        steps=timed_steps(campaign.head),
        tables=shown,
        published=beside,
        failures=failures_table(campaign),
        commands=commands_table(campaign),
        split=[problem for problem, states in hashes(campaign).items() if len(states) > 1],
        disturbed=disturbed_lines(campaign),
        oversubscribed=any(run["record"]["oversubscribed"] for run in campaign.of("run")),
        figures=figures,
    )


def rendered(template: str, figures: list[dict[str, Any]], **values: Any) -> str:
    """A page from one of the templates beside this file; what is not given is empty."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    around = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = [figure | {"svg": Markup(figure["svg"])} for figure in figures]
    empty = {"published": [], "split": [], "disturbed": [], "failures": Table("", (), ())}
    return around.get_template(template).render(empty | values, figures=shown)
