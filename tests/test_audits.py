"""Audits: which rounds they take, and the wrong programs that they find at any size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import support
from test_architecture import FILES, imported, tree_of

from miniapps import apps, audit, drivers
from miniapps.audit import AuditedRound, AuditPlan, checks_of
from miniapps.contract import SETUP, Check, Piece
from miniapps.devices.backend import Device
from miniapps.drivers import sim
from miniapps.drivers.audits import Auditor, Witness
from miniapps.drivers.engine import Engine, Transport
from miniapps.drivers.job import Job
from miniapps.drivers.outcome import Outcome, measured
from miniapps.kernels import state_hash
from miniapps.parameters import InputError
from miniapps.plain_hash import differences, digest_of, words_of
from miniapps.workbench.cli import build_parser
from miniapps.workbench.run.cases import Case
from miniapps.workbench.run.progress_file import NoProgressFile
from miniapps.workbench.run.spec import RunSpec

PLAN = AuditPlan(16, 0, 7)
MESSAGES = "audit: rounds whose messages differ"


def failed(checks: list[Check]) -> set[str]:
    """The names of the checks that do not hold."""
    return {check.name for check in checks if not check.ok}


def outcome_under_sim(app: str, problem: Any, grid: tuple[int, ...], steps: int) -> Outcome:
    """The outcome of an audited run under the sim driver, in which blocks migrate."""
    layout = support.layout_of(problem, grid)
    problem, outcomes = problem.prepared(layout, "cpu"), []
    options = sim.SimOptions(3, "random", 2)
    job = Job(app, problem, layout, steps, options=options, audit=PLAN)
    assert (
        drivers.load("sim").run(
            job, lambda outcome: outcomes.append(outcome) or 0, NoProgressFile()
        )
        == 0
    )
    return outcomes[0]


# Rounds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_first_last_and_random_rounds(seed: int) -> None:
    """Catches an audit that never looks at the end of the run, or always at the same rounds."""
    steps = AuditPlan(16, 0, seed).steps(1000)
    assert {0, 999} < steps and len(steps) == 4
    assert steps == AuditPlan(16, 0, seed).steps(1000) != AuditPlan(16, 0, seed + 1).steps(1000)


def test_rounds_that_cross_multiples() -> None:
    """Catches rounds of several steps that `--audit-every` misses, and rounds taken twice."""
    problem = support.small_problem(apps.load("jacobi2d"), time_tile=4)
    layout = support.layout_of(problem, (2, 1))
    for every, expected in ((0, []), (10, [8, 16, 28]), (4, list(range(0, 40, 4)))):
        job = Job("jacobi2d", problem, layout, 40, audit=AuditPlan(16, every, 3))
        auditor = Auditor.of(job)
        assert auditor is not None
        auditor.steps = set()
        planned = [step for step, count in job.rounds(0, 40) if auditor.is_planned(step, count)]
        assert planned == ([*expected, 36] if every == 10 else expected)


def test_a_round_that_ends_the_run_early_is_kept() -> None:
    """Catches a run that met its tolerance and whose last round nobody has looked at."""
    module = apps.load("jacobi2d")
    problem = module.Problem(size=(9, 8), initial="ones", tolerance=1.0, check_every=3)
    solved = support.solve("jacobi2d", problem, (2, 1), 600, plan=PLAN)
    steps = [(part.step, part.step + part.count) for part in solved.outcome.audits]
    assert solved.outcome.steps_done < 600
    assert steps[-1][1] == solved.outcome.steps_done
    assert len(steps) <= 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--audit -1", "--audit -1: must be from 0 to"),
        ("--audit-every -1", "--audit-every -1: must be 0 or more"),
        ("--audit-every 1 --steps 5000", "5002 rounds, at most 1000 are allowed"),
        ("--audit 0 --audit-every 3", "--audit-every 3: needs an --audit of one"),
        ("--audit 0 --audit-seed 3", "--audit-seed 3: needs an --audit of one"),
        ("--audit-seed -1", "must be from 0 to 2\\^63 - 1"),
    ],
)
def test_bad_options(words: str, message: str) -> None:
    """Catches an option that ends in a traceback, or in more memory than there is."""
    words = f"run jacobi2d --preset tiny {words}"
    with pytest.raises(InputError, match=message):
        RunSpec.create(build_parser(words.split()).parse_args(words.split()))


# Messages ----------------------------------------------------------------------------------------


def rounded(message: np.ndarray) -> np.ndarray:
    """The message as float32 would carry it."""
    return message.astype(np.float32).astype(message.dtype)


def altered_in_transit(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Let the drivers of one process alter every message."""
    deliver = Transport.deliver

    def altering(self: Any, runner: Any, peer: Any, request: Any, message: Any) -> None:
        deliver(self, runner, peer, request, change(message))

    monkeypatch.setattr(Transport, "deliver", altering)


