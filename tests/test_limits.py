"""The limits of checks: those on the page, refused just above, and far above a right run."""

from __future__ import annotations

import copy
import dataclasses
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import support
from placed_atoms import Placed
from test_leanmd import begun, blocks_of, by_id

import miniapps
from miniapps import apps, audit, grid, grid_audit, plain_hash
from miniapps.amr import problem as amr
from miniapps.audit import AuditPlan, BaseAudit
from miniapps.cg import problem as cg
from miniapps.communication import parts, session, timing
from miniapps.jacobi2d.problem import JacobiProblem
from miniapps.kernels.leanmd.units import CLOSEST, ENERGY_UNIT, FASTEST, SINGLE_UNIT
from miniapps.leanmd import audit as leanmd_audit
from miniapps.leanmd import checks, close_pairs, plain, thermo
from miniapps.leanmd.inputs import scale
from miniapps.leanmd.problem import LIST_SKIN, LeanmdProblem
from miniapps.pic import audit as pic_audit
from miniapps.pic import problem as pic
from miniapps.pic.problem import PicProblem
from miniapps.transpose import audit as transpose_audit
from miniapps.transpose import problem as transpose
from miniapps.workbench.cli import spec_of
from miniapps.workbench.comm import anatomy
from miniapps.workbench.reproduce import predicates
from miniapps.workbench.run import clocks, record, revalidation
from miniapps.workbench.show import saved_claims
from miniapps.workbench.study import analysis, cells, noise, reframe, statistics, tables, validation

