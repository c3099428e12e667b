"""The lines of a campaign, of an app or of messages, in one form: trials by PEs or bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from miniapps.workbench.reproduce.papers import Figure
from miniapps.workbench.study import analysis
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.comm import report
from miniapps.workbench.study.comm.campaign import CommCampaign
from miniapps.workbench.study.comm.series import Line, results

Lines = dict[str, Line]


def campaign_of(path: Path, reader: type[Campaign] = Campaign) -> Campaign | None:
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