@pytest.mark.parametrize(
    ("app", "change", "grid", "values"),
    [
        ("jacobi2d", rounded, (2, 2), {"initial": "noise"}),
        ("pic", rounded, (2, 2), {}),
        ("echo", np.negative, (3, 1), {}),
    ],
)
def test_messages_that_change_are_found(app, change, grid, values, monkeypatch):
    """Catches a driver that rounds messages, which the checks beyond the reference cannot see.

    The app echo exports no Audit: its messages are seen all the same.
    """
    problem = support.small_problem(apps.load(app), **values)
    assert not support.solve(app, problem, grid, 5, plan=PLAN).failed
    altered_in_transit(monkeypatch, change)
    assert MESSAGES in support.solve(app, problem, grid, 5, plan=PLAN).failed


def test_messages_that_change_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches sums that do not depend on the receiver, its edge or the phase."""
    problem = support.small_problem(apps.load("jacobi2d"), size=(12, 12), time_tile=1)
    deliver = Transport.deliver

    def turned(self: Any, runner: Any, peer: Any, request: Any, message: Any) -> None:
        neighbors = runner.block.neighbors
        edge = next(edge for edge, other in neighbors.items() if other == peer)
        opposite = tuple(-d for d in edge)
        deliver(self, runner, peer, request, request.messages.get(opposite, message))

    assert not support.solve("jacobi2d", problem, (3, 3), 5, plan=PLAN).failed
    monkeypatch.setattr(Transport, "deliver", turned)
    assert MESSAGES in support.solve("jacobi2d", problem, (3, 3), 5, plan=PLAN).failed


@pytest.mark.parametrize(
    ("app", "grid"), [("jacobi2d", (2, 2)), ("pic", (2, 2)), ("leanmd", (2, 1, 1))]
)
def test_contributions_migrate(app: str, grid: tuple[int, ...]) -> None:
    """Catches contributions that a block loses when it moves to another process."""
    problem = support.small_problem(apps.load(app))
    outcome = outcome_under_sim(app, problem, grid, 8)
    layout = support.layout_of(problem, grid)
    problem = problem.prepared(layout, "cpu")
    run = apps.load(app), problem, layout, PLAN, outcome.audits, 8, 8, outcome.measures
    found = state_hash.digest(outcome.words)
    assert failed(checks_of(*run, found)) == set()
    other = f"{found[:-1]}{int(found[-1], 16) ^ 1:x}"  # as printed, and not as the blocks say
    assert failed(checks_of(*run, other)) == {HASHES}
    assert all(part.sent for part in outcome.audits if part.step != SETUP)


def test_steps_whose_round_is_missing() -> None:
    """Catches a first step, a step of a longer round, or a block that is not asked for."""
    layout: Any = SimpleNamespace(numbers=range(3))
    rounds = [AuditedRound(2, 2, blocks=3), AuditedRound(6, 1, blocks=2)]
    assert audit.missing(rounds, {0, 2, 3, 4, 6}, layout) == {0, 4, 6}


def test_sums_are_weighed_by_their_place() -> None:
    """Catches a message to be added whose numbers have changed places."""
    block = SimpleNamespace(neighbors={}, device=SimpleNamespace(name="cpu"))
    witness = Witness(AuditedRound(3, 1), ("cell", (0,)), block)
    weighed = partial(witness._weighed, ("cell", (0,)), "forces")
    one, other = np.array([5, -7, 11], np.int64), np.array([2, 0, 1], np.int64)
    assert weighed(one) != weighed(one[[1, 0, 2]]) and weighed(one) != weighed(one[::-1])
    assert (weighed(one) + weighed(other)) % (1 << 64) == weighed(one + other)


# Stencils ----------------------------------------------------------------------------------------

CELLS = "audit: cells that differ"
START = "audit: initial cells that differ"
# Larger than what a run solves again, in blocks.
LARGE = {"jacobi2d": ((1024, 1024), (3, 2)), "stencil3d": ((112, 96, 100), (2, 1, 2))}
WRONG = {
    "grid: factor off in its last bit": CELLS,
    "grid: other order": CELLS,
    "grid: divided": CELLS,
    "grid: stale halo": CELLS,
    "grid: swapped halos": CELLS,
    "grid: skipped step": CELLS,
    "grid: shifted start": START,
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("app", LARGE)
def test_wrong_stencils_are_found_beyond_the_reference(app: str, wrong: str) -> None:
    """Catches an audit that misses what only the bits of a few cells show."""
    size, grid = LARGE[app]
    problem = apps.load(app).Problem(size=size, initial="noise", time_tile=1)
    with support.with_fault(app, wrong):
        solved = support.solve(app, problem, grid, 4, plan=PLAN)
    assert WRONG[wrong] in solved.failed
    assert "differs from reference" not in {check.name for check in solved.checks}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_any_seed_finds_missing_corners(seed: int) -> None:
    """Catches a sample that only a lucky seed places beside other blocks."""
    problem = support.small_problem(apps.load("jacobi2d"), time_tile=4)
    plan = AuditPlan(64, 0, seed)
    assert not support.solve("jacobi2d", problem, (3, 2), 8, plan=plan).failed
    with support.with_fault("jacobi2d", "grid: no corners"):
        assert CELLS in support.solve("jacobi2d", problem, (3, 2), 8, plan=plan).failed


@pytest.mark.parametrize("part", ["begin", "end"])
def test_cells_that_nobody_contributes(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an audit that passes because it has nothing to compare."""
    audit = apps.load("jacobi2d").Audit
    monkeypatch.setattr(audit, part, lambda *_: {})
    problem = support.small_problem(apps.load("jacobi2d"))
    assert CELLS in support.solve("jacobi2d", problem, (2, 2), 8, plan=PLAN).failed


