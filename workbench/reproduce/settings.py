"""Whether a campaign is of a figure's study, and how it differs from what is published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
        asked = {"kind": head["kind"], "app": model or head["app"]}
    for key, value in asked.items():
        allowed = f"is not of the study of {figure.name}, whose {key} is {value}"
        require(campaign.head["study"].get(key) == value, "campaign", path, allowed)


def departures(figure: Figure, campaign: Campaign) -> list[str]:
    """What an application's campaign has otherwise than ``--full``, such as "`size` 750, not 5998".

    Empty for messages, whose numbers of bytes are the positions of what is compared.
    """
    if figure.parts:
        return []
    mine, full = campaign.head["study"], study_of(options_of(figure, FULL, None)).head()
    pairs = {**_pairs(mine["problem"], full["problem"]), "steps": (mine["steps"], full["steps"])}
    return [
        f"`{name.replace('_', '-')}` {value_text(one) or 'none'}, not {value_text(other) or 'none'}"
        for name, (one, other) in pairs.items()
        if value_text(one) != value_text(other)
    ]


def _pairs(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The values of both under each key."""
    return {key: (one.get(key), other.get(key)) for key in dict.fromkeys((*one, *other))}


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
