"""Cases: configurations in which to run the same problem."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from miniapps import apps, drivers
from miniapps.drivers.descriptor import Balancing, Driver
from miniapps.problem import Variant
from miniapps.workbench.plural import counted
from miniapps.workbench.run.spec import RunSpec, driver_options


@dataclass(frozen=True)
class Case:
    """A configuration: driver, PEs, decomposition, load balancing, and a variant of the app.

    ``parts``: the number of parts of the domain under a driver with one PE; ``smaller``: whether
    the problem is the one on which several kinds of blocks are compared.
    """

    driver: str
    pes: int = 1
    odf: int = 1
    balancer: str | None = None
    lb_period: int = 0
    variant: Variant | None = None
    parts: int = 1
    smaller: bool = False

    @property
    def can(self) -> Driver:
        """The driver's description, which states its capabilities."""
        return drivers.of_record(self.driver)

    @property
    def configuration(self) -> str:
        """The configuration without the number of PEs, which every table and figure writes so."""
        odf = f" ODF {self.odf}" if self.can.over_decomposition else ""
        return f"{self.driver}{odf}{f' {self.balancing}' if self.balancer else ''}"

    @property
    def balancing(self) -> str:
        """The load balancer and its period: "Greedy, every 20 steps"; empty if there is none."""
        return f"{self.balancer}, every {counted(self.lb_period, 'step')}" if self.balancer else ""

    def spec(self, app: str, problem: Any, lb_first: int | None = None, **asked: Any) -> RunSpec:
        """The checked `RunSpec` of a problem in this configuration, with further options ``asked``.

        ``lb_first`` is ignored in a case without load balancing. Raises InputError.
        """
        balancing = {
            "balancer": self.balancer,
            "lb_period": self.lb_period,
            "lb_first": lb_first if self.lb_period else None,
        }
        own = driver_options(self.driver, {f: balancing[f.name] for f in fields(Balancing)})
        spec = RunSpec(
            app, problem, self.driver, self.pes, self.odf, own=own, parts=self.parts, **asked
        )
        spec.check()
        return spec

    def __str__(self) -> str:
        parts = counted(self.parts, "part") if self.parts > 1 else ""
        pes = "" if self.can.one_pe else counted(self.pes, "PE")
        size = "smaller" if self.smaller else ""
        named = (self.configuration, pes, parts, str(self.variant or ""), size)
        return ", ".join(filter(None, named))


def spec_of(
    app: str,
    case: Case,
    preset: str,
    steps: int | None = None,
    device: str = "cpu",
    lb_first: int | None = None,
) -> RunSpec:
    """The checked `RunSpec` of an app's preset in a case, as `Case.spec`. Raises InputError."""
    module = apps.load(app)
    values: dict[str, Any] = dict(module.Problem.presets[preset])
    usual_steps, warmup = values.pop("steps"), values.pop("warmup")
    problem = module.Problem(**values | (module.Problem.tiny_of_kinds if case.smaller else {}))
    if case.variant:
        problem = replace(problem, **{case.variant.field: case.variant.value})
    asked = {"steps": steps or usual_steps, "warmup": warmup, "device": device}
    return case.spec(app, problem, lb_first, **asked)