def test_a_round_that_is_missing_is_found() -> None:
    """Catches a drawn round, or the last one, that was not audited, or not in every block."""
    problem = support.small_problem(apps.load("jacobi2d"))
    solved = support.solve("jacobi2d", problem, (2, 2), 20, plan=PLAN)
    setup, first, *drawn, last = solved.outcome.audits
    found = solved.outcome.measures, solved.state_hash
    run = apps.load("jacobi2d"), solved.problem, solved.layout, PLAN
    partly = [replace(one, blocks=3) for one in drawn]
    for rounds in ([setup, first, *drawn], [setup, *drawn, last], [setup, first, *partly, last]):
        checks = checks_of(*run, rounds, 20, 20, *found)
        assert "audit: rounds missing" in failed(checks)
    early = checks_of(*run, [setup, first, last], 20, 1, *found)
    assert "audit: rounds missing" not in failed(early)


@pytest.mark.slow
@pytest.mark.parametrize("app", LARGE)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("initial", ["ones", "mode", "ramp", "noise"])
@pytest.mark.parametrize("boundary", ["heated", "zero", "periodic"])
def test_right_stencils_pass(app: str, dtype: str, initial: str, boundary: str) -> None:
    """Catches an audit that fails for right programs: of domains smaller than a cone, too."""
    axes = len(LARGE[app][0])
    for size, grid, tile in (((5, 3, 4), (1, 1, 1), 3), ((13, 8, 9), (3, 2, 1), 4)):
        problem = apps.load(app).Problem(
            size=size[:axes], initial=initial, boundary=boundary, dtype=dtype, time_tile=tile
        )
        assert not support.solve(app, problem, grid[:axes], 9, plan=AuditPlan(16, 3, 5)).failed


# A fault of the driver changes messages after the block has posted them.
LAUNCHED = {
    "mpi: sent in single precision": Case("mpi", 2),
    "charm: sent in single precision": Case("charm", 2, odf=2),
}
MISTAKES = ("grid: other order", "grid: stale halo", "grid: swapped halos")


