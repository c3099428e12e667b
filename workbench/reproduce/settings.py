"""Whether a campaign is of a figure's study, and how it differs from what is published."""

from __future__ import annotations

import json
from pathlib import Path

from miniapps.json_input import parsed
from miniapps.parameters import require
from miniapps.workbench.reproduce.carry_out import FULL, asked_of_messages, options_of
from miniapps.workbench.reproduce.papers import Figure
from miniapps.workbench.show.captions import value_text
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.options import COMM, study_of


def require_of(figure: Figure, campaign: Campaign, path: Path, model: str | None) -> None:
    """Raise InputError unless a campaign is of the study of a figure, or of one of its models."""
    if figure.parts:
        asked = {"kind": COMM, "source": asked_of_messages(figure, FULL).source}
    else:
        head = study_of(options_of(figure, FULL, None)).head()
        asked = {"kind": head["kind"], "app": model or head["app"], "device": head["device"]}
    for key, value in asked.items():
        allowed = f"is not of the study of {figure.name}, whose {key} is {value}"
        require(campaign.head["study"].get(key) == value, "campaign", path, allowed)


def departures(figure: Figure, campaign: Campaign) -> list[str]:
    """What an application's campaign has otherwise than ``--full``, such as "`size` 750, not 5998".

    Empty for messages, whose numbers of bytes are the positions of what is compared.
    """
    if figure.parts:
        return []
    heads = campaign.head["study"], study_of(options_of(figure, FULL, None)).head()
    given = [head["problem"] | {"steps": head["steps"]} for head in heads]
    mine, full = ({key: value_text(one[key]) for key in one} for one in given)
    return [
        f"`{name.replace('_', '-')}` {mine.get(name) or 'none'}, not {full.get(name) or 'none'}"
        for name in mine | full
        if mine.get(name, "") != full.get(name, "")
    ]


def is_as_asked(figure: Figure, scale: str, campaign: Campaign) -> bool:
    """Whether a campaign of the right program has the settings and trials of a scale."""
    trials = len({run["trial"] for run in campaign.of("run")})
    if figure.parts:
        wanted = asked_of_messages(figure, scale)
        spans = [claim.settings.span for claim in wanted.claims]
        sizes = {tuple(span.sizes()) for span in spans if span is not None}
        mine = {tuple(point["sizes"]) for point in campaign.head["points"]}
        return mine <= sizes and trials <= wanted.trials
    options = options_of(figure, scale, None)
    head = parsed(json.dumps(study_of(options).head()))
    return campaign.head["study"] == head and trials <= options.trials
