"""The results of a campaign as plain-text tables, for the terminal and for the report.

Numbers in brackets are 99 % intervals. Points with more PEs than cores appear in the table of all
points, without a rate, and in no table about speed.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import drivers
from workbench.plural import counted
from workbench.run.record import DISTURBED, disturbed, fixed_parameters
from workbench.study import analysis
from workbench.study.analysis import Gain, PairwiseComparison, Result, Scaling
from workbench.study.campaign import Campaign
from workbench.study.noise import Noise
from workbench.study.plan import case_of
from workbench.study.statistics import Fit, Interval
from workbench.study.validation import answer_key, in_words, label, own_problem, wide_points
from workbench.table import NONE, Column, Table

POOR = 0.1  # the largest residual of a usable fit
FEW = 5  # trials; with fewer, an interval is hardly wider than their range
SHORT_S = 0.2  # timed seconds of a run below which a brief disturbance dominates
NOISY = 0.25  # spread of the fixed work's time, above which the report warns
OVERSUBSCRIBED = "oversubscribed: times mean nothing"
PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def tables(campaign: Campaign) -> list[Table]:
    """All tables of a campaign: points, the tables of its kind of study, hashes, environment."""
    found = analysis.results(campaign)
    kind = campaign.head["study"]["kind"]
    made = [points_table(campaign, found)]
    if kind in ("strong", "weak"):
        made += [scaling_table(campaign, found, kind == "weak"), fits_table(found, kind == "weak")]
    elif kind == "lb":
        made.append(gains_table(campaign, found))
    elif kind == "granularity":
        made.append(granularity_table(found))
    made.append(pairwise_table(campaign, found))
    return [*made, hashes_table(campaign), environment_table(campaign)]


# Cells --------------------------------------------------------------------------------------------


def number(value: float, digits: int = 4) -> str:
    """A number with ``digits`` significant digits; very small or large ones have an exponent."""
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "infinite"
    if value and not 1e-5 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}"
    decimals = digits - 1 - (math.floor(math.log10(abs(value))) if value else 0)
    return f"{value:,.{min(max(decimals, 0), 8)}f}"


def with_bounds(interval: Interval, scale: float = 1.0) -> str:
    """A value with the bounds of its interval, if any, in brackets.

    It has two to four significant digits: one more than the interval allows.
    """
    if math.isnan(interval.low):
        return f"{number(interval.value * scale)} [none]"
    width = min(1.0, max(1e-4, interval.relative_half_width))
    digits = max(2, min(4, 1 + math.ceil(-math.log10(width))))
    bounds = (interval.value, interval.low, interval.high)
    value, low, high = (number(bound * scale, digits) for bound in bounds)
    return f"{value} [{low}, {high}]"


def share(value: float) -> str:
    """A fraction in percent; no number if it is not defined."""
    return NONE if math.isnan(value) else f"{value:.1%}"


def _columns(*titles: str) -> tuple[Column, ...]:
    """Columns by their titles; a leading # marks numbers, a leading $ code."""
    return tuple(
        Column(title.lstrip("#$"), title.startswith("#"), title.startswith("$")) for title in titles
    )


def problem_cell(campaign: Campaign, number: int) -> str:
    """The parameters of a point's problem that differ between points."""
    return own_problem(campaign.head, number) or "the same"


def _distinct(values: Iterable[Any]) -> list[str]:
    """The distinct values as one-line texts, in their original order."""
    return list(dict.fromkeys(" ".join(str(value).split()) for value in values))


# All points ---------------------------------------------------------------------------------------


def points_table(campaign: Campaign, found: Sequence[Result]) -> Table:
    """Every point of the matrix, including those without a run that counts."""
    by_number = {result.number: result for result in found}
    factor, unit = _rate_unit(found)
    rows = []
    for number_, point in enumerate(campaign.head["points"]):
        head = (
            case_of(point).configuration,
            str(point["pes"]),
            problem_cell(campaign, number_),
        )
        outcome = _outcome(campaign, number_, by_number.get(number_))
        rows.append((*head, *_measured(by_number.get(number_), factor), outcome))
    columns = _columns(
        "configuration", "#PEs", "problem", "#trials", "#ms per step", f"#rate [{unit}]"
    )
    columns += _columns("#utilisation", "#imbalance", "result")
    notes = [noise_line(campaign), *disturbed_lines(campaign), *_too_wide(campaign)]
    if any(len(result.records) < 2 for result in found):
        notes.append("[none]: one trial has no interval")
    if any(1 < len(result.records) < FEW for result in found):
        notes.append(f"fewer than {FEW} trials: an interval is hardly more than their range")
    if any(result.mean("wall_s") < SHORT_S for result in found):
        notes.append(f"runs shorter than {SHORT_S} s: sensitive to brief noise; increase --steps")
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
    if not found:
        return 1.0, "1/s"
    unit = found[0].records[0]["rate"]["unit"]
    best = max(result.rate for result in found)
    for factor, prefix in PREFIXES:
        if best >= factor:
            return factor, f"{prefix} {unit}"
    return 1.0, unit


