"""``miniapps replay``: a table of predictions for recorded loads, and the best choices."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from miniapps.parameters import InputError, require
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.plural import counted
from miniapps.workbench.replay.agreement import agreements
from miniapps.workbench.replay.costs import Costs
from miniapps.workbench.replay.names import NONE, OPTIMAL
from miniapps.workbench.replay.predict import Choice, Prediction, costs_of, own_imbalance, predict
from miniapps.workbench.replay.recorded import Recorded
from miniapps.workbench.run.record import DISTURBED, crowded, disturbed, disturber
from miniapps.workbench.run.replaced import write_text
from miniapps.workbench.run.writable import check_figure, check_writable, require_apart
from miniapps.workbench.show.captions import command_text, problem_text
from miniapps.workbench.show.marks import write
from miniapps.workbench.show.saved import SavedRun
from miniapps.workbench.study.cells import columns_of, number, with_bounds
from miniapps.workbench.study.statistics import Interval, mean_interval
from miniapps.workbench.table import NONE as BLANK
from miniapps.workbench.table import Table, show, width, wrapped

PERIOD = 20  # steps
USUAL = ("Greedy", "GreedyRefine", "RefineA", "RefineB", NONE, OPTIMAL)
MS, MB = 1e3, 1e-6
NOT_OWN = "pes", "balancers", "lb_periods", "lb_first", "odf", "costs", "figure", "json"


@dataclass(frozen=True)
class Row:
    """A choice, and a prediction from each of the recorded runs."""

    choice: Choice
    predictions: list[Prediction]

    @cached_property
    def step_s(self) -> Interval:
        """The mean time per step over the runs, s."""
        return mean_interval([one.step_s for one in self.predictions])

    def over(self, other: Row) -> Interval:
        """The time per step over that of another choice, run by run."""
        pairs = zip(self.predictions, other.predictions, strict=True)
        return mean_interval([mine.step_s / its.step_s for mine, its in pairs])

    @property
    def balances(self) -> bool:
        """Whether it has a balancer."""
        return self.choice.balancer not in (NONE, OPTIMAL)

    def mean(self, of: str) -> float:
        """The mean of a number over the runs; NaN if it is not known."""
        found = [getattr(one, of) for one in self.predictions]
        return math.nan if None in found else float(sum(found)) / len(found)


def replay(options: argparse.Namespace) -> int:
    """Carry out the command; returns the exit status. Raises InputError."""
    _check_files(options)
    if options.own:
        for name in NOT_OWN:
            option = f"--{name.replace('_', '-')}"
            require(getattr(options, name) is None, "--own", "given", f"not with {option}")
        return _own([SavedRun.read(path) for path in options.files])
    runs = [Recorded.read(path) for path in options.files]
    _require_alike(runs, options.files)
    given = Costs() if options.costs is None else Costs.read(options.costs)
    costs = [costs_of(run, given) for run in runs]
    rows, refused = predicted(runs, costs, options)
    by_pes = [list(some) for _, some in groupby(rows, lambda row: row.choice.pes)]
    if options.json is not None:
        write_text(options.json, json.dumps(plain(runs, costs, by_pes), indent=1) + "\n")
    if options.figure is not None:
        from miniapps.workbench.show.replay_figure import figure_of

        write(figure_of([_point(row) for row in rows], title_of(runs)), options.figure)
    show([table(runs, costs, rows, refused)])
    for some in by_pes:
        print(*wrapped(sentence(some), width()), sep="\n")
    return VALID


def _check_files(options: argparse.Namespace) -> None:
    """Raise InputError if a file would replace another, cannot be written, or is given twice."""
    runs = {f"RUN.h5 {number}": path for number, path in enumerate(options.files, 1)}
    written = {"--costs": options.costs, "--json": options.json, "--figure": options.figure}
    require_apart(runs | written)
    check_writable("--json", options.json)
    check_figure(options.figure)


def _require_alike(runs: Sequence[Recorded], files: Sequence[Any]) -> None:
    """Raise InputError unless all runs made the same rounds of the same blocks."""
    keys = "app", "problem", "blocks", "pes"
    for run, file in zip(runs, files, strict=True):
        same = all(run.record[key] == runs[0].record[key] for key in keys)
        same = same and run.firsts == runs[0].firsts
        require(same, "RUN.h5", file, f"must be of the same problem, blocks and PEs as {files[0]}")


def predicted(
    runs: Sequence[Recorded], costs: Sequence[Costs], options: argparse.Namespace
) -> tuple[list[Row], list[str]]:
    """A row for each choice that is possible, by PEs, and why others are not.

    Raises InputError if none is.
    """
    rows, refused = list[Row](), list[str]()
    for pes in options.pes or [runs[0].record["pes"]]:
        for odf in options.odf or [None]:
            count = runs[0].blocks if odf is None else pes * odf
            try:
                require(count >= pes, "--pes", pes, f"the run has only {counted(count, 'block')}")
                made = [run.with_blocks(count) for run in runs]
            except InputError as error:
                refused.append(str(error))
                continue
            for choice in choices(pes, count / pes, options):
                pairs = zip(made, costs, strict=True)
                found = [predict(run, choice, cost, options.lb_first) for run, cost in pairs]
                rows.append(Row(choice, found))
    if not rows:
        raise InputError("replay", refused[0], "and no other choice is possible")
    return rows, refused


def choices(pes: int, odf: float, options: argparse.Namespace) -> Iterator[Choice]:
    """What may be chosen on a number of PEs, with blocks of a size."""
    for balancer in options.balancers or USUAL:
        periods = options.lb_periods or [PERIOD]
        for period in [0] if balancer in (NONE, OPTIMAL) else periods:
            yield Choice(pes, odf, balancer, period)


def ranked(rows: Sequence[Row]) -> list[Row]:
    """The choices without the bound, the fastest first."""
    return sorted(
        (row for row in rows if row.choice.balancer != OPTIMAL),
        key=lambda row: (row.step_s.value, row.mean("moved"), row.mean("lb_steps"), row.balances),
    )


def table(
    runs: Sequence[Recorded], costs: Sequence[Costs], rows: Sequence[Row], refused: Sequence[str]
) -> Table:
    """The predictions as a table, with the costs that they count below it."""
    columns = columns_of(
        "#PEs", "#ODF", "balancer", "#every", "#step [ms]", "#imbalance", "#moved", "#moved [MB]"
    )
    cells = tuple(
        (
            str(row.choice.pes),
            f"{row.choice.odf:g}",
            row.choice.balancer,
            str(row.choice.period or BLANK),
            _time(row.step_s),
            number(row.mean("imbalance")),
            f"{row.mean('moved'):,.1f}".removesuffix(".0"),
            number(MB * row.mean("moved_bytes")),
        )
        for row in rows
    )
    notes = (*_notes(runs, costs, refused), *_idle(runs, rows))
    return Table(title_of(runs), columns, cells, notes)


def title_of(runs: Sequence[Recorded]) -> str:
    """The recorded runs in a line."""
    record = runs[0].record
    several = f" ({counted(len(runs), 'run')})" if len(runs) > 1 else ""
    problem = problem_text(record["app"], [record["problem"]])
    return f"Loads of {command_text(record)}{several}, {problem}"


def _notes(
    runs: Sequence[Recorded], costs: Sequence[Costs], refused: Sequence[str]
) -> Iterator[str]:
    """What the table counts, and the recorded time."""
    measured = mean_interval([run.wall_s / run.steps for run in runs])
    imbalance = mean_interval([own_imbalance(run) for run in runs]).value
    yield f"recorded: {_time(measured)} ms per step, imbalance {number(imbalance)}"
    step, balancing, byte = (
        mean_interval([getattr(one, name) for one in costs]).value
        for name in ("step_s", "balancing_s", "migrated_byte_s")
    )
    yield (
        "a step: the compute time of its heaviest PE, as recorded, and "
        f"{number(MS * step)} ms for all else; a load-balancing step: {number(MS * balancing)} ms, "
        f"and {number(MS * byte / MB)} ms per MB of the PE that sends or receives most"
    )
    first = costs[0]
    if first.message_s or first.byte_s:
        lacks = "" if runs[0].edges else ", but the run was not traced, so none are known"
        yield f"messages between PEs: {first.message_s:g} s each, {first.byte_s:g} s/B{lacks}"
    if byte and runs[0].sizes is None:
        yield "the run was not traced, so the sizes of its blocks are not known"
    yield from (f"left out: {reason}" for reason in refused)
    crowd = next((run.record for run in runs if run.record["oversubscribed"]), None)
    if crowd is not None:
        yield f"oversubscribed: {crowded(crowd, 'PE')}; loads include waits for a core"
    worst = max((run.record for run in runs), key=disturbed)
    if disturbed(worst) > DISTURBED:
        yield f"DISTURBED: {disturber(worst)}; blocks that it held up seem heavy"


def _idle(runs: Sequence[Recorded], rows: Sequence[Row]) -> Iterator[str]:
    """That a first load-balancing step after the end of the run is none."""
    idle = {row.choice.period for row in rows if row.balances and not row.mean("lb_steps")}
    if idle:
        steps = counted(runs[0].steps, "step")
        every = ", ".join(map(str, sorted(idle)))
        yield f"every {every}: no load-balancing step is in the recorded {steps}"


def _time(seconds: Interval) -> str:
    """A time in ms, with its interval if there are several runs."""
    if math.isnan(seconds.low):
        return number(MS * seconds.value)
    return with_bounds(seconds, MS)


def named(choice: Choice) -> str:
    """A choice in a few words."""
    blocks = f"{choice.odf:g} block{'' if choice.odf == 1 else 's'} per PE"
    if choice.balancer == NONE:
        return f"no balancing, {blocks}"
    return f"{choice.balancer} every {counted(choice.period, 'step')}, {blocks}"


def sentence(rows: Sequence[Row]) -> str:
    """The best choice on a number of PEs in a sentence, with its margin."""
    real = ranked(rows)
    if not real:
        return "Only the bound was asked for: there is nothing to choose."
    row, second = real[0], next(iter(real[1:]), None)
    alike = {one.choice.balancer: one for one in reversed(rows) if one.choice.odf == row.choice.odf}
    nothing, bound = alike.get(NONE), alike.get(OPTIMAL)
    said = [f"Best on {counted(row.choice.pes, 'PE')}: {named(row.choice)}"]
    said.append(f"{_time(row.step_s)} ms per step")
    if nothing is not None and nothing is not row:
        said.append(f"without balancing {_more(nothing.over(row))}")
    if second is not None and second is not nothing:
        said.append(f"next best, {named(second.choice)}: {_more(second.over(row))}")
    if bound is not None:
        said.append(f"bound of any placement: {1 - 1 / row.over(bound).value:.1%} less")
    doubt = ""
    if second is not None and not second.over(row).low > 1:
        doubt = (
            ". One run does not show how certain the margin is"
            if len(row.predictions) == 1
            else ". The interval of that margin contains 0: either may be faster"
        )
    return f"{'; '.join(said)}{doubt}."


def _more(ratio: Interval) -> str:
    """How much longer a step takes, from a ratio of times, with the interval if there is one."""
    if math.isnan(ratio.low):
        return f"{ratio.value - 1:.1%} more"
    return f"{ratio.value - 1:.1%} [{ratio.low - 1:.1%}, {ratio.high - 1:.1%}] more"


def _point(row: Row) -> dict[str, Any]:
    """A row for JSON and figures."""
    step_s = row.step_s
    bounds = [None, None] if math.isnan(step_s.low) else [step_s.low, step_s.high]
    nbytes = row.mean("moved_bytes")
    return {
        **asdict(row.choice),
        "step_s": step_s.value,
        "step_s_interval": bounds,
        "imbalance": row.mean("imbalance"),
        "moved": row.mean("moved"),
        "moved_bytes": None if math.isnan(nbytes) else nbytes,
        "lb_steps": row.predictions[0].lb_steps,
    }


def plain(
    runs: Sequence[Recorded], costs: Sequence[Costs], by_pes: Sequence[Sequence[Row]]
) -> dict[str, Any]:
    """All predictions as plain data."""
    record = runs[0].record
    return {
        "app": record["app"],
        "problem": record["problem"],
        "pes": record["pes"],
        "blocks": runs[0].blocks,
        "runs": len(runs),
        "recorded_step_s": [run.wall_s / run.steps for run in runs],
        "costs": [asdict(one) for one in costs],
        "predictions": [_point(row) for rows in by_pes for row in rows],
        "best": [_point(row) for rows in by_pes for row in ranked(rows)[:1]],
    }


def _own(runs: Sequence[SavedRun]) -> int:
    """Compare replays of load-balancing steps with what the runtime did; returns the status."""
    cells, elsewhere = [], 0
    for run in runs:
        for one in agreements(run):
            elsewhere += one.elsewhere
            balancer = run.record["balancer"]
            numbers = map(str, (one.step, one.blocks, one.elsewhere))
            cells.append((run.command(), balancer, *numbers))
    columns = columns_of("run", "balancer", "#before step", "#blocks", "#placed elsewhere")
    title = "Load-balancing steps, replayed from the loads that the runtime saw"
    show([Table(title, columns, tuple(cells))])
    return WRONG if elsewhere else VALID