STILL = LeanmdProblem(dt=0.005)
CODE: dict[str, Any] = {
    "stencils: rounding, float64, per sweep": JacobiProblem().rounding(1)
    - JacobiProblem().rounding(0),
    "stencils: rounding, float64, at once": JacobiProblem().rounding(0),
    "stencils: beyond bounds, at least": grid.BEYOND_LIMIT,
    "stencils: cells of the reference": grid.REFERENCE_CELLS,
    "stencils: updates of the reference": grid.REFERENCE_UPDATES,
    "stencils: initial sines in audits, in units of the last place": grid_audit.SINE_ERROR,
    "stencils: initial cells compared in audits": grid_audit.START_CELLS,
    "pic: cells whose particles are drawn again": pic_audit.CELLS,
    "leanmd: move in an audited step, above which atoms are left out, sigma": leanmd_audit.MARGIN,
    "pic: position error, cells": pic.POSITION_LIMIT,
    "pic: position error in audits, cells": pic_audit.ERROR_LIMIT,
    "pic: cells of the reference": pic.REFERENCE_CELLS,
    "pic: updates of the reference": pic.REFERENCE_UPDATES,
    "pic: particles followed per sample": pic_audit.PARTICLES_PER_SAMPLE,
    "pic: steps computed again between audited rounds": pic_audit.STEPS,
    "leanmd: momentum change per atom": checks.MOMENTUM_LIMIT,
    "leanmd: virial error, float64": checks.VIRIAL_LIMITS["float64"],
    "leanmd: virial error, float32": checks.VIRIAL_LIMITS["float32"],
    "leanmd: energy drift at dt 0.005": STILL.drift_limit,
    "leanmd: energy drift, rounding": dataclasses.replace(STILL, dt=1e-12).drift_limit,
    "leanmd: least kinetic energy per atom of a drift": checks.COLD,
    "leanmd: atoms of the reference": checks.REFERENCE_ATOMS,
    "leanmd: pairs of the reference": checks.REFERENCE_UPDATES,
    "leanmd: skin of lists, sigma": LIST_SKIN,
    "leanmd: atoms audited around a point": leanmd_audit.ATOMS,
    "leanmd: atoms of a block with audited energies": leanmd_audit.FIRST,
    "leanmd: atoms compared with a file": leanmd_audit.FROM_FILE,
    "leanmd: drawn velocities in audits, relative": leanmd_audit.START_ERROR,
    "leanmd: thermo table in audits, relative": leanmd_audit.TABLE_ERROR,
    "leanmd: velocities of a converted file, relative": leanmd_audit.FILE_ERROR,
    "leanmd: close pairs, along each axis at most": close_pairs.SITES[1],
    "leanmd: close pairs, along each axis at least": close_pairs.SITES[0],
    "leanmd: close pairs, closest, sigma": close_pairs.CLOSEST,
    "leanmd: close pairs, farthest, sigma": close_pairs.FARTHEST,
    "leanmd: close pairs whose energies are added": close_pairs.PART,
    "leanmd: atoms of a run for each close pair": close_pairs.SHARE,
    "leanmd: closest atoms of a run, sigma": CLOSEST,
    "leanmd: fastest atom of a run, sigma / tau": FASTEST,
    "leanmd: mass in a file for argon, relative": scale.SAME_MASS,
    "leanmd: epsilon and sigma in a file for argon, relative": scale.SAME_POTENTIAL,
    "amr: updates of the reference": amr.REFERENCE_UPDATES,
    "cg: updates of the reference": cg.REFERENCE_UPDATES,
    "cg: gap of the residual, in units of the last place of A x, at once": cg.AT_ONCE,
    "cg: gap of the residual, in the same unit, per iteration": cg.PER_ITERATION,
    "cg: energy of the error that is left, in units of the last place times the condition number": (
        cg.ENERGY_LEFT
    ),
    "cg: residual along the last direction, in units of the last place, besides one per step": (
        cg.ALONG
    ),
    "cg: departure from symmetry": cg.DEPARTURE,
    "cg: square of the residual from which on x stays as it is, over that of b": cg.UNDERFLOW,
    "cg: residual of a pipelined run from which on x stays, in units of the last place of b": (
        cg.UNITS_OF_B
    ),
    "cg: the same, in units of the last place of A x' times the root of the condition number": (
        cg.UNITS_OF_AX
    ),
    "transpose: elements of the reference": transpose.REFERENCE_ELEMENTS,
    "transpose: points of the reference, times steps": transpose.REFERENCE_POINTS,
    "transpose: Parseval, in units of the last place times steps times levels of a transform": (
        transpose.PARSEVAL
    ),
    "transpose: round trip, in the same unit": transpose.ROUND_TRIP,
    "transpose: numbers of the spectrum in audits, relative to the norm of the field, in the last "
    "place times levels": transpose_audit.WAVE,
    "transpose: points in audits after a transform and back, in the last place times levels": (
        transpose_audit.BACK
    ),
    "transpose: waves of an audit": transpose_audit.WAVES,
    "stencils: cells of all patches of an audit": grid_audit.PATCH_CELLS,
    "all apps: elements of the longest sample of a state hash": max(plain_hash.RUNS),
    "all apps: rounds of an audit besides the first and the last": audit.DRAWN_ROUNDS,
    "all apps: samples of an audit": spec_of(["run", "echo"]).audit,
    "all apps: samples of an audit, at most": audit.MOST_SAMPLES,
    "all apps: rounds that --audit-every may audit": audit.MOST_ROUNDS,
    "all apps: elements of the second sample of a state hash": sorted(plain_hash.RUNS)[1],
    "times: sums over rounds, s": clocks.ROUNDED_S,
    "times: between two readings of clocks, s": clocks.READ_S,
    "times: after the last round, s": clocks.LATE_S,
    "times: after the last round, over the rounds": clocks.LATE,
    "times: two clocks, relative": clocks.APART,
    "records: times with six digits, relative": revalidation.ROUNDED,
    "records: numbers with all digits, relative": revalidation.EXACT,
    "records: rows that a file of an invalid run may lack, for each row": saved_claims.MISSING,
    "studies: confidence level": statistics.LEVEL,
    "studies: part of a run that is disturbed": record.DISTURBED,
    "studies: residual of a fit": tables.POOR,
    "studies: trials of an interval": cells.FEW,
    "studies: shortest run, s": tables.SHORT_S,
    "studies: slowdown that a ReFrame check accepts, at least": reframe.LEAST_TOLERANCE,
    "studies: trials from which that check knows the spread": reframe.TRIALS_FOR_SPREAD,
    "studies: slowdown that it accepts without them": reframe.BLIND_TOLERANCE,
    "studies: gain that a balancer could bring, at least": analysis.LEAST_GAIN,
    "studies: mean round, in ticks of the clock, at least": validation.TICKS,
    "studies: noise, above which a machine is busy": noise.NOISY,
    "studies: cells of the work that measures noise": noise.CELLS,
    "studies: repetitions of that work": noise.REPEATS,
    "studies: readings from which the tick of the clock is taken": noise.READINGS,
    "studies: resamples of an interval": statistics.RESAMPLES,
    "studies: pairs of trials in an exact test, at most": statistics.LARGEST_EXACT,
    "studies: arrangements in an exact test with ties, at most": statistics.MOST_ARRANGEMENTS,
    "studies: effects on another machine, over those here": predicates.FACTOR,
    "communication: iterations between two readings of the clock": timing.CHUNK,
    "communication: barriers of a trial": session.BARRIERS,
    "communication: multiplications from which overlapped work is set": timing.CALIBRATED,
    "communication: round trips in a loop of the anatomy": parts.TRIPS,
    "communication: loops of a part alone": parts.LOOPS,
    "communication: launches of the anatomy": anatomy.LAUNCHES,
    "communication: iterations whose bytes are compared": session.CHECKED,
    "communication: bytes of messages that are compared at once": session.CHECKED_BYTES,
}


AUDIT = "audit: distance from"
OF_CG = {"residual differs from the iterations'", "energy of the error", "departure from symmetry"}
OF_CG |= {"residual along the direction"}
OF_TRANSFORMS = {"Parseval", "round trip", f"{AUDIT} waves", f"{AUDIT} points before"}
OF_LEANMD = {"momentum change per atom", "energy drift", "audit: error of the thermo table"}