def _outcome(campaign: Campaign, number_: int, result: Result | None) -> str:
    dropped = [entry for entry in campaign.failures if entry["point"] == number_]
    text = "valid" if result else "no run that counts"
    if dropped:
        reasons = "; ".join(_distinct(entry["reason"] for entry in dropped))
        text = f"{len(dropped)} dropped: {reasons}"
    return f"{text}; {OVERSUBSCRIBED}" if result and result.oversubscribed else text


def noise_line(campaign: Campaign) -> str:
    """The noise of the machine while the study ran."""
    seconds = [entry["seconds"] for entry in campaign.of("noise")]
    return str(Noise.of(seconds)) if seconds else "machine noise: not measured"


def disturbed_lines(campaign: Campaign) -> list[str]:
    """What makes the times of a study doubtful: disturbed runs, and a noisy machine."""
    shares = [disturbed(run["record"]) for run in campaign.of("run")]
    count = sum(share > DISTURBED for share in shares)
    repeat = "repeat the study with --max-noise 5%, or on a quiet machine"
    lines = []
    if count:
        runs = counted(len(shares), "run")
        lines.append(
            f"DISTURBED: in {count} of {runs} other programs took up to {max(shares):.0%} of a "
            f"PE's time; {repeat}"
        )
    samples = [entry["seconds"] for entry in campaign.of("noise")]
    if not count and samples and Noise.of(samples).spread > NOISY:
        lines.append(f"NOISY: the same work took very different times; {repeat}")
    return lines


# Scaling ------------------------------------------------------------------------------------------


def scaling_table(campaign: Campaign, found: list[Result], weak: bool) -> Table:
    """Speed-up, efficiency and, in strong scaling, the Karp-Flatt serial fraction."""
    rows = [_scaling_row(row) for row in analysis.scaling(found, weak)]
    gain = "#scaled speed-up" if weak else "#speed-up"
    columns = _columns("configuration", "#PEs", "#against PEs", gain, "#efficiency", "#Karp-Flatt")
    if weak:  # the Karp-Flatt fraction is defined for a fixed problem size
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    notes = [noise_line(campaign), *_left_out(found)]
    if not _several(found):
        notes.append("only one number of PEs: no scaling")
    if not weak and any(result.pes > 1 and not result.oversubscribed for result in found):
        notes.append(
            "Karp-Flatt: the serial fraction that the speed-up over one PE implies; above 1, more "
            "PEs are slower than one"
        )
    return Table("Weak scaling" if weak else "Strong scaling", columns, tuple(rows), tuple(notes))


def _several(found: list[Result]) -> bool:
    """Whether points without oversubscription have several numbers of PEs."""
    return len({result.pes for result in analysis.comparable(found)}) > 1


def _scaling_row(row: Scaling) -> tuple[str, ...]:
    head = (row.result.configuration, str(row.result.pes), str(row.base.pes))
    if row.result is row.base:
        return (*head, "1 (base)", "1 (base)", NONE)
    serial = NONE if row.serial_fraction is None else number(row.serial_fraction)
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
    notes = _distinct(f"not fitted: {fit}" for _, fit in fits if not isinstance(fit, Fit))
    if any(fit.residual > POOR for _, fit in fits if isinstance(fit, Fit)):
        notes.append(f"a residual above {share(POOR)}: the law does not fit that configuration")
    columns = _columns(
        "configuration", "law", "#time on 1 PE [ms]", "#serial part, or sigma", "#kappa"
    )
    columns += _columns("#largest residual", "note")
    return Table("Scaling laws, fitted", columns, tuple(rows), tuple(notes))


