"""Exports a campaign as a check of ReFrame, which makes its runs again.

The check is a program, of which only literals come from the campaign.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from miniapps import apps, drivers
from miniapps.drivers.descriptor import Balancing
from miniapps.parameters import require
from miniapps.workbench.arguments import grouped
from miniapps.workbench.quoting import is_number, literal, word
from miniapps.workbench.run.spec import RunSpec
from miniapps.workbench.study.campaign import Campaign
from miniapps.workbench.study.titles import configuration
from miniapps.workbench.study.validation import mean_step_s

LEAST_TOLERANCE = 0.10
BLIND_TOLERANCE = 0.50  # if there are too few trials to estimate their spread
TRIALS_FOR_SPREAD = 3
CHECK_TEXT = '''\
"""ReFrame check of {app}: the same bits as this campaign, and not slower than its spread allows.

    reframe -c THIS_FILE -r                                  with `miniapps` on the PATH
    reframe -c THIS_FILE -r -n {example:<30} only these
    reframe -c THIS_FILE -r -S program=/path/to/miniapps

Every run starts its own PEs on one node, so ReFrame starts it without a launcher. A step may take
longer than this campaign's mean by `tolerance`: three standard deviations of the trials, at least
{least:.0%}; {blind:.0%} if there are fewer than {trials} trials. A faster run does not fail.
The numbers hold on the campaign's machine; elsewhere use --skip-performance-check. Points with more
PEs than cores have no reference times.
"""

import json
import shlex

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.builtins import (
    parameter,
    performance_function,
    run_after,
    run_before,
    sanity_function,
    variable,
)

APP = {title}
POINTS = {points}


@rfm.simple_test
class MiniappsCheck(rfm.RunOnlyRegressionTest):
    """A point of the matrix."""

    point = parameter(POINTS)
    program = variable(str, value="miniapps")
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 1

    @run_after("init")
    def set_up(self):
        """Set up the run of the point."""
        asked = POINTS[self.point]
        self.descr = f"{{APP}}, {{self.point}}"
        self.executable = self.program
        self.executable_opts = [*map(shlex.quote, asked["arguments"]), "--json", "record.json"]
        self.num_cpus_per_task = asked["pes"]
        if asked["step_s"] is not None:
            slower = asked["tolerance"]
            self.reference = {{
                "*": {{
                    "step_time": (asked["step_s"], None, slower, "s"),
                    "rate": (asked["rate"], -slower / (1 + slower), None, {unit}),
                }}
            }}

    @run_before("run")
    def use_no_launcher(self):
        """Start the command itself: it launches its own PEs."""
        self.job.launcher = getlauncher("local")()

    def record(self):
        """The run's record, in the stage directory, where ReFrame evaluates it."""
        with open("record.json") as file:
            return json.load(file)

    @sanity_function
    def same_state(self):
        """Valid, and the same bits as the campaign."""
        record = self.record()
        return sn.all(
            [
                sn.assert_true(record["valid"], "the run is not valid"),
                sn.assert_eq(record["state_hash"], POINTS[self.point]["state_hash"]),
                sn.assert_eq(record["pes"], POINTS[self.point]["pes"]),
            ]
        )

    @performance_function("s")
    def step_time(self):
        """Mean wall of a step."""
        record = self.record()
        return record["wall_s"] / record["steps"]

    @performance_function({unit})
    def rate(self):
        """Work of all timed steps over their wall."""
        return self.record()["rate"]["value"]
'''


def reframe_check(campaign: Campaign) -> str:
    """A check file for ReFrame 4: one run per point, which must end in the campaign's state.

    The reference step time and rate are the campaign's means. Raises InputError if runs of one
    point ended in different states.
    """
    app, points = campaign.head["study"]["app"], {}
    for number, point in enumerate(campaign.head["points"]):
        records = [run["record"] for run in campaign.of("run") if run["point"] == number]
        if records:
            points[f"{number:02}-{configuration(point, '-')}"] = _expected(app, point, records)
    return CHECK_TEXT.format(
        app=word(app, "export"),
        title=literal(app),
        unit=literal(next(campaign.of("run"))["record"]["rate"]["unit"]),
        points=literal(points),
        least=LEAST_TOLERANCE,
        blind=BLIND_TOLERANCE,
        trials=TRIALS_FOR_SPREAD,
        example=next(iter(points)),
    )


def _expected(app: str, point: dict[str, Any], records: list[dict[str, Any]]) -> dict[str, Any]:
    """The arguments of a point's run, and the results that the check expects."""
    hashes = {record["state_hash"] for record in records}
    require(len(hashes) == 1, "export", "reframe", "runs of one point ended in different states")
    times = [mean_step_s(record) for record in records]
    counts = not any(record["oversubscribed"] for record in records)
    return {
        "arguments": _harmless(app, point["arguments"]),
        "pes": 1 if drivers.of_record(point["driver"]).one_pe else point["pes"],
        "state_hash": hashes.pop(),
        "step_s": statistics.fmean(times) if counts else None,
        "rate": statistics.fmean(record["rate"]["value"] for record in records) if counts else None,
        "tolerance": tolerance(times),
    }


def _harmless(app: str, arguments: Sequence[str]) -> list[str]:
    """The arguments of a run, which ReFrame will make.

    Raises InputError unless they are those that a study gives to its runs: an option of another
    kind would start another program, or write files.
    """
    command, *pairs = arguments[:2], *zip(arguments[2::2], arguments[3::2], strict=False)
    fits = command == ["run", app] and len(arguments) % 2 == 0
    require(fits, "export", " ".join(arguments), f"the arguments of a point must run {app}")
    declared = (*grouped(RunSpec), *fields(Balancing), *fields(apps.load(app).Problem))
    known = {field.metadata["option"] for field in declared} - {"--output"}
    for option, value in pairs:
        allowed = "is no option that a study gives to its runs"
        require(option in known, "export", option, allowed)
        single = not value.startswith("-") or is_number(value)
        require(single, "export", f"{option} {value}", "has an option in place of a value")
    return list(arguments)


def tolerance(times: list[float]) -> float:
    """The accepted slowdown, as a fraction of the mean: three standard deviations or a minimum."""
    if len(times) < TRIALS_FOR_SPREAD:
        return BLIND_TOLERANCE
    return max(LEAST_TOLERANCE, 3 * statistics.stdev(times) / statistics.fmean(times))