def table() -> dict[str, float]:
    """The limits of docs/validation.md."""
    text = (support.ROOT / "docs/validation.md").read_text()
    part = text.partition("## Limits and sizes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", part, re.MULTILINE)
    assert all(len(why) > 5 for _, _, why in rows)
    return {name: float(value) for name, value, _ in rows[1:] if set(value) != {"-"}}


def test_the_table_has_the_limits_of_the_code() -> None:
    """Catches a limit that is loosened, or a size that is reduced, in the code or on the page."""
    said = table()
    skin = said.pop("leanmd: part of the skin that an atom may move")
    assert skin == 0.5
    assert said == pytest.approx(CODE, rel=1e-2)
    assert said.keys() == CODE.keys()


@pytest.mark.parametrize(
    ("app", "values", "known"),
    [
        ("jacobi2d", {"size": (12, 10), "time_tile": 2}, {"beyond bounds", "mode error"}),
        ("stencil3d", {"size": (6, 5, 4), "time_tile": 1}, {"beyond bounds", "mode error"}),
        ("pic", {"size": 20, "particles": 90}, {"position error", f"{AUDIT} exact positions"}),
        ("leanmd", {"lattice": (3, 3, 3), "cutoff": 2.0}, OF_LEANMD),
        (
            "leanmd",
            {"cells": (3, 3, 3), "per_cell": 12, "decomposition": "pairs"},
            OF_LEANMD | {"virial error"},
        ),
        ("echo", {}, set()),
        ("cg", {"size": (5, 4, 3), "solution": "noise"}, OF_CG),
        ("transpose", {"size": (9,)}, set()),
        ("transpose", {"size": (5, 4, 3), "fft": True}, OF_TRANSFORMS),
        ("amr", {"initial": "linear"}, set()),
    ],
)
def test_all_other_limits_are_0(app: str, values: dict[str, Any], known: set[str]) -> None:
    """Catches one wrong cell, atom, message or hash that is allowed."""
    problem = apps.load(app).Problem(**values)
    grid = (1,) * len(problem.shape)
    checks = support.solve(app, problem, grid, 4, plan=AuditPlan(16, 0, 1)).checks
    found = {re.sub(r" \(.*\)", "", one.name) for one in checks if one.limit}
    assert found == known and all(one.ok for one in checks)
    assert all(not one._replace(value=1).ok for one in checks if not one.limit)


# Just above, and at the noise of right runs -------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Run:
    """A right run, which can be validated again with other measures."""

    app: str
    problem: Any
    steps: int
    solved: support.Solved

    def value(self, check: str) -> tuple[float, float]:
        """The value and the limit of a check of the run as it is."""
        (found,) = (one for one in self.solved.checks if one.name == check)
        return found.value, found.limit

    def holds(self, check: str, name: str, value: Any) -> bool:
        """Whether a check holds if a measure has another value."""
        measures = self.solved.outcome.measures
        changed = measures | {name: measures[name]._replace(value=value)}
        validate = apps.load(self.app).validate
        checks = validate(self.problem, self.steps, changed, self.solved.state_hash)
        (found,) = (one for one in checks if one.name == check)
        return found.ok


def run_of(app: str, steps: int, **values: Any) -> Run:
    """A right run."""
    problem = apps.load(app).Problem(**values)
    return Run(app, problem, steps, support.solve(app, problem, (1,) * len(problem.shape), steps))


SMALL: dict[str, dict[str, Any]] = {
    "jacobi2d": {"size": (12, 10), "time_tile": 2},
    "echo": {},
    "pic": {"size": 20, "particles": 90},
    "leanmd": {"lattice": (3, 3, 3), "cutoff": 2.0},
}


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize(
    ("app", "check", "measure", "place"),
    [
        ("jacobi2d", "missing cells", "cells", None),
        ("echo", "wrong messages", "wrong", None),
        ("echo", "missing messages", "messages", None),
        ("pic", "missing particles", "ids", 0),
        ("pic", "id checksum error", "ids", 1),
        ("pic", "mixed id checksum error", "ids", 2),
        ("pic", "start checksum error", "starts", 0),
        ("leanmd", "missing atoms", "ids", 0),
        ("leanmd", "id checksum error", "ids", 1),
        ("leanmd", "mixed id checksum error", "ids", 2),
        ("leanmd", "atoms outside their cell", "strayed", None),
        ("leanmd", "ids that left their atoms", "mixed up", 1),
    ],
)
def test_counts_that_are_off_by_one(app, check, measure, place, change):
    """Catches something too many, or too few, that passes."""
    run = run_of(app, 4, **SMALL[app])
    value = run.solved.outcome.measures[measure].value
    assert run.value(check) == (0, 0) and run.holds(check, measure, value)
    if place is None:
        assert not run.holds(check, measure, value + change)
        return
    changed = value.copy()
    changed[place : place + 1] += np.array([change]).astype(value.dtype)
    assert not run.holds(check, measure, changed)


