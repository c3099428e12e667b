"""What the report and every figure of a study state: kind, app, problem and machine."""

from __future__ import annotations

from typing import Any

from miniapps import drivers
from miniapps.workbench.quoting import word
from miniapps.workbench.show.captions import machine_text, problem_text
from miniapps.workbench.study.campaign import Campaign

TITLES = {
    "strong": "Strong scaling",
    "weak": "Weak scaling",
    "odf": "Over-decomposition",
    "lb": "Load balancing",
    "granularity": "Granularity",
}


def title_of(campaign: Campaign) -> str:
    """The kind of the study, its app and problem: "Weak scaling of jacobi2d, size 8x4 to 8x8"."""
    study = campaign.head["study"]
    problem = problem_text(study["app"], (point["problem"] for point in campaign.head["points"]))
    return f"{TITLES[study['kind']]} of {study['app']}, {problem}"


def machine_of(campaign: Campaign) -> str:
    """The processor and the cores of each machine of the study."""
    runs = (run["record"] for run in campaign.of("run"))
    return machine_text(source["host"] for source in (*campaign.of("start"), *runs))


def configuration(run: dict[str, Any], joint: str, pes: bool = True) -> str:
    """The configuration of a record or point, in characters that Extra-P and ReFrame allow.

    It is also part of the names of files. Raises InputError.
    """
    words = [run["driver"], *([f"{run['pes']}pe"] if pes else [])]
    if drivers.of_record(run["driver"]).over_decomposition:
        words.append(f"odf{run['odf']}")
    if run["balancer"]:
        words.append(f"{run['balancer']}{run['lb_period']}")
    return word(joint.join(words), "export")
