"""The matrix of runs of a study: problem sizes x PEs x drivers x ODFs x balancer settings.

The five `KINDS` of study differ in what varies, and in how the problem size follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from miniapps import drivers
from miniapps.drivers.hosts import Hosts
from miniapps.parameters import InputError, require
from miniapps.workbench import environment
from miniapps.workbench.run.cases import Case
from miniapps.workbench.run.revalidation import CASE
from miniapps.workbench.run.spec import RunSpec

KINDS: Mapping[str, str] = {
    "strong": "the same problem on more and more PEs",
    "weak": "a problem that grows with the PEs, as each app defines",
    "odf": "the same problem and PEs, more and more blocks per PE",
    "lb": "the same problem and PEs; no balancing, and every balancer with every period",
    "granularity": "the same PEs, a problem that is halved repeatedly",
}
SHARED = ("steps", "warmup", "device", "pe_grid")  # options of all runs of a study
MOST_HALVINGS = 189  # of three axes, each of 63 bits
MOST_STEPS = 10_000  # of a granularity study: 0.25 s, if a step without work takes 25 us
NO_BALANCING: tuple[None, int] = (None, 0)


@dataclass(frozen=True)
class Study:
    """The study that the user requests.

    ``steps``: of every run; in a study of granularity of the whole problem. Each halving doubles
    them, up to ``most_steps``, so that runs of small problems are not too short to be timed.
    ``balancer_settings``: pairs of a balancer (None: no balancing) and its period in steps;
    ``vary``: sets of alternatives that the user names, and ``problems``: all of their combinations;
    without any, `problem` alone. ``own_best``: the parameters of the problem whose "auto" each run
    replaces by its own value. In all others every run has the same value, so that runs differ in
    what is compared only.
    """

    kind: str
    app: str
    problem: Any
    steps: int
    warmup: int
    device: str
    pes: tuple[int, ...]
    drivers: tuple[str, ...]
    odfs: tuple[int, ...]
    balancer_settings: tuple[tuple[str | None, int], ...]
    halvings: int
    pe_grid: tuple[int, ...] | None
    shuffle_seed: int
    most_steps: int = MOST_STEPS
    lb_first: int | None = None
    hosts: Hosts | None = None
    own_best: frozenset[str] = frozenset()
    vary: tuple[str, ...] = ()
    problems: tuple[Any, ...] = ()

    def head(self) -> dict[str, Any]:
        """The study as the campaign file stores it; studies with equal heads are the same study."""
        return {
            "kind": self.kind,
            "app": self.app,
            "problem": self.problem.parameters(),
            "steps": self.steps,
            "warmup": self.warmup,
            "device": self.device,
            "shuffle_seed": self.shuffle_seed,
            **({} if self.lb_first is None else {"lb_first": self.lb_first}),
            **({} if self.hosts is None else {"hosts": str(self.hosts)}),
            **({"vary": list(self.vary)} if self.vary else {}),
        }

    def specs(self) -> list[RunSpec]:
        """The runs of one trial, each checked. Raises InputError if one is impossible."""
        found = self.planned()
        names = [f.name for f in fields(self.problem) if getattr(self.problem, f.name) == "auto"]
        equal = {
            name: min(getattr(spec.prepared, name) for spec in found)
            for name in names
            if name not in self.own_best
        }
        if not equal:
            return found
        equally = [replace(problem, **equal) for problem in (self.problem, *self.problems)]
        return replace(self, problem=equally[0], problems=tuple(equally[1:])).planned()

    def planned(self) -> list[RunSpec]:
        """The runs of one trial, where "auto" stays what it is."""
        return [
            self._spec(problem, steps, case)
            for problem, steps, pes in self._problems()
            for case in self._cases(pes)
        ]

    def most_runs(self) -> int:
        """The number of runs of one trial, or more: no driver is left out, and no halving."""
        cases = len(self.pes) * len(self.drivers) * len(self.odfs) * len(self.balancer_settings)
        return cases * max(1, len(self.problems)) * (1 + min(self.halvings, MOST_HALVINGS))

    def _problems(self) -> Iterator[tuple[Any, int, int]]:
        """Each problem with its number of steps and the number of PEs that it runs on."""
        if self.kind == "granularity":
            sizes = list(self._halved_problems())
            yield from ((*size, pes) for pes, size in product(self.pes, sizes))
            return
        least = min(self.pes)
        alone = [driver for driver in self.drivers if drivers.get(driver).one_pe]
        one = self.kind != "weak" or least == 1 or not alone
        require(one, "--drivers", ",".join(alone), "in weak scaling needs 1 among --pes")
        for problem, pes in product(self.problems or (self.problem,), self.pes):
            if self.kind == "weak":
                require(pes % least == 0, "--pes", pes, f"must be a multiple of {least}")
                problem = problem.weak(pes // least)
            yield problem, self.steps, pes

    def _halved_problems(self) -> Iterator[tuple[Any, int]]:
        """The problem and its successive halves, as long as every run can decompose them.

        Each comes with its number of steps.
        """
        problem = self.problem
        for halving in range(self.halvings + 1):
            try:
                problem = problem.smaller() if halving else problem
                steps = max(self.steps, min(self.steps << halving, self.most_steps))
                for pes in self.pes:
                    for case in self._cases(pes):
                        self._spec(problem, steps, case)
            except InputError:
                if halving == 0:
                    raise
                return
            yield problem, steps

    def _cases(self, pes: int) -> Iterator[Case]:
        """The configurations in which a problem is run on ``pes`` PEs."""
        for driver in self.drivers:
            can = drivers.get(driver)
            if can.over_decomposition:
                for odf, balancing in product(self.odfs, self.balancer_settings):
                    alone = odf == 1 and len(self.odfs) > 1  # nothing that a balancer could move
                    if balancing == NO_BALANCING or not alone:
                        yield Case(driver, pes, odf, *balancing)
            elif not can.one_pe:
                yield Case(driver, pes)
            elif pes == min(self.pes):
                yield Case(driver)

    def _spec(self, problem: Any, steps: int, case: Case) -> RunSpec:
        shared = {name: getattr(self, name) for name in SHARED} | {"steps": steps}
        shared["hosts"] = None if case.can.one_process else self.hosts
        return case.spec(self.app, problem, self.lb_first, **shared)


def described(spec: RunSpec, usual_steps: int) -> dict[str, Any]:
    """A point of the matrix as the head of the campaign file stores it.

    It has ``steps`` only if they are not the ``usual_steps`` of the study (see `steps_of`).
    """
    recorded = spec.recorded() | {"pes": spec.pes}
    steps = {} if spec.steps == usual_steps else {"steps": spec.steps}
    return {name: recorded[name] for name in CASE} | {
        "problem": spec.prepared.parameters(),
        **steps,
        "arguments": spec.arguments(),
    }


def steps_of(head: dict[str, Any], point: dict[str, Any]) -> int:
    """The timed steps that the runs of a point were asked to make."""
    return int(point.get("steps", head["study"]["steps"]))


def case_of(point: dict[str, Any]) -> Case:
    """The configuration of a point of the matrix."""
    return Case(*(point[name] for name in CASE))


def usual_pes(kind: str, hosts: Hosts | None) -> tuple[int, ...]:
    """The default for ``--pes``: 1, 2, .. up to the cores in scaling studies; else all cores.

    On several hosts the places for PEs count.
    """
    cores = hosts.pes if hosts else environment.cores()
    if kind in ("strong", "weak"):
        return tuple(1 << n for n in range(cores.bit_length()))
    return (cores,)