@pytest.mark.parametrize("app", SMALL)
def test_another_state_than_the_reference(app: str) -> None:
    """Catches a reference whose result nothing is compared with."""
    run = run_of(app, 4, **SMALL[app])
    hashes = run.solved.state_hash, run.solved.state_hash[::-1]
    for state_hash, holds in zip(hashes, (True, False), strict=True):
        measures = run.solved.outcome.measures
        checks = apps.load(app).validate(run.problem, 4, measures, state_hash)
        (found,) = (one for one in checks if one.name == "differs from reference")
        assert found.ok == holds


@pytest.mark.parametrize(("lattice", "there"), [((6, 6, 7), True), ((7, 7, 6), False)])
def test_references_of_atoms(lattice: tuple[int, ...], there: bool) -> None:
    """Catches a reference that is left out where it would cost no more than 2 s."""
    names = [one.name for one in run_of("leanmd", 1, lattice=lattice).solved.checks]
    assert ("differs from reference" in names) == there


def test_changes_just_above_the_tolerance() -> None:
    """Catches a run that ends early, and is said to have met its tolerance."""
    run = run_of("jacobi2d", 90, size=(11, 8), tolerance=10.0, check_every=2, time_tile=2)
    assert run.value("change in the last sweep") == (pytest.approx(10, rel=0.2), 10)
    for factor, holds in ((0.99, True), (1.01, False)):
        assert run.holds("change in the last sweep", "change", 10 * factor) == holds


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_virials(dtype: str) -> None:
    """Catches a limit of 1e-2, under which a compute may lose one of a hundred pairs."""
    run = run_of(
        "leanmd", 3, cells=(3, 3, 3), per_cell=12, decomposition="pairs", dtype=dtype, thermo=1
    )
    limit = table()[f"leanmd: virial error, {dtype}"]
    noise, _ = run.value("virial error")
    assert noise < limit / 10
    assert run.holds("virial error", "virial error", 0.999 * limit)
    assert not run.holds("virial error", "virial error", 1.001 * limit)


@pytest.mark.parametrize("dt", [0.005, 0.001])
def test_drift_and_momentum(dt: float) -> None:
    """Catches a drift of 0.05 that is allowed, or one that does not fall with the time step."""
    run = run_of("leanmd", 20, lattice=(4, 4, 4), cutoff=2.0, dt=dt, thermo=1)
    rows = run.solved.outcome.measures["rows"].value
    said = table()
    rounding = said["leanmd: energy drift, rounding"]
    limit = (said["leanmd: energy drift at dt 0.005"] - rounding) * (dt / 0.005) ** 2 + rounding
    assert run.value("energy drift") == (pytest.approx(0, abs=limit / 2), pytest.approx(limit))
    most = said["leanmd: momentum change per atom"]
    noise, _ = run.value("momentum change per atom")
    assert noise < most / 10
    for factor, holds in ((0.99, True), (1.01, False)):
        for along in (3, 4, 5):
            changed = rows.copy()
            moved = round(factor * most * run.problem.atoms / ENERGY_UNIT)
            changed[-1, along] = changed[0, along] + moved
            assert run.holds("momentum change per atom", "rows", changed) == holds
        changed = rows.copy()
        first, last = (thermo.kept_energy(run.problem, row[1:]) for row in rows[[0, -1]])
        kinetic = max(row["kinetic"] for row in thermo.table(run.problem, rows))
        missing = round((first - last + factor * limit * kinetic) * run.problem.atoms / ENERGY_UNIT)
        high, low = divmod(thermo.wide(rows[-1, 1:], 8) + 2 * missing, 1 << 32)
        changed[-1, 9:11] = high, low
        assert run.holds("energy drift", "rows", changed) == holds


@pytest.mark.parametrize("row", [0, 2, -1])
def test_net_forces_of_every_row(row: int) -> None:
    """Catches a force on one atom of a pair only, which lasts for a few steps."""
    run = run_of("leanmd", 4, lattice=(4, 4, 4), cutoff=2.0, thermo=1)
    rows = run.solved.outcome.measures["rows"].value
    assert run.value("net force") == (0, 0)
    for column in (6, 7, 8):
        changed = rows.copy()
        changed[row, column] = -1
        assert not run.holds("net force", "rows", changed)


def test_positions_of_pic() -> None:
    """Catches a position error that is allowed and is no rounding."""
    run = run_of("pic", 5, size=40, particles=400)
    assert run.value("position error")[0] < 1e-7
    assert run.holds("position error", "error", 0.999e-6)
    assert not run.holds("position error", "error", 1.001e-6)


