"""``miniapps verify``: the same bits from every driver, decomposition, balancer and blocking depth.

So are those of a run that goes on from a checkpoint, on other blocks than those that wrote it.

Equal hashes prove nothing if all runs are wrong in the same way. So the app's checks also validate
each run, and compare problems as small as these with the app's NumPy reference. On a GPU, all runs
are compared with one on the CPU. `workbench.run.batch` makes all runs in a few launches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from miniapps import apps, drivers
from miniapps.drivers.descriptor import Driver
from miniapps.problem import Variant
from miniapps.workbench.exit_status import VALID, WRONG
from miniapps.workbench.run import batch, launch, warm
from miniapps.workbench.run.cases import Case, spec_of
from miniapps.workbench.run.checkpoint import offers_checkpoints
from miniapps.workbench.run.memory import require_shared_of
from miniapps.workbench.run.scratch import scratch_folder
from miniapps.workbench.run.spec import RunSpec

COUNTS = (1, 2, 3, 4, 6)  # of ranks with one block each, or of blocks in one process
PES = (1, 2, 3)  # with several blocks on each
ODFS = (1, 2, 4, 8)
BALANCING = tuple(itertools.product(("Greedy", "GreedyRefine", "Rotate"), (1, 5)))
# Blocks of several kinds are a thousand, so they are balanced every so many steps only, on two PEs;
# one run on three is not.
PERIOD_OF_KINDS = 5


def cases(variants: Sequence[Variant], full: bool) -> Iterator[Case]:
    """The cases of a problem; its variants take turns where all combinations would be too many.

    Every driver runs all rank counts, PEs x ODFs, balancers x periods and variants that it
    supports; one that differs from another in its transport alone has three ranks. Several kinds of
    blocks are compared with the first variant on a smaller problem. ``full`` adds every balancer
    with every variant, most of them on three PEs.
    """
    every: list[Variant | None] = list(variants) or [None]
    plain = [variant for variant in every if variant is None or not variant.several_kinds]
    plain_turn = itertools.cycle(plain)
    for driver in drivers.usable():
        if driver.one_pe:
            yield from (Case(driver.name, parts=n, variant=next(plain_turn)) for n in COUNTS)
            # Each cell is a block, whatever the number of parts.
            for variant in every[len(plain) :]:
                yield Case(driver.name, parts=2, variant=plain[0], smaller=True)
                yield Case(driver.name, variant=variant, smaller=True)
        elif driver.like:
            yield Case(driver.name, PES[-1], variant=next(plain_turn))
        elif not driver.over_decomposition:
            yield from (Case(driver.name, pes, variant=next(plain_turn)) for pes in COUNTS)
            yield from (Case(driver.name, 2, variant=variant) for variant in plain[1:])
        else:
            yield from _over_decomposed(driver, every, plain, plain_turn, full)


def _over_decomposed(
    driver: Driver,
    every: list[Variant | None],
    plain: list[Variant | None],
    turn: Iterator[Variant | None],
    full: bool,
) -> Iterator[Case]:
    """The cases of a driver that has several blocks per PE."""
    balancing = [pair for pair in BALANCING if pair[0] in driver.balancers]
    for pes, odf in itertools.product(PES, ODFS):
        yield Case(driver.name, pes, odf, variant=next(turn))
    for balancer, period in balancing:
        yield Case(driver.name, 2, 4, balancer, period, next(turn))
    some = [pair for pair in balancing if full or pair[1] == PERIOD_OF_KINDS]
    for variant in every[len(plain) :] if driver.several_kinds else ():
        yield Case(driver.name, PES[-1], variant=variant, smaller=True)
        yield from (Case(driver.name, 2, 1, *pair, variant, smaller=True) for pair in some)
    if full:
        for (balancer, period), variant in itertools.product(balancing, plain):
            yield Case(driver.name, 3, 8, balancer, period, variant)


def verify(asked: list[str], full: bool, device: str = "cpu") -> int:
    """Run every case of every app on a device and show a table; returns the exit status."""
    console = Console()
    runs = [
        (app, case, where)
        for app in asked
        for case, where in on_device(cases(apps.load(app).Problem.variants, full), device)
    ]
    specs = [spec_of(app, case, "tiny", device=where) for app, case, where in runs]
    results = zip(runs, solve_all(specs, device), strict=True)
    wrong = 0
    for app, mine in itertools.groupby(results, key=lambda found: found[0][0]):
        table = Table("case", "state", "result", title=app)
        expected: dict[bool, str] = {}  # by whether the problem is the smaller one
        rows = [
            (str(case) if where == device else f"{case}, on the {where}", case.smaller, found)
            for (_, case, where), found in mine
        ]
        rows += [(shown, False, found) for shown, found in resumed(app, device)]
        for shown, smaller, found in rows:
            state, result = described(found)
            right = expected.setdefault(smaller, state)
            if result == "ok" and state != right:
                result = f"differs from {right[:12]}"
            wrong += result != "ok"
            table.add_row(shown, state[:12], result, style=None if result == "ok" else "red")
        console.print(table)
    for line in drivers.left_out():
        console.print(line, soft_wrap=True, markup=False)
    console.print(
        f"{wrong} of the runs above went wrong" if wrong else "all the same bits, all valid"
    )
    return WRONG if wrong else VALID


def solve_all(specs: Sequence[RunSpec], device: str) -> list[batch.Result]:
    """The result of each run, in order, on the CPU or on the GPU.

    The PEs of each driver's smallest launches are started as those of any run. All others are
    forked from a process that has loaded the kernels, which a GPU does not allow. Raises InputError
    before anything starts if PEs of one have too little shared memory.
    """
    require_shared_of("run", *specs)
    smallest: dict[str, int] = {}
    for spec in specs:
        smallest[spec.driver] = min(spec.pes, smallest.get(spec.driver, spec.pes))
    forked = [
        number
        for number, spec in enumerate(specs)
        if device == "cpu" and spec.pes > smallest[spec.driver]
    ]
    started = sorted({*range(len(specs))}.difference(forked))
    results = dict(zip(started, batch.solve_all([specs[n] for n in started]), strict=True))
    if forked:
        short = warming(sorted({spec.app for spec in specs}))
        with warm.started(short) as program, launch.pes_started_by(program):
            found = batch.solve_all([specs[number] for number in forked])
        results |= zip(forked, found, strict=True)
    return [results[number] for number in range(len(specs))]


def warming(asked: list[str]) -> list[RunSpec]:
    """A run in one process of every app, which loads its kernels."""
    return [spec_of(app, Case(drivers.names()[0], parts=2), "tiny") for app in asked]


def on_device(cases: Iterable[Case], device: str) -> Iterator[tuple[Case, str]]:
    """The cases with their device; on a GPU, the simplest of each problem on the CPU come first."""
    every = list(cases)
    if device != "cpu":
        for smaller in sorted({case.smaller for case in every}):
            yield Case(drivers.names()[0], smaller=smaller), "cpu"
    yield from ((case, device) for case in every)


def resumed(app: str, device: str) -> Iterator[tuple[str, batch.Result]]:
    """A run that writes a checkpoint, and one that goes on from it: in words, and its result.

    Nothing if the app does not offer checkpoints.
    """
    if not offers_checkpoints(apps.load(app).Block):
        return
    two, three = (Case(drivers.names()[0], parts=parts) for parts in (2, 3))
    with scratch_folder() as folder:
        file, usual = folder / "c.h5", spec_of(app, two, "tiny", device=device)
        half = (usual.warmup + usual.steps) // 2 + 1  # one checkpoint, half way
        before = replace(usual, checkpoint=file, checkpoint_every=half)
        yield f"{two}, with a checkpoint", batch.solve(before)
        if file.exists():
            after = replace(spec_of(app, three, "tiny", device=device), resume=file)
            yield f"{three}, from that checkpoint", batch.solve(after)


def described(found: batch.Result) -> tuple[str, str]:
    """The state hash of a run, and "ok" or what is wrong with the run."""
    if isinstance(found, str):
        return "-", f"failed: {found}"
    failed = [check["name"] for check in found["checks"] if not check["ok"]]
    return found["state_hash"], f"wrong: {', '.join(failed)}" if failed else "ok"
