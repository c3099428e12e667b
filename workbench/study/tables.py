"""The results of a campaign as plain-text tables, for the terminal and for the report.

Numbers in brackets are 99 % intervals. Points with more PEs than cores appear in the table of all
points, without a rate, and in no table about speed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from miniapps.workbench.plural import counted
from miniapps.workbench.study import analysis
from miniapps.workbench.study.analysis import Gain, PairwiseComparison, Result, Scaling
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.cells import (
    columns_of,
    distinct,
    few_trials,
    half_point,
    number,
    outcome,
    problem_cell,
    share,
    with_bounds,
)
from miniapps.workbench.study.laws import Fit
from miniapps.workbench.study.plan import case_of
from miniapps.workbench.study.provenance import (
    environment_table,
    hashes_table,
    noise_line,
    settings,
)
from miniapps.workbench.study.validation import label, wide_points
from miniapps.workbench.table import NONE, Table

POOR = 0.1  # the largest residual of a usable fit
SHORT_S = 0.2  # timed seconds of a run below which a brief disturbance dominates
OVERSUBSCRIBED = "oversubscribed: times mean nothing"
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def tables(campaign: Campaign) -> list[Table]:
    """All tables of a campaign: points, the tables of its kind of study, hashes, environment."""
    found = analysis.results(campaign)
    kind = campaign.head["study"]["kind"]
    made = [points_table(campaign, found)]
    if kind in ("strong", "weak"):
        made += [scaling_table(found, kind == "weak"), fits_table(found, kind == "weak")]
    elif kind == "lb":
        made.append(gains_table(campaign, found))
    elif kind == "granularity":
        made.append(granularity_table(found))
    made.append(pairwise_table(campaign, found))
    return [*made, hashes_table(campaign), environment_table(campaign, settings(campaign))]


# All points ---------------------------------------------------------------------------------------


def points_table(campaign: Campaign, found: Sequence[Result]) -> Table:
    """Every point of the matrix, including those without a run that counts."""
    by_number = {result.number: result for result in found}
    factor, unit = _rate_unit(found)
    rows = []
    for number_, point in enumerate(campaign.head["points"]):
        head = (case_of(point).configuration, str(point["pes"]), problem_cell(campaign, number_))
        text = _outcome(campaign, number_, by_number.get(number_))
        rows.append((*head, *_measured(by_number.get(number_), factor), text))
    columns = columns_of(
        "configuration", "#PEs", "problem", "#trials", "#ms per step", f"#rate [{unit}]"
    )
    columns += columns_of("#utilisation", "#imbalance", "result")
    notes = [noise_line(campaign), *_too_wide(campaign)]
    if any(len(result.records) < 2 for result in found):
        notes.append("[none]: one trial has no interval")
    notes += few_trials(n for result in found if (n := len(result.records)) > 1)
    if any(result.mean("wall_s") < SHORT_S for result in found):
        granularity = campaign.head["study"]["kind"] == "granularity"
        more = "--steps or --max-steps" if granularity else "--steps"
        notes.append(f"runs shorter than {SHORT_S} s: sensitive to brief noise; increase {more}")
    if len({result.problem.get("time_tile") for result in found}) > 1:
        notes.append("the time tile differs between points: set --time-tile to compare them")
    return Table("All points", columns, tuple(rows), tuple(notes))


def _too_wide(campaign: Campaign) -> list[str]:
    """A note for each point whose interval is wider than --until-ci allows."""
    wanted = [start.get("until_ci") for start in campaign.of("start")]
    if not wanted or wanted[-1] is None:
        return []
    return [
        f"{label(campaign.head, point)}: the interval is {share(found)} to both sides, wider than "
        f"the {share(wanted[-1])} asked for"
        for point, found in sorted(wide_points(campaign, wanted[-1]).items())
    ]


def _measured(result: Result | None, factor: float) -> tuple[str, ...]:
    if result is None:
        return ("0", *[NONE] * 4)
    return (
        str(len(result.records)),
        with_bounds(result.step, 1e3),
        NONE if result.oversubscribed else number(result.rate / factor),
        share(result.mean("utilisation")),
        f"{result.mean('imbalance'):.3f}",
    )


def _rate_unit(found: Sequence[Result]) -> tuple[float, str]:
    """A power of 1000 by which to divide the rates for display, and the unit of the quotients."""
    unit = found[0].records[0]["rate"]["unit"] if found else "1/s"
    best = max((result.rate for result in found), default=math.nan)
    for factor, prefix in PREFIXES:
        if best >= factor:
            return factor, f"{prefix} {unit}"
    return 1.0, unit


def _outcome(campaign: Campaign, number_: int, result: Result | None) -> str:
    text = outcome(campaign, number_)
    if result and result.disturbed:
        runs = counted(len(result.records), "run")
        text += f"; {result.disturbed} of {runs} disturbed"
    return f"{text}; {OVERSUBSCRIBED}" if result and result.oversubscribed else text


# Scaling ------------------------------------------------------------------------------------------


def scaling_table(found: list[Result], weak: bool) -> Table:
    """Speed-up, efficiency and, in strong scaling, the Karp-Flatt serial fraction."""
    rows = [_scaling_row(row) for row in analysis.scaling(found, weak)]
    gain = "#scaled speed-up" if weak else "#speed-up"
    columns = columns_of(
        "configuration", "#PEs", "#against PEs", gain, "#efficiency", "#Karp-Flatt"
    )
    if weak:  # the Karp-Flatt fraction is defined for a fixed problem size
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    notes = _left_out(found)
    if len({result.pes for result in analysis.comparable(found)}) < 2:
        notes.append("only one number of PEs: no scaling")
    if not weak and any(result.pes > 1 and not result.oversubscribed for result in found):
        notes.append(
            "Karp-Flatt: the serial fraction that the speed-up over one PE implies; above 1, more "
            "PEs are slower than one"
        )
    return Table("Weak scaling" if weak else "Strong scaling", columns, tuple(rows), tuple(notes))


def _scaling_row(row: Scaling) -> tuple[str, ...]:
    head = (row.result.configuration, str(row.result.pes), str(row.base.pes))
    if row.result is row.base:
        return (*head, "1 (base)", "1 (base)", NONE)
    serial = NONE if row.serial_fraction is None else number(row.serial_fraction, 2)
    return (*head, with_bounds(row.speedup), with_bounds(row.efficiency), serial)


def _left_out(found: Sequence[Result]) -> list[str]:
    """A note on the oversubscribed points, if any, which tables about speed leave out."""
    count = sum(result.oversubscribed for result in found)
    if not count:
        return []
    points = counted(count, "point")
    return [f"left out: {points} with more PEs than cores, whose times mean nothing"]


def fits_table(found: list[Result], weak: bool) -> Table:
    """The fitted scaling laws and their parameters, or the reasons why there are none."""
    parallel = [result for result in found if not result.case.can.one_pe]
    fits = analysis.fits(parallel, weak)
    rows = [_fit_row(configuration, fit) for configuration, fit in fits if isinstance(fit, Fit)]
    notes = distinct(f"not fitted: {fit}" for _, fit in fits if not isinstance(fit, Fit))
    if any(fit.residual > POOR for _, fit in fits if isinstance(fit, Fit)):
        notes.append(f"a residual above {share(POOR)}: the law does not fit that configuration")
    columns = columns_of(
        "configuration", "law", "#time on 1 PE [ms]", "#serial part, or sigma", "#kappa"
    )
    columns += columns_of("#largest residual", "note")
    return Table("Scaling laws, fitted", columns, tuple(rows), tuple(notes))


def _fit_row(configuration: str, fit: Fit) -> tuple[str, ...]:
    time, serial, *rest = fit.parameters.values()
    return (
        configuration,
        fit.title,
        with_bounds(time, 1e3),
        with_bounds(serial),
        with_bounds(rest[0]) if rest else NONE,
        share(fit.residual),
        fit.note,
    )


# Pairwise comparisons, load balancing, granularity ------------------------------------------------


def pairwise_table(campaign: Campaign, found: list[Result]) -> Table:
    """For each problem and number of PEs, the first configuration against every other one."""
    comparisons = analysis.pairwise_comparisons(found)
    rows = tuple(_pairwise_row(campaign, row) for row in comparisons)
    columns = columns_of(
        "configuration", "against", "#PEs", "problem", "#ratio of times", "#U", "#p"
    )
    columns += columns_of("#effect", "difference at 1 %")
    notes = _left_out(found)
    notes += distinct(row.test.note for row in comparisons if row.test.note)
    return Table("Pairwise comparisons", columns, rows, tuple(notes))


def _pairwise_row(campaign: Campaign, row: PairwiseComparison) -> tuple[str, ...]:
    text = "slower" if row.test.effect > 0.5 else "faster"
    text = f"significant: {text}" if row.test.significant else "not significant"
    return (
        row.second.configuration,
        row.first.configuration,
        str(row.first.pes),
        problem_cell(campaign, row.second.number),
        with_bounds(row.ratio),
        f"{row.test.u:g}",
        f"{row.test.p:.2g}",
        f"{row.test.effect:.2f}",
        text,
    )


def gains_table(campaign: Campaign, found: list[Result]) -> Table:
    """The gain of each balanced point, and the ideal gain."""
    gains = analysis.gains(found)
    columns = columns_of(
        "configuration", "against", "#PEs", "#gain", "#ideal gain (max/mean)", "#fraction achieved"
    )
    columns += columns_of("#p", "#migrations per run", "#load balancing [ms per run]")
    notes = _left_out(found)
    notes += distinct(row.test.note for row in gains if row.test.note)
    rows = tuple(map(_gain_row, gains))
    if "vary" in campaign.head["study"]:
        columns += columns_of("problem", "of the other")
        numbers = ((row.balanced.number, row.other.number) for row in gains)
        cells = ((problem_cell(campaign, n) for n in pair) for pair in numbers)
        rows = tuple((*row, *problems) for row, problems in zip(rows, cells, strict=True))
    return Table("Gain of load balancing", columns, rows, tuple(notes))


def _gain_row(row: Gain) -> tuple[str, ...]:
    records = row.balanced.records
    seconds = sum(entry["seconds"] for record in records for entry in record["lb"])
    return (
        row.balanced.configuration,
        row.other.configuration,
        str(row.balanced.pes),
        with_bounds(row.gain),
        f"{row.ideal:.3f}",
        share(row.fraction_achieved, 0),
        f"{row.test.p:.2g}",
        number(row.balanced.mean("migrations")),
        number(seconds / len(records) * 1e3),
    )


def granularity_table(found: list[Result]) -> Table:
    """Efficiency over step length, and METG(50 %)."""
    rows = []
    for group in analysis.granularity(found):
        for point in sorted(group.points, key=lambda point: -point.result.step.value):
            lengths = (with_bounds(point.result.step, 1e3), number(point.block_step_s * 1e3))
            rows.append(
                (group.configuration, *lengths, share(point.efficiency), half_point(group.metg_s))
            )
    columns = columns_of(
        "configuration", "#step [ms]", "#step of a block [ms]", "#efficiency", "#METG(50 %)"
    )
    return Table("Granularity", columns, tuple(rows), tuple(_left_out(found)))