@pytest.mark.parametrize("steps", [1, 40])
def test_rounding_of_stencils(steps: int) -> None:
    """Catches a limit of the projections, or of the bounds, that lets a wrong cell pass."""
    run = run_of("jacobi2d", steps, size=(40, 30))
    said = table()
    limit = said["stencils: rounding, float64, at once"]
    limit += said["stencils: rounding, float64, per sweep"] * steps
    modes = run.solved.outcome.measures["modes"].value
    names = [one.name for one in run.solved.checks if one.name.startswith("mode")]
    scale = max(map(abs, grid.value_limits(run.problem))) * run.problem.work()
    for number, name in enumerate(names):
        noise, allowed = run.value(name)
        assert noise < allowed / 5 and allowed == pytest.approx(limit, rel=0.02)
        for factor, holds in ((0.7, True), (1.3, False)):
            changed = modes.copy()
            changed[number, 1] += factor * limit * scale
            assert run.holds(name, "modes", changed) == holds
    low, high = grid.value_limits(run.problem)
    for factor, holds in ((0.9, True), (1.1, False)):
        beyond = factor * said["stencils: beyond bounds, at least"] * max(abs(low), abs(high))
        assert run.holds("beyond bounds", "max", high + beyond) == holds
        assert run.holds("beyond bounds", "min", low - beyond) == holds


def test_sines_of_audits() -> None:
    """Catches an allowance for sines that an initial value of another place is within."""
    problem = JacobiProblem(size=(40, 30), initial="mode")
    layout = problem.cut(1, 1, (1, 1))
    audit = grid_audit.GridAudit(problem.prepared(layout, "cpu"), layout, 3, 16)
    cells = np.zeros(1, [("cell", "i8"), ("value", "f8")])
    cells["cell"] = 7 * 30 + 5
    right = grid_audit.start(problem, cells["cell"])
    for units, wrong in ((0, 0), (7, 0), (9, 1)):
        cells["value"] = right + units * np.finfo(float).eps
        assert audit._wrong_starts(cells) == wrong


def test_half_of_the_skin() -> None:
    """Catches lists that are kept until an atom has moved by 0.506 of the skin: 3.9 for 4."""
    problem = LeanmdProblem(lattice=(4, 4, 4), cutoff=2.0, skin=0.2)
    (domain,) = blocks_of(problem)
    half = table()["leanmd: part of the skin that an atom may move"] * 0.2
    domain.time = domain.built = 0
    for moved, rebuilds in ((0.9999 * half, False), (1.0001 * half, True)):
        asked = domain.must_rebuild(moved**2)
        next(asked)
        with pytest.raises(StopIteration) as end:
            asked.send(moved**2)
        assert end.value.value is rebuilds


def test_the_cutoff_in_single_precision() -> None:
    """Catches a cutoff that is larger or smaller by 1e-7, two units of the last place."""
    cutoff = 2.5
    for off in range(-6, 7):
        distance = cutoff * (1 + off * 2.0**-24)
        at = np.array([[1.0, 1.0 + distance], [1.0, 1.0], [1.0, 1.0]])
        problem = Placed(
            cells=(4, 4, 4), at=at, speed=np.zeros_like(at), dtype="float32", cutoff=cutoff
        )
        (owner,) = begun(problem)
        position = by_id([owner], "position")
        force = by_id([owner], "force")
        right = plain.forces(position, position, problem.box, cutoff, "float32")
        assert np.array_equal(force, right), off
    assert math.isclose(SINGLE_UNIT, 2.0**-17)


# The same of audits -------------------------------------------------------------------------------

ARGON_IN_REAL_UNITS = """\
LAMMPS data file via hand, units = real

2 atoms
1 atom types

0 40 xlo xhi
0 40 ylo yhi
0 40 zlo zhi

Masses

1 39.95

Atoms # atomic

1 1 1.0 2.0 3.0
2 1 20.0 21.0 30.0

Velocities

1 0.001 0.002 -0.003
2 -0.001 0.002 0.003
"""


def called(
    patch: pytest.MonkeyPatch, kind: type[BaseAudit], name: str, problem: Any
) -> tuple[Any, list[Any]]:
    """An audit, and the arguments of the first call of one of its methods in a right run."""
    calls, right = [], getattr(kind, name)

    def noted(auditing: Any, *given: Any) -> Any:
        calls.append((auditing, list(given)))
        return right(auditing, *given)

    app = "pic" if isinstance(problem, PicProblem) else "leanmd"
    with patch.context() as inside:
        inside.setattr(kind, name, noted)
        grid = (1,) * len(problem.shape)
        assert not support.solve(app, problem, grid, 2, plan=AuditPlan(16, 0, 1)).failed
    return calls[0]


def audit_of(app: str, problem: Any, pes: int = 1) -> Any:
    """An audit of 16 samples, before the run."""
    layout = problem.cut(pes, 1, None)
    module = apps.load(app)
    return audit.audit_of(module, problem.prepared(layout, "cpu"), layout, AuditPlan(16, 0, 3))