@pytest.mark.launch
@pytest.mark.parametrize("of_driver", LAUNCHED)
def test_wrong_launched_stencils_are_found_beyond_the_reference(of_driver, tmp_path):
    """Catches a driver that audits nothing, or loses what blocks contributed."""
    size = {"size": (1024, 1024), "initial": "noise", "boundary": "periodic", "time_tile": 1}
    problem, case = apps.load("jacobi2d").Problem(**size), LAUNCHED[of_driver]
    keys = "", of_driver, *MISTAKES
    records = support.launched_with(keys, "jacobi2d", problem, case, tmp_path, steps=5, warmup=0)
    for key, record in records.items():
        wrong = {check["name"] for check in record["checks"] if not check["ok"]}
        assert bool(wrong) == (CELLS in wrong) == bool(key) != record["valid"], key
        assert (MESSAGES in wrong) == (key == of_driver)
        assert record["pes"] == 2 and "differs from reference" not in str(record["checks"])


# The state hash ----------------------------------------------------------------------------------

HASHES = "audit: state hashes that differ"


@pytest.mark.parametrize("app", ["jacobi2d", "stencil3d", "pic", "leanmd", "echo"])
def test_both_hashes_agree(app: str) -> None:
    """Catches a second hash that is not the one of the records."""
    problem = support.small_problem(apps.load(app))
    grid = (2, *(1 for _ in problem.shape[1:]))
    engine = Engine(support.blocks_of(app, problem, grid)).setup()
    engine.round(0, 1)
    pieces = [piece for block in engine.blocks for piece in block.state()]
    hashed = [one for one in pieces if one.ids is not None or one.origin is not None]
    assert digest_of(hashed) == support.state_hash_of(engine.blocks)


@pytest.mark.parametrize("wrong", ["hash without the data", "hash without the place"])
@pytest.mark.parametrize("app", ["jacobi2d", "pic", "leanmd"])
def test_wrong_hashes_are_found(app: str, wrong: str) -> None:
    """Catches a hash that every run and every reference gets wrong in the same way."""
    problem = support.small_problem(apps.load(app))
    grid = (2, *(1 for _ in problem.shape[1:]))
    assert HASHES not in support.solve(app, problem, grid, 2, plan=PLAN).failed
    with support.with_fault(app, f"results: {wrong}"):
        assert HASHES in support.solve(app, problem, grid, 2, plan=PLAN).failed


GRID = Piece("a", np.random.default_rng(1).random((1031, 997)), (0, 0), (1031, 997))
ROWS = Piece("a", np.random.default_rng(2).random((1031, 6)), None, (1031,), np.arange(1031))


@pytest.mark.parametrize("piece", [GRID, ROWS], ids=["cells", "rows"])
@pytest.mark.parametrize("most", [64, 100, 900])
def test_hashes_that_are_wrong_for_long_rows_are_found(piece: Piece, most: int) -> None:
    """Catches samples that are shorter than the rows and blocks of real runs."""

    def third_word_stops(parts: list[Piece]) -> np.ndarray:
        (part,) = parts
        words, short = words_of(part), part._replace(values=part.values[..., :most])
        if part.ids is not None:
            short = part._replace(values=part.values[:most], ids=part.ids[:most])
        return np.array([*words[:2], words_of(short)[2], words[3]])

    for seed in range(20):
        assert differences(lambda parts: words_of(parts[0]), [piece], Random(seed)) == 0
        assert differences(third_word_stops, [piece], Random(seed)) > 0


# What audits are made of -------------------------------------------------------------------------

APPS = {name: apps.load(name) for name in apps.names()}
PLAIN = [  # what must be independent of what it validates
    *sorted(n for n in FILES if re.fullmatch(r"miniapps/\w+/(audit|reference_solution)\.py", n)),
    *sorted({f"{app.reference.__module__.replace('.', '/')}.py" for app in APPS.values()}),
    "miniapps/grid_audit.py",
    "miniapps/grid_reference.py",
    "miniapps/plain_hash.py",
]


def file_of(module: str) -> str | None:
    """The file of a module of the project, or of the module that has this name."""
    paths = (f"{name.replace('.', '/')}.py" for name in (module, module.rpartition(".")[0]))
    return next((path for path in paths if path in FILES), None)


