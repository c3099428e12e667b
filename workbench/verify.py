"""``miniapps verify``: the same bits from every driver, decomposition, balancer and time tile.

A hash that is the same everywhere says nothing if every run is wrong in the same way; so each run
is validated too, by its app's own checks, and the small problems used here are all compared with
the app's NumPy reference.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import fields

from rich.console import Console
from rich.table import Table

import miniapps
from workbench.cases import Case, spec_of
from workbench.exit_status import VALID, WRONG
from workbench.run import solve

MPI_RANKS = (1, 2, 3, 4, 6)
CHARM_PES = (1, 2, 3)
ODFS = (1, 2, 4, 8)
BALANCING = tuple(itertools.product(("Greedy", "GreedyRefine", "Rotate"), (1, 5)))
TIME_TILES = (1, 2, 5, 8)


def cases(tiles: tuple[int | None, ...], full: bool) -> Iterator[Case]:
    """The ways to run a problem. Tiles and balancers take turns where all pairs would be too many.

    Every rank count, every PEs x ODF, every balancer x period and every tile under every driver
    occurs; ``full`` adds every balancer with every tile on three PEs.
    """
    turn = itertools.cycle(tiles)
    for blocks in (1, 2, 3, 4, 6):
        yield Case("serial", blocks, time_tile=next(turn))
    for ranks, tile in zip(MPI_RANKS, itertools.cycle(tiles), strict=False):
        yield Case("mpi", ranks, time_tile=tile)
    for tile in tiles[1:]:
        yield Case("mpi", 2, time_tile=tile)
    for pes, odf in itertools.product(CHARM_PES, ODFS):
        yield Case("charm", pes, odf, time_tile=next(turn))
    for balancer, period in BALANCING:
        yield Case("charm", 2, 4, balancer, period, next(turn))
    if full:
        for (balancer, period), tile in itertools.product(BALANCING, tiles):
            yield Case("charm", 3, 8, balancer, period, tile)


def verify(apps: list[str], full: bool) -> int:
    """Run every case of every app and show a table; returns the exit status."""
    console = Console()
    wrong = 0
    for app in apps:
        table = Table("case", "state", "verdict", title=app)
        expected = None
        for case in cases(tiles_of(app), full):
            found, verdict = outcome_of(app, case)
            expected = expected or found
            if verdict == "ok" and found != expected:
                verdict = f"differs from {expected[:12]}"
            wrong += verdict != "ok"
            table.add_row(str(case), found[:12], verdict, style=None if verdict == "ok" else "red")
        console.print(table)
    console.print(
        f"{wrong} of the runs above went wrong" if wrong else "all the same bits, all valid"
    )
    return WRONG if wrong else VALID


def tiles_of(app: str) -> tuple[int | None, ...]:
    """The time tiles to try; (None,) where the app has no such thing."""
    names = {field.name for field in fields(miniapps.load(app).Problem)}
    return TIME_TILES if "time_tile" in names else (None,)


def outcome_of(app: str, case: Case) -> tuple[str, str]:
    """The state hash of a case and its verdict."""
    record = solve(spec_of(app, case, "tiny"))
    if isinstance(record, int):
        return "-", f"failed with status {record}"
    failed = [check["name"] for check in record["checks"] if not check["ok"]]
    return record["state_hash"], f"wrong: {', '.join(failed)}" if failed else "ok"