def test_audits_draw_as_much_as_the_table_says() -> None:
    """Catches an audit that draws half of its samples, atoms or columns."""
    said = table()
    assert len(audit_of("jacobi2d", JacobiProblem(size=(300, 200), time_tile=2)).cells) == 16
    wide = JacobiProblem(size=(300, 300), time_tile=100)
    patch = said["stencils: cells of all patches of an audit"]
    assert len(audit_of("jacobi2d", wide).cells) == patch // 201**2
    atoms = LeanmdProblem(lattice=(12, 12, 12))
    found = audit_of("leanmd", atoms, pes=8)
    volume = 4 / 3 * math.pi * found.near**3
    around = volume * atoms.atoms / math.prod(atoms.extent)
    assert around == pytest.approx(said["leanmd: atoms audited around a point"])
    assert found.points.shape == (16, 3) and len(found.chosen) > 2
    size = 4000
    columns = audit_of("pic", PicProblem(size=size, particles=100)).columns
    assert len(columns) == said["pic: cells whose particles are drawn again"] // size


def cuts_of(layout: Any) -> list[set[int]]:
    """Along each axis, the cells at which blocks begin or end."""
    axes = zip(*map(layout.bounds, layout.indices()), strict=True)
    return [{end for bounds in axis for end in bounds} for axis in axes]


def test_half_of_an_audit_is_between_blocks() -> None:
    """Catches samples in the middle of blocks only, where no message and no ghost is wrong."""
    atoms = LeanmdProblem(lattice=(12, 12, 12))
    layout = atoms.cut(8, 1, None)
    points = leanmd_audit.Audit(atoms, layout, 3, 400).points / atoms.box * layout.shape
    for along, cuts in zip(points.T, cuts_of(layout), strict=True):
        on_a_plane = np.isclose(along[:, np.newaxis], sorted(cuts), atol=1e-9).any(axis=1)
        assert on_a_plane.mean() == pytest.approx(0.5, abs=0.1)
    cells = JacobiProblem(size=(300, 200), time_tile=1)
    layout = cells.cut(4, 1, None)
    inner = [cuts - {0, n} for cuts, n in zip(cuts_of(layout), cells.size, strict=True)]
    drawn = grid_audit.GridAudit(cells, layout, 3, 400).cells
    beside = [any({x, x + 1} & cuts for x, cuts in zip(cell, inner, strict=True)) for cell in drawn]
    assert np.mean(beside) == pytest.approx(0.5, abs=0.1)


def test_audits_compare_as_much_as_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches an audit that compares one of the initial cells, or the energy of one atom."""
    said, compared = table(), []
    problem = JacobiProblem(size=(60, 50), time_tile=20)
    auditing = audit_of("jacobi2d", problem)
    cells = np.zeros(3000, grid_audit.CELL)
    cells["cell"] = np.arange(3000)
    monkeypatch.setattr(auditing, "_wrong_starts", lambda some: compared.append(len(some)) or 0)
    both = {"cells": miniapps.contract.Measure("join", cells)}
    auditing.validate(0, 20, both, both)
    assert compared == [said["stencils: initial cells compared in audits"]]
    of_atoms = audit_of("leanmd", LeanmdProblem(lattice=(4, 4, 4), cutoff=2.0))
    (block,) = blocks_of(of_atoms.problem)
    asked: list[int] = []
    monkeypatch.setattr(block, "potentials", lambda count: asked.append(count) or [])
    of_atoms.chosen = {(block.kind, tuple(block.index))}
    monkeypatch.setattr(leanmd_audit, "potential_of", lambda block: None)
    monkeypatch.setattr(of_atoms, "_around", lambda block: None)
    assert of_atoms.end(block, 0, 1)["wrong potentials"].value == 1
    assert asked == [said["leanmd: atoms of a block with audited energies"]]
    vars(of_atoms.problem)["source"] = SimpleNamespace(has_velocities=True)
    of_atoms.points = np.empty((0, 3))
    monkeypatch.setattr(of_atoms, "_wrong_in_file", lambda rows: (asked.append(len(rows)), 0))
    of_rows = miniapps.contract.Measure("join", np.zeros((5000, 7)))
    of_atoms.validate(
        0, 1, {"atoms": of_rows}, dict.fromkeys(("atoms", "motion", "potential"), of_rows)
    )
    assert 1 <= asked[-1] / said["leanmd: atoms compared with a file"] < 1.1


@pytest.mark.parametrize("app", ["leanmd", "pic"])
def test_references_of_particles_are_left_out_only_where_they_cost_too_much(app, monkeypatch):
    """Catches a budget, or a cutoff, that leaves small problems without their best check."""
    if app == "leanmd":  # the cutoff is just below half of the box
        problem: Any = LeanmdProblem(lattice=(3, 3, 3), cutoff=2.5)
        module, cost = checks, problem.atoms**2
    else:
        problem = PicProblem(size=20, particles=100)
        run = support.solve(app, problem, (1, 1), 1)
        module, cost = pic, int(run.outcome.measures["placed"].value)
    for steps, there in ((2, True), (3, False)):
        monkeypatch.setattr(module, "REFERENCE_UPDATES", 2 * cost)
        found = support.solve(app, problem, (1,) * len(problem.shape), steps).checks
        assert ("differs from reference" in {check.name for check in found}) is there


def test_drawn_velocities_in_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches drawn velocities that may be off by more than sums in another order explain."""
    problem = LeanmdProblem(lattice=(4, 4, 4), cutoff=2.0)
    auditing, (rows, drawn) = called(monkeypatch, leanmd_audit.Audit, "_wrong_start", problem)
    limit = table()["leanmd: drawn velocities in audits, relative"]
    for factor, wrong in ((0.9, 0), (1.1, 1)):
        changed = rows.copy()
        changed[3, 5] += factor * limit * math.sqrt(problem.temperature)
        assert auditing._wrong_start(changed, drawn) == wrong
    monkeypatch.setattr(leanmd_audit, "START_ERROR", limit / 1000)
    assert auditing._wrong_start(rows, drawn) == 0