def used_by(file: str) -> set[str]:
    """The project's files that a file imports, directly or through others; not of packages."""
    seen: set[str] = set()
    left: list[str | None] = [file]
    while left:
        name = left.pop()
        if name is not None and name not in seen:
            seen.add(name)
            left += [file_of(module) for module in imported(tree_of(name), name)]
    return seen


def kernels_used_by(file: str) -> set[str]:
    """Imports of kernels by a file, or by those that it uses."""
    found = (module for name in used_by(file) for module in imported(tree_of(name), name))
    return {module for module in found if module.split(".")[0] == "kernels"}


@pytest.mark.parametrize("file", PLAIN)
def test_audits_use_no_kernels(file: str) -> None:
    """Catches an audit that calls what it validates, itself or through another module."""
    assert kernels_used_by(file) == set()


@pytest.mark.parametrize("app", APPS)
def test_checks_have_another_hash_than_runs(app: str) -> None:
    """Catches a run that is compared with a hash which the same function has computed."""
    file = f"{APPS[app].validate.__module__.replace('.', '/')}.py"
    assert not any(name.startswith("kernels.state_hash") for name in kernels_used_by(file))


def test_the_walk_finds_kernels() -> None:
    """Catches a walk that sees no import: a problem imports kernels through other modules only."""
    assert kernels_used_by("miniapps/jacobi2d/block.py") > {"kernels"}
    assert kernels_used_by("miniapps/stencil3d/problem.py")
    assert "miniapps/plain_hash.py" in used_by("miniapps/grid_audit.py")


def test_a_block_without_pieces_that_misstates_something() -> None:
    """Catches what a block misstates that is taken off its wrong bits, and a hash of nothing."""
    block = SimpleNamespace(state=list, measure=dict, kind="block", index=(0,))
    checker = SimpleNamespace(seed=1, misstated=lambda block, pieces: 2)
    found = measured(block, checker)  # type: ignore[arg-type]
    assert found[audit.HASHES].value == 2
    assert found[audit.WORDS].value.shape == (0, state_hash.WORDS)


def restated(piece: Piece) -> Iterator[Piece]:
    """A piece with other values in one column, of other rows or cells, or of another name."""
    for column in range(piece.values.shape[-1] if piece.ids is not None else 1):
        changed = piece.values.copy()
        part = changed[:, column] if piece.ids is not None else changed
        part[:] = np.nextafter(part, np.inf)
        yield piece._replace(values=changed)
    if piece.ids is not None:
        yield piece._replace(ids=np.roll(piece.ids, 1))
    else:
        yield piece._replace(name="other")
        yield piece._replace(shape=(*piece.shape[:-1], piece.shape[-1] + 1))
        yield piece._replace(origin=tuple(at + 1 for at in piece.origin))
        yield piece._replace(values=piece.values[1:])


@pytest.mark.parametrize(
    ("app", "values"),
    [
        ("jacobi2d", {"size": (12, 10), "time_tile": 1, "initial": "noise"}),
        ("pic", {"size": 10, "particles": 60}),
        ("leanmd", {"lattice": (3, 3, 3), "cutoff": 2.0}),
        ("cg", {"size": (6, 5, 4)}),
        ("transpose", {"size": (12,)}),
        ("transpose", {"size": (6, 5, 4), "fft": True}),
        ("amr", {"size": (9, 8), "refinement": (3, 3), "initial": "noise"}),
    ],
)
def test_all_that_a_state_says_is_compared(app: str, values: dict[str, Any]) -> None:
    """Catches a state that is written with other positions, velocities or ids than the block's."""
    problem = APPS[app].Problem(**values)
    layout = support.layout_of(problem, (1,) * len(problem.shape))
    problem = problem.prepared(layout, "cpu")
    block = APPS[app].Block(problem, layout, layout.indices()[0], Device())
    Engine([block]).setup()
    auditing = audit.audit_of(APPS[app], problem, layout, PLAN)
    pieces = block.state()
    assert pieces and auditing.misstated(block, pieces) == 0
    for n, piece in enumerate(pieces):
        for other in restated(piece):
            assert auditing.misstated(block, [*pieces[:n], other, *pieces[n + 1 :]]) > 0, other
    assert pieces[0].ids is not None or auditing.misstated(block, pieces[1:]) > 0