def _fit_row(configuration: str, fit: Fit) -> tuple[str, ...]:
    time, serial, *rest = fit.parameters.values()
    return (
        configuration,
        fit.model,
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
    columns = _columns("configuration", "against", "#PEs", "problem", "#ratio of times", "#U", "#p")
    columns += _columns("#effect", "difference at 1 %")
    notes = [noise_line(campaign), *_left_out(found)]
    notes += _distinct(row.test.note for row in comparisons if row.test.note)
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
    columns = _columns(
        "configuration", "against", "#PEs", "#gain", "#ideal gain (max/mean)", "#fraction achieved"
    )
    columns += _columns("#p", "#migrations per run", "#load balancing [ms per run]")
    notes = [noise_line(campaign), *_left_out(found)]
    notes += _distinct(row.test.note for row in gains if row.test.note)
    return Table("Gain of load balancing", columns, tuple(map(_gain_row, gains)), tuple(notes))


def _gain_row(row: Gain) -> tuple[str, ...]:
    records = row.balanced.records
    seconds = sum(entry["seconds"] for record in records for entry in record["lb"])
    return (
        row.balanced.configuration,
        row.other.configuration,
        str(row.balanced.pes),
        with_bounds(row.gain),
        f"{row.ideal:.3f}",
        share(row.fraction_achieved),
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
    columns = _columns(
        "configuration", "#step [ms]", "#step of a block [ms]", "#efficiency", "#METG(50 %)"
    )
    return Table("Granularity", columns, tuple(rows), tuple(_left_out(found)))


def half_point(length: Interval) -> str:
    """METG(50 %), from s, as text: a value and the measured steps on both sides, or a bound."""
    low, high = (number(bound * 1e3, 2) for bound in (length.low, length.high))
    if not math.isnan(length.value):
        return f"{number(length.value * 1e3, 2)} ms [{low}, {high}]"
    if not length.low:
        return f"below {high} ms"
    if math.isinf(length.high):
        return f"above {low} ms"
    return f"not monotone: {low} to {high} ms"


# States, environment, commands --------------------------------------------------------------------


def hashes(campaign: Campaign) -> dict[str, dict[str, int]]:
    """For each problem and number of steps, the final state hashes and the runs that had each."""
    found: dict[str, dict[str, int]] = {}
    for run in campaign.of("run"):
        record = run["record"]
        _, steps, _ = answer_key(record)
        mine = found.setdefault(f"{_problem(record)}; {steps} steps", {})
        mine[record["state_hash"]] = mine.get(record["state_hash"], 0) + 1
    return found


def _problem(record: dict[str, Any]) -> str:
    """The problem of a record as text, without parameters that cannot change the final state."""
    return ", ".join(in_words(name, value) for name, value in fixed_parameters(record).items())


def hashes_table(campaign: Campaign) -> Table:
    """The final state of each problem: one hash over all bits, the same for every configuration."""
    rows = []
    for problem, states in hashes(campaign).items():
        text = "one state" if len(states) == 1 else f"WRONG: {len(states)} states"
        rows += [(problem, str(runs), state, text) for state, runs in states.items()]
    columns = _columns("problem", "#runs", "$state hash", "result")
    return Table("Final states", columns, tuple(rows))


def environment_table(campaign: Campaign) -> Table:
    """Machine, versions, clock, noise, and settings of the runs."""
    rows = tuple((name, "; ".join(values) or NONE) for name, values in _environment(campaign))
    return Table("Machine and versions", _columns("item", "value"), rows)


def _environment(campaign: Campaign) -> Iterator[tuple[str, list[str]]]:
    starts = list(campaign.of("start"))
    records = [run["record"] for run in campaign.of("run")]
    study = campaign.head["study"]
    yield "steps", [f"{study['steps']} timed, after {study['warmup']} of warm-up"]
    if "lb_first" in study:
        yield "first load-balancing step", [f"before step {study['lb_first']}"]
    yield "trials", _trials(campaign)
    yield "shuffle seed", [str(study["shuffle_seed"])]
    yield "device", [study["device"]]
    pinned = {
        True: "each PE pinned to a core, if there are enough; see the commands",
        False: "PEs not pinned",
    }
    yield "pinning", _distinct(pinned[start["pinned"]] for start in starts)
    ticks = [start["clock_tick_s"] for start in starts]
    yield "clock", [f"ticks {max(ticks) * 1e9:.3g} ns at worst"] if ticks else []
    yield "noise", [noise_line(campaign)]
    hosts = [source["host"] for source in (*starts, *records)]
    yield "processor", _distinct(host["processor"] for host in hosts)
    yield "cores", _distinct(host["cores"] for host in hosts)
    yield "memory", _distinct(f"{host['memory_bytes'] / 2**30:.1f} GiB" for host in hosts)
    yield "system", _distinct(host["system"] for host in hosts)
    versions = [source["versions"] for source in (*starts, *records)]
    titles = {driver.name: driver.runtime for driver in drivers.found().values() if driver.runtime}
    for name in dict.fromkeys(name for found in versions for name in found):
        values = _distinct(found[name] for found in versions if name in found)
        yield titles.get(name, name), values


def _trials(campaign: Campaign) -> list[str]:
    counts = [len(result.records) for result in analysis.results(campaign)]
    if not counts:
        return ["none"]
    span = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return [f"{span} of each point that has any, {sum(counts)} in all"]


def commands_table(campaign: Campaign) -> Table:
    """The commands of each point: as typed, and as launched."""
    launched: dict[int, str] = {}
    for entry in (*campaign.of("run"), *campaign.of("dropped")):
        launched.setdefault(entry["point"], entry["command"])
    rows = tuple(
        (
            label(campaign.head, number),
            shlex.join(["miniapps", *point["arguments"]]),
            launched.get(number, NONE),
        )
        for number, point in enumerate(campaign.head["points"])
    )
    return Table("Commands", _columns("point", "$command", "$as launched"), rows)


def failures_table(campaign: Campaign) -> Table:
    """Dropped runs without a later run that counts."""
    rows = tuple(
        (
            str(entry["trial"] + 1),
            label(campaign.head, entry["point"]),
            entry["reason"],
            entry["command"],
        )
        for entry in campaign.failures
    )
    return Table("Dropped runs", _columns("#trial", "point", "reason", "$command"), rows)