def test_velocities_of_converted_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches velocities in other units that may be off by more than their constants explain."""
    path = tmp_path / "argon.data"
    path.write_text(ARGON_IN_REAL_UNITS)
    problem = LeanmdProblem(input=path, units="argon")
    auditing, (rows,) = called(monkeypatch, leanmd_audit.Audit, "_wrong_in_file", problem)
    limit = table()["leanmd: velocities of a converted file, relative"]
    for factor, wrong in ((0.8, 0), (1.2, 1)):
        changed = rows.copy()
        changed[0, 5] *= 1 + factor * limit
        assert auditing._wrong_in_file(changed) == (0, wrong)
    monkeypatch.setattr(leanmd_audit, "FILE_ERROR", limit / 5)
    assert auditing._wrong_in_file(rows) == (0, 0)


def test_the_thermo_table_in_audits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a table that may be off by more than the rounding of its sums."""
    problem = LeanmdProblem(lattice=(4, 4, 4), cutoff=2.0, thermo=1)
    auditing, (*given, results) = called(
        monkeypatch, leanmd_audit.Audit, "validate_results", problem
    )
    limit = table()["leanmd: thermo table in audits, relative"]
    (noise,) = auditing.validate_results(*given, results)
    assert noise.value < limit / 10
    for name in ("temperature", "kinetic", "potential", "total", "pressure", "virial"):
        for factor, holds in ((0.9, True), (1.1, False)):
            changed = copy.deepcopy(results)
            row = changed["thermo"][-1]
            row[name] += factor * limit * max(1.0, abs(row[name]))
            (check,) = auditing.validate_results(*given, changed)
            assert check.ok == holds, name
    right = dict(auditing.potentials)
    assert len(right) > 1
    for step, found in right.items():
        auditing.potentials = right | {step: found + 1}
        assert not auditing.validate_results(*given, results)[0].ok, step
    auditing.potentials = right
    drift = "energy_drift_per_atom_and_step"
    assert given[0] > 1
    for name, change in ((drift, 1.1 * limit / given[0]), ("atoms", 1), ("box", [1e-3, 0, 0])):
        changed = results | {name: np.add(results[name], change).tolist()}
        (check,) = auditing.validate_results(*given, changed)
        assert not check.ok, name


