"""What a study runs: the product of problem sizes, PEs, drivers, ODFs and balancings.

The five `KINDS` differ in what varies and in how the problem goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Any

from miniapps.parameters import InputError, require
from workbench import environment
from workbench.run.cases import Case
from workbench.run.spec import RunSpec

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "strong": "the same problem on more and more PEs",
        "weak": "a problem that grows with the PEs, as each app says",
        "odf": "the same problem and PEs, more and more blocks per PE",
        "lb": "the same problem and PEs, every balancer with every period, and none",
        "granularity": "the same PEs, a problem that is halved again and again",
    }
)
CASE = ("driver", "pes", "odf", "balancer", "lb_period")  # of a run, a point and a record
NO_BALANCING: tuple[None, int] = (None, 0)


@dataclass(frozen=True)
class Study:
    """A study as asked for. ``balancings``: pairs of balancer and period; lb adds none itself."""

    kind: str
    app: str
    problem: Any
    steps: int
    warmup: int
    device: str
    pes: tuple[int, ...]
    drivers: tuple[str, ...]
    odfs: tuple[int, ...]
    balancings: tuple[tuple[str | None, int], ...]
    halvings: int
    blocks: tuple[int, ...] | None
    shuffle_seed: int
    lb_first: int | None = None

    def head(self) -> dict[str, Any]:
        """What the campaign file says of the study; two studies with the same head are one."""
        return {
            "kind": self.kind,
            "app": self.app,
            "problem": self.problem.parameters(),
            "steps": self.steps,
            "warmup": self.warmup,
            "device": self.device,
            "shuffle_seed": self.shuffle_seed,
        } | ({} if self.lb_first is None else {"lb_first": self.lb_first})

    def specs(self) -> list[RunSpec]:
        """The runs of one trial, each checked. Raises InputError where one cannot be."""
        return [
            self._spec(problem, case)
            for problem, pes in self._problems()
            for case in self._cases(pes)
        ]

    def _problems(self) -> Iterator[tuple[Any, int]]:
        """Problems, and on how many PEs they run."""
        if self.kind == "granularity":
            sizes = list(self._smaller_and_smaller())
            yield from ((problem, pes) for pes, problem in product(self.pes, sizes))
            return
        least = min(self.pes)
        one = self.kind != "weak" or least == 1 or "serial" not in self.drivers
        require(one, "--drivers", "serial", "in weak scaling needs 1 among --pes")
        for pes in self.pes:
            if self.kind == "weak":
                require(pes % least == 0, "--pes", pes, f"must be a multiple of {least}")
                yield self.problem.weak(pes // least), pes
            else:
                yield self.problem, pes

    def _smaller_and_smaller(self) -> Iterator[Any]:
        """The problem, and its halves as far as they can be cut for every run."""
        problem = self.problem
        for halving in range(self.halvings + 1):
            try:
                problem = problem.smaller() if halving else problem
                for pes in self.pes:
                    for case in self._cases(pes):
                        self._spec(problem, case)
            except InputError:
                if halving == 0:
                    raise
                return
            yield problem

    def _cases(self, pes: int) -> Iterator[Case]:
        """How a problem is run on so many PEs."""
        for driver in self.drivers:
            if driver == "charm":
                for odf, balancing in product(self.odfs, self.balancings):
                    yield Case(driver, pes, odf, *balancing)
            elif driver == "mpi" or pes == min(self.pes):
                yield Case(driver, pes if driver == "mpi" else 1)

    def _spec(self, problem: Any, case: Case) -> RunSpec:
        return case.spec(
            self.app, problem, self.steps, self.warmup, self.device, self.blocks, self.lb_first
        )


def described(spec: RunSpec) -> dict[str, Any]:
    """A run of the matrix as the campaign file's head describes it."""
    return {name: getattr(spec, name) for name in CASE} | {
        "problem": spec.prepared.parameters(),
        "arguments": spec.arguments(),
    }


def case_of(point: dict[str, Any]) -> Case:
    """How a run of the matrix is made, the problem aside."""
    return Case(*(point[name] for name in CASE))


def usual_pes(kind: str) -> tuple[int, ...]:
    """PEs where none were asked for: 1, 2, 4, ... up to the cores, or the cores."""
    cores = environment.cores()
    if kind in ("strong", "weak"):
        return tuple(1 << n for n in range(cores.bit_length()))
    return (cores,)
