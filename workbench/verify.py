"""``miniapps verify``: the same bits from every driver, decomposition, balancer and time tile.

A hash that is the same everywhere says nothing if every run is wrong in the same way; so each run
is validated too, by its app's own checks, and the small problems used here are all compared with
the app's NumPy reference. On a GPU all runs are held against one on the CPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table

import miniapps
from miniapps.problem import Variant
from workbench.exit_status import VALID, WRONG
from workbench.run.cases import Case, spec_of
from workbench.run.execute import solve

MPI_RANKS = (1, 2, 3, 4, 6)
CHARM_PES = (1, 2, 3)
ODFS = (1, 2, 4, 8)
BALANCING = tuple(itertools.product(("Greedy", "GreedyRefine", "Rotate"), (1, 5)))


def cases(variants: Sequence[Variant], full: bool) -> Iterator[Case]:
    """The ways to run a problem; variants take turns where all combinations would be too many.

    Every rank count, every PEs x ODF, every balancer x period and every variant under every driver
    that can run it occurs; ``full`` adds every balancer with every variant on three PEs.
    """
    every: list[Variant | None] = list(variants) or [None]
    plain = [variant for variant in every if variant is None or not variant.several_kinds]
    turn, plain_turn = itertools.cycle(every), itertools.cycle(plain)
    for blocks in (1, 2, 3, 4, 6):
        yield Case("serial", blocks, variant=next(turn))
    for ranks, variant in zip(MPI_RANKS, plain_turn, strict=False):
        yield Case("mpi", ranks, variant=variant)
    for variant in plain[1:]:
        yield Case("mpi", 2, variant=variant)
    for pes, odf in itertools.product(CHARM_PES, ODFS):
        yield Case("charm", pes, odf, variant=next(plain_turn))
    for balancer, period in BALANCING:
        yield Case("charm", 2, 4, balancer, period, next(plain_turn))
    for variant in every[len(plain) :]:
        yield from (Case("charm", pes, variant=variant) for pes in CHARM_PES)
        yield from (Case("charm", 2, 1, *balancing, variant) for balancing in BALANCING)
    if full:
        for (balancer, period), variant in itertools.product(BALANCING, plain):
            yield Case("charm", 3, 8, balancer, period, variant)


def verify(apps: list[str], full: bool, device: str = "cpu") -> int:
    """Run every case of every app on a device and show a table; returns the exit status."""
    console = Console()
    wrong = 0
    for app in apps:
        table = Table("case", "state", "verdict", title=app)
        expected = None
        for case, where in on_device(cases(miniapps.load(app).Problem.variants, full), device):
            found, verdict = outcome_of(app, case, where)
            expected = expected or found
            if verdict == "ok" and found != expected:
                verdict = f"differs from {expected[:12]}"
            wrong += verdict != "ok"
            shown = str(case) if where == device else f"{case}, on the {where}"
            table.add_row(shown, found[:12], verdict, style=None if verdict == "ok" else "red")
        console.print(table)
    console.print(
        f"{wrong} of the runs above went wrong" if wrong else "all the same bits, all valid"
    )
    return WRONG if wrong else VALID


def on_device(cases: Iterable[Case], device: str) -> Iterator[tuple[Case, str]]:
    """The cases on a device; before them, unless that is the CPU, the plainest there."""
    if device != "cpu":
        yield Case("serial"), "cpu"
    yield from ((case, device) for case in cases)


def outcome_of(app: str, case: Case, device: str) -> tuple[str, str]:
    """The state hash of a case and its verdict."""
    record = solve(spec_of(app, case, "tiny", device=device))
    if isinstance(record, int):
        return "-", f"failed with status {record}"
    failed = [check["name"] for check in record["checks"] if not check["ok"]]
    return record["state_hash"], f"wrong: {', '.join(failed)}" if failed else "ok"