@pytest.mark.parametrize("column", [1, 2, 3, 4])
def test_positions_of_pic_in_audits(column: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches positions or velocities of followed particles that may be off by no rounding."""
    problem = PicProblem(size=40, particles=400)
    auditing, (step, count, began, ended) = called(
        monkeypatch, pic_audit.Audit, "validate", problem
    )
    limit = table()["pic: position error in audits, cells"]
    for factor, holds in ((0.0, True), (0.99, True), (1.01, False)):
        rows = ended["particles"].value.copy()
        rows[0, column : column + 1].view(np.float64)[:] += factor * limit
        changed = ended | {"particles": ended["particles"]._replace(value=rows)}
        *_, check = auditing.validate(step, count, began, changed)
        assert check.name == "audit: distance from exact positions" and check.ok == holds


def test_what_audits_of_pic_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a column, a particle or a sum that is off by one in either direction."""
    problem = PicProblem(size=40, particles=400)
    auditing, (steps, measures, results) = called(
        monkeypatch, pic_audit.Audit, "validate_results", problem
    )
    right = auditing.sums.copy()
    assert all(check.ok for check in auditing.validate_results(steps, measures, results))
    for change in (-1, 1):
        changed = results | {"particles_placed": results["particles_placed"] + change}
        placed, _ = auditing.validate_results(steps, measures, changed)
        assert not placed.ok
        for part in range(2):
            auditing.sums = right.copy()
            auditing.sums[part : part + 1] += np.array([change]).astype(np.uint64)
            *_, sums = auditing.validate_results(steps, measures, results)
            assert not sums.ok
    auditing, (step, count, began, ended) = called(
        monkeypatch, pic_audit.Audit, "validate", problem
    )
    columns = began["columns"].value
    for number in range(0, len(columns), 7):
        rows = columns.copy()
        rows[number, 1] += 1
        changed = began | {"columns": began["columns"]._replace(value=rows)}
        assert not auditing.validate(step, count, changed, ended)[0].ok, number
    for at in (began, ended):
        rows = at["particles"].value.copy()
        rows[0, 5] += 1  # the last bit of a velocity
        other = at | {"particles": at["particles"]._replace(value=rows)}
        pair = (other, ended) if at is began else (began, other)
        assert auditing.validate(step, count, *pair)[1].value == 1


def test_gaps_between_audited_rounds_of_pic() -> None:
    """Catches an audit that goes on from what the blocks hold where it can compute all steps."""
    limit, problem = int(table()["pic: steps computed again between audited rounds"]), PicProblem()
    for gap, jumps in ((limit, []), (limit + 1, [limit + 1])):
        auditing: Any = pic_audit.Audit(problem, None, 1, 16)  # type: ignore[arg-type]
        jumped: list[int] = []
        auditing.followed = SimpleNamespace(
            time=3,
            jump=lambda step, _, jumped=jumped: jumped.append(step - 3),
            push=lambda time: None,
            differing=lambda found: 0,
            error=lambda found: 0.0,
        )
        measures = dict.fromkeys(("particles", "sums"), miniapps.contract.Measure("join", None))
        auditing.validate(3 + gap, 1, measures, measures)
        assert jumped == jumps


# Of times and records -----------------------------------------------------------------------------


def test_times_just_above() -> None:
    """Catches clocks that may differ by more than docs/timing.md says."""
    said = {name: value for name, value in table().items() if name.startswith("times: ")}
    rounded, read, late, share, apart = said.values()
    right = run_of("jacobi2d", 4, size=(8, 8)).solved.outcome
    right = dataclasses.replace(
        right,
        wall_s=np.full(4, 5.0),
        compute_s=np.full((1, 4), 4.0),
        audits_s=2.0,
        passed_s=(22, 22),
    )
    own, most = 22.0, 16.0

    def says(**changes: Any) -> str:
        (check,) = clocks.checks(dataclasses.replace(right, **changes))
        return "" if check.ok else check.name.partition(": ")[2]

    for factor, wrong in ((0.99, False), (1.01, True)):
        short = own - factor * rounded
        assert bool(says(passed_s=(short, short))) is wrong
        on_gpu = own - factor * read
        assert bool(says(passed_s=(on_gpu, on_gpu), gpu={})) is wrong
        long = own + factor * (share * own + late)
        assert bool(says(passed_s=(long, long))) is wrong
        assert bool(says(passed_s=(own, own + factor * (apart * own + read)))) is wrong
        more = np.full((1, 4), (own + factor * rounded) / 4)
        assert bool(says(compute_s=more)) is wrong
    assert not says() and most < own


def test_records_just_above() -> None:
    """Catches numbers of a record that may differ from its rounds by more than their digits."""
    said = table()
    given = {"app": "jacobi2d", "steps": 4, "warmup": 0, "pes": 1, "odf": 1, "lb_period": 0}
    right = support.whole_record(given, 2.0)
    rounded = said["records: times with six digits, relative"]
    exact = said["records: numbers with all digits, relative"]
    for factor, holds in ((0.9, True), (1.1, False)):
        wall = right["wall_s"] * (1 + factor * rounded)
        longer = right | {"wall_s": wall, "compute_s": wall / 2}
        busier = right | {"utilisation": 0.5 * (1 + factor * exact)}
        for changed in (longer, busier):
            claims = revalidation._claims_of_rounds(changed)
            assert all(right for _, right in claims) is holds


def test_audits_that_are_too_large() -> None:
    """Catches an audit that a user may ask for, and that does not fit into memory."""
    said = {name: int(value) for name, value in table().items() if "audit" in name}
    samples = said["all apps: samples of an audit, at most"]
    assert spec_of(["run", "echo", "--audit", str(samples)]).audit == samples
    words = support.refused(["run", "echo", "--audit", samples + 1])
    assert f"must be from 0 to {samples}" in words
    rounds = said["all apps: rounds that --audit-every may audit"]
    words = ["run", "echo", "--warmup", "0", "--audit-every", "1", "--steps"]
    assert spec_of([*words, str(rounds)]).steps == rounds
    assert f"at most {rounds} are allowed" in support.refused([*words, rounds + 1])
