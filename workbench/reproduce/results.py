"""The results of a figure: its campaigns, their lines, and what became of its claims.

Lines are in one form for apps and messages: trials by PEs or bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from miniapps.parameters import require
from miniapps.workbench.reproduce import models, peers
from miniapps.workbench.reproduce.carry_out import campaign_path, missing, peer_path
from miniapps.workbench.reproduce.papers import Figure
from miniapps.workbench.reproduce.predicates import OPEN, Outcome, outcome
from miniapps.workbench.reproduce.settings import departures, require_of
from miniapps.workbench.study import analysis
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.comm import report
from miniapps.workbench.study.comm.campaign import CommCampaign
from miniapps.workbench.study.comm.series import Line, results

Lines = dict[str, Line]


@dataclass(frozen=True)
class Found:
    """A figure with what was measured of it, by model (None: the right program) and part."""

    figure: Figure
    scale: str
    campaigns: Mapping[str | None, Campaign]
    lines: Mapping[str | None, Mapping[str | None, Lines]]
    outcomes: tuple[Outcome, ...]

    @property
    def campaign(self) -> Campaign | None:
        """That of the right program; None if there is none."""
        return self.campaigns.get(None)

    @property
    def departures(self) -> list[str]:
        """What was measured otherwise than published, such as "`size` 750, not 5998"."""
        return departures(self.figure, self.campaign) if self.campaign else []


def found_of(figure: Figure, scale: str, folder: Path, made: Path | None = None) -> Found:
    """The results of a figure, from the campaigns in a folder. Raises InputError.

    ``made``: the campaign file of the right program, if it is another one.
    """
    campaigns: dict[str | None, Campaign] = {}
    require(made is None or made.exists(), "--campaign", made, "there is no such file")
    for model in (None, *figure.models):
        path = campaign_path(figure, scale, folder, model) if model or made is None else made
        with models.known() if model else nullcontext():
            campaign = campaign_of(path, models.ModelCampaign if model else Campaign)
        if campaign is not None:
            require_of(figure, campaign, path, model)
        if campaign is not None and any(campaign.of("run")):
            campaigns[model] = campaign
    lines = {model: lines_of(figure, campaign) for model, campaign in campaigns.items()}
    for peer in figure.peers if None in lines else ():
        head = campaigns[None].head["study"]
        line = peers.line_of(peer, peer_path(figure, scale, folder, peer), head)
        if line is not None:
            lines[None][None][peer] = line
    return Found(figure, scale, campaigns, lines, tuple(_outcomes(figure, lines)))


def campaign_of(path: Path, reader: type[Campaign]) -> Campaign | None:
    """The campaign in a file, of an application or of messages; None if there is no file."""
    if not path.exists():
        return None
    return CommCampaign.read(path) if report.is_ours(path) else reader.read(path)


def lines_of(figure: Figure, campaign: Campaign) -> dict[str | None, Lines]:
    """The lines by part (None: of an application, which has no parts) and name."""
    if figure.parts:
        found = {result.name: result.lines for result in results(campaign)}
        return {name: {line.name: line for line in lines} for name, lines in found.items()}
    return {None: {line.name: line for line in of_app(campaign, figure.lines)}}


def of_app(campaign: Campaign, published: Mapping[str, Mapping[int, float]]) -> Iterator[Line]:
    """The configurations of a study: ms per step by PEs; the others are only published."""
    named: dict[str, list[analysis.Result]] = {}
    for found in analysis.results(campaign):
        named.setdefault(name_of(found), []).append(found)
    for name, mine in named.items():
        yield Line(
            name=name,
            unit="ms",
            records=tuple(record for found in mine for record in found.records),
            trials={found.pes: found.times * 1e3 for found in mine},
            published=published.get(name, {}),
            point={"pes": max(found.pes for found in mine)},
        )


def name_of(found: analysis.Result) -> str:
    """A configuration without the period of its balancer, which follows the steps of a run."""
    return found.configuration.partition(", every")[0]


def _outcomes(
    figure: Figure, lines: Mapping[str | None, Mapping[str | None, Lines]]
) -> Iterator[Outcome]:
    """Each claim, of the right program and then of the models if it is told of these, too."""
    for claim in figure.claims:
        if claim.of is not None and None not in lines:
            reason = claim.reason or missing(figure) or "not measured yet"
            yield Outcome(claim, OPEN, reason, published=claim.published)
            continue
        yield outcome(claim, lines.get(None, {}).get(claim.part, {}))
        for model in figure.models if claim.both else ():
            if model in lines:
                yield outcome(claim, lines[model].get(claim.part, {}), model)
